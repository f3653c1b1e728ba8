//! The files of a workspace: open documents over the files of the host.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orchestra_graph::{ChildReader, ReadError};

use crate::host::Host;
use crate::paths::{absolute, folder, is_file};
use crate::protocol::{TextDocumentContentChangeEvent, Uri};
use crate::text::{Encoding, Text};

/// A file that is open in the editor.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The URI as the client wrote it.
    pub(crate) uri: Uri,
    pub(crate) version: i32,
    pub(crate) text: Arc<Text>,
}

/// The files of a workspace.
pub(crate) struct Files<'h> {
    pub(crate) host: &'h dyn Host,
    /// The open documents by their path.
    pub(crate) documents: BTreeMap<String, Document>,
    /// The workspace folders.
    pub(crate) folders: Vec<String>,
}

impl<'h> Files<'h> {
    pub(crate) fn new(host: &'h dyn Host) -> Files<'h> {
        Files {
            host,
            documents: BTreeMap::new(),
            folders: Vec::new(),
        }
    }

    /// Applies the changes of a client to a document.
    pub(crate) fn change(
        &mut self,
        path: &str,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        encoding: Encoding,
    ) {
        let Some(document) = self.documents.get_mut(path) else {
            return;
        };
        for change in changes {
            document.text = Arc::new(match change.range {
                Some(range) => document.text.replaced(range, &change.text, encoding),
                None => Text::new(change.text),
            });
        }
        document.version = version;
    }

    /// Reads a file by its absolute path.
    pub(crate) fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        match self.documents.get(path) {
            Some(document) => {
                let bytes = document.text.as_str().as_bytes();
                if bytes.len() as u64 > limit {
                    return Err(ReadError::TooLong(bytes.len() as u64));
                }
                Ok(bytes.to_vec())
            }
            None if is_file(path) => self.host.read(path, limit),
            None => Err(ReadError::Missing),
        }
    }

    /// Returns the root of a file: the innermost workspace folder that contains it, else its own folder.
    pub(crate) fn root(&self, path: &str) -> String {
        let contains = |root: &&String| {
            let rest = path.strip_prefix(root.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let innermost = self.folders.iter().filter(contains).max_by_key(|root| root.len());
        match innermost {
            Some(root) => root.clone(),
            None if is_file(path) => folder(path).to_owned(),
            None => self.folders.first().cloned().unwrap_or_default(),
        }
    }
}

/// A reader of the files below a root that records the files that were requested, so that a change of one of them is a
/// change of everything that was computed from it.
pub(crate) struct RootReader<'f> {
    files: &'f Files<'f>,
    root: &'f str,
    requested: RefCell<BTreeSet<String>>,
}

impl<'f> RootReader<'f> {
    pub(crate) fn new(files: &'f Files<'f>, root: &'f str) -> RootReader<'f> {
        RootReader {
            files,
            root,
            requested: RefCell::default(),
        }
    }

    /// Returns whether a file exists.
    pub(crate) fn exists(&self, name: &str) -> bool {
        !matches!(self.read(name, u64::from(u32::MAX)), Err(ReadError::Missing))
    }

    /// Returns how many parent folders of the root belong to the project.
    pub(crate) fn parents(&self) -> usize {
        self.files.host.parents(self.root)
    }

    /// Returns the absolute paths of the files that were requested, whether or not they exist.
    pub(crate) fn into_requested(self) -> BTreeSet<String> {
        self.requested.into_inner()
    }
}

impl ChildReader for RootReader<'_> {
    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let path = absolute(self.root, name);
        let result = self.files.read(&path, limit);
        self.requested.borrow_mut().insert(path);
        result
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.files.host.names(&absolute(self.root, folder))
    }
}
