//! The state that all requests share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use orchestra_engine::{
    Begin, Canceller, Engine, Entry, InterviewError, Interviewer, Question, RunFolder, RunId, Script,
    StageText,
};
use orchestra_sessions::{Session, SessionIndex};
use tokio::sync::{Semaphore, broadcast, watch};

use crate::access::Access;
use crate::counters::Counters;
use crate::error::ApiError;
use crate::live::changes::Changes;
use crate::live::feeds::Feeds;
use crate::live::watchers::Watchers;
use crate::options::Submit;
use crate::project::{Project, ProjectError};
use crate::stations::Stations;
use crate::webhook::Webhook;

/// Number of pieces of model text that a slow page may lag behind.
const TEXTS: usize = 512;

/// Number of checks and layouts at once.
const DRAWINGS: usize = 2;

/// How long a request waits for a run that is ending.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// What all requests share.
pub(crate) struct App {
    pub(crate) access: Access,
    pub(crate) project: Arc<dyn Project>,
    pub(crate) index: Arc<SessionIndex>,
    pub(crate) stations: Stations,
    pub(crate) submit: Submit,
    pub(crate) max_runs: usize,
    /// The webhooks by their names.
    pub(crate) webhooks: BTreeMap<String, Webhook>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) feeds: Feeds,
    pub(crate) counters: Counters,
    pub(crate) watchers: Watchers,
    pub(crate) texts: broadcast::Sender<Arc<StageText>>,
    pub(crate) drawings: Semaphore,
    /// The checks of texts that clients send, which do not keep anything else from being drawn.
    pub(crate) checks: Semaphore,
    /// Held while a run with a key starts, so that a second request with the key finds it.
    pub(crate) keyed_start: tokio::sync::Mutex<()>,
    /// One place for each run that the server executes at once.
    places: Arc<Semaphore>,
    own: Mutex<BTreeMap<String, Canceller>>,
    /// The number of runs that this server executes.
    running: watch::Sender<usize>,
    stopping: AtomicBool,
    /// Becomes `true` when the server stops.
    pub(crate) stop: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(
        access: Access,
        project: Arc<dyn Project>,
        index: SessionIndex,
        submit: Submit,
        max_runs: usize,
        webhooks: BTreeMap<String, Webhook>,
    ) -> App {
        let changes = Arc::new(Changes::default());
        App {
            access,
            stations: Stations::new(project.stations()),
            project,
            index: Arc::new(index),
            submit,
            max_runs,
            webhooks,
            places: Arc::new(Semaphore::new(max_runs.min(Semaphore::MAX_PERMITS))),
            feeds: Feeds::new(changes.clone()),
            watchers: Watchers::default(),
            counters: Counters::default(),
            changes,
            texts: broadcast::Sender::new(TEXTS),
            drawings: Semaphore::new(DRAWINGS),
            checks: Semaphore::new(DRAWINGS),
            keyed_start: tokio::sync::Mutex::default(),
            own: Mutex::default(),
            running: watch::Sender::new(0),
            stopping: AtomicBool::new(false),
            stop: watch::Sender::new(false),
        }
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<String, Canceller>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the control of a run that this server executes.
    pub(crate) fn own_run(&self, run: &str) -> Option<Canceller> {
        self.own().get(run).cloned()
    }

    /// Calls a function of the index, which blocks, on a thread of its own.
    pub(crate) async fn index<T: Send + 'static>(
        &self,
        read: impl FnOnce(&SessionIndex) -> Result<T, orchestra_sessions::SessionError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let index = self.index.clone();
        Ok(blocking(move || read(&index)).await??)
    }

    /// Calls a function of the project, which blocks, on a thread of its own.
    pub(crate) async fn project<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Project) -> Result<T, ProjectError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let project = self.project.clone();
        Ok(blocking(move || call(&*project)).await??)
    }

    /// Loads a pipeline by its name, with an engine that runs it. With a script, runs are simulated.
    pub(crate) async fn startable(
        &self,
        name: String,
        script: Option<Script>,
    ) -> Result<(Entry, Engine), ApiError> {
        self.project(move |project| {
            let entry = project.load_entry(&name)?;
            let engine = project.engine(&entry, script)?;
            Ok((entry, engine))
        })
        .await
    }

    /// Returns a run by its exact id, with its present status.
    pub(crate) async fn session(&self, run: &str) -> Result<Session, ApiError> {
        let id = valid_id(run)?;
        let session = self
            .index(move |index| Ok(index.with_present_status(index.run(&id)?)))
            .await?;
        // The index also finds runs by the beginnings of their ids, but a path names one run for ever.
        if *session.run == *run {
            Ok(session)
        } else {
            Err(ApiError::not_found("run", run))
        }
    }

    /// Returns the folder of a run.
    pub(crate) async fn folder(&self, run: &str) -> Result<(Session, RunFolder), ApiError> {
        let session = self.session(run).await?;
        let path = session.folder.clone();
        let folder = blocking(move || RunFolder::open(path)).await??;
        Ok((session, folder))
    }

    /// Begins a run. It goes on after the request has ended.
    pub(crate) async fn begin(
        self: &Arc<App>,
        entry: Entry,
        engine: Engine,
        begin: Begin,
    ) -> Result<RunId, ApiError> {
        if self.is_stopping() {
            return Err(ApiError::stopping());
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let message = format!("the server executes {} runs already", self.max_runs);
            return Err(ApiError::too_many(message, 5));
        };
        let engine = self.observed(&engine);
        let handle = entry.begin(&engine, begin).await?;
        let id = handle.id().clone();
        self.own().insert(id.to_string(), handle.canceller());
        self.count_runs();
        if let Some(folder) = handle.run_dir().map(Path::to_owned) {
            // A run in another folder is listed from now on. Its failure to be listed does not stop it.
            let _ = self.index(move |index| index.accept(&folder)).await;
        }
        self.changes.mark(&id);
        let (app, run) = (self.clone(), id.clone());
        tokio::spawn(async move {
            // The events tell how it ended.
            let _ = handle.wait().await;
            app.own().remove(&*run);
            drop(place);
            app.count_runs();
            app.changes.mark(&run);
        });
        // The server may have begun to stop while the run began.
        if self.is_stopping() {
            self.pause_all();
        }
        Ok(id)
    }

    fn count_runs(&self) {
        let count = self.own().len();
        self.running.send_replace(count);
    }

    /// Returns the engine with the observers of the server.
    fn observed(&self, engine: &Engine) -> Engine {
        let index = self.index.listener();
        let (changes, texts) = (self.changes.clone(), self.texts.clone());
        // The events of child runs change the run whose stages they are. Its own event comes first.
        let run: OnceLock<RunId> = OnceLock::new();
        engine
            .with_observer(move |event| {
                index(event);
                changes.mark(run.get_or_init(|| event.run.clone()));
            })
            .with_text_observer(move |text| {
                // Nobody may be watching.
                let _ = texts.send(Arc::new(text.clone()));
            })
            .with_default_interviewer(AnsweredByRequests)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Refuses new requests and pauses the own runs.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.pause_all();
        self.stop.send_replace(true);
    }

    fn pause_all(&self) {
        for canceller in self.own().values() {
            canceller.pause("the server stops");
        }
    }

    /// Waits until no run is executed.
    pub(crate) async fn runs_have_stopped(&self) {
        // The sender lives as long as the state.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Waits until the server is done with a run that has paused or ended: its last event is seen a moment earlier.
    pub(crate) async fn released(&self, session: &Session) {
        if session.status.is_open() {
            return;
        }
        let run = session.run.to_string();
        let mut running = self.running.subscribe();
        let done = running.wait_for(|_| self.own_run(&run).is_none());
        // It may have been resumed meanwhile.
        let _ = tokio::time::timeout(RELEASE_PATIENCE, done).await;
    }

    /// Returns the ids of the runs that are executed.
    pub(crate) fn own_runs(&self) -> Vec<String> {
        self.own().keys().cloned().collect()
    }
}

/// Returns the id of a run in a path. Anything that cannot be an id is unknown.
pub(crate) fn valid_id(run: &str) -> Result<String, ApiError> {
    match RunId::new(run) {
        Ok(_) => Ok(run.to_owned()),
        Err(_) => Err(ApiError::not_found("run", run)),
    }
}

/// Runs a function that blocks on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(act)
        .await
        .map_err(|error| ApiError::internal("internal", error.to_string()))
}

impl From<ProjectError> for ApiError {
    fn from(error: ProjectError) -> ApiError {
        let (code, message) = (error.code().to_owned(), error.to_string());
        if error.is_unknown {
            return ApiError::new(axum::http::StatusCode::NOT_FOUND, code, message);
        }
        let refused = ApiError::unprocessable(code, message).diagnostics(error.reports.iter());
        match error.help {
            Some(help) => refused.help(help),
            None => refused,
        }
    }
}

/// Lets questions wait: requests answer them.
struct AnsweredByRequests;

impl Interviewer for AnsweredByRequests {
    async fn ask(&self, _: Question) -> Result<orchestra_engine::Answer, InterviewError> {
        std::future::pending().await
    }
}
