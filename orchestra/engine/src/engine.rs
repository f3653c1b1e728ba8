//! The engine: its builder, and the calls that start, resume and replay runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::artifacts::ArtifactStore;
use crate::builtin::backend::{AnyBackend, CodergenBackend};
use crate::builtin::codergen::Codergen;
use crate::builtin::fan_in::FanIn;
use crate::builtin::tool::Tool;
use crate::child_starter::bind;
use crate::clock::{Clock, SystemClock};
use crate::error::{BuildError, Refusals};
use crate::event::RunEvent;
use crate::gates::interview::{Interviewer, SharedInterviewer};
use crate::handlers::binding::Binding;
use crate::handlers::declared_values::Startable;
use crate::handlers::handler::Handler;
use crate::handlers::handler_set::HandlerSet;
use crate::handlers::registry::Registry;
use crate::host::AttemptHost;
use crate::id::RunId;
use crate::process::{ProcessRunner, SystemProcesses};
use crate::recovery::replay::ReplayBuilder;
use crate::recovery::resume::ResumeBuilder;
use crate::redact::Redactor;
use crate::run::settings::{CommandVariables, RunSettings};
use crate::run::sink::Callback;
use crate::run::stage_text::{OnText, StageText};
use crate::run::workspace::Workspace;
use crate::script::Script;
use crate::setup::resolve::{BoundPipeline, resolve};
use crate::setup::settings::{EngineSettings, Subpipelines};
use crate::start::StartBuilder;
use crate::store::{Durability, FileSystem, system};

/// An engine that runs pipelines; cheap to clone.
///
/// ```
/// use orchestra_engine::{Engine, SimulationBackend};
/// use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"digraph poem { start -> write -> exit; write [prompt="Write a poem."] }"#;
/// let pipeline = load(Source::new("poem.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().backend(SimulationBackend).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.path, ["start", "write", "exit"]);
/// assert_eq!(result.context.text("last_response"), "[Simulated] Response for stage: write");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Engine {
    settings: Arc<EngineSettings>,
}

