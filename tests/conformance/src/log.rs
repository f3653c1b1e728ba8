//! A log that survives the process that writes it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// A file of lines. A line is written whole, or not at all.
#[derive(Debug)]
pub struct Log(File);

impl Log {
    /// Opens a log to add lines.
    pub fn open(path: &Path) -> Log {
        Log(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// Adds a line.
    pub fn write(&self, line: &str) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}
