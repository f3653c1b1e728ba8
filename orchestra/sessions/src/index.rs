//! The public handle of the index, and the thread that maintains it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use orchestra_engine::{RunEvent, RunId};

use crate::database::DatabaseError;
use crate::error::SessionError;
use crate::folders::Folders;
use crate::metrics::{self, IndexMetrics};
use crate::query;
use crate::question_row::WarningRow;
use crate::rows::{EdgeCount, NodeTotals, Page, Session, StageRow, ToolCallRow, TransitionRow};
use crate::run_filter::RunFilter;
use crate::run_update::{self, RunUpdate};
use crate::store::{RunSelection, Store};
use crate::totals::{self, RunTotals};

/// Default time that another process may hold the index before an error is returned.
const PATIENCE: Duration = Duration::from_secs(30);

/// The index of the runs in a folder: their status, stages, transitions and usage.
///
/// The index is an SQLite database, `.sessions.sqlite` in the runs folder. It contains no original data: everything is
/// derived from the `manifest.json` and `events.jsonl` of each run by one function. A database that is missing,
/// damaged, or created by another version is therefore rebuilt with equal content, by any process that notices it. Each
/// query reflects the present content of the run folders, even if the processes of the runs have ended or never used an
/// index, unless a [search interval](SessionIndex::set_search_interval) is set. A run folder that cannot be read is not listed.
///
/// All methods block. The engine calls none of them; it only notifies the [`listener`](SessionIndex::listener).
/// Dropping the index applies the outstanding changes.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{RunFilter, SessionIndex, SessionStatus};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// let index = SessionIndex::open(runs_dir)?;
/// let engine = Engine::builder().runs_dir(runs_dir).on_event(index.listener()).build()?;
/// let run = engine.start(pipeline, ()).await?;
/// index.accept(run.run_dir().expect("it has a folder"))?;
/// run.wait().await?;
/// let sessions = index.list(&RunFilter::all())?;
/// assert_eq!((sessions.len(), sessions[0].status), (1, SessionStatus::Success));
/// # Ok(()) }
/// ```
pub struct SessionIndex {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    runs_dir: PathBuf,
    patience: Duration,
}

/// The state shared with the thread. It contains at most one entry for each run, however many events the run has, so
/// neither the memory nor the run depends on the speed of the index.
#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
}

#[derive(Default)]
struct Inbox {
    /// The runs that have changed.
    changed: BTreeSet<RunId>,
    jobs: VecDeque<Job>,
    closed: bool,
}

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// The state of the thread.
struct Worker {
    store: Store,
    /// The runs whose changes could not be applied yet.
    unapplied: BTreeSet<RunId>,
    failure: Option<SessionError>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionIndex {
    /// Opens the index of a runs folder, which is created if it is missing. If the folder is not writable, the index is
    /// kept in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder or the lock file in it cannot be created.
    pub fn open(runs_dir: impl AsRef<Path>) -> Result<SessionIndex, SessionError> {
        SessionIndex::open_patiently(runs_dir, PATIENCE)
    }

    /// Like [`open`](SessionIndex::open), with another limit than 30 s for the time that another process may hold the
    /// index.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder or the lock file in it cannot be created.
    pub fn open_patiently(
        runs_dir: impl AsRef<Path>,
        patience: Duration,
    ) -> Result<SessionIndex, SessionError> {
        let runs_dir = runs_dir.as_ref();
        fs::create_dir_all(runs_dir).map_err(|source| SessionError::io("make", runs_dir, source))?;
        let runs_dir =
            fs::canonicalize(runs_dir).map_err(|source| SessionError::io("find", runs_dir, source))?;
        let worker = Worker {
            store: Store::new(&runs_dir, patience)?,
            unapplied: BTreeSet::new(),
            failure: None,
        };
        let shared = Arc::new(Shared::default());
        let thread_shared = shared.clone();
        let thread = thread::Builder::new()
            .name("orchestra-sessions".to_owned())
            .spawn(move || run_worker(&thread_shared, worker))
            .map_err(|source| SessionError::io("start a thread for", &runs_dir, source))?;
        Ok(SessionIndex {
            shared,
            thread: Some(thread),
            runs_dir,
            patience,
        })
    }

    /// Returns the runs folder.
    pub fn runs_dir(&self) -> &Path {
        &self.runs_dir
    }

    /// Returns a listener for [`EngineBuilder::on_event`](orchestra_engine::EngineBuilder::on_event). It never waits
    /// for the index.
    ///
    /// An event is only a notification: the index reads the events from the folder of the run, to which they were
    /// written before. Events of runs without a folder, and of child runs, which are part of their parents, have no
    /// effect.
    pub fn listener(&self) -> impl Fn(&RunEvent) + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |event: &RunEvent| {
            let mut inbox = shared.lock();
            if inbox.closed || inbox.changed.contains(&event.run) {
                return;
            }
            inbox.changed.insert(event.run.clone());
            drop(inbox);
            shared.wake.notify_one();
        }
    }

