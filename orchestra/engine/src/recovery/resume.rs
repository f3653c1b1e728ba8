//! Resume: runs that this or another process began continue from their last state (Attractor 5.3, rules D1, D5, D6).

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::Budget;
use orchestra_graph::{Pipeline, SharedPipeline, Transform};
use tracing::Instrument;

use crate::blocking::on_files;
use crate::control::attend;
use crate::driver::state::Driver;
use crate::error::{AlreadyFinished, StartError};
use crate::handle::RunHandle;
use crate::handlers::binding::CompiledVersion;
use crate::id::RunId;
use crate::journal::records::Record;
use crate::process;
use crate::recovery::files::{open_files, opened_files};
use crate::recovery::folder_state::{FolderState, parsed};
use crate::recovery::fork::Fork;
use crate::recovery::task::{RecoveryTask, ResumeOptions};
use crate::run::state::Origin;
use crate::run::workspace::{OpenedWorkspace, WorkspaceSession};
use crate::setup::resolve::{BoundPipeline, resolve};
use crate::setup::settings::EngineSettings;
use crate::store::{Manifest, PinnedSource, ReplayedFrom, RunFolder, StoreError};

/// A builder that resumes a run from its last state. Await it to resume the run.
///
/// Recorded outcomes are not computed again. A stage that was in flight runs again, with the same
/// [attempt key](crate::StageContext::attempt_key), and can see that it is a repeat. A wait continues with the rest of
/// its delay.
///
/// ```
/// use orchestra_engine::{Answer, Engine, RunStatus};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }"#;
/// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let run = engine.start(load(), ()).run_dir(&folder).await?;
/// run.pause("the shop closes");
/// assert_eq!(run.wait().await?.status, RunStatus::Paused);
///
/// // Later, perhaps in another process:
/// let run = engine.resume(&folder, load(), ()).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// run.answer("ask", Answer::choice("Ship"))?;
/// assert_eq!(run.wait().await?.path, ["start", "ask", "exit"]);
/// # Ok(()) }
/// ```
#[must_use = "a run goes on when this is awaited"]
pub struct ResumeBuilder {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) folder: PathBuf,
    bound: BoundPipeline,
    /// The locked versions of the pipeline that the program contains.
    versions: &'static [CompiledVersion],
    origin: Origin,
    /// The workspace session of the parent run.
    session: Option<Arc<dyn WorkspaceSession>>,
    pub(crate) options: ResumeOptions,
    /// The folder of another run, from which the files of stages are copied.
    pub(crate) copied_from: Option<PathBuf>,
    /// The workspace of the run, if it was opened before.
    pub(crate) files: Option<OpenedWorkspace>,
}

impl ResumeBuilder {
    pub(crate) fn new(settings: Arc<EngineSettings>, folder: PathBuf, bound: BoundPipeline) -> ResumeBuilder {
        let origin = Origin {
            working_dir: settings.working_dir.clone(),
            ..Origin::default()
        };
        ResumeBuilder {
            settings,
            folder,
            bound,
            versions: &[],
            origin,
            session: None,
            options: ResumeOptions::default(),
            copied_from: None,
            files: None,
        }
    }

    /// Sets the locked versions, one of which the run may have been started with.
    pub(crate) fn with_versions(mut self, versions: &'static [CompiledVersion]) -> ResumeBuilder {
        self.versions = versions;
        self
    }

    /// Selects the locked version with a hash, unless it is the hash of the pipeline itself, or changes are accepted (rule
    /// U5).
    pub(crate) fn select_version(&mut self, hash: &str) {
        let has_hash = |pipeline: &Pipeline| PinnedSource::from_pipeline(pipeline).hash == hash;
        if self.options.accept_changes || self.versions.is_empty() || has_hash(&self.bound.pipeline) {
            return;
        }
        if let Some(version) = self.versions.iter().find(|version| has_hash(version.pipeline)) {
            self.bound.pipeline = SharedPipeline::Static(version.pipeline);
        }
    }

    /// Makes this a child run, which works on the files of the stage that started it.
    pub(crate) fn child(
        mut self,
        origin: Origin,
        session: Option<Arc<dyn WorkspaceSession>>,
    ) -> ResumeBuilder {
        // The parent was checked for changes, and its pipeline includes those of its child runs.
        self.options.accept_changes = true;
        self.options.may_be_over = true;
        // Whoever took over the parent owns its child runs too.
        self.options.open.take_over = true;
        self.options.open.accept_loss = origin.accept_loss;
        self.origin = origin;
        self.session = session;
        self
    }

