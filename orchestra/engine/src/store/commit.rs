//! Group commit: the runs of one process share their syncs (rule D1).
//!
//! A run that is alone syncs its own journal, because that is fastest. If there are several runs, each passes its lines
//! to one thread, which writes all lines that have arrived to one log and syncs it once. If many runs are at work, the
//! thread waits for further lines as long as they arrive, less than a millisecond at most.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::commit_log::{self, Log, Whose};
use super::files::FileSystem;
use super::journal::Journal;
use super::{StoreError, Synced};

/// The number of journals of a retired log that are synced after each commit.
const SYNCED_AT_ONCE: usize = 8;
/// The number of requests in a commit from which the next commit waits for more of them.
const MANY: usize = 8;
/// How long to wait for further requests at a time. The system rounds it up to some 60 microseconds.
const GATHERING: Duration = Duration::from_micros(20);
/// The sum of such waits before one commit at most.
const LONGEST_GATHERING: Duration = Duration::from_micros(400);
/// The size in bytes per run that a log may reach before it is retired.
const SHARE: u64 = 64 << 10;

/// The runs that use the same file system and therefore share one thread.
struct Group {
    files: Arc<dyn FileSystem>,
    /// The number of runs whose records must survive a loss of power.
    members: AtomicUsize,
    inner: Mutex<Queue>,
    wake: Condvar,
    /// The logs of files that exist only in this process. They need no thread.
    here: Mutex<Logs>,
}

#[derive(Default)]
struct Queue {
    requests: Vec<Request>,
    /// `true` if the thread is running.
    served: bool,
}

struct Request {
    run: Arc<Run>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// A run that shares its syncs.
struct Run {
    /// The number of the run in this process, in the order of joining.
    number: u64,
    journal: Mutex<Option<Arc<Journal>>>,
    /// The folder of runs that contains it. `None` if it is stored elsewhere.
    among: Option<PathBuf>,
    /// The identity of the run in that folder.
    whose: OnceLock<Whose>,
}

impl Run {
    fn journal(&self) -> Option<Arc<Journal>> {
        lock(&self.journal).clone()
    }
}

/// The membership of a run in a group. Dropping it leaves the group.
pub(super) struct Member {
    group: Arc<Group>,
    run: Arc<Run>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    /// Adds a run. `among_runs` says whether its folder is in a folder of runs.
    pub(super) fn join(
        files: &Arc<dyn FileSystem>,
        journal: Arc<Journal>,
        folder: &Path,
        among_runs: bool,
    ) -> Member {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        // The recovery needs the name to find the run folder.
        let named = folder.file_name().is_some_and(|name| name.to_str().is_some());
        let among = if among_runs && named {
            folder.parent()
        } else {
            None
        };
        let group = Group::shared(files);
        group.members.fetch_add(1, Ordering::SeqCst);
        Member {
            group,
            run: Arc::new(Run {
                number: NUMBER.fetch_add(1, Ordering::Relaxed),
                journal: Mutex::new(Some(journal)),
                among: among.map(Path::to_owned),
                whose: OnceLock::new(),
            }),
        }
    }

    /// Sets the identity of the run. Without it the run syncs by itself.
    pub(super) fn identify(&self, whose: Whose) {
        let _ = self.run.whose.set(whose);
    }

    /// Makes all written records durable.
    pub(super) fn sync(&self) -> Result<Synced, StoreError> {
        let Some(journal) = self.run.journal() else {
            return Ok(Synced::Done);
        };
        let alone = self.group.members.load(Ordering::SeqCst) <= 1;
        if alone || !journal.is_unsynced() || self.run.whose.get().is_none() {
            return journal.sync().map(|()| Synced::Done);
        }
        let (reply, done) = oneshot::channel();
        let request = Request {
            run: self.run.clone(),
            reply,
        };
        if !self.group.ask(request) {
            return journal.sync().map(|()| Synced::Done);
        }
        Ok(Synced::Later(Box::pin(async move {
            match done.await {
                Ok(done) => done,
                // The thread has ended, and its last action is unknown.
                Err(_) => journal.sync_file(),
            }
        })))
    }