    /// Lists a run from now on, before its first event. The path of a folder outside of the runs folder is stored in
    /// `.elsewhere` in the runs folder, so that the index finds it again.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder has no manifest, if its run has the name of another run, or if the index cannot
    /// be written.
    pub fn accept(&self, run_dir: impl AsRef<Path>) -> Result<RunId, SessionError> {
        let folder = run_dir.as_ref().to_owned();
        self.call(move |worker| {
            let run = worker.store.folders.accept(&folder)?;
            worker
                .store
                .catch_up(RunSelection::Only(&BTreeSet::from([run.clone()])))?;
            Ok(run)
        })
    }

    /// Applies the new events of one run, whichever process ran it.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be written.
    pub fn catch_up(&self, run: &RunId) -> Result<(), SessionError> {
        let runs = BTreeSet::from([run.clone()]);
        self.call(move |worker| worker.store.catch_up(RunSelection::Only(&runs)))
    }

    /// Applies everything that changed in the runs folder. Returns the runs whose changes this call found, or another one
    /// that searched the folder since the last call, in the order of their ids.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be written.
    pub fn refresh(&self) -> Result<Vec<RunId>, SessionError> {
        self.call(|worker| {
            worker.store.catch_up(RunSelection::All)?;
            Ok(worker.store.take_changed().into_iter().collect())
        })
    }

    /// Limits how often all runs are searched for changes, for a program that lists many runs again and again. In between,
    /// runs in progress, and runs that are created or removed, are still as they are at the time of a call. A run that
    /// has ended, and that another process resumes, is seen after the interval, or after 20 times the duration of a
    /// search, whichever is longer.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread of the index has ended.
    pub fn set_search_interval(&self, interval: Duration) -> Result<(), SessionError> {
        self.call(move |worker| {
            worker.store.search_interval = Some(interval);
            Ok(())
        })
    }

    /// Stops listing a run whose folder is outside of the runs folder. A run in the runs folder is listed until its
    /// folder is removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be written.
    pub fn forget(&self, run: &RunId) -> Result<(), SessionError> {
        let run = run.clone();
        self.call(move |worker| {
            worker.store.folders.forget(&run)?;
            worker.store.catch_up(RunSelection::Only(&BTreeSet::from([run])))
        })
    }

