//! The artifact store: named data of a run that is too large for its context (Attractor 5.5, rules D1 and D2).

mod error;
mod index;
mod info;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use orchestra_graph::did_you_mean;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use error::ArtifactError;
pub use info::ArtifactInfo;
pub(crate) use info::Guard;

use crate::clock::{Clock, SystemClock};
use crate::redact::Redactor;
use crate::store::{ARTIFACTS, Durability, FileSystem, StoreError, system};
use index::{DataLocation, Entry, Index, Live};

const MAX_ID: usize = 200;
const MAX_NAME: usize = 1_000;
/// Maximum nesting depth of stored data. The JSON parser accepts 128 levels, and the index needs some of them.
const MAX_DEPTH: usize = 100;
/// Maximum size of inline data in the index in bytes, whatever the threshold is.
const MAX_INLINE: u64 = 16 << 20;

/// The artifacts of a run: named data that is too large for its context (Attractor 5.5). A store is cheap to clone and
/// shared by all stages.
///
/// Data whose JSON text is longer than the [threshold](ArtifactStore::THRESHOLD) is stored in the file
/// `artifacts/DIGEST.json` of the run folder, once per content. Smaller data is stored inline in
/// `artifacts/index.jsonl`, which also maps ids to contents. Everything that a stage stored is available when the run
/// resumes after a crash (rule D1). If the crash interrupted the stage and the stage runs again, the changes of the
/// interrupted attempt are undone, so that the new attempt finds the artifacts as the first one did. Without a run
/// folder everything is stored in memory.
///
/// Contents are never overwritten, because an earlier checkpoint may refer to them (rule D4). The file of an artifact
/// that is replaced or removed stays. [`retrieve`](ArtifactStore::retrieve) returns the stored data or an error, never
/// other data. File names are not derived from ids, so no id leads out of the folder and no two ids collide.
///
/// A handler gets the store from [`StageContext::artifacts`](crate::StageContext::artifacts):
///
/// ```
/// use orchestra_engine::{ArtifactError, Outcome, StageContext};
/// fn review(stage: &StageContext, diff: &str) -> Result<Outcome, ArtifactError> {
///     let stored = stage.artifacts()?.store("diff", "The whole diff", diff)?;
///     Ok(Outcome::success().set("diff.bytes", stored.size_bytes))
/// }
///
/// # let directory = tempfile::tempdir()?;
/// # let run_dir = directory.path();
/// # orchestra_engine::ArtifactStore::open(run_dir)?.store("diff", "The whole diff", "+1 -1")?;
/// // Later, from the run folder:
/// let artifacts = orchestra_engine::ArtifactStore::open(run_dir)?;
/// assert_eq!(artifacts.retrieve("diff")?, "+1 -1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ArtifactStore {
    shared: Arc<Shared>,
    /// The key of the attempt on whose behalf this store makes changes.
    by: Option<Arc<str>>,
}

/// The state that all clones of a store share. The parts have locks of their own, so that reads do not wait for writes.
struct Shared {
    /// The folder `artifacts/` of the run folder. `None` if the store is in memory.
    folder: Option<PathBuf>,
    files: Arc<dyn FileSystem>,
    threshold: u64,
    clock: Arc<dyn Clock>,
    redactor: Option<Redactor>,
    live: RwLock<Live>,
    /// The index file. Locked before `live`, and for the duration of a write.
    index: Mutex<Option<Index>>,
    /// The number of changes in the index, for readers that must not wait for a write.
    changes: AtomicU64,
    failure: Mutex<Option<StoreError>>,
    has_failed: AtomicBool,
}

/// The options of an artifact store.
pub(crate) struct ArtifactOptions {
    pub(crate) threshold: u64,
    pub(crate) files: Arc<dyn FileSystem>,
    /// The kind of crash that stored artifacts survive.
    pub(crate) durability: Durability,
    /// Checks before every change that the run still belongs to this process (rule D5).
    pub(crate) guard: Guard,
    pub(crate) clock: Arc<dyn Clock>,
    /// Removes secrets from everything that is stored.
    pub(crate) redactor: Option<Redactor>,
}

