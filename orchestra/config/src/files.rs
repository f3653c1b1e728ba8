//! The files of a configuration: reading them, recording which were read or missing, and embedding them as constants.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use orchestra_graph::{ChildReader, ReadError, plain_path};
use serde::{Deserialize, Serialize};

use crate::tree::MAX_BYTES;

/// A file that was read, or that was looked for and does not exist. A missing file that appears later may be used
/// instead of another one.
///
/// ```
/// use orchestra_config::FileUse;
/// let used = FileUse { path: "prompts/roles/critic.yaml".to_owned(), found: false };
/// assert!(!used.found);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileUse {
    /// The path, as it was passed to the reader.
    pub path: String,
    /// `true` if the file exists.
    pub found: bool,
}

/// The files of a configuration as constants, so that a compiled program does not need them at run time.
///
/// ```
/// use orchestra_config::{Project, Sources};
/// static CONFIG: Sources = Sources::new("orchestra.yaml", &[("orchestra.yaml", "backend: direct\n")]);
/// let project = Project::load(CONFIG.configuration(), &CONFIG);
/// assert_eq!(project.configuration.backend.expect("it is set").as_str(), "direct");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    configuration: &'static str,
    files: &'static [(&'static str, &'static str)],
}

impl Sources {
    /// Creates the set from the path of the configuration, and the paths and texts of the configuration and all files
    /// it needs.
    pub const fn new(configuration: &'static str, files: &'static [(&'static str, &'static str)]) -> Sources {
        Sources { configuration, files }
    }

    /// Returns the path of the configuration.
    pub const fn configuration(&self) -> &'static str {
        self.configuration
    }

    /// Returns the path and text of each file.
    pub const fn files(&self) -> &'static [(&'static str, &'static str)] {
        self.files
    }
}

impl ChildReader for Sources {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        let file = self.files.iter().find(|(own, _)| *own == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or(ReadError::Missing)
    }
}

/// The result of reading a path.
type Found = Result<Arc<[u8]>, ReadError>;

/// A reader that reads each file once and records the requested paths.
pub(crate) struct Files<'r> {
    reader: Option<&'r dyn ChildReader>,
    known: RefCell<BTreeMap<String, Found>>,
}

impl<'r> Files<'r> {
    pub(crate) fn new(reader: Option<&'r dyn ChildReader>) -> Files<'r> {
        Files {
            reader,
            known: RefCell::default(),
        }
    }

    pub(crate) fn read(&self, path: &str) -> Found {
        let Some(reader) = self.reader else {
            return Err(ReadError::Missing);
        };
        let mut known = self.known.borrow_mut();
        let read = || reader.read(path, MAX_BYTES).map(Arc::from);
        known.entry(path.to_owned()).or_insert_with(read).clone()
    }

    /// Returns the names of the files in a folder.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        self.reader.map_or_else(Vec::new, |reader| reader.names(folder))
    }

    /// Returns the requested files.
    pub(crate) fn used(&self) -> Vec<FileUse> {
        let known = self.known.borrow();
        let used = known.iter().map(|(path, found)| FileUse {
            path: path.clone(),
            found: !matches!(found, Err(ReadError::Missing)),
        });
        used.collect()
    }
}

/// The default file name of a configuration.
pub const CONFIGURATION_FILE: &str = "orchestra.yaml";

/// Returns the paths at which a file of the project may be for a pipeline, best first: in the folder of the pipeline, in
/// its parent folders up to the working directory, and in a number of parent folders of the working directory. Of the
/// parent folders of a pipeline outside of the working directory, only those of the working directory count.
///
/// ```
/// use orchestra_config::{CONFIGURATION_FILE, paths_above};
/// let paths = paths_above("flows/review/a.dot", CONFIGURATION_FILE, 0);
/// assert_eq!(paths, ["flows/review/orchestra.yaml", "flows/orchestra.yaml", "orchestra.yaml"]);
/// let paths = paths_above("a.dot", CONFIGURATION_FILE, 2);
/// assert_eq!(paths, ["orchestra.yaml", "../orchestra.yaml", "../../orchestra.yaml"]);
/// assert_eq!(paths_above("../a.dot", CONFIGURATION_FILE, 0), ["../orchestra.yaml", "orchestra.yaml"]);
/// ```
pub fn paths_above(pipeline: &str, name: &str, parents: usize) -> Vec<String> {
    let path = Path::new(pipeline);
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let mut folders: Vec<PathBuf> = if inside {
        path.ancestors().skip(1).map(PathBuf::from).collect()
    } else {
        path.parent().map(PathBuf::from).into_iter().collect()
    };
    folders.extend((0..=parents).map(|number| std::iter::repeat_n("..", number).collect()));
    let paths = folders.into_iter().map(|folder| folder.join(name));
    let mut paths: Vec<String> = paths
        .map(|path| path.to_string_lossy().replace('\\', "/"))
        .collect();
    paths.dedup();
    paths
}

/// Returns the folder of a file; empty for the folder that all paths are relative to.
pub(crate) fn folder_of(file: &str) -> &str {
    match file.rfind('/') {
        Some(0) => "/",
        Some(at) => file.get(..at).unwrap_or_default(),
        None => "",
    }
}

/// Returns a path relative to a folder, in normal form, so that a file has only one path.
pub(crate) fn join(folder: &str, path: &str) -> String {
    match (path.starts_with('/'), folder) {
        (true, _) | (_, "") => plain_path(path),
        _ => plain_path(&format!("{folder}/{path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_path() {
        for (folder, path, joined) in [
            ("", "prompts/a.yaml", "prompts/a.yaml"),
            ("flows", "./prompts/../a.yaml", "flows/a.yaml"),
            ("flows", "../prompts", "prompts"),
            ("..", "../prompts", "../../prompts"),
            ("/work", "../../a", "/a"),
            ("flows", "/etc/a", "/etc/a"),
        ] {
            assert_eq!(join(folder, path), joined, "{folder} and {path}");
        }
        assert_eq!(
            [folder_of("a.dot"), folder_of("b/a.dot"), folder_of("/a.dot")],
            ["", "b", "/"]
        );
    }
}