impl Engine {
    /// Creates a builder. By default, the engine persists nothing and has no model.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            callbacks: Vec::new(),
            clock: Arc::new(SystemClock::new()),
            interviewer: None,
            backend: None,
            subpipelines: Subpipelines::new(),
            script: None,
            inherit_env: Vec::new(),
            withheld_env: Vec::new(),
            artifact_threshold: ArtifactStore::THRESHOLD,
            working_dir: None,
            runs_dir: None,
            files: system(),
            processes: Arc::new(SystemProcesses),
            durability: Durability::default(),
            secrets: Vec::new(),
            on_text: Vec::new(),
            workspace: None,
        }
    }

    /// Starts a pipeline: a compiled one with the handlers that it is bound to, or a loaded one. Await the returned
    /// builder.
    ///
    /// A compiled pipeline that has required inputs is given [together with them](crate::Compiled::with). A run of any
    /// pipeline starts only with the inputs that it declares ([`StartError::Inputs`](crate::StartError::Inputs)).
    pub fn start<H: HandlerSet>(&self, mut pipeline: impl Startable<H>, handlers: H) -> StartBuilder {
        let inputs = pipeline.take_inputs();
        let builder = self.start_bound(pipeline, handlers);
        inputs
            .into_iter()
            .fold(builder, |builder, (key, value)| builder.param(key, value))
    }

    /// Starts a pipeline whose inputs are checked when it starts.
    pub(crate) fn start_bound<H: HandlerSet>(&self, pipeline: impl Binding<H>, handlers: H) -> StartBuilder {
        let bound = self.bind(pipeline, handlers);
        StartBuilder::new(self.settings.clone(), bound)
    }

    /// Performs the checks of [`start`](Engine::start) without starting the pipeline.
    ///
    /// ```
    /// use orchestra_engine::Engine;
    /// # use orchestra_graph::{Source, load};
    /// let text = r#"digraph { start -> draft -> exit; draft [prompt="Draft it."] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let refused = Engine::builder().build()?.check(pipeline, ()).unwrap_err();
    /// assert_eq!(refused.list[0].code, "no_backend");
    /// # Ok::<(), orchestra_engine::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The engine or the handlers lack something that the pipeline needs; everything missing is listed.
    pub fn check<H: HandlerSet>(&self, pipeline: impl Binding<H>, handlers: H) -> Result<(), Refusals> {
        resolve(&self.settings, &self.bind(pipeline, handlers), false).map(drop)
    }

    /// Resumes a run that this or another process began. Await the returned builder.
    pub fn resume<H: HandlerSet>(
        &self,
        folder: impl Into<PathBuf>,
        pipeline: impl Binding<H>,
        handlers: H,
    ) -> ResumeBuilder {
        let versions = pipeline.versions();
        let bound = self.bind(pipeline, handlers);
        let builder = ResumeBuilder::new(self.settings.clone(), folder.into(), bound);
        builder.with_versions(versions)
    }

    /// Starts a new run from a checkpoint of another run (rule D4). Await the returned builder.
    pub fn replay<H: HandlerSet>(
        &self,
        folder: impl Into<PathBuf>,
        checkpoint: impl Into<String>,
        pipeline: impl Binding<H>,
        handlers: H,
    ) -> ReplayBuilder {
        ReplayBuilder::new(self.resume(folder, pipeline, handlers), checkpoint.into())
    }

    /// Returns the folder in which runs are persisted; `None` if they are not.
    pub fn runs_dir(&self) -> Option<&Path> {
        self.settings.run.runs_dir()
    }

    /// Returns an engine that also calls a function with every event of its runs, like
    /// [`EngineBuilder::on_event`]. A server observes the runs of an engine that a program has built this way.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// # use orchestra_engine::Engine;
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let text = "digraph hello { start -> exit }";
    /// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().build()?;
    /// let events = Arc::new(AtomicUsize::new(0));
    /// let counter = events.clone();
    /// let observed = engine.with_observer(move |_| {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    /// });
    /// observed.start(pipeline, ()).await?.wait().await?;
    /// assert!(events.load(Ordering::Relaxed) > 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_observer(&self, callback: impl Fn(&RunEvent) + Send + Sync + 'static) -> Engine {
        let callback: Callback = Arc::new(callback);
        self.derived(|run| run.callbacks = run.callbacks.iter().cloned().chain([callback]).collect())
    }

    /// Returns an engine that also calls a function with the output of models while it is generated, like
    /// [`EngineBuilder::on_text`].
    #[must_use]
    pub fn with_text_observer(&self, callback: impl Fn(&StageText) + Send + Sync + 'static) -> Engine {
        let callback: OnText = Arc::new(callback);
        self.derived(|run| run.on_text = run.on_text.iter().cloned().chain([callback]).collect())
    }

    /// Returns an engine whose observers get the messages of model calls with their events
    /// ([`ModelCall::contents`](crate::ModelCall::contents)). They are not persisted.
    #[must_use]
    pub fn with_model_contents(&self) -> Engine {
        self.derived(|run| run.model_contents = true)
    }

    /// Returns an engine that sets further environment variables for the commands of stages: those of tool stages, those
    /// that a model starts, and programs that run model stages. The function gets the run and the key of the attempt,
    /// see [`StageContext::attempt_key`](crate::StageContext::attempt_key). It should be fast.
    ///
    /// ```
    /// # use orchestra_engine::Engine;
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = r#"digraph { start -> build -> exit; build [shape=parallelogram, tool_command="echo $TICKET"] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().build()?;
    /// let engine = engine.with_command_variables(|_, attempt| vec![("TICKET".into(), attempt.into())]);
    /// # if cfg!(unix) {
    /// let result = engine.start(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.context.text("tool.last_line"), "build#1/1");
    /// # }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_command_variables(
        &self,
        variables: impl Fn(&RunId, &str) -> Vec<(String, String)> + Send + Sync + 'static,
    ) -> Engine {
        let variables: CommandVariables = Arc::new(variables);
        self.derived(|run| run.variables = run.variables.iter().cloned().chain([variables]).collect())
    }

    /// Returns an engine that asks this interviewer, unless it has one already.
    ///
    /// ```
    /// use orchestra_engine::{AutoApprove, Engine};
    /// let engine = Engine::builder().build()?.with_default_interviewer(AutoApprove);
    /// # Ok::<(), orchestra_engine::BuildError>(())
    /// ```
    #[must_use]
    pub fn with_default_interviewer(&self, interviewer: impl Interviewer) -> Engine {
        self.derived(|run| {
            run.interviewer
                .get_or_insert_with(|| SharedInterviewer::new(interviewer));
        })
    }

    /// Returns an engine that simulates its runs, like [`EngineBuilder::simulate`].
    ///
    /// ```
    /// use orchestra_engine::{Engine, Script};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = "digraph { start -> build -> exit; build [shape=parallelogram, tool_command=\"cargo build\"] }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().build()?.with_simulation(Script::default());
    /// assert!(engine.start(pipeline, ()).await?.wait().await?.is_success());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_simulation(&self, script: Script) -> Engine {
        self.derived(|run| run.script = Some(Arc::new(script)))
    }

    fn derived(&self, change: impl FnOnce(&mut RunSettings)) -> Engine {
        let mut run = RunSettings::clone(&self.settings.run);
        change(&mut run);
        Engine {
            settings: Arc::new(EngineSettings {
                run: Arc::new(run),
                ..EngineSettings::clone(&self.settings)
            }),
        }
    }

    /// Creates a host that executes single attempts of the stages of a pipeline, for runs that another process decides
    /// about.
    ///
    /// # Errors
    /// Returns a list of what is missing, like [`check`](Engine::check). An engine with a workspace is refused.
    pub fn host<H: HandlerSet>(
        &self,
        pipeline: impl Binding<H>,
        handlers: H,
    ) -> Result<AttemptHost, Refusals> {
        AttemptHost::new(self.settings.clone(), self.bind(pipeline, handlers), false)
    }

    fn bind<H: HandlerSet>(&self, pipeline: impl Binding<H>, handlers: H) -> BoundPipeline {
        let mut registry = Registry::default();
        handlers.register(&mut registry);
        bind(&self.settings, pipeline.into_pipeline(), Arc::new(registry))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("runs_dir", &self.settings.run.runs_dir)
            .field("simulated", &self.settings.run.script.is_some())
            .finish_non_exhaustive()
    }
}

