//! The files of child pipelines, read from the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};

use orchestra_graph::{ChildReader, ReadFault};

/// Reads the files of child pipelines from the disk, for programs that load pipelines while they run. A relative path
/// is looked up where the program runs, as that of the parent is.
///
/// ```
/// use orchestra_engine::Disk;
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, "subpipeline.file"="no-such-file.dot"] }"#;
/// let options = LoadOptions { children: Some(&Disk), ..LoadOptions::default() };
/// let report = load(Source::new("flows/a.dot", text), &options).report;
/// assert!(report.errors().any(|fault| fault.message.contains("no-such-file.dot")));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl ChildReader for Disk {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadFault> {
        let fault = |error: io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFault::Missing,
            _ => ReadFault::Other(error.to_string()),
        };
        let metadata = fs::metadata(path).map_err(fault)?;
        // A pipe or a device may never end.
        if !metadata.is_file() {
            return Err(ReadFault::Other("it is not a file".to_owned()));
        }
        if metadata.len() > limit {
            return Err(ReadFault::TooLong(metadata.len()));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(fault)?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }
}