    /// Records that the journal itself is durable, so its lines need not be stored elsewhere.
    pub(super) fn closed(&self) {
        *lock(&self.run.journal) = None;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let left = self.group.members.fetch_sub(1, Ordering::SeqCst) - 1;
        if left == 0 && self.group.files.in_process() {
            std::mem::take(&mut *lock(&self.group.here)).finish(&*self.group.files);
        }
        // Wake the thread, so that it ends after the last member has left.
        drop(lock(&self.group.inner));
        self.group.wake.notify_all();
    }
}

impl Group {
    /// Returns the group of a file system.
    fn shared(files: &Arc<dyn FileSystem>) -> Arc<Group> {
        static GROUPS: Mutex<Vec<Weak<Group>>> = Mutex::new(Vec::new());
        let mut groups = lock(&GROUPS);
        groups.retain(|group| group.strong_count() > 0);
        let known = groups.iter().filter_map(Weak::upgrade);
        if let Some(group) = known.into_iter().find(|group| Arc::ptr_eq(&group.files, files)) {
            return group;
        }
        let group = Arc::new(Group {
            files: files.clone(),
            members: AtomicUsize::new(0),
            inner: Mutex::default(),
            wake: Condvar::new(),
            here: Mutex::default(),
        });
        groups.push(Arc::downgrade(&group));
        group
    }

    /// Passes a request to the thread. Returns `false` if there is no thread.
    fn ask(self: &Arc<Group>, request: Request) -> bool {
        if self.files.in_process() {
            let mut logs = lock(&self.here);
            logs.commit(&*self.files, vec![request]);
            logs.sync_old(&*self.files);
            return true;
        }
        let mut queue = lock(&self.inner);
        if !queue.served {
            let group = self.clone();
            let thread = std::thread::Builder::new().name("orchestra-commit".to_owned());
            if thread.spawn(move || group.serve()).is_err() {
                return false;
            }
            queue.served = true;
        }
        queue.requests.push(request);
        drop(queue);
        self.wake.notify_one();
        true
    }

    /// Waits until no more requests arrive, some milliseconds at most, so that more runs share the next sync. As long as
    /// requests arrive, other runs are at work.
    fn gather(&self) {
        let mut waited = Duration::ZERO;
        let mut before = 0;
        while waited < LONGEST_GATHERING {
            let waiting = lock(&self.inner).requests.len();
            if waiting == before {
                return;
            }
            before = waiting;
            std::thread::sleep(GATHERING);
            waited += GATHERING;
        }
    }

    /// Serves requests until the last member has left.
    fn serve(&self) {
        let mut logs = Logs::default();
        loop {
            let mut queue = lock(&self.inner);
            while queue.requests.is_empty() {
                if self.members.load(Ordering::SeqCst) == 0 {
                    queue.served = false;
                    drop(queue);
                    logs.finish(&*self.files);
                    return;
                }
                if logs.has_old() {
                    drop(queue);
                    logs.sync_old(&*self.files);
                    queue = lock(&self.inner);
                    continue;
                }
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if logs.many {
                drop(queue);
                self.gather();
                queue = lock(&self.inner);
            }
            let requests = std::mem::take(&mut queue.requests);
            drop(queue);
            logs.many = requests.len() >= MANY;
            logs.commit(&*self.files, requests);
            logs.sync_old(&*self.files);
        }
    }
}

/// The logs of the thread.
#[derive(Default)]
struct Logs {
    present: BTreeMap<PathBuf, Shared>,
    old: VecDeque<Shared>,
    /// `true` if the last commit had many requests.
    many: bool,
}

/// A log, and the runs whose journals may lack some of its lines.
struct Shared {
    log: Log,
    runs: BTreeMap<u64, Arc<Run>>,
}

impl Shared {
    /// Returns whether the log must be retired. Each of its journals must be synced once before that, so the limit
    /// grows with their number.
    fn is_full(&self) -> bool {
        self.log.length >= commit_log::SIZE.max(self.runs.len() as u64 * SHARE)
    }
}

/// Lines that are about to be written to a log.
#[derive(Default)]
struct Batch {
    entries: Vec<u8>,
    requests: Vec<(Request, Arc<Journal>, u64)>,
}

impl Logs {
    fn has_old(&self) -> bool {
        !self.old.is_empty()
    }

