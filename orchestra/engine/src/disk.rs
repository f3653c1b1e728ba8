//! The files of child pipelines, read from the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

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

impl Disk {
    /// Opens a file for reading, and refuses whatever may never end or never begin: pipes, devices, sockets, folders. Only
    /// `/dev/stdin` and `/dev/fd/N`, which shells give for what they pipe, may be pipes.
    ///
    /// # Errors
    /// It cannot be opened, or is no regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        if path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") {
            return File::open(path);
        }
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        // Without waiting for a writer: what stands there may be a pipe.
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let file = options.open(path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "it is not a regular file",
            )),
        }
    }

    /// Reads a file, but not more than some bytes of it, however long it is. Whoever asks for one byte more than it takes
    /// finds out that there is more.
    ///
    /// ```
    /// use orchestra_engine::Disk;
    /// let place = tempfile::tempdir()?;
    /// let path = place.path().join("long.txt");
    /// std::fs::write(&path, "0123456789")?;
    /// assert_eq!(Disk::read_at_most(&path, 4)?, b"0123");
    /// assert!(Disk::read_at_most(place.path(), 4).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`open`](Disk::open), or it cannot be read.
    pub fn read_at_most(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Disk::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl ChildReader for Disk {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadFault> {
        let fault = |error: io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFault::Missing,
            _ => ReadFault::Other(error.to_string()),
        };
        let length = fs::metadata(path).map_err(fault)?.len();
        if length > limit {
            // Devices have no length, and what is none of a file is said by its own error.
            Disk::open(path).map_err(fault)?;
            return Err(ReadFault::TooLong(length));
        }
        Disk::read_at_most(path, limit + 1).map_err(fault)
    }
}