/// A builder of an [`Engine`].
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
    withheld_env: Vec<String>,
    artifact_threshold: u64,
    working_dir: Option<PathBuf>,
    runs_dir: Option<PathBuf>,
    files: Arc<dyn FileSystem>,
    processes: Arc<dyn ProcessRunner>,
    durability: Durability,
    secrets: Vec<String>,
    on_text: Vec<OnText>,
    workspace: Option<Arc<dyn Workspace>>,
}

impl EngineBuilder {
    /// Sets the backend that runs model stages.
    #[must_use]
    pub fn backend(mut self, backend: impl CodergenBackend) -> EngineBuilder {
        self.backend = Some(Arc::new(backend));
        self
    }

    /// Sets the interviewer, which answers the questions of human gates and handlers. Without one, human gates wait for
    /// an [answer](crate::RunHandle::answer) from outside, and a question of a handler suspends the run.
    #[must_use]
    pub fn interviewer(mut self, interviewer: impl Interviewer) -> EngineBuilder {
        self.interviewer = Some(SharedInterviewer::new(interviewer));
        self
    }

    /// Lets sub-pipeline nodes run a compiled pipeline by this name (`subpipeline.name`), with the handlers that it is
    /// bound to. A later pipeline of the same name replaces an earlier one (Attractor 9.4).
    ///
    /// ```
    /// use orchestra_engine::{Bound, Compiled, Engine};
    /// # use orchestra_graph::{Pipeline, Source, load};
    /// # use std::sync::LazyLock;
    /// # static LINT: LazyLock<Pipeline> = LazyLock::new(|| {
    /// #     let source = Source::new("lint.dot", "digraph lint { start -> exit }");
    /// #     load(source, &Default::default()).pipeline().expect("sound")
    /// # });
    /// # struct Mark;
    /// # impl Bound<()> for Mark {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lint: Compiled<Mark> = Compiled::new(&LINT);
    /// // `lint` is the `PIPELINE` of a generated module.
    /// let engine = Engine::builder().subpipeline("lint", lint, ()).build()?;
    /// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, "subpipeline.name"=lint] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let result = engine.start(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.path, ["start", "lint", "exit"]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn subpipeline<H: HandlerSet>(
        mut self,
        name: impl Into<String>,
        pipeline: impl Binding<H>,
        handlers: H,
    ) -> EngineBuilder {
        let mut registry = Registry::default();
        handlers.register(&mut registry);
        self.subpipelines
            .insert(name.into(), (pipeline.into_pipeline(), Arc::new(registry)));
        self
    }

    /// Persists each run in a folder of its own below this one.
    #[must_use]
    pub fn runs_dir(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.runs_dir = Some(folder.into());
        self
    }

    /// Calls a function with every event of every run. The events of one run arrive in order. The run calls the
    /// function itself and waits for it. A panic in the function is caught.
    #[must_use]
    pub fn on_event(mut self, callback: impl Fn(&RunEvent) + Send + Sync + 'static) -> EngineBuilder {
        self.callbacks.push(Arc::new(callback));
        self
    }

    /// Lets the commands of all tool stages see these environment variables even if their values are [secrets], or the
    /// stage starts with `PATH` alone (`tool_env_inherit=false`). Other variables need not be listed: commands see them
    /// unless the stage inherits none.
    ///
    /// This does not affect the commands that a model starts. They see the variables that the tools of the agent are
    /// given.
    ///
    /// [secrets]: EngineBuilder::secrets
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> EngineBuilder {
        self.inherit_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Withholds these environment variables from the commands of all tool stages, even if a stage or
    /// [`inherit_env`](EngineBuilder::inherit_env) requests them. Variables that hold the keys of the
    /// [backend](CodergenBackend::key_variables) are always withheld.
    ///
    /// ```
    /// use orchestra_engine::Engine;
    /// let engine = Engine::builder().withhold_env(["HOUSE_MODELS_KEY"]).build()?;
    /// # Ok::<(), orchestra_engine::BuildError>(())
    /// ```
    #[must_use]
    pub fn withhold_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> EngineBuilder {
        self.withheld_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the folder in which tools run. The default is the working directory of the program.
    #[must_use]
    pub fn working_dir(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.working_dir = Some(folder.into());
        self
    }

    /// Simulates runs: calls no models, tools or handlers, unless the script [runs handlers](Script::run_handlers) or
    /// simulates [models only](Script::models_only). The script determines how stages end.
    #[must_use]
    pub fn simulate(mut self, script: Script) -> EngineBuilder {
        self.script = Some(Arc::new(script));
        self
    }

    /// Sets the maximum size in bytes of an artifact without a file of its own. The default is
    /// [`ArtifactStore::THRESHOLD`] (Attractor 5.5).
    #[must_use]
    pub fn artifact_threshold(mut self, bytes: u64) -> EngineBuilder {
        self.artifact_threshold = bytes;
        self
    }

    /// Sets another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> EngineBuilder {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the workspace, which gives the stages of every run files of their own to work on and saves their changes. A
    /// run in which nothing is executed gets no files. With a workspace, the
    /// [working folder](EngineBuilder::working_dir) of the engine is ignored.
    #[must_use]
    pub fn workspace(mut self, workspace: impl Workspace) -> EngineBuilder {
        self.workspace = Some(Arc::new(workspace));
        self
    }

    pub(crate) fn shared_workspace(mut self, workspace: Arc<dyn Workspace>) -> EngineBuilder {
        self.workspace = Some(workspace);
        self
    }

    /// Sets what a run must survive before a stage counts as done. The default is a loss of power (rule D1).
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> EngineBuilder {
        self.durability = durability;
        self
    }

    /// Sets another file system for run folders, for tests.
    #[must_use]
    pub fn files(mut self, files: Arc<dyn FileSystem>) -> EngineBuilder {
        self.files = files;
        self
    }

    /// Sets another runner for the commands of tool stages, for tests. It does not run the commands that a model
    /// starts.
    #[must_use]
    pub fn processes(mut self, processes: impl ProcessRunner) -> EngineBuilder {
        self.processes = Arc::new(processes);
        self
    }

    /// Sets the secret values. They are removed from everything that leaves a run: its events, logs, files, journal and
    /// results, also in JSON and URL form, in hexadecimal and base64 ([`Redactor`]). This includes the values that
    /// stages pass to each other and the values that a run starts with. The commands of tool stages do not see
    /// environment variables that hold a secret, unless the stage lists them in `tool_env`.
    #[must_use]
    pub fn secrets(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> EngineBuilder {
        self.secrets.extend(values.into_iter().map(Into::into));
        self
    }

    /// Calls a function with the output of models while it is generated. The function should be quick, because the
    /// stage waits for it.
    #[must_use]
    pub fn on_text(mut self, callback: impl Fn(&StageText) + Send + Sync + 'static) -> EngineBuilder {
        self.on_text.push(Arc::new(callback));
        self
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// A name given to [`inherit_env`](EngineBuilder::inherit_env) cannot be the name of an environment variable.
    pub fn build(self) -> Result<Engine, BuildError> {
        let impossible = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.inherit_env.iter().find(impossible) {
            return Err(BuildError::EnvironmentName { name: name.clone() });
        }
        Ok(self.assemble())
    }

    /// Builds the engine without a check of the names of environment variables.
    pub(crate) fn assemble(self) -> Engine {
        let codergen = self.backend.clone().map(|backend| {
            let handler: Arc<dyn Handler> = Arc::new(Codergen { backend });
            handler
        });
        let redactor = Redactor::new(&self.secrets);
        let keys = self.backend.iter().flat_map(|backend| backend.keys());
        let withheld_env = self.withheld_env.into_iter().chain(keys).collect();
        let run = RunSettings {
            callbacks: self.callbacks.into(),
            clock: self.clock,
            interviewer: self.interviewer,
            script: self.script,
            inherit_env: self.inherit_env,
            withheld_env,
            artifact_threshold: self.artifact_threshold,
            runs_dir: self.runs_dir,
            files: self.files,
            processes: self.processes,
            durability: self.durability,
            redactor: Some(redactor).filter(|redactor| !redactor.is_empty()),
            on_text: self.on_text.into(),
            variables: Arc::default(),
            model_contents: false,
        };
        Engine {
            settings: Arc::new(EngineSettings {
                run: Arc::new(run),
                working_dir: self.working_dir,
                workspace: self.workspace,
                codergen,
                tool: Arc::new(Tool),
                fan_in: Arc::new(FanIn {
                    backend: self.backend,
                }),
                subpipelines: self.subpipelines,
            }),
        }
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder").finish_non_exhaustive()
    }
}