    /// Resumes the run even if the pipeline was changed, provided that the current positions of the run still exist
    /// (rule D6).
    pub fn accept_changes(mut self) -> ResumeBuilder {
        self.options.accept_changes = true;
        self
    }

    /// Takes the run over from an owner that hangs. If the old owner continues, it cannot write any more (rule D5).
    pub fn take_over(mut self) -> ResumeBuilder {
        self.options.open.take_over = true;
        self
    }

    /// Resumes the run even if records of the journal are lost, from the latest state that the run folder still proves.
    /// Work since then is repeated. If `journal.jsonl` is not used, it is renamed (rule D3).
    ///
    /// ```
    /// use orchestra_engine::Engine;
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let folder = directory.path().join("run");
    /// # let load = || load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().build()?;
    /// engine.start(load(), ()).run_dir(&folder).await?.wait().await?;
    /// std::fs::write(folder.join("journal.jsonl"), "")?;
    /// let refused = engine.resume(&folder, load(), ()).await.unwrap_err();
    /// assert_eq!(refused.code(), "journal_cut");
    /// let over = engine.resume(&folder, load(), ()).accept_loss().await.unwrap_err();
    /// assert_eq!(over.code(), "already_finished");
    /// # Ok(()) }
    /// ```
    pub fn accept_loss(mut self) -> ResumeBuilder {
        self.options.open.accept_loss = true;
        self
    }