impl Default for ArtifactOptions {
    fn default() -> ArtifactOptions {
        ArtifactOptions {
            threshold: ArtifactStore::THRESHOLD,
            files: system(),
            durability: Durability::Full,
            guard: Arc::new(|| Ok(())),
            clock: Arc::new(SystemClock::new()),
            redactor: None,
        }
    }
}

impl ArtifactStore {
    /// The default size in bytes above which the JSON text of an artifact gets a file of its own: 100 KiB. The engine
    /// can [override it](crate::EngineBuilder::artifact_threshold).
    pub const THRESHOLD: u64 = 100 * 1024;

    /// Creates a store that holds everything in memory.
    pub fn in_memory() -> ArtifactStore {
        ArtifactStore::kept_in_memory(ArtifactOptions::default())
    }

    /// Opens the artifacts of a run folder. Writes nothing until the first change.
    ///
    /// # Errors
    /// Fails if the index cannot be read or is damaged.
    pub fn open(run_dir: &Path) -> Result<ArtifactStore, ArtifactError> {
        ArtifactStore::kept_in(run_dir, ArtifactOptions::default())
    }

    pub(crate) fn kept_in_memory(options: ArtifactOptions) -> ArtifactStore {
        ArtifactStore::new(None, options, Live::new(), None)
    }

    pub(crate) fn kept_in(run_dir: &Path, options: ArtifactOptions) -> Result<ArtifactStore, ArtifactError> {
        let folder = folder_of(run_dir);
        let ArtifactOptions {
            files,
            durability,
            guard,
            ..
        } = &options;
        let (index, live) = Index::open(files.clone(), folder.clone(), *durability, guard.clone())?;
        Ok(ArtifactStore::new(Some(folder), options, live, Some(index)))
    }

    fn new(
        folder: Option<PathBuf>,
        options: ArtifactOptions,
        live: Live,
        index: Option<Index>,
    ) -> ArtifactStore {
        ArtifactStore {
            shared: Arc::new(Shared {
                folder,
                files: options.files,
                threshold: options.threshold,
                clock: options.clock,
                redactor: options.redactor,
                live: RwLock::new(live),
                changes: AtomicU64::new(index.as_ref().map_or(0, Index::len)),
                index: Mutex::new(index),
                failure: Mutex::default(),
                has_failed: AtomicBool::new(false),
            }),
            by: None,
        }
    }

    /// Returns the same store, with its changes attributed to an attempt.
    pub(crate) fn on_behalf_of(&self, attempt_key: String) -> ArtifactStore {
        ArtifactStore {
            shared: self.shared.clone(),
            by: Some(attempt_key.into()),
        }
    }

    /// Stores data under an id and replaces what was stored there. After this method returns, the data survives every
    /// crash that the run survives. Data that is already stored under this id and name is not written again.
    ///
    /// # Errors
    /// Fails if the id, the name or the data is invalid, or if the run folder cannot be written. The previous artifact
    /// is then still stored.
    pub fn store(
        &self,
        id: impl Into<String>,
        name: impl Into<String>,
        data: impl Into<Value>,
    ) -> Result<ArtifactInfo, ArtifactError> {
        self.noted(self.put(id.into(), name.into(), data.into()))
    }

    fn put(&self, id: String, mut name: String, data: Value) -> Result<ArtifactInfo, ArtifactError> {
        let id = checked(id)?;
        if name.len() > MAX_NAME {
            return Err(ArtifactError::LongName {
                id,
                length: name.len(),
                limit: MAX_NAME,
            });
        }
        if is_deeper(&data, MAX_DEPTH) {
            return Err(ArtifactError::TooDeep { id, limit: MAX_DEPTH });
        }
        let shared = &*self.shared;
        let mut data = data;
        if let Some(redactor) = &self.shared.redactor {
            redactor.value(&mut data);
            name = redactor.text(&name).into_owned();
        }
        let bytes = serde_json::to_vec(&data).map_err(|source| StoreError::Json {
            path: shared.folder.clone().unwrap_or_default(),
            source,
        })?;
        let digest = digest_of(&bytes);
        let size_bytes = bytes.len() as u64;
        let mut index = shared.index();
        let has_file = index.is_some() && size_bytes > shared.threshold.min(MAX_INLINE);
        if let Some(index) = index.as_mut()
            && has_file
        {
            index.location()?;
            index.write_content(&digest, &bytes)?;
        }
        let present = shared.entry(&id).map(|entry| entry.info);
        let same = |info: &ArtifactInfo| {
            (&info.name, &info.digest, info.is_file_backed) == (&name, &digest, has_file)
        };
        if let Some(info) = present.filter(same) {
            return Ok(info);
        }
        let info = ArtifactInfo {
            id,
            name,
            size_bytes,
            stored_at: shared.clock.now(),
            is_file_backed: has_file,
            digest,
        };
        let location = match &mut *index {
            Some(index) => index.stored(&info, (!has_file).then_some(&*bytes), self.by.as_deref())?,
            None => DataLocation::Memory(bytes.into()),
        };
        let entry = Entry {
            info: info.clone(),
            location,
        };
        shared.change(&index, |live| live.insert(info.id.clone(), entry));
        Ok(info)
    }

