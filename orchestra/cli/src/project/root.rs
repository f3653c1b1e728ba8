//! The folders of a project: those in which its configuration and its lock file may be.

use std::path::Path;

use orchestra_config::paths_above;

/// What a version control system leaves in the folder that contains everything of a project.
const REPOSITORY: &[&str] = &[".git", ".hg", ".jj", ".svn"];

/// Finds a file of the project in the folder of a pipeline, in a parent folder up to the current directory, or in a parent
/// folder of the current directory inside the repository.
pub(crate) fn find_above(pipeline: &str, name: &str) -> Option<String> {
    let parents = std::env::current_dir().map_or(0, |folder| parents_in_repository(&folder));
    let mut paths = paths_above(pipeline, name, parents).into_iter();
    paths.find(|path| Path::new(path).is_file())
}

/// Returns how many parent folders of a folder belong to its repository; none outside of a repository.
///
/// A configuration names programs and the hosts that get keys, so one that another user left in a shared folder must not
/// be found: the parent folders must have the owner of the folder.
pub(crate) fn parents_in_repository(folder: &Path) -> usize {
    let owner = owner(folder);
    let mut own = folder
        .ancestors()
        .take_while(|parent| owner.is_some() && self::owner(parent) == owner);
    own.position(|parent| REPOSITORY.iter().any(|name| parent.join(name).exists()))
        .unwrap_or(0)
}

/// Returns the owner of a folder; `None` if it cannot be read.
#[cfg(unix)]
fn owner(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    folder.metadata().ok().map(|metadata| metadata.uid())
}

/// Returns the same for all folders that can be read: the system has no numbers of owners.
#[cfg(not(unix))]
fn owner(folder: &Path) -> Option<u32> {
    folder.metadata().ok().map(|_| 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_parents_end_with_the_repository() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("project/flows/review");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(parents_in_repository(&inner), 0);
        fs::create_dir(root.path().join("project/.git")).unwrap();
        assert_eq!(parents_in_repository(&inner), 2);
        assert_eq!(parents_in_repository(&root.path().join("project")), 0);
        // The folder of a worktree has a file.
        fs::write(root.path().join("project/flows/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(parents_in_repository(&inner), 1);
    }
}