    /// Retries a run that failed, under the same id, at the stage that failed. If no edge matched and the pipeline was
    /// changed since, the run is retried at the node of these edges (rule D9). The failed attempts remain in its
    /// history and cost.
    ///
    /// ```
    /// use orchestra_engine::{Engine, RunStatus};
    /// # use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, SimulationBackend};
    /// # use orchestra_graph::{LoadOptions, Source, load};
    /// # struct Busy;
    /// # impl CodergenBackend for Busy {
    /// #     async fn run(&self, _: CodergenRequest) -> Result<CodergenReply, BackendError> {
    /// #         Err(BackendError::retryable("the server is overloaded"))
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let folder = directory.path().join("run");
    /// let text = "digraph { start -> draft -> exit; draft [prompt=Draft] }";
    /// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().backend(Busy).build()?;
    /// let failed = engine.start(load(), ()).run_dir(&folder).await?.wait().await?;
    /// assert_eq!(failed.status, RunStatus::Fail);
    ///
    /// let engine = Engine::builder().backend(SimulationBackend).build()?;
    /// let retried = engine.resume(&folder, load(), ()).retry().await?.wait().await?;
    /// assert_eq!(retried.path, ["start", "draft", "draft", "exit"]);
    /// assert_eq!(retried.error_history.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn retry(mut self) -> ResumeBuilder {
        self.options.retry = true;
        self
    }

    /// Pauses the run when it has been executed for longer than this, including the time in other processes.
    pub fn max_time(mut self, limit: Duration) -> ResumeBuilder {
        self.options.limits.time = Some(limit);
        self
    }

    /// Pauses the run when it has used up the budget, including its usage in other processes.
    pub fn budget(mut self, budget: Budget) -> ResumeBuilder {
        self.options.limits.budget = budget;
        self
    }

    /// Sets the transforms with which the pipeline was loaded. The source that the run began with is loaded in the same
    /// way, to be compared.
    pub fn transforms(mut self, transforms: impl IntoIterator<Item = Arc<dyn Transform>>) -> ResumeBuilder {
        self.options.transforms.extend(transforms);
        self
    }

    pub(crate) async fn resume(mut self) -> Result<RunHandle, StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        // A folder that is no run is reported when it is opened.
        if !self.versions.is_empty()
            && let Ok(run) = RunFolder::open(&self.folder)
        {
            self.select_version(&run.manifest().pipeline.hash);
        }
        let handlers = resolve(&self.settings, &self.bound, self.origin.depth > 0)?;
        let (settings, files, session) = (self.settings.clone(), self.files.take(), self.session.take());
        let children = self.bound.children.clone();
        let mut driver = self.recover().await?;
        match files {
            Some(opened) => driver.work_on(opened.session),
            None => open_files(&mut driver, &settings, session).await?,
        }
        if let Some(files) = &driver.files {
            children.share(files.session.clone());
        }
        let (run, before) = (driver.run.clone(), driver.time.before);
        let span = tracing::info_span!("run", run = %run.id, pipeline = &*run.pipeline.name);
        process::begin();
        let task = runtime.spawn(driver.drive(handlers).instrument(span));
        attend(&run);
        Ok(RunHandle::new(run, task).resumed_after(before))
    }

    /// Creates a driver in the last state of the run.
    pub(crate) async fn recover(self) -> Result<Box<Driver>, StartError> {
        let ResumeBuilder {
            settings,
            folder,
            bound,
            mut origin,
            options,
            copied_from,
            ..
        } = self;
        let (open, may_be_over) = (options.open, options.may_be_over);
        let opened = settings.open_run(&folder, open, origin.parent.as_ref()).await?;
        check_simulated(&settings, &opened.manifest)?;
        origin.seed = opened.manifest.seed;
        origin.accept_loss = open.accept_loss;
        let files = settings.run.files.clone();
        let task = RecoveryTask {
            settings,
            pipeline: bound.pipeline,
            options,
            copied_from,
            rehearses: false,
            traces_context: false,
        };
        // Reading a long journal takes milliseconds, during which other tasks may run.
        let recovered = on_files(files, move || {
            let state = FolderState::read(opened, &*task.settings.run.clock)?;
            task.recover(state, origin)
        })
        .await;
        let driver = recovered.unwrap_or_else(|error| {
            Err(StoreError::io("read", &folder, std::io::Error::other(error)).into())
        })?;
        // A run that ended in a process that could not save the end is driven to its end.
        let over = driver.recovery.as_ref().filter(|recovery| recovery.end_saved);
        if let Some(ended) = over.and_then(|recovery| recovery.ended.as_ref())
            && !may_be_over
        {
            return Err(StartError::AlreadyFinished(Box::new(AlreadyFinished {
                run: driver.run.id.to_string(),
                failure: ended.clone(),
            })));
        }
        Ok(driver)
    }

    /// Checks that a replay can be resumed from its checkpoint, without persisting anything (rule D10). Returns the
    /// workspace of the new run.
    pub(crate) async fn rehearse(
        &self,
        fork: &Fork,
        id: &RunId,
    ) -> Result<Option<OpenedWorkspace>, StartError> {
        resolve(&self.settings, &self.bound, self.origin.depth > 0)?;
        check_simulated(&self.settings, &fork.manifest)?;
        let task = RecoveryTask {
            settings: Arc::new(EngineSettings {
                run: Arc::new(self.settings.run.without_callbacks()),
                ..EngineSettings::clone(&self.settings)
            }),
            pipeline: self.bound.pipeline.clone(),
            options: ResumeOptions {
                retry: false,
                ..self.options.clone()
            },
            copied_from: Some(self.folder.clone()),
            rehearses: true,
            traces_context: false,
        };
        let mut manifest = fork.manifest.clone();
        manifest.run = id.to_string();
        let records = (0..).zip(&fork.records);
        let records = records.map(|(number, record)| Ok((number, parsed(&self.folder, number, record)?)));
        let records: Vec<(u64, Record)> = records.collect::<Result<_, StoreError>>()?;
        let rehearsed = manifest.clone();
        let recovered = on_files(self.settings.run.files.clone(), move || {
            let state = FolderState::rehearsed(rehearsed, records)?;
            task.recover(state, Origin::default())
        });
        let driver = recovered.await.unwrap_or_else(|error| {
            Err(StoreError::io("read", &self.folder, std::io::Error::other(error)).into())
        })?;
        if driver.has_ended() {
            let ReplayedFrom { run, checkpoint } = fork.from.clone();
            return Err(StartError::NothingToReplay { run, checkpoint });
        }
        Ok(opened_files(&driver, &self.settings, &manifest).await?)
    }
}

impl IntoFuture for ResumeBuilder {
    type Output = Result<RunHandle, StartError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.resume())
    }
}

impl fmt::Debug for ResumeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumeBuilder")
            .field("folder", &self.folder)
            .field("pipeline", &self.bound.pipeline.name)
            .finish_non_exhaustive()
    }
}

/// Returns an error if a simulated run is to be executed, or an executed run to be simulated.
fn check_simulated(settings: &EngineSettings, manifest: &Manifest) -> Result<(), StartError> {
    let simulated = settings.run.script.is_some();
    if manifest.simulated == simulated {
        return Ok(());
    }
    Err(StartError::Simulated {
        run: manifest.run.clone(),
        simulated: !simulated,
    })
}
