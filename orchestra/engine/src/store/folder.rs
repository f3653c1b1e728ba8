//! The run folder (Attractor 5.6, rule D2).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::commit::Member;
use super::commit_log::{self, Whose};
use super::files::{Access, FileSystem, of_level};
use super::journal::{self, Journal};
use super::line::{Position, Scan};
use super::lines::EventFile;
use super::manifest::Manifest;
use super::owner::{Ownership, draft, remove_if_there, sync_folder};
use super::stages::StageFolders;
use super::{
    CHECKPOINT, Checkpoint, Durability, EVENTS, JOURNAL, MANIFEST, RunStore, StageFile, StagePlace,
    StoreError, Synced, sealed,
};
use crate::event::RunEvent;

/// The journal grows by so much at least before a checkpoint is worth its while.
const CHECKPOINT_AFTER: u64 = 64 << 10;

/// How a run is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreOptions {
    /// What its records survive.
    pub(crate) durability: Durability,
    /// Whether the folder is one of a folder of runs, so that they may share their syncs by what is kept there.
    pub(crate) among_runs: bool,
}

/// Keeps a run in a folder: `manifest.json`, `checkpoint.json`, `journal.jsonl`, `events.jsonl`, `owner.lock`, and a
/// folder for each stage.
pub(crate) struct FolderStore {
    files: Arc<dyn FileSystem>,
    stages: StageFolders,
    ownership: Arc<Ownership>,
    /// `None` where no journal is kept.
    journal: Option<Arc<Journal>>,
    /// Its part in the syncs that runs share; `None` where nothing waits for the disk.
    member: Option<Member>,
    events: EventFile,
    latest: Mutex<Latest>,
}

/// The latest checkpoint.
#[derive(Clone, Copy, Default)]
struct Latest {
    /// Where in the journal it is.
    offset: u64,
    /// The bytes of its file.
    size: u64,
}

/// A run that goes on.
pub(crate) struct Opened {
    pub(crate) store: FolderStore,
    pub(crate) manifest: Manifest,
    /// The latest checkpoint; `None` where there is none that can be used.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The records behind the checkpoint, or all.
    pub(crate) records: Scan,
    /// What was cut off or passed over, in words.
    pub(crate) repaired: Vec<String>,
    /// How many events have been written.
    pub(crate) events: u64,
    /// Whether the last of them says how the run ended.
    pub(crate) end_told: bool,
    /// How many owners the run has had, with this one.
    pub(crate) epoch: u64,
}

