//! Named data that is too large for the context (Attractor 5.5, rules D1 and D2).

mod error;
mod index;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use orchestra_graph::did_you_mean;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use error::ArtifactError;

use crate::clock::{Clock, SystemClock, Timestamp};
use crate::redact::Redactor;
use crate::store::{ARTIFACTS, Durability, FileSystem, StoreError, system};
use index::{Entry, Index, Live, Place};

const MAX_ID: usize = 200;
const MAX_NAME: usize = 1_000;
/// What is read from JSON may be nested 128 levels, of which the index takes some.
const MAX_DEPTH: usize = 100;
/// What stands in the index at most, whatever the threshold is.
const MAX_INLINE: u64 = 16 << 20;

/// Named data of a run that is too large for its context (Attractor 5.5); cheap to clone, and shared by all stages.
///
/// Data that takes more than the [threshold](ArtifactStore::THRESHOLD) as JSON lies in a file `artifacts/DIGEST.json` of
/// the run folder, once for each content; smaller data lies in `artifacts/index.jsonl`, which also says what is stored
/// under which id. What a stage has stored is there when the run goes on after a crash (rule D1). Where a stage was cut
/// short by the crash and is run again, what it had done to the artifacts is void, so that it finds them as it did
/// before. Without a run folder everything is kept in memory.
///
/// Contents are never overwritten, because an earlier checkpoint may name them (rule D4): an artifact that is stored
/// again or removed leaves its file behind, and [`retrieve`](ArtifactStore::retrieve) gives the data or an error, never
/// other data. Ids are no file names, so no id leads out of the folder and no two ids collide.
///
/// A handler gets it by [`StageContext::artifacts`](crate::StageContext::artifacts):
///
/// ```
/// use orchestra_engine::{ArtifactError, Outcome, StageContext};
/// fn review(stage: &StageContext, diff: &str) -> Result<Outcome, ArtifactError> {
///     let stored = stage.artifacts()?.store("diff", "The whole diff", diff)?;
///     Ok(Outcome::success().set("diff.bytes", stored.size_bytes))
/// }
///
/// # let place = tempfile::tempdir()?;
/// # let run_dir = place.path();
/// # orchestra_engine::ArtifactStore::open(run_dir)?.store("diff", "The whole diff", "+1 -1")?;
/// // Later, from the run folder:
/// let artifacts = orchestra_engine::ArtifactStore::open(run_dir)?;
/// assert_eq!(artifacts.retrieve("diff")?, "+1 -1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ArtifactStore {
    shared: Arc<Shared>,
    /// The attempt that changes something.
    by: Option<Arc<str>>,
}

/// What is stored under an id (Attractor 5.5).
///
/// ```
/// let artifacts = orchestra_engine::ArtifactStore::in_memory();
/// let info = artifacts.store("answer", "The answer", 42)?;
/// assert_eq!((info.name.as_str(), info.size_bytes, info.is_file_backed), ("The answer", 2, false));
/// assert!(info.digest.starts_with("73475cb40a568e8d"));
/// assert_eq!(artifacts.list(), [info]);
/// # Ok::<(), orchestra_engine::ArtifactError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArtifactInfo {
    /// What names it in its run.
    pub id: String,
    /// What a person reads.
    pub name: String,
    /// How long its JSON text is.
    pub size_bytes: u64,
    /// When this content was first stored under this id and name.
    pub stored_at: Timestamp,
    /// Whether it lies in a file of its own.
    pub is_file_backed: bool,
    /// The SHA-256 of its JSON text, in hexadecimal digits.
    pub digest: String,
}

struct Shared {
    /// `artifacts/` of the run folder; `None` where nothing is kept.
    folder: Option<PathBuf>,
    files: Arc<dyn FileSystem>,
    threshold: u64,
    clock: Arc<dyn Clock>,
    redactor: Option<Redactor>,
    live: RwLock<Live>,
    /// Taken before `live`, and held while something is written.
    index: Mutex<Option<Index>>,
    /// How many changes the index holds, for those who must not wait until something is written.
    changes: AtomicU64,
    failure: Mutex<Option<StoreError>>,
    has_failed: AtomicBool,
}

/// How artifacts are kept.
pub(crate) struct Keeping {
    pub(crate) threshold: u64,
    pub(crate) files: Arc<dyn FileSystem>,
    /// What the artifacts survive.
    pub(crate) durability: Durability,
    /// Asked before every change: whether the run still belongs to this process (rule D5).
    pub(crate) guard: Guard,
    pub(crate) clock: Arc<dyn Clock>,
    /// What takes secrets out of what is stored.
    pub(crate) redactor: Option<Redactor>,
}

pub(crate) type Guard = Arc<dyn Fn() -> Result<(), StoreError> + Send + Sync>;