    /// Returns the data of an artifact.
    ///
    /// # Errors
    /// Fails if nothing is stored under the id, or if the content in the run folder differs from what was stored.
    pub fn retrieve(&self, id: &str) -> Result<Value, ArtifactError> {
        let shared = &*self.shared;
        let Some(Entry { info, location }) = shared.entry(id) else {
            return Err(self.not_found(id));
        };
        let folder = shared.folder.clone().unwrap_or_default();
        let (path, bytes) = match location {
            DataLocation::Memory(bytes) => (folder, Ok(bytes.to_vec())),
            DataLocation::Index(at) => {
                let path = index::path(&folder);
                let read = index::read_part(&*shared.files, &path, at, info.size_bytes);
                (path, read)
            }
            DataLocation::File => {
                let path = index::content_path(&folder, &info.digest);
                // Read one byte more than expected, to detect a longer file.
                let read = index::read_part(&*shared.files, &path, 0, info.size_bytes.saturating_add(1));
                (path, read)
            }
        };
        let damaged = |found: &str| ArtifactError::Damaged {
            id: id.to_owned(),
            path: path.clone(),
            found: found.to_owned(),
        };
        let bytes = bytes.map_err(|error| match error.kind() {
            ErrorKind::NotFound => damaged("is gone"),
            _ if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) => {
                damaged("is not a plain file")
            }
            _ => StoreError::io("read", &path, error).into(),
        })?;
        if digest_of(&bytes) != info.digest {
            return Err(damaged("does not hold what was stored"));
        }
        serde_json::from_slice(&bytes).map_err(|_| damaged("is not JSON"))
    }

    /// Returns whether something is stored under an id.
    pub fn has(&self, id: &str) -> bool {
        self.shared.read(|live| live.contains_key(id))
    }

    /// Returns the description of an artifact without its data. Returns `None` if nothing is stored under the id.
    pub fn info(&self, id: &str) -> Option<ArtifactInfo> {
        self.shared.entry(id).map(|entry| entry.info)
    }

    /// Returns all stored artifacts, ordered by id.
    pub fn list(&self) -> Vec<ArtifactInfo> {
        let infos = |live: &Live| live.values().map(|entry| entry.info.clone()).collect();
        self.shared.read(infos)
    }

    /// Returns the number of stored artifacts.
    pub fn len(&self) -> usize {
        self.shared.read(Live::len)
    }

    /// Returns `true` if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes an artifact. Returns whether it was stored.
    ///
    /// # Errors
    /// Fails if the run folder cannot be written. The artifact is then still stored.
    pub fn remove(&self, id: &str) -> Result<bool, ArtifactError> {
        let mut index = self.shared.index();
        if !self.has(id) {
            return Ok(false);
        }
        if let Some(index) = &mut *index {
            self.noted(index.removed(id, self.by.as_deref()))?;
        }
        self.shared.change(&index, |live| live.remove(id));
        Ok(true)
    }

    /// Removes all artifacts.
    ///
    /// # Errors
    /// Fails if the run folder cannot be written. The artifacts are then still stored.
    pub fn clear(&self) -> Result<(), ArtifactError> {
        let mut index = self.shared.index();
        if self.is_empty() {
            return Ok(());
        }
        if let Some(index) = &mut *index {
            self.noted(index.cleared(self.by.as_deref()))?;
        }
        self.shared.change(&index, Live::clear);
        Ok(())
    }

    /// Records a failure that concerns the whole run, because the stage that gets the error may hide it.
    fn noted<T>(&self, done: Result<T, ArtifactError>) -> Result<T, ArtifactError> {
        if let Err(ArtifactError::Store(error)) = &done
            && let Some(failure) = error.of_all()
        {
            let mut kept = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get_or_insert(failure);
            self.shared.has_failed.store(true, Ordering::Release);
        }
        done
    }

    /// Returns `true` if the disk has failed or the run now belongs to another process.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Acquire)
    }

    /// Takes the first such failure.
    pub(crate) fn take_failure(&self) -> Option<StoreError> {
        let mut kept = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }

    /// Returns the number of changes in the index. A journal record stores it so that the artifacts can be
    /// [rewound](ArtifactStore::rewind) to it.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Undoes all changes after a position, so that a replay from an earlier checkpoint finds the artifacts as they
    /// were then (rule D4).
    pub(crate) fn rewind(&self, position: u64) -> Result<(), ArtifactError> {
        let mut index = self.shared.index();
        let then = index.as_mut().map(|index| index.rewound(position)).transpose()?;
        if let Some(then) = then {
            self.shared.change(&index, |live| *live = then);
        }
        Ok(())
    }

    /// Undoes the changes of an interrupted attempt, because the attempt runs again (rule D1).
    pub(crate) fn repeated(&self, attempt_key: &str) -> Result<(), ArtifactError> {
        let mut index = self.shared.index();
        let before = index
            .as_mut()
            .map(|index| index.repeated(attempt_key))
            .transpose()?;
        if let Some(before) = before.flatten() {
            self.shared.change(&index, |live| *live = before);
        }
        Ok(())
    }

    /// Ends writing, because the run has ended and its folder may now belong to another process.
    pub(crate) fn close(&self) -> Result<(), ArtifactError> {
        let mut index = self.shared.index();
        Ok(index.as_mut().map_or(Ok(()), Index::close)?)
    }

    fn not_found(&self, id: &str) -> ArtifactError {
        let nearest = |live: &Live| did_you_mean(id, live.keys().map(String::as_str)).map(str::to_owned);
        let near = self.shared.read(nearest);
        ArtifactError::NotFound {
            id: id.to_owned(),
            near,
        }
    }
}

