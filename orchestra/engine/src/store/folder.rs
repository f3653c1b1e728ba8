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
use super::owner::{Ownership, draft, remove_if_there, sync_folder};
use super::stages::StageFolders;
use super::{
    CHECKPOINT, Checkpoint, Durability, EVENTS, JOURNAL, MANIFEST, RunIdentity, RunStore, StageFile,
    StagePlace, StoreError, Synced, obstacle, sealed,
};
use crate::event::RunEvent;

/// The journal grows by so much at least before a checkpoint is worth its while.
const CHECKPOINT_AFTER: u64 = 64 << 10;

/// How a run is kept.
#[derive(Clone, Default)]
pub(crate) struct StoreOptions {
    /// What its records survive.
    pub(crate) durability: Durability,
    /// Whether the folder is one of a folder of runs, so that they may share their syncs by what is kept there.
    pub(crate) among_runs: bool,
    /// The run whose stage runs this one: who takes that over has this one too.
    pub(crate) around: Option<Arc<dyn RunStore>>,
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
    /// What the files of the run name it by, once the manifest is written.
    identity: Mutex<Option<RunIdentity>>,
}

/// The latest checkpoint.
#[derive(Clone, Copy, Default)]
struct Latest {
    /// Where in the journal it is.
    offset: u64,
    /// The bytes of its file.
    size: u64,
    /// What tells its file from others; `None` where this process knows none.
    mark: Option<Mark>,
}