impl FolderStore {
    /// Makes the folder of a new run, and those above it; a folder that is there must be empty.
    ///
    /// # Errors
    /// The folder cannot be made, is a link, or holds something.
    pub(crate) fn create(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        options: StoreOptions,
    ) -> Result<FolderStore, StoreError> {
        let files = of_level(files, options.durability);
        let root = absolute(folder)?;
        if let Some(parent) = root.parent() {
            make_folders(&*files, parent)?;
        }
        match files.make_folder(&root) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => require_empty(&root)?,
            Err(error) => return Err(StoreError::io("make", &root, error)),
            Ok(()) => {}
        }
        let ownership = Arc::new(Ownership::create(files.clone(), &root)?);
        let journal = match options.durability {
            Durability::None => None,
            level => Some(Arc::new(Journal::create(
                files.clone(),
                &root.join(JOURNAL),
                level,
            )?)),
        };
        let events = EventFile::create(files.clone(), &root.join(EVENTS))?;
        if let Some(parent) = root.parent() {
            sync_folder(&*files, parent)?;
        }
        let journal_of_full = journal.clone().filter(|_| options.durability == Durability::Full);
        Ok(FolderStore {
            member: journal_of_full.map(|journal| Member::join(&files, journal, &root, options.among_runs)),
            stages: StageFolders::new(files.clone(), root).owned(ownership.clone()),
            files,
            ownership,
            journal,
            events,
            latest: Mutex::default(),
        })
    }

    /// Opens the folder of a run that goes on; with `take_over` even of one that has an owner.
    ///
    /// # Errors
    /// There is no run, somebody else owns it, or what it holds is damaged or of a form that is not known.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        options: StoreOptions,
        take_over: bool,
    ) -> Result<Opened, StoreError> {
        let files = of_level(files, options.durability);
        let root = absolute(folder)?;
        let manifest = read_manifest(&*files, &root)?;
        let mut repaired = Vec::new();
        let restored = commit_log::recover(&*files, &root)?;
        let ownership = Arc::new(Ownership::acquire(files.clone(), &root, take_over)?);
        if restored > 0 {
            repaired.push(format!(
                "{restored} bytes of `{JOURNAL}` were restored from what the run had shared with others"
            ));
        }
        let path = root.join(CHECKPOINT);
        let (checkpoint, size) = match read_checkpoint(&*files, &path) {
            Ok(Some((checkpoint, size))) => (Some(checkpoint), size),
            Ok(None) => (None, 0),
            Err(error @ StoreError::Damaged { .. }) => {
                repaired.push(format!("the checkpoint was passed over: {error}"));
                (None, 0)
            }
            Err(error) => return Err(error),
        };
        // Whether there is a journal was decided when the run began.
        let level = match (manifest.durability, options.durability) {
            (Durability::None, _) => None,
            (level, Durability::None) | (_, level) => Some(level),
        };
        let (journal, records, checkpoint) = match level {
            None => (None, Scan::default(), checkpoint),
            Some(level) => {
                let journal = root.join(JOURNAL);
                let (journal, records, kept) =
                    open_journal(&files, &journal, level, checkpoint, &mut repaired)?;
                (Some(Arc::new(journal)), records, kept)
            }
        };
        let (events, found) = EventFile::open(files.clone(), &root.join(EVENTS))?;
        if found.torn > 0 {
            let torn = found.torn;
            repaired.push(format!(
                "{torn} bytes of an event that was not written to its end were cut off `{EVENTS}`"
            ));
        }
        ownership.raise(records.iter().next_back().map_or(0, epoch_of) + 1)?;
        let latest = Latest {
            offset: records.from.offset,
            size: if checkpoint.is_some() { size } else { 0 },
        };
        let epoch = ownership.epoch();
        let full = journal.clone().filter(|_| level == Some(Durability::Full));
        let member = full.map(|journal| Member::join(&files, journal, &root, options.among_runs));
        if let Some(member) = &member {
            member.identify(whose(&root, &manifest, epoch));
        }
        let store = FolderStore {
            member,
            stages: StageFolders::new(files.clone(), root).owned(ownership.clone()),
            files,
            ownership,
            journal,
            events,
            latest: Mutex::new(latest),
        };
        Ok(Opened {
            store,
            manifest,
            checkpoint,
            records,
            repaired,
            events: found.events,
            end_told: found.ended,
            epoch,
        })
    }

    /// How many of the events behind a number follow from what the journal holds.
    pub(crate) fn caused_behind(&self, seq: u64) -> Result<u64, StoreError> {
        self.events.caused_behind(seq)
    }

    /// Does something by the names of files. That somebody else owns the run is the reason behind whatever fails.
    fn as_owner<T>(&self, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.ownership.still_mine()?;
        act().map_err(|error| self.ownership.still_mine().err().unwrap_or(error))
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a file so that it survives a loss of power: written, synced, moved, and the folder synced.
    fn replace_durably(&self, name: &str, value: &impl Serialize) -> Result<u64, StoreError> {
        let root = self.stages.root();
        let path = root.join(name);
        let draft = draft(&path, self.ownership.epoch());
        remove_if_there(&*self.files, &draft)?;
        let replaced = write_sealed(&*self.files, &draft, value).and_then(|length| {
            // Whoever takes the run over from here on removes the draft.
            self.ownership.still_mine()?;
            let moved = self.files.rename(&draft, &path);
            moved.map_err(|error| StoreError::io("replace", &path, error))?;
            Ok(length)
        });
        let length = replaced.map_err(|error| {
            let _ = self.files.remove(&draft);
            // That somebody else owns the run is the reason behind whatever failed.
            self.ownership.still_mine().err().unwrap_or(error)
        })?;
        sync_folder(&*self.files, root)?;
        Ok(length)
    }
}

