//! The engine: what runs have in common, and how one is started.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Budget, Context, Machine, SharedPipeline};
use orchestra_graph::kind;
use serde_json::Value;
use tracing::Instrument;

use crate::artifacts::ArtifactStore;
use crate::binding::{Binding, Supplies};
use crate::builtin::backend::{AnyBackend, CodergenBackend};
use crate::builtin::codergen::Codergen;
use crate::builtin::fan_in::FanIn;
use crate::builtin::manager::ManagerLoop;
use crate::builtin::simulate::Script;
use crate::builtin::subpipeline::Subpipeline;
use crate::builtin::tool::Tool;
use crate::clock::{Clock, SystemClock};
use crate::control::attend;
use crate::driver::{Driver, Limits};
use crate::error::{BuildError, StartError};
use crate::event::RunEvent;
use crate::handle::RunHandle;
use crate::handler::{Handler, HandlerSet};
use crate::id::{RunId, random};
use crate::interview::{Interviewer, SharedInterviewer};
use crate::keeping::Keeping;
use crate::pinned::pin;
use crate::registry::Registry;
use crate::replay::ReplayBuilder;
use crate::resolve::resolve;
use crate::resume::ResumeBuilder;
use crate::run::{Origin, Run};
use crate::sink::Callback;
use crate::store::{
    Durability, FileSystem, FolderStore, Manifest, Opened, PROTOCOL, RunStore, SCHEMA, StoreError,
    StoreOptions, system,
};

/// How often a generated name is tried again where its folder is taken.
const NAME_TRIES: u32 = 8;

type Subpipelines = BTreeMap<String, (SharedPipeline, Arc<Registry>)>;

/// What all runs of an engine share.
pub(crate) struct Settings {
    pub(crate) callbacks: Arc<[Callback]>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) codergen: Option<Arc<dyn Handler>>,
    pub(crate) tool: Arc<dyn Handler>,
    /// Who is asked; `None` where nobody is.
    pub(crate) interviewer: Option<SharedInterviewer>,
    pub(crate) fan_in: Arc<dyn Handler>,
    pub(crate) manager: Arc<dyn Handler>,
    pub(crate) subpipeline: Arc<dyn Handler>,
    /// The pipelines that stages may run by name, with their handlers.
    pub(crate) subpipelines: Subpipelines,
    /// What stages do in a simulated run; `None` where they are run.
    pub(crate) script: Option<Arc<Script>>,
    pub(crate) inherit_env: Vec<String>,
    /// How large artifacts may be that have no file of their own.
    pub(crate) artifact_threshold: u64,
    working_dir: Option<PathBuf>,
    runs_dir: Option<PathBuf>,
    files: Arc<dyn FileSystem>,
    durability: Durability,
    /// Whether stages without files of their own get a status file.
    pub(crate) status_files: bool,
}

impl Settings {
    /// Opens a run folder to go on with it, away from the threads that run stages.
    pub(crate) async fn open_run(&self, folder: &Path, take_over: bool) -> Result<Opened, StoreError> {
        let (files, folder, options) = (self.files.clone(), folder.to_owned(), self.store_options(folder));
        let path = folder.clone();
        let opened =
            tokio::task::spawn_blocking(move || FolderStore::open(files, &folder, options, take_over)).await;
        opened.unwrap_or_else(|error| Err(StoreError::io("open", &path, std::io::Error::other(error))))
    }

    pub(crate) fn files(&self) -> Arc<dyn FileSystem> {
        self.files.clone()
    }

    /// The folder of runs; `None` where they are not kept.
    pub(crate) fn runs_dir(&self) -> Option<&Path> {
        self.runs_dir.as_deref()
    }

    /// How a run is kept in a folder.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    pub(crate) fn store_options(&self, folder: &Path) -> StoreOptions {
        StoreOptions {
            durability: self.durability,
            among_runs: self.runs_dir.is_some() && folder.parent() == self.runs_dir.as_deref(),
        }
    }

    /// The handler of a kind whose stages run other pipelines.
    pub(crate) fn runner_of_children(&self, kind: &str) -> Option<&Arc<dyn Handler>> {
        match kind {
            kind::MANAGER_LOOP => Some(&self.manager),
            kind::SUBPIPELINE => Some(&self.subpipeline),
            _ => None,
        }
    }
}

