//! Entries: pipelines by name, with the functions that begin their runs.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use orchestra_core::SharedPipeline;
use orchestra_graph::Transform;
use serde_json::Value;

use crate::driver::limits::Limits;
use crate::engine::Engine;
use crate::error::{Refusals, StartError};
use crate::handle::RunHandle;
use crate::handlers::binding::{Binding, CompiledConfiguration};
use crate::handlers::handler_set::HandlerSet;
use crate::host::AttemptHost;
use crate::recovery::replay::ReplayBuilder;
use crate::recovery::resume::ResumeBuilder;
use crate::setup::pinned_source::PinnedPipeline;
use crate::start::StartBuilder;

/// The way in which a run begins, as data: a command line or a server decides it before the type of the handlers is
/// known.
///
/// ```
/// use orchestra_engine::{Begin, StartSettings};
/// let settings = StartSettings {
///     params: vec![("tries".to_owned(), 3.into())],
///     ..StartSettings::default()
/// };
/// assert!(Begin::Start(settings).folder().is_none(), "a new run has no folder yet");
/// ```
#[derive(Debug)]
pub enum Begin {
    /// Starts a new run.
    Start(StartSettings),
    /// Resumes a run that stopped; see [`Engine::resume`].
    Resume {
        /// The run folder.
        folder: PathBuf,
        /// The settings.
        settings: ResumeSettings,
        /// `true` to take the run over from an owner that hangs.
        take_over: bool,
        /// `true` to retry a run that failed (rule D9).
        retry: bool,
    },
    /// Starts a new run from a checkpoint of another run; see [`Engine::replay`].
    Replay {
        /// The run folder of the other run.
        folder: PathBuf,
        /// The checkpoint, such as `cp_000012`, or the name of an attempt.
        checkpoint: String,
        /// The id of the new run; `None` to generate one.
        run_id: Option<String>,
        /// The folder of the new run; `None` for one in the folder of runs.
        run_dir: Option<PathBuf>,
        /// The settings.
        settings: ResumeSettings,
    },
}

impl Begin {
    /// Returns the folder of the run that is resumed or replayed; `None` for a new run.
    pub fn folder(&self) -> Option<&std::path::Path> {
        match self {
            Begin::Start(_) => None,
            Begin::Resume { folder, .. } | Begin::Replay { folder, .. } => Some(folder),
        }
    }
}

/// The settings with which a run starts.
///
/// ```
/// use orchestra_engine::StartSettings;
/// let settings = StartSettings { seed: Some(7), ..StartSettings::default() };
/// assert!(settings.params.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StartSettings {
    /// The values of the initial context.
    pub params: Vec<(String, Value)>,
    /// The seed of all randomness; `None` for a random one.
    pub seed: Option<u64>,
    /// The id of the run; `None` to generate one.
    pub run_id: Option<String>,
    /// The folder of the run; `None` for one in the folder of runs.
    pub run_dir: Option<PathBuf>,
    /// The limits at which the run pauses.
    pub limits: Limits,
}

/// The settings with which a run is resumed or replayed.
///
/// ```
/// use orchestra_engine::ResumeSettings;
/// let settings = ResumeSettings { accept_changes: true, ..ResumeSettings::default() };
/// assert!(!settings.accept_loss);
/// ```
#[derive(Debug, Default)]
pub struct ResumeSettings {
    /// `true` to resume the run although its pipeline was changed; see [`ResumeBuilder::accept_changes`].
    pub accept_changes: bool,
    /// `true` to resume the run although some of its records are lost; see [`ResumeBuilder::accept_loss`].
    pub accept_loss: bool,
    /// The limits at which the run pauses.
    pub limits: Limits,
}

/// The future of a run that begins.
pub type BeginFuture = Pin<Box<dyn Future<Output = Result<RunHandle, StartError>> + Send>>;

/// A pipeline with its handlers, whose type is hidden.
trait BoundPipeline: Send + Sync {
    fn check(&self, engine: &Engine) -> Result<(), Refusals>;

    fn begin(&self, engine: &Engine, begin: Begin) -> BeginFuture;

    fn version(&self, pinned: &PinnedPipeline) -> Option<SharedPipeline>;

    fn unchecked_version(&self, pinned: &PinnedPipeline) -> Option<SharedPipeline>;

