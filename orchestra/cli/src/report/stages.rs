//! The names of stages, branches and attempts as they are shown.

use orchestra_engine::StageRef;

/// Returns the visit and the attempt of a stage, each unless it is the first.
pub(crate) fn attempt_suffix(visit: u32, attempt: u32) -> String {
    let parts = [("visit", visit), ("attempt", attempt)];
    let later = parts.into_iter().filter(|(_, number)| *number > 1);
    later.map(|(word, number)| format!(", {word} {number}")).collect()
}

/// Returns a stage with its branch. The stage is omitted if the branch is named after it.
pub(crate) fn stage_name(branch: Option<&str>, node: &str) -> String {
    match branch {
        Some(branch) if branch.rsplit(':').next() == Some(node) => branch_name(branch),
        Some(branch) => format!("{} {node}", branch_name(branch)),
        None => node.to_owned(),
    }
}

/// Returns the stage of an attempt with its branch.
pub(crate) fn stage_ref_name(stage: &StageRef) -> String {
    stage_name(stage.branch.as_deref(), &stage.node)
}

/// Formats a branch such as `fan#1:left/inner#1:a` as `[left/a]`.
pub(crate) fn branch_name(branch: &str) -> String {
    let steps = branch.split('/');
    let names = steps.map(|step| step.split_once(':').map_or(step, |(_, name)| name));
    format!("[{}]", names.collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_named_without_the_blocks_around_it() {
        assert_eq!(
            stage_name(Some("fan#1:left/inner#2.3:a~2"), "lint"),
            "[left/a~2] lint"
        );
        assert_eq!(stage_name(Some("fan#1:lint"), "lint"), "[lint]");
        assert_eq!(stage_name(None, "lint"), "lint");
    }
}
