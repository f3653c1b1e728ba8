//! The run folder (Attractor 5.6, rule D2).

use std::fs;
use std::io::ErrorKind;
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::commit::Member;
use super::commit_log::{self, Whose};
use super::files::{Access, FileSystem, Mark, of_level};
use super::journal::Journal;
use super::line::{Position, Scan};
use super::lines::{self, EventFile};
use super::manifest::Manifest;
use super::opening::{Found, OpenOptions, Opening};
use super::ownership::{Ownership, draft, remove_if_there, sync_folder};
use super::read::{read_checkpoint, read_manifest};
use super::stages::StageFolders;
use super::{
    CHECKPOINT, Checkpoint, Durability, EVENTS, JOURNAL, MANIFEST, RunIdentity, RunStore, StageFile,
    StageFolder, StoreError, Synced, obstacle, sealed,
};
use crate::event::RunEvent;

/// Minimum growth of the journal in bytes before a checkpoint is worthwhile.
const CHECKPOINT_AFTER: u64 = 64 << 10;

/// The options of a run folder.
#[derive(Clone, Default)]
pub(crate) struct StoreOptions {
    /// The kind of crash that the records survive.
    pub(crate) durability: Durability,
    /// `true` if the folder is in a folder of runs. Then the runs may share their syncs by a log in that folder.
    pub(crate) among_runs: bool,
    /// The store of the parent run. A process that takes over the parent also owns this run.
    pub(crate) around: Option<Arc<dyn RunStore>>,
}

/// A store that persists a run in a folder: `manifest.json`, `checkpoint.json`, `journal.jsonl`, `events.jsonl`,
/// `owner.lock`, and a folder for each stage.
pub(crate) struct FolderStore {
    files: Arc<dyn FileSystem>,
    stages: StageFolders,
    ownership: Arc<Ownership>,
    /// `None` if the run has no journal.
    journal: Option<Arc<Journal>>,
    /// The membership in the shared syncs. `None` if the run does not sync.
    member: Option<Member>,
    events: EventFile,
    latest: Mutex<Latest>,
    /// The identity of the run in its files. `None` until the manifest is written.
    identity: Mutex<Option<RunIdentity>>,
}

/// The latest checkpoint.
#[derive(Clone, Copy, Default)]
struct Latest {
    /// Its offset in the journal.
    offset: u64,
    /// The size of its file in bytes.
    size: u64,
    /// The identity of its file. `None` if this process knows none.
    mark: Option<Mark>,
}

/// An existing run that was opened to be resumed.
pub(crate) struct Opened {
    pub(crate) store: FolderStore,
    pub(crate) manifest: Manifest,
    /// The latest checkpoint. `None` if there is no usable one.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// `true` if the checkpoint contains records that the journal has lost. A record must say so before anything else
    /// is written.
    pub(crate) restored: bool,
    /// The records after the checkpoint, or all records.
    pub(crate) records: Scan,
    /// Human-readable messages about what was cut off or ignored.
    pub(crate) repaired: Vec<String>,
    /// The number of written events.
    pub(crate) events: u64,
    /// `true` if the last event reports the end of the run.
    pub(crate) end_emitted: bool,
    /// The fencing token of this owner: the number of owners of the run so far.
    pub(crate) fencing_token: u64,
}

