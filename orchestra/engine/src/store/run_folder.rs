//! The folder of a run, for processes that do not own the run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::event_line::EventLine;
use super::event_reader::EventReader;
use super::files::{Access, FileSystem, system};
use super::line::Scan;
use super::manifest::Manifest;
use super::owner::Owner;
use super::ownership;
use super::read::{read_checkpoint, read_manifest};
use super::{CHECKPOINT, Checkpoint, EVENTS, JOURNAL, MANIFEST, StoreError, journal, layout};
use crate::id::fingerprint;

/// The folder of a run, for processes that do not own the run. The owner may be writing at the same time (rule D2). All
/// operations only read, except [`remove`](RunFolder::remove).
///
/// [`RunFile`](crate::RunFile) names the files, and [`EventReader`](crate::EventReader) follows the events.
///
/// ```
/// use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let engine = Engine::builder().runs_dir(directory.path()).build()?;
/// engine.start(pipeline, ()).run_id("first").await?.wait().await?;
///
/// let runs = RunFolder::list(directory.path())?;
/// let run = RunFolder::open(&runs[0])?;
/// assert_eq!(run.manifest().run, "first");
/// assert_eq!(run.checkpoint()?.expect("it ended").completed_nodes, ["start", "exit"]);
/// assert_eq!(run.owner()?, None);
/// assert_eq!(run.events(1)?[0]["event"], "PipelineStarted");
/// # Ok(()) }
/// ```
pub struct RunFolder {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    manifest: Manifest,
}

impl RunFolder {
    /// Opens the folder of a run.
    ///
    /// # Errors
    /// Fails if the folder does not contain a run, or contains one with an unknown schema.
    pub fn open(path: impl AsRef<Path>) -> Result<RunFolder, StoreError> {
        let files = system();
        let path = path.as_ref().to_owned();
        let manifest = read_manifest(&*files, &path)?;
        Ok(RunFolder {
            files,
            path,
            manifest,
        })
    }

    /// Returns whether a folder contains a run that has begun.
    pub fn is_one(path: impl AsRef<Path>) -> bool {
        let found = fs::symlink_metadata(path.as_ref().join(MANIFEST));
        found.is_ok_and(|found| found.is_file())
    }

    /// Returns whether a folder of this name in a run folder contains the stage folders after a restart.
    pub fn is_restart(name: &str) -> bool {
        layout::is_restart(name)
    }

    /// Returns a number that changes when the manifest of a run is replaced. Returns `None` if the folder does not
    /// contain a run that has begun.
    pub fn manifest_stamp(path: impl AsRef<Path>) -> Option<u64> {
        let found = fs::symlink_metadata(path.as_ref().join(MANIFEST)).ok()?;
        let changed = found.modified().ok();
        let changed = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
        let nanos = changed.unwrap_or_default().as_nanos();
        let stamp = fingerprint(&[&found.len().to_le_bytes(), &nanos.to_le_bytes()]);
        found.is_file().then_some(stamp)
    }

    /// Returns the size of the events of a run in bytes, or 0 if there are none.
    pub fn events_size(path: impl AsRef<Path>) -> u64 {
        match fs::symlink_metadata(path.as_ref().join(EVENTS)) {
            Ok(found) if found.is_file() => found.len(),
            _ => 0,
        }
    }

