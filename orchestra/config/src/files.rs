//! The files of a configuration: how they are read, which were read or missed, and a set of them in constant data.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use orchestra_graph::{ChildReader, ReadFault, plain_path};
use serde::{Deserialize, Serialize};

use crate::tree::MAX_BYTES;

/// A file that was read, or was looked for and is not there. If one that is not there appears, it may be used instead
/// of another.
///
/// ```
/// use orchestra_config::FileUse;
/// let used = FileUse { path: "prompts/roles/critic.yaml".to_owned(), found: false };
/// assert!(!used.found);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileUse {
    /// The path, as the reader was asked for it.
    pub path: String,
    /// Whether it is there.
    pub found: bool,
}

/// The files of a configuration in constant data, so that a compiled program needs none of them when it runs.
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
    /// The path of the configuration, and paths with texts of it and all that it needs.
    pub const fn new(configuration: &'static str, files: &'static [(&'static str, &'static str)]) -> Sources {
        Sources { configuration, files }
    }

    /// The path of the configuration.
    pub const fn configuration(&self) -> &'static str {
        self.configuration
    }

    /// All paths with their texts.
    pub const fn files(&self) -> &'static [(&'static str, &'static str)] {
        self.files
    }
}

impl ChildReader for Sources {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadFault> {
        let file = self.files.iter().find(|(own, _)| *own == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or(ReadFault::Missing)
    }
}

/// What the reader gave for each path.
type Found = Result<Arc<[u8]>, ReadFault>;

/// Reads each file once and remembers which were asked for.
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
            return Err(ReadFault::Missing);
        };
        let mut known = self.known.borrow_mut();
        let read = || reader.read(path, MAX_BYTES).map(Arc::from);
        known.entry(path.to_owned()).or_insert_with(read).clone()
    }

    /// The files that were asked for.
    pub(crate) fn used(&self) -> Vec<FileUse> {
        let known = self.known.borrow();
        let used = known.iter().map(|(path, found)| FileUse {
            path: path.clone(),
            found: !matches!(found, Err(ReadFault::Missing)),
        });
        used.collect()
    }
}

/// The folder of a file; empty for the one that all paths are relative to.
pub(crate) fn folder_of(file: &str) -> &str {
    match file.rfind('/') {
        Some(0) => "/",
        Some(at) => file.get(..at).unwrap_or_default(),
        None => "",
    }
}

/// A path below a folder, in the form that one file has.
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