impl Default for Keeping {
    fn default() -> Keeping {
        Keeping {
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
    /// How many bytes of JSON an artifact may have before it gets a file of its own, unless the engine is [told
    /// otherwise](crate::EngineBuilder::artifact_threshold): 100 kB of 1,024 bytes.
    pub const THRESHOLD: u64 = 100 * 1024;

    /// A store that keeps everything in memory.
    pub fn in_memory() -> ArtifactStore {
        ArtifactStore::kept_in_memory(Keeping::default())
    }

    /// The artifacts of a run folder. Nothing is written before something is stored.
    ///
    /// # Errors
    /// The index cannot be read, or is damaged.
    pub fn open(run_dir: &Path) -> Result<ArtifactStore, ArtifactError> {
        ArtifactStore::kept_in(run_dir, Keeping::default())
    }

    pub(crate) fn kept_in_memory(keeping: Keeping) -> ArtifactStore {
        ArtifactStore::new(None, keeping, Live::new(), None)
    }

    pub(crate) fn kept_in(run_dir: &Path, keeping: Keeping) -> Result<ArtifactStore, ArtifactError> {
        let folder = folder_of(run_dir);
        let Keeping {
            files,
            durability,
            guard,
            ..
        } = &keeping;
        let (index, live) = Index::open(files.clone(), folder.clone(), *durability, guard.clone())?;
        Ok(ArtifactStore::new(Some(folder), keeping, live, Some(index)))
    }

    fn new(folder: Option<PathBuf>, keeping: Keeping, live: Live, index: Option<Index>) -> ArtifactStore {
        ArtifactStore {
            shared: Arc::new(Shared {
                folder,
                files: keeping.files,
                threshold: keeping.threshold,
                clock: keeping.clock,
                redactor: keeping.redactor,
                live: RwLock::new(live),
                changes: AtomicU64::new(index.as_ref().map_or(0, Index::len)),
                index: Mutex::new(index),
                failure: Mutex::default(),
                has_failed: AtomicBool::new(false),
            }),
            by: None,
        }
    }

    /// The same store, changed by an attempt.
    pub(crate) fn on_behalf_of(&self, attempt_key: String) -> ArtifactStore {
        ArtifactStore {
            shared: self.shared.clone(),
            by: Some(attempt_key.into()),
        }
    }

    /// Stores data under an id, in place of what was stored there. When this returns, the data survives what the run
    /// survives. Data that is there already under this id and name is not written again.
    ///
    /// # Errors
    /// The id, the name or the data is none that can be kept, or the run folder cannot be written; what was stored
    /// before is still there.
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
        if let Some(index) = index.as_mut().filter(|_| has_file) {
            index.place()?;
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
        let place = match &mut *index {
            Some(index) => index.stored(&info, (!has_file).then_some(&*bytes), self.by.as_deref())?,
            None => Place::Memory(bytes.into()),
        };
        let entry = Entry {
            info: info.clone(),
            place,
        };
        shared.change(&index, |live| live.insert(info.id.clone(), entry));
        Ok(info)
    }

    /// The data of an artifact.
    ///
    /// # Errors
    /// Nothing is stored under the id, or what lies in the run folder is not what was stored.
    pub fn retrieve(&self, id: &str) -> Result<Value, ArtifactError> {
        let shared = &*self.shared;
        let Some(Entry { info, place }) = shared.entry(id) else {
            return Err(self.not_found(id));
        };
        let folder = shared.folder.clone().unwrap_or_default();
        let (path, bytes) = match place {
            Place::Memory(bytes) => (folder, Ok(bytes.to_vec())),
            Place::Index(at) => {
                let path = index::path(&folder);
                let read = index::read_part(&*shared.files, &path, at, info.size_bytes);
                (path, read)
            }
            Place::File => {
                let path = index::content_path(&folder, &info.digest);
                // One byte more than there should be.
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

    /// Whether something is stored under an id.
    pub fn has(&self, id: &str) -> bool {
        self.shared.read(|live| live.contains_key(id))
    }

    /// What is known of an artifact, without its data.
    pub fn info(&self, id: &str) -> Option<ArtifactInfo> {
        self.shared.entry(id).map(|entry| entry.info)
    }

    /// What is stored, in the order of the ids.
    pub fn list(&self) -> Vec<ArtifactInfo> {
        let infos = |live: &Live| live.values().map(|entry| entry.info.clone()).collect();
        self.shared.read(infos)
    }

    /// How many artifacts are stored.
    pub fn len(&self) -> usize {
        self.shared.read(Live::len)
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets an artifact; says whether it was there.
    ///
    /// # Errors
    /// The run folder cannot be written; then it is still there.
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

    /// Forgets all artifacts.
    ///
    /// # Errors
    /// The run folder cannot be written; then they are still there.
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

    /// Keeps in mind what concerns the whole run: the stage that is told of it may make something else of it.
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

    /// Whether the disk failed, or somebody else owns the run.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Acquire)
    }

    /// The first such failure.
    pub(crate) fn take_failure(&self) -> Option<StoreError> {
        let mut kept = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }

    /// How many changes the index holds: what a record of the journal notes, to [go back](ArtifactStore::rewind) to.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Goes back over what was changed later: a replay from an earlier checkpoint finds the artifacts as they were then (rule D4).
    pub(crate) fn rewind(&self, position: u64) -> Result<(), ArtifactError> {
        let mut index = self.shared.index();
        let then = index.as_mut().map(|index| index.rewound(position)).transpose()?;
        if let Some(then) = then {
            self.shared.change(&index, |live| *live = then);
        }
        Ok(())
    }

    /// Makes void what an attempt changed before the run stopped, because it is run again (rule D1).
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

    /// Ends writing, because the run has ended, and its folder may be somebody else's now.
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

    /// Changes what is stored, as the index says now.
    fn change<T>(&self, index: &Option<Index>, change: impl FnOnce(&mut Live) -> T) -> T {
        let changes = index.as_ref().map_or(0, Index::len);
        self.changes.store(changes, Ordering::Release);
        change(&mut self.live.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a run folder has artifacts, or had any.
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

/// Whether a value is nested deeper than a limit; it may be deeper than any stack.
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
