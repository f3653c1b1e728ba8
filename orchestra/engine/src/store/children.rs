//! The run folders of child runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::layout::{BRANCHES, VISITS, is_child, is_restart, stages_after};
use super::run_folder::RunFolder;
use super::stages::stage_folder_name;

impl RunFolder {
    /// Returns the folders of the child runs that the stages of a run have started, also in earlier visits. Child runs
    /// of child runs are not among them.
    pub fn children(path: impl AsRef<Path>) -> Vec<PathBuf> {
        let run_folder = path.as_ref();
        let restarts = folders(run_folder, is_restart);
        let later = restarts.iter().flat_map(|restart| folders(restart, |_| true));
        let stages = folders(run_folder, |_| true).into_iter().chain(later);
        stages.flat_map(|stage| children_in(&stage, true)).collect()
    }

    /// Returns the folders of the child runs that the latest visit of a node after some restarts has started.
    pub fn children_of_stage(path: impl AsRef<Path>, restarts: u32, node: &str) -> Vec<PathBuf> {
        let stages = stages_after(path.as_ref(), restarts);
        children_in(&stages.join(&*stage_folder_name(node)), false)
    }
}

/// Returns the child runs in the folder of a stage. With `earlier`, also those of its earlier visits.
fn children_in(stage: &Path, earlier: bool) -> Vec<PathBuf> {
    let mut visits = vec![stage.to_owned()];
    visits.extend(folders(&stage.join(BRANCHES), |_| true));
    if earlier {
        let left = visits
            .iter()
            .flat_map(|stage_folder| folders(&stage_folder.join(VISITS), |_| true));
        let left: Vec<PathBuf> = left.collect();
        visits.extend(left);
    }
    let children = visits.iter().flat_map(|visit| folders(visit, is_child));
    children.filter(|child| RunFolder::is_one(child)).collect()
}

/// Returns the subfolders with wanted names, sorted by name. Does not follow links.
fn folders(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().to_str().is_some_and(&wanted)
    });
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::PathBuf;

    use super::RunFolder;

    #[test]
    fn children_are_found_in_all_visits_branches_and_restarts() {
        let run = tempfile::tempdir().unwrap();
        let present = ["boss/branches/left/child", "boss/child", "boss/child-2"];
        let earlier = [
            "boss/branches/left/visits/1/child",
            "boss/visits/1/child",
            "restart-1/boss/child",
        ];
        for folder in present.iter().chain(&earlier) {
            let folder = run.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("manifest.json"), "{}").unwrap();
        }
        // A child that never began, and folders of other names.
        for other in ["boss/child-3", "boss/children", "lint"] {
            fs::create_dir_all(run.path().join(other)).unwrap();
        }
        let relative = |found: Vec<PathBuf>| {
            let mut found: Vec<String> = found
                .iter()
                .map(|path| path.strip_prefix(run.path()).unwrap().display().to_string())
                .collect();
            found.sort();
            found
        };
        let mut all: Vec<&str> = present.iter().chain(&earlier).copied().collect();
        all.sort_unstable();
        assert_eq!(relative(RunFolder::children(run.path())), all);
        assert_eq!(
            relative(RunFolder::children_of_stage(run.path(), 0, "boss")),
            present
        );
        let after_restart = RunFolder::children_of_stage(run.path(), 1, "boss");
        assert_eq!(relative(after_restart), ["restart-1/boss/child"]);
    }
}