    /// Returns the folders of the runs in a folder of runs, sorted by name. Skips folders that do not contain a run.
    ///
    /// # Errors
    /// Fails if the folder cannot be read. A missing folder has no runs.
    pub fn list(runs: impl AsRef<Path>) -> Result<Vec<PathBuf>, StoreError> {
        let runs = runs.as_ref();
        let failed = |error| StoreError::io("read", runs, error);
        let entries = match fs::read_dir(runs) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if RunFolder::is_one(&path) {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest of the run.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the latest checkpoint. Returns `None` before the first.
    ///
    /// # Errors
    /// Fails if it cannot be read or is damaged.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let found = read_checkpoint(&*self.files, &self.path.join(CHECKPOINT))?;
        Ok(found.map(|found| found.checkpoint))
    }

    /// Returns the process that owns the run. Returns `None` if it has no owner.
    ///
    /// # Errors
    /// Fails if the lock cannot be inspected.
    pub fn owner(&self) -> Result<Option<Owner>, StoreError> {
        ownership::present(&*self.files, &self.path)
    }

    /// Returns the records of the journal with their numbers, from 0. Ignores a last record that is still being
    /// written. A run without a journal has no records.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or is damaged.
    pub fn records(&self) -> Result<Vec<(u64, Value)>, StoreError> {
        let path = self.path.join(JOURNAL);
        let scan = self.scan(u64::MAX)?;
        (0..)
            .zip(scan.iter())
            .map(|(number, record)| match serde_json::from_slice(record) {
                Ok(record) => Ok((number, record)),
                Err(error) => Err(StoreError::damaged_record(
                    path.parent().unwrap_or(&path),
                    number,
                    &error,
                )),
            })
            .collect()
    }

    /// Returns the first records of the journal in their serialized form. They are valid even if the journal is damaged
    /// after them.
    pub(crate) fn scan(&self, records: u64) -> Result<Scan, StoreError> {
        let path = self.path.join(JOURNAL);
        match journal::read(&*self.files, &path, None, records) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(Scan::default()),
            scan => scan,
        }
    }

    /// Returns all records of the journal in their serialized form.
    pub(crate) fn raw_records(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        Ok(self.scan(u64::MAX)?.iter().map(<[u8]>::to_vec).collect())
    }

    /// Returns the events from a sequence number on (the first is 1) as JSON objects. Ignores a last event that is
    /// still being written.
    ///
    /// # Errors
    /// Fails if the events cannot be read, or if a line is invalid.
    pub fn events(&self, from: u64) -> Result<Vec<Value>, StoreError> {
        let path = self.path.join(EVENTS);
        let bytes = match self.files.open(&path, Access::Read) {
            Ok(file) => file
                .read_from(0, u64::MAX)
                .map_err(|error| StoreError::io("read", &path, error))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("open", &path, error)),
        };
        let (mut events, mut offset) = (Vec::new(), 0);
        for (line, text) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            // Ignore everything after a hole that a loss of power left. It is emitted again when the run is resumed.
            if !text.ends_with(b"\n") || text.contains(&0) {
                break;
            }
            if line >= from {
                let event = serde_json::from_slice(text).map_err(|error| StoreError::Damaged {
                    path: path.clone(),
                    line,
                    offset,
                    expected: "an event".to_owned(),
                    found: error.to_string(),
                })?;
                events.push(event);
            }
            offset += text.len() as u64;
        }
        Ok(events)
    }

    /// Calls a function for each event, in constant memory. An event is only parsed on request. Ignores a last event
    /// that is still being written. A line of more than 16 MiB has no text.
    ///
    /// # Errors
    /// Fails if the events cannot be read.
    pub fn each_event(&self, mut visit: impl FnMut(EventLine<'_>)) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("read", &self.path.join(EVENTS), error);
        let mut reader = EventReader::open(&self.path).map_err(failed)?;
        while let Some(line) = reader.next_line().map_err(failed)? {
            visit(line);
        }
        Ok(())
    }
}

impl std::fmt::Debug for RunFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunFolder")
            .field("path", &self.path)
            .field("run", &self.manifest.run)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::{EVENTS, MANIFEST, RunFolder};

    #[test]
    fn what_changed_in_a_folder_is_seen_without_reading_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let changes = || {
            (
                RunFolder::manifest_stamp(&folder),
                RunFolder::events_size(&folder),
            )
        };
        assert_eq!(changes(), (None, 0));
        fs::write(folder.path().join(MANIFEST), "{}").unwrap();
        let (began, _) = changes();
        assert!(began.is_some());
        fs::write(folder.path().join(EVENTS), "{}\n").unwrap();
        assert_eq!(changes(), (began, 3));
        fs::write(folder.path().join(MANIFEST), "{ }").unwrap();
        assert_ne!(changes().0, began);
    }
}
