//! The run folder (Attractor 5.6, rule D2).

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::stages::{StageFolders, replace};
use super::{Checkpoint, Manifest, RunStore, StageFile, StagePlace, StoreError};
use crate::event::RunEvent;

/// Keeps a run in a folder: `manifest.json`, `checkpoint.json`, `events.jsonl`, and a folder for each stage.
///
/// ```
/// use orchestra_engine::{FolderStore, RunStore, StageFile};
/// let place = std::env::temp_dir().join(format!("orchestra-doc-{}", std::process::id()));
/// let store = FolderStore::create(&place)?;
/// store.write("build".into(), StageFile::Prompt, b"Build it.")?;
/// assert_eq!(std::fs::read(place.join("build/prompt.md"))?, b"Build it.");
/// # std::fs::remove_dir_all(&place)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FolderStore {
    stages: StageFolders,
    events: Mutex<File>,
    events_path: PathBuf,
}

impl FolderStore {
    /// Makes the folder of a new run, and those above it; a folder that is there must be empty.
    ///
    /// # Errors
    /// The folder cannot be made, is a link, or holds something.
    pub fn create(folder: &Path) -> Result<FolderStore, StoreError> {
        let root = std::path::absolute(folder).map_err(|error| StoreError::io("find", folder, error))?;
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent).map_err(|error| StoreError::io("make", parent, error))?;
        }
        match fs::create_dir(&root) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => require_empty(&root)?,
            Err(error) => return Err(StoreError::io("make", &root, error)),
            Ok(()) => {}
        }
        let events_path = root.join("events.jsonl");
        let events = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&events_path)
            .map_err(|error| StoreError::io("make", &events_path, error))?;
        if let Some(parent) = root.parent() {
            sync_folder(parent)?;
        }
        Ok(FolderStore {
            stages: StageFolders::new(root),
            events: Mutex::new(events),
            events_path,
        })
    }

    /// Replaces a file so that it survives a loss of power: written, synced, moved, and the folder synced.
    fn replace_durably(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let root = self.stages.base();
        let path = root.join(name);
        let mut json = serde_json::to_vec_pretty(value).map_err(|source| StoreError::Json {
            path: path.clone(),
            source,
        })?;
        json.push(b'\n');
        replace(&root.join(format!(".{name}.tmp")), &path, |out| {
            out.write_all(&json)?;
            out.sync_all()
        })?;
        sync_folder(&root)
    }
}

fn require_empty(root: &Path) -> Result<(), StoreError> {
    let found = fs::symlink_metadata(root).map_err(|error| StoreError::io("read", root, error))?;
    if !found.is_dir() {
        return Err(StoreError::NotPlain {
            path: root.to_owned(),
            expected: "folder",
        });
    }
    let mut entries = fs::read_dir(root).map_err(|error| StoreError::io("read", root, error))?;
    match entries.next() {
        Some(_) => Err(StoreError::Occupied {
            path: root.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Makes the names in a folder durable; systems that cannot open a folder have no need of it.
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    if !cfg!(unix) {
        return Ok(());
    }
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| StoreError::io("sync", folder, error))
}

impl RunStore for FolderStore {
    fn folder(&self) -> &Path {
        self.stages.root()
    }

    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.replace_durably("manifest.json", manifest)
    }

    fn event(&self, event: &RunEvent) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(event).map_err(|source| StoreError::Json {
            path: self.events_path.clone(),
            source,
        })?;
        line.push(b'\n');
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events
            .write_all(&line)
            .map_err(|error| StoreError::io("write", &self.events_path, error))
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.replace_durably("checkpoint.json", checkpoint)
    }

    fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        self.stages.restarted(restart)
    }

    fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        self.stages.stage(place, visit)
    }

    fn write(&self, place: StagePlace<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError> {
        self.stages.write(place, file, bytes)
    }

    fn read(&self, place: StagePlace<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError> {
        self.stages.read(place, file)
    }

    fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError> {
        self.stages.remove(place, file)
    }
}
