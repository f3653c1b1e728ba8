//! The files of child pipelines, read from the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use orchestra_graph::{ChildReader, ReadError};

/// A reader of the files of child pipelines from the disk, for programs that load pipelines at run time. A relative
/// path is resolved in the working directory of the program, as that of the parent is.
///
/// ```
/// use orchestra_engine::Disk;
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, "subpipeline.file"="no-such-file.dot"] }"#;
/// let options = LoadOptions { children: Some(&Disk), ..LoadOptions::default() };
/// let report = load(Source::new("flows/a.dot", text), &options).report;
/// assert!(report.errors().any(|diagnostic| diagnostic.message.contains("no-such-file.dot")));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Disk {
    /// Opens a file for reading. Refuses everything that may block or never end: pipes, devices, sockets, folders. Only
    /// `/dev/stdin` and `/dev/fd/N`, which shells pass for what they pipe, may be pipes.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        if path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") {
            return File::open(path);
        }
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        // Do not wait for a writer: the file may be a pipe.
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let file = options.open(path)?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(
                ErrorKind::InvalidInput,
                "it is not a regular file",
            ))
        }
    }

    /// Reads at most `most` bytes of a file. A caller that requests one byte more than it accepts can detect a longer
    /// file.
    ///
    /// ```
    /// use orchestra_engine::Disk;
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("long.txt");
    /// std::fs::write(&path, "0123456789")?;
    /// assert_eq!(Disk::read_at_most(&path, 4)?, b"0123");
    /// assert!(Disk::read_at_most(directory.path(), 4).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as those of [`open`](Disk::open), or the file cannot be read.
    pub fn read_at_most(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Disk::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl ChildReader for Disk {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let error = |error: io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Missing,
            _ => ReadError::Other(error.to_string()),
        };
        let length = fs::metadata(path).map_err(error)?.len();
        if length > limit {
            // A device has no length; opening it returns the better error.
            Disk::open(path).map_err(error)?;
            return Err(ReadError::TooLong(length));
        }
        Disk::read_at_most(path, limit + 1).map_err(error)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let folder = if folder.is_empty() { "." } else { folder };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.take(MAX_NAMES).collect()
    }
}

/// Maximum number of names of a folder, which are only used for suggestions.
const MAX_NAMES: usize = 1_000;