/// A run that goes on.
pub(crate) struct Opened {
    pub(crate) store: FolderStore,
    pub(crate) manifest: Manifest,
    /// The latest checkpoint; `None` where there is none that can be used.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Whether the checkpoint holds what the journal has lost: a record must say so before anything else is written.
    pub(crate) restored: bool,
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
        if let Some(around) = &options.around {
            around.still_mine()?;
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
        // The manifest makes it a run: its name must never survive without that of the journal.
        sync_folder(&*files, &root)?;
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
            identity: Mutex::default(),
        })
    }

    /// Opens the folder of a run that goes on.
    ///
    /// # Errors
    /// There is no run, somebody else owns it, or what it holds is damaged, cut off, of another run, or of a form that is
    /// not known.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        options: StoreOptions,
        how: OpenOptions,
    ) -> Result<Opened, StoreError> {
        let files = of_level(files, options.durability);
        let root = absolute(folder)?;
        let manifest = read_manifest(&*files, &root)?;
        let mut repaired = Vec::new();
        let bytes = commit_log::recover(&*files, &root)?;
        let ownership = Arc::new(Ownership::acquire(
            files.clone(),
            &root,
            how.take_over,
            options.around,
        )?);
        // Whoever began the run may have died before its name was durable.
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
        // Whether there is a journal was decided when the run began.
        let level = match (manifest.durability, options.durability) {
            (Durability::None, _) => None,
            (level, Durability::None) | (_, level) => Some(level),
        };
        let identity = manifest.belonging();
        let events = root.join(EVENTS);
        if obstacle::is_no_file(&events) {
            obstacle::move_aside(&*files, &events)?;
            repaired.push(format!("what stood in the place of `{EVENTS}` was moved aside"));
        }
        let mut opening = Opening {
            files: &files,
            root: &root,
            identity: &identity,
            proof: lines::proof(&*files, &events)?,
            accept_loss: how.accept_loss,
            epoch: ownership.epoch(),
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
            mark: mark.filter(|_| checkpoint.is_some() && !restored),
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
        self.or_lost(act())
    }

    /// That somebody else owns the run, or that its folder is gone, is the reason behind whatever failed.
    fn or_lost<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        done.map_err(|error| self.ownership.still_mine().err().unwrap_or(error))
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a file so that it survives a loss of power: written, synced, moved, and the folder synced.
    fn replace_durably(&self, name: &str, value: &impl Serialize) -> Result<(u64, Mark), StoreError> {
        let root = self.stages.root();
        let path = root.join(name);
        let draft = draft(&path, self.ownership.epoch());
        remove_if_there(&*self.files, &draft)?;
        let replaced = write_sealed(&*self.files, &draft, value).and_then(|written| {
            // Whoever takes the run over from here on removes the draft.
            self.ownership.still_mine()?;
            obstacle::replace(&*self.files, &draft, &path)?;
            Ok(written)
        });
        let written = replaced.map_err(|error| {
            let _ = self.files.remove(&draft);
            // That somebody else owns the run is the reason behind whatever failed.
            self.ownership.still_mine().err().unwrap_or(error)
        })?;
        sync_folder(&*self.files, root)?;
        Ok(written)
    }

    /// Returns an error if somebody else changed the files that the run would go on from.
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

fn whose(root: &Path, manifest: &Manifest, epoch: u64) -> Whose {
    let name = root.file_name().unwrap_or_default();
    Whose {
        folder: name.to_string_lossy().into_owned(),
        identity: manifest.identity(),
        epoch,
    }
}

/// Writes a new file that ends with its checksum, and waits for the disk.
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

/// Makes a folder and those above it, where they are missing.
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

/// Reads a whole file; `None` if it is missing.
fn read_whole(files: &dyn FileSystem, path: &Path) -> Result<Option<(Vec<u8>, Mark)>, StoreError> {
    match files.open(path, Access::Read) {
        Ok(file) => {
            let bytes = file.read_from(0, u64::MAX);
            let bytes = bytes.map_err(|error| StoreError::io("read", path, error))?;
            Ok(Some((bytes, file.mark())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}

pub(super) fn read_manifest(files: &dyn FileSystem, root: &Path) -> Result<Manifest, StoreError> {
    let path = root.join(MANIFEST);
    match read_whole(files, &path)? {
        Some((text, _)) => Manifest::read(&path, &text),
        None => Err(StoreError::NoRun {
            path: root.to_owned(),
            missing: MANIFEST,
        }),
    }
}

/// A checkpoint, and its file.
pub(super) struct ReadCheckpoint {
    pub(super) checkpoint: Checkpoint,
    size: u64,
    mark: Mark,
}

/// Reads a checkpoint; `None` if there is none.
pub(super) fn read_checkpoint(
    files: &dyn FileSystem,
    path: &Path,
) -> Result<Option<ReadCheckpoint>, StoreError> {
    let Some((text, mark)) = read_whole(files, path)? else {
        return Ok(None);
    };
    Ok(Some(ReadCheckpoint {
        checkpoint: Checkpoint::read(path, &text)?,
        size: text.len() as u64,
        mark,
    }))
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
        // The manifest names a pipeline that a record may have to explain.
        if let Some(journal) = &self.journal {
            journal.sync_always()?;
        }
        self.replace_durably(MANIFEST, manifest)?;
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = Some(manifest.belonging());
        if let Some(member) = &self.member {
            member.identify(whose(self.folder(), manifest, self.ownership.epoch()));
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
        // A checkpoint must not name what a loss of power could take away.
        if let Some(journal) = &self.journal {
            journal.sync_always()?;
        }
        // Events that tell of what came before it are not told again either.
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

    fn take_moved(&self) -> Vec<PathBuf> {
        self.stages.take_moved()
    }

    fn remove(&self, place: StagePlace<'_>, file: StageFile) -> Result<(), StoreError> {
        self.as_owner(|| self.stages.remove(place, file))
    }

    fn close(&self) -> Result<(), StoreError> {
        let closed = self
            .ownership
            .still_mine()
            .and_then(|()| self.journal.as_ref().map_or(Ok(()), |journal| journal.close()))
            .and_then(|()| self.or_lost(self.events.close()));
        if let Some(member) = self.member.as_ref().filter(|_| closed.is_ok()) {
            member.closed();
        }
        self.ownership.release();
        closed
    }
}