    /// Waits until all changes of which a listener was notified are in the index.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be written now, or could not be written when a notification arrived.
    pub fn flush(&self) -> Result<(), SessionError> {
        self.call(|worker| {
            worker.catch_up(BTreeSet::new());
            match worker.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(()),
            }
        })
    }

    /// Rebuilds the index from the run folders.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be replaced or written.
    pub fn rebuild(&self) -> Result<(), SessionError> {
        self.call(|worker| {
            worker.store.database.discard()?;
            worker.store.catch_up(RunSelection::All)
        })
    }

    /// Returns the runs that match a filter, the latest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<Session>, SessionError> {
        let filter = filter.clone();
        self.call(move |worker| {
            worker.store.read(RunSelection::All, |connection, folders| {
                query::list(connection, folders, &filter)
            })
        })
    }

    /// Returns a run by its id or by a unique prefix of its id.
    ///
    /// # Errors
    ///
    /// Returns an error if no run or several runs match, or if the index cannot be read.
    pub fn run(&self, run: &str) -> Result<Session, SessionError> {
        self.of_run(run, query::session)
    }

    /// Returns the stage attempts of a run in the order in which they began.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn stages(&self, run: &str) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, |connection, _, run| {
            query::stages(connection, run, Page::ALL)
        })
    }

    /// Returns a page of the stage attempts of a run, in the order in which they began.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn stages_in(&self, run: &str, page: Page) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::stages(connection, run, page)
        })
    }

    /// Returns the stage attempts that began or changed after the event with this sequence number, in the order in which
    /// they began. A caller that shows a run asks with the highest [`changed`](StageRow::changed) that it has seen.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn changed_stages(&self, run: &str, since: u64) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::changed_stages(connection, run, since, usize::MAX)
        })
    }

    /// Returns how often the edges of a run were tested and taken, sorted by their nodes. An edge that was neither has
    /// no row.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn edge_counts(&self, run: &str) -> Result<Vec<EdgeCount>, SessionError> {
        self.of_run(run, |connection, _, run| query::edge_counts(connection, run))
    }

    /// Returns the totals of all runs of each list of pipeline files. A list has several files if a pipeline had several
    /// names.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub fn totals(&self, lists: &[Vec<String>]) -> Result<Vec<RunTotals>, SessionError> {
        let lists = lists.to_vec();
        self.call(move |worker| {
            worker.store.read(RunSelection::All, |connection, folders| {
                let totals = lists.iter().map(|files| totals::read(connection, folders, files));
                totals.collect()
            })
        })
    }

    /// Returns numbers for monitoring, over all runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub fn metrics(&self) -> Result<IndexMetrics, SessionError> {
        self.call(|worker| {
            worker
                .store
                .read(RunSelection::All, |connection, _| metrics::read(connection))
        })
    }

    /// Returns the number of runs of each file, by the name of the file as runs store it.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub fn runs_of_files(&self) -> Result<HashMap<String, u64>, SessionError> {
        self.call(|worker| {
            worker.store.read(RunSelection::All, |connection, _| {
                query::runs_of_files(connection)
            })
        })
    }

    /// Returns the latest failed stage attempts, at most `most`, in the order in which they began.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn failed_stages(&self, run: &str, most: usize) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::failed_stages(connection, run, most)
        })
    }

    /// Returns the stage attempts that are in progress, and those that were interrupted and have to be repeated.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn open_stages(&self, run: &str) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, |connection, _, run| query::open_stages(connection, run))
    }

    /// Returns the transitions of a run in order, each with the rule that decided and the values that it saw (rule R8).
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn transitions(&self, run: &str) -> Result<Vec<TransitionRow>, SessionError> {
        self.of_run(run, |connection, _, run| {
            query::transitions(connection, run, Page::ALL)
        })
    }

    /// Returns a page of the transitions of a run, in order.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn transitions_in(&self, run: &str, page: Page) -> Result<Vec<TransitionRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::transitions(connection, run, page)
        })
    }

    /// Returns the tool calls of a run in the order in which they ended.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn tool_calls(&self, run: &str) -> Result<Vec<ToolCallRow>, SessionError> {
        self.of_run(run, |connection, _, run| {
            query::tool_calls(connection, run, Page::ALL)
        })
    }

    /// Returns a page of the tool calls of a run, in the order in which they ended.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn tool_calls_in(&self, run: &str, page: Page) -> Result<Vec<ToolCallRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::tool_calls(connection, run, page)
        })
    }

    /// Returns the totals of each node of a run, in the order in which the nodes were first visited.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn node_totals(&self, run: &str) -> Result<Vec<NodeTotals>, SessionError> {
        self.of_run(run, |connection, folders, run| {
            let status = query::session(connection, folders, run)?.status;
            query::node_totals(connection, run, status)
        })
    }

    /// Returns a page of the warnings of a run, in order.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn warnings_in(&self, run: &str, page: Page) -> Result<Vec<WarningRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::warnings(connection, run, page)
        })
    }

    /// Returns what changed in a run after the event with this sequence number; everything if it is 0. An update has
    /// about `most` rows of each kind; the caller asks again for [more](RunUpdate::more).
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn update(&self, run: &str, since: u64, most: usize) -> Result<RunUpdate, SessionError> {
        self.of_run(run, move |connection, folders, run| {
            run_update::read(connection, folders, run, since, most)
        })
    }

    /// Returns the runs with questions that wait for an answer, without a search for changes in the runs folder. A
    /// caller that has not been notified of all changes calls [`refresh`](SessionIndex::refresh) first.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub fn asking(&self) -> Result<Vec<Session>, SessionError> {
        self.call(|worker| {
            worker
                .store
                .read(RunSelection::Only(&BTreeSet::new()), query::asking)
        })
    }

    pub(crate) fn of_run<T: Send + 'static>(
        &self,
        run: &str,
        read: impl Fn(&rusqlite::Connection, &Folders, &RunId) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let name = run.to_owned();
        self.call(move |worker| {
            let store = &mut worker.store;
            // An exact id does not need the other runs to be up to date.
            let exact = RunId::new(&*name)
                .ok()
                .filter(|run| store.folders.find(run).is_some());
            let exact = exact.map(|run| BTreeSet::from([run]));
            store.read(
                exact.as_ref().map_or(RunSelection::All, RunSelection::Only),
                |connection, folders| read(connection, folders, &query::resolve(connection, &name)?),
            )
        })
    }

    /// Runs a job on the thread and waits for its result.
    fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (sender, receiver) = mpsc::channel();
        let job = Box::new(move |worker: &mut Worker| {
            // The caller may be gone.
            let _ = sender.send(job(worker));
        });
        let mut inbox = self.shared.lock();
        if inbox.closed {
            return Err(SessionError::Stopped);
        }
        inbox.jobs.push_back(job);
        drop(inbox);
        self.shared.wake.notify_one();
        receiver.recv().unwrap_or(Err(SessionError::Stopped))
    }
}

