//! The folders in which a stage works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The location in which a stage works: the folders of the repositories of its execution path.
///
/// ```
/// use std::path::Path;
/// use orchestra_engine::Workplace;
/// let place = Workplace::new("work", [("backend".to_owned(), "work/backend".into())].into());
/// assert_eq!(place.repository("backend"), Some(Path::new("work/backend")));
/// assert_eq!((place.root(), place.repositories().count()), (Path::new("work"), 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    root: PathBuf,
    repositories: BTreeMap<String, PathBuf>,
}

impl Workplace {
    /// Creates a location. The root is the folder of the only repository, or the folder that contains all repositories.
    pub fn new(root: impl Into<PathBuf>, repositories: BTreeMap<String, PathBuf>) -> Workplace {
        Workplace {
            root: root.into(),
            repositories,
        }
    }

    /// Returns the folder for stages that name no repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of a repository.
    pub fn repository(&self, name: &str) -> Option<&Path> {
        self.repositories.get(name).map(PathBuf::as_path)
    }

    /// Returns all repositories with their folders, in the order of their names.
    pub fn repositories(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.repositories
            .iter()
            .map(|(name, folder)| (name.as_str(), folder.as_path()))
    }
}