impl fmt::Debug for ArtifactStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactStore")
            .field("folder", &self.shared.folder)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn index(&self) -> MutexGuard<'_, Option<Index>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, look: impl FnOnce(&Live) -> T) -> T {
        look(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        self.read(|live| live.get(id).cloned())
    }

    /// Changes the live entries and updates the number of changes from the index.
    fn change<T>(&self, index: &Option<Index>, change: impl FnOnce(&mut Live) -> T) -> T {
        let changes = index.as_ref().map_or(0, Index::len);
        self.changes.store(changes, Ordering::Release);
        change(&mut self.live.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns whether a run folder has or had artifacts.
pub(crate) fn are_kept_in(run_dir: &Path) -> bool {
    index::path(&folder_of(run_dir)).exists()
}

fn folder_of(run_dir: &Path) -> PathBuf {
    run_dir.join(ARTIFACTS)
}

fn checked(id: String) -> Result<String, ArtifactError> {
    let mut parts = id.split(['/', '\\']);
    let bad = id.is_empty()
        || id.len() > MAX_ID
        || id.trim().len() != id.len()
        || id.chars().any(char::is_control)
        || parts.any(|part| part == "." || part == "..");
    if bad {
        return Err(ArtifactError::BadId {
            id: id.chars().take(MAX_ID).collect(),
            limit: MAX_ID,
        });
    }
    Ok(id)
}

/// Returns whether a value is nested deeper than a limit. Iterative, because a recursive check of a deep value could
/// overflow the stack.
fn is_deeper(value: &Value, limit: usize) -> bool {
    let mut rest = vec![(value, 1)];
    while let Some((value, depth)) = rest.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(list) => rest.extend(list.iter().map(|value| (value, depth + 1))),
            Value::Object(fields) => rest.extend(fields.values().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    false
}

fn digest_of(bytes: &[u8]) -> String {
    let digits = b"0123456789abcdef";
    let mut digest = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        digest.push(char::from(digits[usize::from(byte >> 4)]));
        digest.push(char::from(digits[usize::from(byte & 15)]));
    }
    digest
}