    fn host(&self, engine: &Engine, pipeline: SharedPipeline) -> Result<AttemptHost, Refusals>;
}

struct WithHandlers<B, F> {
    binding: B,
    /// Creates the handlers of a run.
    handlers: F,
    transforms: Vec<Arc<dyn Transform>>,
}

impl<B, H, F> BoundPipeline for WithHandlers<B, F>
where
    B: Binding<H> + Clone + Send + Sync,
    H: HandlerSet,
    F: Fn() -> H + Send + Sync,
{
    fn check(&self, engine: &Engine) -> Result<(), Refusals> {
        engine.check(self.binding.clone(), (self.handlers)())
    }

    fn begin(&self, engine: &Engine, begin: Begin) -> BeginFuture {
        let handlers = (self.handlers)();
        begin_run(engine, self.binding.clone(), handlers, begin, &self.transforms)
    }

    fn version(&self, pinned: &PinnedPipeline) -> Option<SharedPipeline> {
        let compiled = self.binding.clone().into_pipeline();
        if pinned.is_of(&compiled) {
            return Some(compiled);
        }
        let versions = self.binding.versions().iter();
        let mut versions = versions.map(|version| SharedPipeline::Static(version.pipeline));
        let version = versions.find(|version| pinned.is_of(version));
        version.or_else(|| pinned.load(&self.transforms))
    }

    fn unchecked_version(&self, pinned: &PinnedPipeline) -> Option<SharedPipeline> {
        let version = self
            .version(pinned)
            .or_else(|| pinned.load_unchecked(&self.transforms));
        // A compiled pipeline was loaded without transforms.
        version.or_else(|| pinned.load_unchecked(&[]))
    }

    fn host(&self, engine: &Engine, pipeline: SharedPipeline) -> Result<AttemptHost, Refusals> {
        engine.host(pipeline, (self.handlers)())
    }
}

/// A pipeline by name, with the function that begins its runs; cheap to clone.
///
/// An entry hides the type of the handlers, so that a program can hold many of them, such as a command line or a server
/// for several pipelines. `orchestra::main!` creates entries of compiled pipelines.
///
/// ```
/// use orchestra_engine::{Begin, Binding, Engine, Entry, SharedPipeline};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> greet -> exit; greet [shape=diamond] }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
///
/// /// A type as `orchestra::bind!` generates it.
/// #[derive(Clone)]
/// struct Hello;
/// impl Binding<()> for Hello {
///     fn into_pipeline(self) -> SharedPipeline {
///         SharedPipeline::Static(&HELLO)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let entry = Entry::with_default("hello", Hello);
/// assert_eq!((entry.name(), entry.pipeline().nodes.len()), ("hello", 3));
/// let run = entry.begin(&Engine::builder().build()?, Begin::Start(Default::default())).await?;
/// assert!(run.wait().await?.is_success());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Entry {
    name: Arc<str>,
    pipeline: SharedPipeline,
    configuration: Option<CompiledConfiguration>,
    bound: Arc<dyn BoundPipeline>,
}