    fn commit(&mut self, files: &dyn FileSystem, requests: Vec<Request>) {
        let mut batches: BTreeMap<PathBuf, Batch> = BTreeMap::new();
        for request in requests {
            let Some(journal) = request.run.journal() else {
                reply(request, Ok(()));
                continue;
            };
            let (Some(runs), Some(whose)) = (&request.run.among, request.run.whose.get()) else {
                reply(request, journal.sync_file());
                continue;
            };
            match journal.take_unsynced() {
                Ok(Some(lines)) => {
                    let batch = match batches.get_mut(runs) {
                        Some(batch) => batch,
                        None => batches.entry(runs.clone()).or_default(),
                    };
                    commit_log::write(&mut batch.entries, whose, lines.offset, &lines.bytes);
                    let end = lines.offset + lines.bytes.len() as u64;
                    journal.give_back(lines.bytes);
                    batch.requests.push((request, journal, end));
                }
                // Another request was faster.
                Ok(None) => reply(request, journal.sync_file()),
                Err(error) => reply(request, Err(error)),
            }
        }
        for (runs, batch) in batches {
            self.commit_to(files, runs, batch);
        }
    }

    fn commit_to(&mut self, files: &dyn FileSystem, runs: PathBuf, batch: Batch) {
        let Batch { entries, requests } = batch;
        let shared = match self.present.entry(runs.clone()) {
            std::collections::btree_map::Entry::Occupied(present) => Some(present.into_mut()),
            std::collections::btree_map::Entry::Vacant(stage_folder) => {
                Log::create(files, &runs).ok().map(|log| {
                    stage_folder.insert(Shared {
                        log,
                        runs: BTreeMap::new(),
                    })
                })
            }
        };
        let written = shared.is_some_and(|shared| {
            let written = shared.log.append(files, &entries).is_ok();
            for (request, ..) in &requests {
                shared.runs.insert(request.run.number, request.run.clone());
            }
            written
        });
        for (request, journal, end) in requests {
            let done = if written {
                journal.is_durable_to(end);
                Ok(())
            } else {
                // Let each run sync its own journal. That is slower, but has no other effect.
                journal.sync_file()
            };
            reply(request, done);
        }
        if !written || self.present.get(&runs).is_some_and(Shared::is_full) {
            // Finish the older logs first, so that there is at most one retired log per folder.
            while self.has_old() {
                self.sync_old(files);
            }
            self.old.extend(self.present.remove(&runs));
        }
    }

    /// Syncs some journals of the oldest retired log. Removes the log when all of them are synced.
    fn sync_old(&mut self, files: &dyn FileSystem) {
        let Some(oldest) = self.old.front_mut() else {
            return;
        };
        let some: Vec<_> = oldest.runs.keys().copied().take(SYNCED_AT_ONCE).collect();
        for run in some {
            let journal = oldest.runs.remove(&run).and_then(|run| run.journal());
            if journal.is_some_and(|journal| journal.sync_file().is_err()) {
                // The run notices the error and stops. Its lines stay in the log, from which the next owner recovers
                // them.
                self.old.pop_front();
                return;
            }
        }
        if oldest.runs.is_empty()
            && let Some(Shared { log, .. }) = self.old.pop_front()
        {
            let _ = log.remove(files);
        }
    }

    /// Retires and finishes all logs.
    fn finish(mut self, files: &dyn FileSystem) {
        self.old.extend(std::mem::take(&mut self.present).into_values());
        while self.has_old() {
            self.sync_old(files);
        }
    }
}

/// Answers a request. The receiver may be gone.
fn reply(request: Request, done: Result<(), StoreError>) {
    let _ = request.reply.send(done);
}