impl FolderStore {
    /// Creates the folder of a new run, and missing parents. An existing folder must be empty.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, is a link, or is not empty.
    pub(crate) fn create(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        options: StoreOptions,
    ) -> Result<FolderStore, StoreError> {
        let files = of_level(files, options.durability);
        let root = absolute(folder)?;
        if let Some(around) = &options.around {
            around.check_ownership()?;
        }
        if let Some(parent) = root.parent() {
            make_folders(&*files, parent)?;
        }
        match files.make_folder(&root) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => require_empty(&root)?,
            Err(error) => return Err(StoreError::io("make", &root, error)),
            Ok(()) => {}
        }
        let ownership = Arc::new(Ownership::create(files.clone(), &root, options.around)?);
        let journal = match options.durability {
            Durability::None => None,
            level => Some(Arc::new(Journal::create(
                files.clone(),
                &root.join(JOURNAL),
                level,
            )?)),
        };
        let events = EventFile::create(files.clone(), &root.join(EVENTS))?;
        // The manifest makes the folder a run, so its name must never survive without that of the journal.
        sync_folder(&*files, &root)?;
        if let Some(parent) = root.parent() {
            sync_folder(&*files, parent)?;
        }
        let is_full = options.durability == Durability::Full;
        let journal_of_full = if is_full { journal.clone() } else { None };
        Ok(FolderStore {
            member: journal_of_full.map(|journal| Member::join(&files, journal, &root, options.among_runs)),
            stages: StageFolders::new(files.clone(), root).owned(ownership.clone()),
            files,
            ownership,
            journal,
            events,
            latest: Mutex::default(),
            identity: Mutex::default(),
        })
    }

    /// Opens the folder of an existing run.
    ///
    /// # Errors
    /// Fails if there is no run, if another process owns it, or if its files are damaged, cut off, of another run, or
    /// of an unknown schema.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        options: StoreOptions,
        how: OpenOptions,
    ) -> Result<Opened, StoreError> {
        let files = of_level(files, options.durability);
        let root = absolute(folder)?;
        let manifest = read_manifest(&*files, &root)?;
        if let Some(server) = manifest.exported_from {
            return Err(StoreError::Exported { path: root, server });
        }
        let mut repaired = Vec::new();
        let bytes = commit_log::recover(&*files, &root)?;
        let ownership = Arc::new(Ownership::acquire(
            files.clone(),
            &root,
            how.take_over,
            options.around,
        )?);
        // The process that began the run may have died before the names in the folder were durable.
        sync_folder(&*files, &root)?;
        if bytes > 0 {
            repaired.push(format!(
                "{bytes} bytes of `{JOURNAL}` were restored from what the run had shared with others"
            ));
        }
        let path = root.join(CHECKPOINT);
        let read = match read_checkpoint(&*files, &path) {
            Ok(read) => read,
            Err(
                error @ (StoreError::Damaged { .. }
                | StoreError::NotPlain { .. }
                | StoreError::TooLarge { .. }),
            ) => {
                repaired.push(format!("the checkpoint was passed over: {error}"));
                None
            }
            Err(error) => return Err(error),
        };
        let (mut checkpoint, size, mark) = match read {
            Some(read) => (Some(read.checkpoint), read.size, Some(read.mark)),
            None => (None, 0, None),
        };
        // The manifest records whether the run has a journal.
        let level = match (manifest.durability, options.durability) {
            (Durability::None, _) => None,
            (level, Durability::None) | (_, level) => Some(level),
        };
        let identity = manifest.belonging();
        let events = root.join(EVENTS);
        if obstacle::is_no_file(&events) {
            obstacle::move_aside(&*files, &events)?;
            repaired.push(format!("what was at the path of `{EVENTS}` was moved aside"));
        }
        let mut opening = Opening {
            files: &files,
            root: &root,
            identity: &identity,
            proof: lines::proof(&*files, &events)?,
            accept_loss: how.accept_loss,
            fencing_token: ownership.fencing_token(),
            repaired: &mut repaired,
        };
        opening.check_belonging(&mut checkpoint)?;
        let (journal, records, checkpoint, restored) = match level {
            None => (None, Scan::default(), checkpoint, false),
            Some(level) => {
                let Found {
                    journal,
                    records,
                    checkpoint,
                    restored,
                } = opening.journal(level, checkpoint)?;
                (Some(Arc::new(journal)), records, checkpoint, restored)
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
            mark: if checkpoint.is_some() && !restored {
                mark
            } else {
                None
            },
        };
        let fencing_token = ownership.fencing_token();
        let is_full = level == Some(Durability::Full);
        let full = if is_full { journal.clone() } else { None };
        let member = full.map(|journal| Member::join(&files, journal, &root, options.among_runs));
        if let Some(member) = &member {
            member.identify(whose(&root, &manifest, fencing_token));
        }
        let store = FolderStore {
            member,
            stages: StageFolders::new(files.clone(), root).owned(ownership.clone()),
            files,
            ownership,
            journal,
            events,
            latest: Mutex::new(latest),
            identity: Mutex::new(Some(identity)),
        };
        Ok(Opened {
            store,
            manifest,
            checkpoint,
            restored,
            records,
            repaired,
            events: found.events,
            end_emitted: found.ended,
            fencing_token,
        })
    }

    /// Returns the number of events after a sequence number that follow from the journal.
    pub(crate) fn caused_behind(&self, seq: u64) -> Result<u64, StoreError> {
        self.events.caused_behind(seq)
    }

    /// Runs an operation on file names. If this process no longer owns the run, that is reported as the reason of any
    /// failure.
    fn as_owner<T>(&self, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.ownership.check_ownership()?;
        self.or_lost(act())
    }

    /// Replaces an error by the loss of the ownership or of the folder, if that is its reason.
    fn or_lost<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        done.map_err(|error| self.ownership.check_ownership().err().unwrap_or(error))
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a file durably: writes and syncs a draft, renames it, and syncs the folder.
    fn replace_durably(&self, name: &str, value: &impl Serialize) -> Result<(u64, Mark), StoreError> {
        let root = self.stages.root();
        let path = root.join(name);
        let draft = draft(&path, self.ownership.fencing_token());
        remove_if_there(&*self.files, &draft)?;
        let replaced = write_sealed(&*self.files, &draft, value).and_then(|written| {
            // A process that takes over the run from here on removes the draft.
            self.ownership.check_ownership()?;
            obstacle::replace(&*self.files, &draft, &path)?;
            Ok(written)
        });
        let written = replaced.map_err(|error| {
            let _ = self.files.remove(&draft);
            // If this process no longer owns the run, that is the reason of the failure.
            self.ownership.check_ownership().err().unwrap_or(error)
        })?;
        sync_folder(&*self.files, root)?;
        Ok(written)
    }

    /// Returns an error if another process changed the files from which the run would resume.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        if let Some(journal) = &self.journal {
            journal.check_unchanged()?;
        }
        let Latest { size, mark, .. } = *self.latest();
        match mark {
            Some(mark) => mark.check(&self.stages.root().join(CHECKPOINT), size),
            None => Ok(()),
        }
    }
}

