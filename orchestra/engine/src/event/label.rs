//! The names of stages and branches as people read them.

/// Returns a stage with its branch, such as `build` or `[left] build`. A stage after which its branch is named is left
/// out.
///
/// ```
/// use orchestra_engine::stage_label;
/// assert_eq!(stage_label(None, "build"), "build");
/// assert_eq!(stage_label(Some("fan#1:left"), "build"), "[left] build");
/// assert_eq!(stage_label(Some("fan#1:build"), "build"), "[build]");
/// ```
pub fn stage_label(branch: Option<&str>, node: &str) -> String {
    match branch {
        Some(branch) if branch.rsplit(':').next() == Some(node) => branch_label(branch),
        Some(branch) => format!("{} {node}", branch_label(branch)),
        None => node.to_owned(),
    }
}

/// Returns a branch without the blocks that contain it: `fan#1:left/inner#2.3:a~2` is `[left/a~2]`.
///
/// ```
/// assert_eq!(orchestra_engine::branch_label("fan#1:left/inner#2.3:a~2"), "[left/a~2]");
/// ```
pub fn branch_label(branch: &str) -> String {
    let steps = branch.split('/');
    let names = steps.map(|step| step.split_once(':').map_or(step, |(_, name)| name));
    format!("[{}]", names.collect::<Vec<_>>().join("/"))
}