impl Drop for SessionIndex {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SessionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionIndex")
            .field("runs_dir", &self.runs_dir)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Closes the inbox when the thread ends for any reason, so that nobody waits for it.
struct Closing<'s>(&'s Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.lock();
        inbox.closed = true;
        inbox.jobs.clear();
    }
}

/// The main function of the thread. Applies all changes that arrived while it was busy together.
fn run_worker(shared: &Shared, mut worker: Worker) {
    let _closing = Closing(shared);
    loop {
        let mut inbox = shared.lock();
        while inbox.changed.is_empty() && inbox.jobs.is_empty() && !inbox.closed {
            inbox = shared.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        let changed = mem::take(&mut inbox.changed);
        let job = inbox.jobs.pop_front();
        let over = inbox.closed && job.is_none();
        drop(inbox);
        if !changed.is_empty() || (over && !worker.unapplied.is_empty()) {
            worker.catch_up(changed);
        }
        match job {
            Some(job) => job(&mut worker),
            None if over => return,
            None => {}
        }
    }
}

impl Worker {
    /// Applies the changes of some runs, and those that could not be applied before. The next flush returns a failure.
    fn catch_up(&mut self, changed: BTreeSet<RunId>) {
        self.unapplied.extend(changed);
        if self.unapplied.is_empty() {
            return;
        }
        match self.store.catch_up(RunSelection::Only(&self.unapplied)) {
            Ok(()) => self.unapplied.clear(),
            Err(failure) => self.failure = Some(failure),
        }
    }
}