fn whose(root: &Path, manifest: &Manifest, epoch: u64) -> Whose {
    let name = root.file_name().unwrap_or_default();
    Whose {
        folder: name.to_string_lossy().into_owned(),
        identity: manifest.identity(),
        epoch,
    }
}

/// Writes a new file that ends with its checksum, and waits for the disk.
fn write_sealed(files: &dyn FileSystem, path: &Path, value: &impl Serialize) -> Result<u64, StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let file = files.open(path, Access::New).map_err(failed)?;
    let mut offset = 0;
    let length = sealed::seal(path, value, &mut |part| {
        files.write_at(&file, part, offset).map_err(failed)?;
        offset += part.len() as u64;
        Ok(())
    })?;
    files.sync_all(&file).map_err(failed)?;
    Ok(length)
}

fn absolute(folder: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(folder).map_err(|error| StoreError::io("find", folder, error))
}

/// Makes a folder and those above it, where they are missing.
fn make_folders(files: &dyn FileSystem, folder: &Path) -> Result<(), StoreError> {
    match files.make_folder(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Some(parent) = folder.parent() {
                make_folders(files, parent)?;
            }
            match files.make_folder(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    Err(StoreError::io("make", folder, error))
                }
                _ => Ok(()),
            }
        }
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(StoreError::io("make", folder, error)),
        Ok(()) => Ok(()),
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