/// Runs pipelines; cheap to clone.
///
/// ```
/// use orchestra_engine::{Engine, SimulationBackend};
/// use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"digraph poem { start -> write -> exit; write [prompt="Write a poem."] }"#;
/// let pipeline = load(Source::new("poem.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(SimulationBackend).build()?;
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.path, ["start", "write", "exit"]);
/// assert_eq!(result.context.text("last_response"), "[Simulated] Response for stage: write");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Engine {
    settings: Arc<Settings>,
}

impl Engine {
    /// Begins an engine. Without further words it keeps nothing on disk and has no model.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            callbacks: Vec::new(),
            clock: Arc::new(SystemClock::new()),
            interviewer: None,
            backend: None,
            subpipelines: Subpipelines::new(),
            script: None,
            inherit_env: Vec::new(),
            artifact_threshold: ArtifactStore::THRESHOLD,
            working_dir: None,
            runs_dir: None,
            files: system(),
            durability: Durability::default(),
            status_files: true,
        }
    }

    /// Starts a compiled pipeline with the handlers that it is bound to. Await what is given back.
    pub fn start<B, H, S>(&self, binding: B, handlers: S) -> StartBuilder
    where
        B: Binding<H>,
        H: HandlerSet,
        S: Supplies<H>,
    {
        self.prepare(binding.pipeline().into(), handlers.supply())
    }

    /// Starts a pipeline that was loaded at run time. Await what is given back.
    pub fn start_loaded(
        &self,
        pipeline: impl Into<SharedPipeline>,
        handlers: impl HandlerSet,
    ) -> StartBuilder {
        self.prepare(pipeline.into(), handlers)
    }

    /// Goes on with a run of a compiled pipeline that was begun before, in this process or another. Await what is given
    /// back.
    pub fn resume<B, H, S>(&self, folder: impl Into<PathBuf>, binding: B, handlers: S) -> ResumeBuilder
    where
        B: Binding<H>,
        H: HandlerSet,
        S: Supplies<H>,
    {
        let start = self.prepare(binding.pipeline().into(), handlers.supply());
        ResumeBuilder::new(start.settings, folder.into(), start.pipeline, start.origin)
    }

    /// Goes on with a run of a loaded pipeline that was begun before, in this process or another. Await what is given
    /// back.
    pub fn resume_loaded(
        &self,
        folder: impl Into<PathBuf>,
        pipeline: impl Into<SharedPipeline>,
        handlers: impl HandlerSet,
    ) -> ResumeBuilder {
        let start = self.prepare(pipeline.into(), handlers);
        ResumeBuilder::new(start.settings, folder.into(), start.pipeline, start.origin)
    }

    /// Begins a run of a compiled pipeline where another run was at a checkpoint (rule D4). Await what is given back.
    pub fn replay<B, H, S>(
        &self,
        folder: impl Into<PathBuf>,
        checkpoint: impl Into<String>,
        binding: B,
        handlers: S,
    ) -> ReplayBuilder
    where
        B: Binding<H>,
        H: HandlerSet,
        S: Supplies<H>,
    {
        ReplayBuilder::new(self.resume(folder, binding, handlers), checkpoint.into())
    }

    /// Begins a run of a loaded pipeline where another run was at a checkpoint (rule D4). Await what is given back.
    pub fn replay_loaded(
        &self,
        folder: impl Into<PathBuf>,
        checkpoint: impl Into<String>,
        pipeline: impl Into<SharedPipeline>,
        handlers: impl HandlerSet,
    ) -> ReplayBuilder {
        ReplayBuilder::new(self.resume_loaded(folder, pipeline, handlers), checkpoint.into())
    }

    fn prepare(&self, pipeline: SharedPipeline, handlers: impl HandlerSet) -> StartBuilder {
        let mut registry = Registry::default();
        handlers.register(&mut registry);
        let origin = Origin {
            registry: Arc::new(registry),
            working_dir: self.settings.working_dir.clone(),
            ..Origin::default()
        };
        StartBuilder {
            settings: self.settings.clone(),
            pipeline,
            origin,
            context: Context::new(),
            seed: None,
            run_id: None,
            run_dir: None,
            limits: Limits::default(),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("runs_dir", &self.settings.runs_dir)
            .field("simulated", &self.settings.script.is_some())
            .finish_non_exhaustive()
    }
}

