//! The index as a program has it: a handle to the thread that keeps it.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use orchestra_engine::{RunEvent, RunId};

use crate::database::Fault;
use crate::error::SessionError;
use crate::folders::Folders;
use crate::query;
use crate::rows::{NodeTotals, Page, RunFilter, Session, StageRow, ToolCallRow, TransitionRow};
use crate::store::{Store, Which};

/// How long another process may hold the index before that is an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// The index of the runs in a folder: which there are, how they stand, which way they went and what they used.
///
/// It is an SQLite database, `.sessions.sqlite` in the runs folder, and holds nothing of its own: all of it is made from
/// `manifest.json` and `events.jsonl` of each run, by one function. So a database that is missing, damaged, or made by
/// another version is made anew, whenever and by however many processes that is noticed, with equal content. What is asked
/// is answered from what the run folders hold at that time, also where their processes are gone or never knew of an index.
/// A run folder that cannot be read is not listed.
///
/// All calls block; none is made by the engine, which only tells [`listener`](SessionIndex::listener) that there is news.
/// Dropping the index takes in what is outstanding.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{RunFilter, SessionIndex, SessionStatus};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let runs_dir = place.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// let index = SessionIndex::open(runs_dir)?;
/// let engine = Engine::builder().runs_dir(runs_dir).on_event(index.listener()).build()?;
/// let run = engine.start_loaded(pipeline, ()).await?;
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

/// What the thread is told. There is a word for each run at most, however many events it has, so that neither memory nor
/// the run depends on how fast the index is.
#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

#[derive(Default)]
struct Inbox {
    /// Runs in which something happened.
    changed: BTreeSet<RunId>,
    jobs: VecDeque<Job>,
    closed: bool,
}

type Job = Box<dyn FnOnce(&mut Keeper) + Send>;

/// What the thread works with.
struct Keeper {
    store: Store,
    /// Runs whose news could not be taken in, and why.
    late: BTreeSet<RunId>,
    failure: Option<SessionError>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionIndex {
    /// Opens the index of a runs folder, which is made where it is missing. Where nothing can be written there, the index
    /// is made in memory.
    ///
    /// # Errors
    /// The folder cannot be made, or the lock file in it.
    pub fn open(runs_dir: impl AsRef<Path>) -> Result<SessionIndex, SessionError> {
        SessionIndex::open_patiently(runs_dir, PATIENCE)
    }

    /// As [`open`](SessionIndex::open), with a bound of one's own, instead of 30 s, for how long another process may hold
    /// the index.
    ///
    /// # Errors
    /// The folder cannot be made, or the lock file in it.
    pub fn open_patiently(
        runs_dir: impl AsRef<Path>,
        patience: Duration,
    ) -> Result<SessionIndex, SessionError> {
        let runs_dir = runs_dir.as_ref();
        fs::create_dir_all(runs_dir).map_err(|source| SessionError::io("make", runs_dir, source))?;
        let runs_dir =
            fs::canonicalize(runs_dir).map_err(|source| SessionError::io("find", runs_dir, source))?;
        let keeper = Keeper {
            store: Store::new(&runs_dir, patience)?,
            late: BTreeSet::new(),
            failure: None,
        };
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = thread::Builder::new()
            .name("orchestra-sessions".to_owned())
            .spawn(move || keep(&of_thread, keeper))
            .map_err(|source| SessionError::io("start a thread for", &runs_dir, source))?;
        Ok(SessionIndex {
            shared,
            thread: Some(thread),
            runs_dir,
            patience,
        })
    }

    /// The runs folder.
    pub fn runs_dir(&self) -> &Path {
        &self.runs_dir
    }

    /// A listener for [`EngineBuilder::on_event`](orchestra_engine::EngineBuilder::on_event). It never waits for the index.
    ///
    /// What it hears is a hint only: the index reads the events from the run's folder, in which they stand already. So
    /// events of runs without a folder, and of runs that stages have started, which are part of their parents, pass by.
    pub fn listener(&self) -> impl Fn(&RunEvent) + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |event: &RunEvent| {
            let mut inbox = shared.lock();
            if inbox.closed || inbox.changed.contains(&event.run) {
                return;
            }
            inbox.changed.insert(event.run.clone());
            drop(inbox);
            shared.news.notify_one();
        }
    }

    /// Lists a run from now on, before its first event. A folder outside of the runs folder is remembered in the runs
    /// folder, in `.elsewhere`, so that the index finds it again.
    ///
    /// # Errors
    /// The folder has no manifest, its run bears the name of another, or the index cannot be written.
    pub fn accept(&self, run_dir: impl AsRef<Path>) -> Result<RunId, SessionError> {
        let folder = run_dir.as_ref().to_owned();
        self.call(move |keeper| {
            let run = keeper.store.folders.accept(&folder)?;
            keeper
                .store
                .catch_up(Which::These(&BTreeSet::from([run.clone()])))?;
            Ok(run)
        })
    }