/// Reads a whole file; `None` if it is missing.
fn read_whole(files: &dyn FileSystem, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match files.open(path, Access::Read) {
        Ok(file) => {
            let bytes = file.read_from(0, u64::MAX);
            bytes
                .map(Some)
                .map_err(|error| StoreError::io("read", path, error))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}

pub(super) fn read_manifest(files: &dyn FileSystem, root: &Path) -> Result<Manifest, StoreError> {
    let path = root.join(MANIFEST);
    match read_whole(files, &path)? {
        Some(text) => Manifest::read(&path, &text),
        None => Err(StoreError::NoRun {
            path: root.to_owned(),
            missing: MANIFEST,
        }),
    }
}

/// The checkpoint, and the length of its file; `None` if there is none.
pub(super) fn read_checkpoint(
    files: &dyn FileSystem,
    path: &Path,
) -> Result<Option<(Checkpoint, u64)>, StoreError> {
    let text = read_whole(files, path)?;
    text.map(|text| Ok((Checkpoint::read(path, &text)?, text.len() as u64)))
        .transpose()
}

/// Opens the journal behind a checkpoint, if that fits it, or else from its beginning.
fn open_journal(
    files: &Arc<dyn FileSystem>,
    path: &Path,
    level: Durability,
    checkpoint: Option<Checkpoint>,
    repaired: &mut Vec<String>,
) -> Result<(Journal, Scan, Option<Checkpoint>), StoreError> {
    let missing = |error| match error {
        StoreError::Io { source, .. } if source.kind() == ErrorKind::NotFound => StoreError::NoRun {
            path: path.parent().unwrap_or(path).to_owned(),
            missing: JOURNAL,
        },
        other => other,
    };
    let mut kept = checkpoint;
    if let Some(checkpoint) = &kept {
        let Position { records, offset, .. } = checkpoint.journal;
        let reason = if checkpoint.state.is_none() {
            Some("it holds no state to go on from".to_owned())
        } else if !journal::has(&**files, path, checkpoint.journal).map_err(missing)? {
            Some(format!(
                "it was written behind {records} records ({offset} bytes), which `{JOURNAL}` does not have"
            ))
        } else {
            None
        };
        if let Some(reason) = reason {
            repaired.push(format!("the checkpoint was passed over: {reason}"));
            kept = None;
        }
    }
    let from = kept.as_ref().map(|checkpoint| checkpoint.journal);
    let (journal, records) = Journal::open(files.clone(), path, level, from).map_err(missing)?;
    if let Some(torn) = records.torn {
        repaired.push(format!(
            "record {} of `{JOURNAL}` (byte {}) was not written to its end; its {} bytes were cut off",
            torn.line, torn.offset, torn.bytes
        ));
    }
    Ok((journal, records, kept))
}

/// The epoch that a record names; 0 if it names none.
fn epoch_of(record: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct Epoch {
        epoch: u64,
    }
    serde_json::from_slice(record).map_or(0, |Epoch { epoch }| epoch)
}

impl RunStore for FolderStore {
    fn folder(&self) -> &Path {
        self.stages.root()
    }

    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.replace_durably(MANIFEST, manifest)?;
        if let Some(member) = &self.member {
            member.identify(whose(self.folder(), manifest, self.ownership.epoch()));
        }
        Ok(())
    }

    fn keeps_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn append(&self, record: &[u8]) -> Result<Position, StoreError> {
        self.ownership.still_mine()?;
        match &self.journal {
            Some(journal) => journal.append(record),
            None => Ok(Position::default()),
        }
    }

    fn sync(&self) -> Result<Synced, StoreError> {
        let synced = match (&self.member, &self.journal) {
            (Some(member), _) => member.sync()?,
            (None, Some(journal)) => journal.sync().map(|()| Synced::Done)?,
            (None, None) => Synced::Done,
        };
        match synced {
            Synced::Done => self.ownership.still_mine().map(|()| Synced::Done),
            Synced::Later(commit) => {
                let ownership = self.ownership.clone();
                Ok(Synced::Later(Box::pin(async move {
                    commit.await?;
                    ownership.still_mine()
                })))
            }
        }
    }

    fn still_mine(&self) -> Result<(), StoreError> {
        self.ownership.still_mine()
    }

    fn position(&self) -> Position {
        let journal = self.journal.as_ref();
        journal.map_or_else(Position::default, |journal| journal.position())
    }

    fn wants_checkpoint(&self) -> bool {
        let Latest { offset, size } = *self.latest();
        self.keeps_journal() && self.position().offset.saturating_sub(offset) >= size.max(CHECKPOINT_AFTER)
    }

    fn event(&self, event: &RunEvent) -> Result<(), StoreError> {
        self.events.add(event)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.events.flush()
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        // A checkpoint must not name what a loss of power could take away.
        if let Some(journal) = &self.journal {
            journal.sync_always()?;
        }
        // Events that tell of what came before it are not told again either.
        self.events.close()?;
        let size = self.replace_durably(CHECKPOINT, checkpoint)?;
        *self.latest() = Latest {
            offset: checkpoint.journal.offset,
            size,
        };
        Ok(())
    }

    fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.restarted(restart))
    }

    fn stage(&self, place: StagePlace<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        self.as_owner(|| self.stages.stage(place, visit))
    }

    fn is_aside(&self, place: StagePlace<'_>, visit: u32) -> bool {
        self.stages.is_aside(place, visit)
    }

    fn has_status(&self, place: StagePlace<'_>, visit: u32) -> bool {
        self.stages.has_status(place, visit)
    }

    fn has_folder(&self, place: StagePlace<'_>) -> bool {
        self.stages.has_folder(place)
    }

    fn is_open(&self, place: StagePlace<'_>, visit: u32) -> bool {
        self.stages.is_open(place, visit)
    }

    fn write(&self, place: StagePlace<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.write(place, file, bytes))
    }

    fn read(&self, place: StagePlace<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError> {
        self.stages.read(place, file)
    }

    fn recall(
        &self,
        place: StagePlace<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<super::FileEnds> {
        self.stages.recall(place, visit, file, most)
    }

    fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.remove(place, file))
    }

    fn close(&self) -> Result<(), StoreError> {
        let closed = self
            .ownership
            .still_mine()
            .and_then(|()| self.journal.as_ref().map_or(Ok(()), |journal| journal.close()))
            .and_then(|()| self.events.close());
        if let Some(member) = self.member.as_ref().filter(|_| closed.is_ok()) {
            member.closed();
        }
        self.ownership.release();
        closed
    }
}