/// Makes an [`Engine`].
///
/// ```
/// use orchestra_engine::{Engine, SimulationBackend};
/// let engine = Engine::builder()
///     .backend(SimulationBackend)
///     .runs_dir("runs")
///     .inherit_env(["CARGO_HOME"])
///     .on_event(|event| println!("{} {}", event.seq, event.kind.name()))
///     .build()?;
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
pub struct EngineBuilder {
    callbacks: Vec<Callback>,
    clock: Arc<dyn Clock>,
    interviewer: Option<SharedInterviewer>,
    backend: Option<Arc<dyn AnyBackend>>,
    subpipelines: Subpipelines,
    script: Option<Arc<Script>>,
    inherit_env: Vec<String>,
    artifact_threshold: u64,
    working_dir: Option<PathBuf>,
    runs_dir: Option<PathBuf>,
    files: Arc<dyn FileSystem>,
    durability: Durability,
    status_files: bool,
}

impl EngineBuilder {
    /// What runs model stages.
    #[must_use]
    pub fn backend(mut self, backend: impl CodergenBackend) -> EngineBuilder {
        self.backend = Some(Arc::new(backend));
        self
    }

    /// Who answers the questions of human gates and handlers. Without one nobody can be asked.
    #[must_use]
    pub fn interviewer(mut self, interviewer: impl Interviewer) -> EngineBuilder {
        self.interviewer = Some(SharedInterviewer::new(interviewer));
        self
    }

    /// Lets sub-pipeline nodes run a compiled pipeline by this name (`subpipeline.name`), with the handlers that it is
    /// bound to; a later one of the same name replaces an earlier one (Attractor 9.4).
    ///
    /// ```
    /// use orchestra_engine::{Bound, Builtin, Compiled, Engine};
    /// # use orchestra_graph::{Pipeline, Source, load};
    /// # use std::sync::LazyLock;
    /// # static LINT: LazyLock<Pipeline> = LazyLock::new(|| {
    /// #     let source = Source::new("lint.dot", "digraph lint { start -> exit }");
    /// #     load(source, &Default::default()).pipeline().expect("sound")
    /// # });
    /// # struct Mark;
    /// # impl Bound<Builtin> for Mark {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lint: Compiled<Mark> = Compiled::new(&LINT);
    /// // `lint` is the `PIPELINE` of a generated module.
    /// let engine = Engine::builder().subpipeline("lint", lint, ()).build()?;
    /// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, "subpipeline.name"=lint] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.path, ["start", "lint", "exit"]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn subpipeline<B, H, S>(mut self, name: impl Into<String>, binding: B, handlers: S) -> EngineBuilder
    where
        B: Binding<H>,
        H: HandlerSet,
        S: Supplies<H>,
    {
        let mut registry = Registry::default();
        handlers.supply().register(&mut registry);
        let pipeline = binding.pipeline().into();
        self.subpipelines
            .insert(name.into(), (pipeline, Arc::new(registry)));
        self
    }

    /// Keeps each run in a folder of its own below this one.
    #[must_use]
    pub fn runs_dir(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.runs_dir = Some(folder.into());
        self
    }

    /// Calls a function with every event of every run, in the order of each run. It is called by the run itself,
    /// which waits for it; a panic in it is contained.
    #[must_use]
    pub fn on_event(mut self, callback: impl Fn(&RunEvent) + Send + Sync + 'static) -> EngineBuilder {
        self.callbacks.push(Arc::new(callback));
        self
    }