impl Entry {
    /// Creates an entry of a bound pipeline. `handlers` creates new handlers for each run.
    pub fn new<B, H>(name: &str, binding: B, handlers: impl Fn() -> H + Send + Sync + 'static) -> Entry
    where
        B: Binding<H> + Clone + Send + Sync + 'static,
        H: HandlerSet,
    {
        Entry {
            name: name.into(),
            pipeline: binding.clone().into_pipeline(),
            configuration: binding.configuration(),
            bound: Arc::new(WithHandlers {
                binding,
                handlers,
                transforms: Vec::new(),
            }),
        }
    }

    /// Creates an entry of a bound pipeline whose handlers implement `Default`.
    pub fn with_default<B, H>(name: &str, binding: B) -> Entry
    where
        B: Binding<H> + Clone + Send + Sync + 'static,
        H: HandlerSet + Default,
    {
        Entry::new(name, binding, H::default)
    }

    /// Creates an entry of a pipeline that was loaded at run time, for an engine without handlers of its own. A run
    /// whose pipeline was changed is compared with its stored text, to which the same transforms are applied.
    pub fn loaded(name: &str, pipeline: SharedPipeline, transforms: Vec<Arc<dyn Transform>>) -> Entry {
        Entry {
            name: name.into(),
            pipeline: pipeline.clone(),
            configuration: None,
            bound: Arc::new(WithHandlers {
                binding: pipeline,
                handlers: || (),
                transforms,
            }),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &SharedPipeline {
        &self.pipeline
    }

    /// Returns the project configuration with which the pipeline was checked, if it is part of the program.
    pub fn configuration(&self) -> Option<CompiledConfiguration> {
        self.configuration
    }

    /// Performs the checks of a start without starting the pipeline.
    ///
    /// # Errors
    /// The engine or the handlers lack something that the pipeline needs; everything missing is listed.
    pub fn check(&self, engine: &Engine) -> Result<(), Refusals> {
        self.bound.check(engine)
    }

    /// Returns the version of the pipeline that a run began with: this one, a locked version that the program contains, or
    /// otherwise one that is loaded from its source. Returns `None` if the source is no longer valid.
    pub fn version(&self, pinned: &PinnedPipeline) -> Option<SharedPipeline> {
        self.bound.version(pinned)
    }

    /// Returns the version of the pipeline that a run began with also if its source is no longer valid, so that the state of
    /// the run can be carried over to another version. Nothing must execute it. Returns `None` if the source cannot be
    /// understood any more.
    pub fn unchecked_version(&self, pinned: &PinnedPipeline) -> Option<SharedPipeline> {
        self.bound.unchecked_version(pinned)
    }

    /// Creates a host that executes single attempts of a [version](Entry::version) of the pipeline, for runs that another
    /// process decides about; see [`Engine::host`].
    ///
    /// # Errors
    /// The engine or the handlers lack something that the version needs.
    pub fn host(&self, engine: &Engine, version: SharedPipeline) -> Result<AttemptHost, Refusals> {
        self.bound.host(engine, version)
    }

    /// Starts, resumes or replays a run of the pipeline.
    pub fn begin(&self, engine: &Engine, begin: Begin) -> BeginFuture {
        self.bound.begin(engine, begin)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn begin_run<H: HandlerSet>(
    engine: &Engine,
    pipeline: impl Binding<H>,
    handlers: H,
    begin: Begin,
    transforms: &[Arc<dyn Transform>],
) -> BeginFuture {
    match begin {
        Begin::Start(settings) => start(engine.start_bound(pipeline, handlers), settings).into_future(),
        Begin::Resume {
            folder,
            settings,
            take_over,
            retry,
        } => {
            let builder = engine.resume(folder, pipeline, handlers);
            let mut builder = configure(builder, &settings, transforms);
            if retry {
                builder = builder.retry();
            }
            if take_over {
                builder = builder.take_over();
            }
            builder.into_future()
        }
        Begin::Replay {
            folder,
            checkpoint,
            run_id,
            run_dir,
            settings,
        } => {
            let builder = engine.replay(folder, checkpoint, pipeline, handlers);
            let builder = builder.configure_resume(|resume| configure(resume, &settings, transforms));
            place(builder, run_id, run_dir).into_future()
        }
    }
}

fn start(mut builder: StartBuilder, settings: StartSettings) -> StartBuilder {
    for (key, value) in settings.params {
        builder = builder.param(key, value);
    }
    if let Some(seed) = settings.seed {
        builder = builder.seed(seed);
    }
    if let Some(id) = settings.run_id {
        builder = builder.run_id(id);
    }
    if let Some(folder) = settings.run_dir {
        builder = builder.run_dir(folder);
    }
    if let Some(limit) = settings.limits.time {
        builder = builder.max_time(limit);
    }
    builder.budget(settings.limits.budget)
}

fn configure(
    mut builder: ResumeBuilder,
    settings: &ResumeSettings,
    transforms: &[Arc<dyn Transform>],
) -> ResumeBuilder {
    builder = builder.transforms(transforms.to_vec());
    if settings.accept_changes {
        builder = builder.accept_changes();
    }
    if settings.accept_loss {
        builder = builder.accept_loss();
    }
    if let Some(limit) = settings.limits.time {
        builder = builder.max_time(limit);
    }
    builder.budget(settings.limits.budget)
}

fn place(mut builder: ReplayBuilder, run_id: Option<String>, run_dir: Option<PathBuf>) -> ReplayBuilder {
    if let Some(id) = run_id {
        builder = builder.run_id(id);
    }
    if let Some(folder) = run_dir {
        builder = builder.run_dir(folder);
    }
    builder
}