fn whose(root: &Path, manifest: &Manifest, fencing_token: u64) -> Whose {
    let name = root.file_name().unwrap_or_default();
    Whose {
        folder: name.to_string_lossy().into_owned(),
        identity: manifest.identity(),
        fencing_token,
    }
}

/// Writes a new file that ends with its checksum, and syncs it.
fn write_sealed(
    files: &dyn FileSystem,
    path: &Path,
    value: &impl Serialize,
) -> Result<(u64, Mark), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let file = files.open(path, Access::New).map_err(failed)?;
    let mut offset = 0;
    let length = sealed::seal(path, value, &mut |part| {
        files.write_at(&file, part, offset).map_err(failed)?;
        offset += part.len() as u64;
        Ok(())
    })?;
    files.sync_all(&file).map_err(failed)?;
    Ok((length, file.mark()))
}

fn absolute(folder: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(folder).map_err(|error| StoreError::io("find", folder, error))
}

/// Creates a folder and its missing parents.
fn make_folders(files: &dyn FileSystem, folder: &Path) -> Result<(), StoreError> {
    match files.make_parent_folder(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Some(parent) = folder.parent() {
                make_folders(files, parent)?;
            }
            match files.make_parent_folder(folder) {
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

/// Returns the fencing token in a record, or 0 if it has none.
fn epoch_of(record: &[u8]) -> u64 {
    #[derive(serde::Deserialize)]
    struct FencingToken {
        fencing_token: u64,
    }
    serde_json::from_slice(record).map_or(0, |FencingToken { fencing_token }| fencing_token)
}

impl RunStore for FolderStore {
    fn folder(&self) -> &Path {
        self.stages.root()
    }

    fn manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        // The manifest may name a pipeline that a record explains.
        if let Some(journal) = &self.journal {
            journal.sync_always()?;
        }
        self.replace_durably(MANIFEST, manifest)?;
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = Some(manifest.belonging());
        if let Some(member) = &self.member {
            member.identify(whose(self.folder(), manifest, self.ownership.fencing_token()));
        }
        Ok(())
    }

    fn identity(&self) -> Option<RunIdentity> {
        let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        identity.clone()
    }

    fn keeps_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn append(&self, record: &[u8]) -> Result<Position, StoreError> {
        let position = self.as_owner(|| {
            self.check_unchanged()?;
            self.events.flush_uncaused()?;
            match &self.journal {
                Some(journal) => journal.append(record),
                None => Ok(Position::default()),
            }
        })?;
        self.events.release();
        Ok(position)
    }

    fn restored(&self, record: &[u8]) -> Result<Position, StoreError> {
        let position = self.append(record)?;
        if let Some(journal) = &self.journal {
            journal.sync_always()?;
        }
        let root = self.stages.root();
        remove_if_there(&*self.files, &root.join(CHECKPOINT))?;
        sync_folder(&*self.files, root)?;
        Ok(position)
    }

    fn sync(&self) -> Result<Synced, StoreError> {
        let synced = match (&self.member, &self.journal) {
            (Some(member), _) => member.sync()?,
            (None, Some(journal)) => journal.sync().map(|()| Synced::Done)?,
            (None, None) => Synced::Done,
        };
        match synced {
            Synced::Done => self.ownership.check_ownership().map(|()| Synced::Done),
            Synced::Later(commit) => {
                let ownership = self.ownership.clone();
                Ok(Synced::Later(Box::pin(async move {
                    commit.await?;
                    ownership.check_ownership()
                })))
            }
        }
    }

    fn check_ownership(&self) -> Result<(), StoreError> {
        self.ownership.check_ownership()
    }

    #[cfg(unix)]
    fn locks(&self) -> Vec<RawFd> {
        self.ownership.locks()
    }

    fn position(&self) -> Position {
        let journal = self.journal.as_ref();
        journal.map_or_else(Position::default, |journal| journal.position())
    }

    fn wants_checkpoint(&self) -> bool {
        let Latest { offset, size, .. } = *self.latest();
        self.keeps_journal() && self.position().offset.saturating_sub(offset) >= size.max(CHECKPOINT_AFTER)
    }

    fn event(&self, event: &RunEvent) -> Result<(), StoreError> {
        self.or_lost(self.events.add(event))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.or_lost(self.events.flush())
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        self.or_lost(self.check_unchanged())?;
        // A checkpoint must not refer to records that a loss of power could remove.
        if let Some(journal) = &self.journal {
            journal.sync_always()?;
        }
        // Events that precede the checkpoint are not emitted again, so they must be written.
        self.events.release();
        self.or_lost(self.events.close())?;
        let (size, mark) = self.replace_durably(CHECKPOINT, checkpoint)?;
        *self.latest() = Latest {
            offset: checkpoint.journal.offset,
            size,
            mark: Some(mark),
        };
        Ok(())
    }

    fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.restarted(restart))
    }

    fn stage(&self, stage_folder: StageFolder<'_>, visit: u32) -> Result<PathBuf, StoreError> {
        self.as_owner(|| self.stages.stage(stage_folder, visit))
    }

    fn is_aside(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool {
        self.stages.is_aside(stage_folder, visit)
    }

    fn has_status(&self, stage_folder: StageFolder<'_>, visit: u32) -> bool {
        self.stages.has_status(stage_folder, visit)
    }

    fn has_folder(&self, stage_folder: StageFolder<'_>) -> bool {
        self.stages.has_folder(stage_folder)
    }

    fn write(&self, stage_folder: StageFolder<'_>, file: StageFile, bytes: &[u8]) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.write(stage_folder, file, bytes))
    }

    fn read(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<Option<Vec<u8>>, StoreError> {
        self.stages.read(stage_folder, file)
    }

    fn recall(
        &self,
        stage_folder: StageFolder<'_>,
        visit: u32,
        file: StageFile,
        most: usize,
    ) -> Option<super::FileEnds> {
        self.stages.recall(stage_folder, visit, file, most)
    }

    fn take_moved(&self) -> Vec<PathBuf> {
        self.stages.take_moved()
    }

    fn remove(&self, stage_folder: StageFolder<'_>, file: StageFile) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.remove(stage_folder, file))
    }

    fn close(&self) -> Result<(), StoreError> {
        let closed = self
            .ownership
            .check_ownership()
            .and_then(|()| self.journal.as_ref().map_or(Ok(()), |journal| journal.close()))
            .and_then(|()| self.or_lost(self.events.close()));
        if let Some(member) = &self.member
            && closed.is_ok()
        {
            member.closed();
        }
        self.ownership.release();
        closed
    }
}