    /// Environment variables that every tool may see, beside those that a program needs at all.
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> EngineBuilder {
        self.inherit_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// The folder in which tools run; without one, the program's own.
    #[must_use]
    pub fn working_dir(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.working_dir = Some(folder.into());
        self
    }

    /// Executes nothing: neither models nor tools nor handlers, unless the script has [handlers
    /// run](Script::run_handlers). The script says how stages end.
    #[must_use]
    pub fn simulate(mut self, script: Script) -> EngineBuilder {
        self.script = Some(Arc::new(script));
        self
    }

    /// How many bytes an artifact may have before it gets a file of its own; without this,
    /// [`ArtifactStore::THRESHOLD`] (Attractor 5.5).
    #[must_use]
    pub fn artifact_threshold(mut self, bytes: u64) -> EngineBuilder {
        self.artifact_threshold = bytes;
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> EngineBuilder {
        self.clock = Arc::new(clock);
        self
    }

    /// What a run must survive before a stage counts as done; at first a loss of power (rule D1).
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> EngineBuilder {
        self.durability = durability;
        self
    }

    /// Whether a stage that keeps no files of its own gets a folder with its `status.json` all the same; at first it
    /// does. The journal holds its outcome in any case. Pipelines of very many very short stages are several times faster
    /// without, because a folder and a file cost more than a record.
    #[must_use]
    pub fn status_files(mut self, wanted: bool) -> EngineBuilder {
        self.status_files = wanted;
        self
    }

    /// Another file system for run folders, for tests.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn FileSystem>) -> EngineBuilder {
        self.files = files;
        self
    }

    /// The engine.
    ///
    /// # Errors
    /// A name given to [`inherit_env`](EngineBuilder::inherit_env) can be no variable's.
    pub fn build(self) -> Result<Engine, BuildError> {
        let impossible = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.inherit_env.iter().find(impossible) {
            return Err(BuildError::EnvironmentName { name: name.clone() });
        }
        let codergen = self.backend.clone().map(|backend| {
            let handler: Arc<dyn Handler> = Arc::new(Codergen { backend });
            handler
        });
        Ok(Engine {
            settings: Arc::new(Settings {
                callbacks: self.callbacks.into(),
                clock: self.clock,
                interviewer: self.interviewer,
                codergen,
                tool: Arc::new(Tool),
                fan_in: Arc::new(FanIn {
                    backend: self.backend,
                }),
                manager: Arc::new(ManagerLoop),
                subpipeline: Arc::new(Subpipeline),
                subpipelines: self.subpipelines,
                script: self.script,
                inherit_env: self.inherit_env,
                artifact_threshold: self.artifact_threshold,
                working_dir: self.working_dir,
                runs_dir: self.runs_dir,
                files: self.files,
                durability: self.durability,
                status_files: self.status_files,
            }),
        })
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder").finish_non_exhaustive()
    }
}

/// A run that is about to start; await it.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let run = engine.start_loaded(pipeline, ()).param("pr", "42").seed(7).run_id("first").await?;
/// assert_eq!(run.wait().await?.context.text("pr"), "42");
/// # Ok(()) }
/// ```
#[must_use = "a run starts when this is awaited"]
pub struct StartBuilder {
    settings: Arc<Settings>,
    pipeline: SharedPipeline,
    origin: Origin,
    context: Context,
    seed: Option<u64>,
    run_id: Option<String>,
    run_dir: Option<PathBuf>,
    limits: Limits,
}

impl StartBuilder {
    /// A run that a stage of another run starts. It is kept in the folder that is given, or nowhere.
    pub(crate) fn of_child(
        settings: Arc<Settings>,
        pipeline: SharedPipeline,
        origin: Origin,
        context: Context,
        id: RunId,
    ) -> StartBuilder {
        StartBuilder {
            settings,
            pipeline,
            context,
            seed: Some(origin.seed),
            origin,
            run_id: Some(id.to_string()),
            run_dir: None,
            limits: Limits::default(),
        }
    }

    /// A value in the context at the start.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<Value>) -> StartBuilder {
        self.context.set(key.into(), value);
        self
    }

    /// The seed of every chance in the run; without one it is drawn.
    pub fn seed(mut self, seed: u64) -> StartBuilder {
        self.seed = Some(seed);
        self
    }

    /// The name of the run; without one it is made of the time.
    pub fn run_id(mut self, id: impl Into<String>) -> StartBuilder {
        self.run_id = Some(id.into());
        self
    }

    /// Keeps the run in exactly this folder, which must be new or empty.
    pub fn run_dir(mut self, folder: impl Into<PathBuf>) -> StartBuilder {
        self.run_dir = Some(folder.into());
        self
    }