    /// Takes in what one run has done, whoever ran it.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn catch_up(&self, run: &RunId) -> Result<(), SessionError> {
        let runs = BTreeSet::from([run.clone()]);
        self.call(move |keeper| keeper.store.catch_up(Which::These(&runs)))
    }

    /// Lists a run no more whose folder lies outside of the runs folder. One in the runs folder goes with its folder.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn forget(&self, run: &RunId) -> Result<(), SessionError> {
        let run = run.clone();
        self.call(move |keeper| {
            keeper.store.folders.forget(&run)?;
            keeper.store.catch_up(Which::These(&BTreeSet::from([run])))
        })
    }

    /// Waits until everything is in the index of which a listener has heard.
    ///
    /// # Errors
    /// The index cannot be written, now or when the news came.
    pub fn flush(&self) -> Result<(), SessionError> {
        self.call(|keeper| {
            keeper.catch_up(BTreeSet::new());
            match keeper.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(()),
            }
        })
    }

    /// Makes the index anew from the run folders.
    ///
    /// # Errors
    /// The database cannot be replaced or written.
    pub fn rebuild(&self) -> Result<(), SessionError> {
        self.call(|keeper| {
            keeper.store.database.discard()?;
            keeper.store.catch_up(Which::All)
        })
    }

    /// The runs that are wanted, the latest first.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<Session>, SessionError> {
        let filter = filter.clone();
        self.call(move |keeper| {
            keeper.store.read(Which::All, |connection, folders| {
                query::list(connection, folders, &filter)
            })
        })
    }

    /// A run by its name, or by the beginning of it if no other begins so.
    ///
    /// # Errors
    /// No run or several are meant, or the index cannot be read.
    pub fn run(&self, run: &str) -> Result<Session, SessionError> {
        self.of_run(run, query::session)
    }

    /// The attempts at stages of a run, in the order in which they began.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn stages(&self, run: &str) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, |connection, _, run| {
            query::stages(connection, run, Page::ALL)
        })
    }

    /// A part of the attempts at stages of a run, in the order in which they began.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn stages_in(&self, run: &str, page: Page) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::stages(connection, run, page)
        })
    }

    /// The latest attempts at stages that failed, at most so many, in the order in which they began.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn failed_stages(&self, run: &str, most: usize) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::failed_stages(connection, run, most)
        })
    }

    /// The attempts at stages that are under way, and those that were cut short and are to be made again.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn open_stages(&self, run: &str) -> Result<Vec<StageRow>, SessionError> {
        self.of_run(run, |connection, _, run| query::open_stages(connection, run))
    }

    /// The decisions of a run in their order, with the rule and the values that each saw (rule R8).
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn transitions(&self, run: &str) -> Result<Vec<TransitionRow>, SessionError> {
        self.of_run(run, |connection, _, run| {
            query::transitions(connection, run, Page::ALL)
        })
    }

    /// A part of the decisions of a run, in their order.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn transitions_in(&self, run: &str, page: Page) -> Result<Vec<TransitionRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::transitions(connection, run, page)
        })
    }

    /// The tools that the stages of a run called, in the order in which they ended.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn tool_calls(&self, run: &str) -> Result<Vec<ToolCallRow>, SessionError> {
        self.of_run(run, |connection, _, run| {
            query::tool_calls(connection, run, Page::ALL)
        })
    }

    /// A part of the tools that the stages of a run called, in the order in which they ended.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn tool_calls_in(&self, run: &str, page: Page) -> Result<Vec<ToolCallRow>, SessionError> {
        self.of_run(run, move |connection, _, run| {
            query::tool_calls(connection, run, page)
        })
    }

    /// What each node of a run did, in the order in which the nodes were first come to.
    ///
    /// # Errors
    /// As for [`run`](SessionIndex::run).
    pub fn node_totals(&self, run: &str) -> Result<Vec<NodeTotals>, SessionError> {
        self.of_run(run, |connection, _, run| query::node_totals(connection, run))
    }

    fn of_run<T: Send + 'static>(
        &self,
        run: &str,
        read: impl Fn(&rusqlite::Connection, &Folders, &RunId) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, SessionError> {
        let name = run.to_owned();
        self.call(move |keeper| {
            let store = &mut keeper.store;
            // The whole name needs no look at the other runs.
            let exact = RunId::new(&*name)
                .ok()
                .filter(|run| store.folders.find(run).is_some());
            let exact = exact.map(|run| BTreeSet::from([run]));
            store.read(
                exact.as_ref().map_or(Which::All, Which::These),
                |connection, folders| read(connection, folders, &query::resolve(connection, &name)?),
            )
        })
    }

    /// Lets the thread do something, and waits for it.
    fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Keeper) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (sender, receiver) = mpsc::channel();
        let job = Box::new(move |keeper: &mut Keeper| {
            // Who asked may be gone.
            let _ = sender.send(job(keeper));
        });
        let mut inbox = self.shared.lock();
        if inbox.closed {
            return Err(SessionError::Stopped);
        }
        inbox.jobs.push_back(job);
        drop(inbox);
        self.shared.news.notify_one();
        receiver.recv().unwrap_or(Err(SessionError::Stopped))
    }
}

impl Drop for SessionIndex {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has no more to say.
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

/// When the thread ends, however it does, nobody waits for it any more.
struct Closing<'s>(&'s Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.lock();
        inbox.closed = true;
        inbox.jobs.clear();
    }
}

/// The thread: whatever has changed while it was busy is taken in at once.
fn keep(shared: &Shared, mut keeper: Keeper) {
    let _closing = Closing(shared);
    loop {
        let mut inbox = shared.lock();
        while inbox.changed.is_empty() && inbox.jobs.is_empty() && !inbox.closed {
            inbox = shared.news.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        let changed = mem::take(&mut inbox.changed);
        let job = inbox.jobs.pop_front();
        let over = inbox.closed && job.is_none();
        drop(inbox);
        if !changed.is_empty() || (over && !keeper.late.is_empty()) {
            keeper.catch_up(changed);
        }
        match job {
            Some(job) => job(&mut keeper),
            None if over => return,
            None => {}
        }
    }
}

impl Keeper {
    /// Takes in the news of some runs, and of those that are late. What fails is told by the next flush.
    fn catch_up(&mut self, changed: BTreeSet<RunId>) {
        self.late.extend(changed);
        if self.late.is_empty() {
            return;
        }
        match self.store.catch_up(Which::These(&self.late)) {
            Ok(()) => self.late.clear(),
            Err(failure) => self.failure = Some(failure),
        }
    }
}