    /// Stops the run where it is when it takes longer; it can [go on](Engine::resume) with more time.
    pub fn max_time(mut self, limit: Duration) -> StartBuilder {
        self.limits.time = Some(limit);
        self
    }

    /// Stops the run where it is when it has used as much; it can [go on](Engine::resume) with a larger budget.
    pub fn budget(mut self, budget: Budget) -> StartBuilder {
        self.limits.budget = budget;
        self
    }

    async fn start(self) -> Result<RunHandle, StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let StartBuilder {
            settings, mut origin, ..
        } = self;
        let handlers = resolve(&settings, &self.pipeline, &origin)?;
        let mut kinds = self.pipeline.kinds.iter();
        if !kinds.any(|kind| settings.runner_of_children(kind).is_some()) {
            // Only children need handlers by name again, and many runs may wait.
            origin.registry = Arc::default();
        }
        let now = settings.clock.now();
        let (mut id, named) = match self.run_id {
            Some(id) => (RunId::new(id)?, true),
            None => (RunId::generate(now), false),
        };
        let mut tries = if named || self.run_dir.is_some() {
            1
        } else {
            NAME_TRIES
        };
        let seed = self.seed.unwrap_or_else(random);
        origin.seed = seed;
        let manifest = |id: &RunId| {
            let (pipeline, children) = pin(&self.pipeline);
            Manifest {
                schema: SCHEMA.to_owned(),
                protocol: PROTOCOL,
                run: id.to_string(),
                name: self.pipeline.name.to_string(),
                goal: self.pipeline.goal().to_owned(),
                file: self.pipeline.file.to_string(),
                started: now,
                seed,
                simulated: settings.script.is_some(),
                // A script holds text, numbers and lists alone, which can always be written.
                script: settings.script.as_deref().and_then(|script| serde_json::to_value(script).ok()),
                engine: env!("CARGO_PKG_VERSION").to_owned(),
                durability: settings.durability,
                pipeline,
                children,
                params: self.context.clone(),
                max_time: self.limits.time,
                replayed_from: None,
            }
        };
        let store = loop {
            let Some(folder) = folder_of(&settings, self.run_dir.as_deref(), &id, origin.depth) else {
                break None;
            };
            tries -= 1;
            match create(&settings, folder, manifest(&id)).await {
                Err(StoreError::Occupied { .. }) if tries > 0 => id = RunId::generate(now),
                opened => break Some(opened?),
            }
        };
        let machine = Machine::prepare(self.pipeline.clone(), self.context, seed);
        let span = tracing::info_span!("run", run = %id, pipeline = &*self.pipeline.name);
        let run = Arc::new(Run::new(self.pipeline, id, settings, store.clone(), origin, 0));
        let mut driver = Driver::new(run.clone(), machine, self.limits);
        driver.keeping = store.map(|store| Box::new(Keeping::new(store, 1)));
        let task = runtime.spawn(driver.drive(handlers).instrument(span));
        attend(&run);
        Ok(RunHandle::new(run, task))
    }
}

impl IntoFuture for StartBuilder {
    type Output = Result<RunHandle, StartError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl fmt::Debug for StartBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartBuilder")
            .field("pipeline", &self.pipeline.name)
            .finish_non_exhaustive()
    }
}

fn folder_of(settings: &Settings, run_dir: Option<&Path>, id: &RunId, depth: u32) -> Option<PathBuf> {
    match run_dir {
        Some(folder) => Some(folder.to_owned()),
        // A run within a run is kept within that run's folder.
        None if depth > 0 => None,
        None => settings.runs_dir.as_ref().map(|runs| runs.join(&**id)),
    }
}

/// Makes a run's folder away from the threads that run stages.
async fn create(
    settings: &Settings,
    folder: PathBuf,
    manifest: Manifest,
) -> Result<Arc<dyn RunStore>, StoreError> {
    let path = folder.clone();
    let (files, options) = (settings.files.clone(), settings.store_options(&folder));
    let made = tokio::task::spawn_blocking(move || {
        let store = FolderStore::create(files, &folder, options)?;
        store.manifest(&manifest)?;
        let store: Arc<dyn RunStore> = Arc::new(store);
        Ok(store)
    });
    made.await
        .unwrap_or_else(|error| Err(StoreError::io("make", &path, std::io::Error::other(error))))
}
