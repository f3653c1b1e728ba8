//! The pipelines that a program is compiled with.

use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Binding, Budget, CompiledConfiguration, Engine, HandlerSet, ReplayBuilder, ResumeBuilder, RunHandle,
    SharedPipeline, StartBuilder, StartError,
};
use orchestra_graph::{ShapeFallback, Transform};
use serde_json::Value;

/// The way in which a run begins or is resumed.
#[derive(Debug)]
pub(crate) enum Begin {
    /// Starts a new run.
    Start(StartSettings),
    /// Resumes a run that stopped.
    Resume {
        folder: PathBuf,
        settings: ResumeSettings,
        take_over: bool,
        retry: bool,
    },
    /// Starts a new run from a checkpoint of another run.
    Replay {
        folder: PathBuf,
        checkpoint: String,
        run_dir: Option<PathBuf>,
        settings: ResumeSettings,
    },
}

/// The settings with which a run starts.
#[derive(Debug, Default)]
pub(crate) struct StartSettings {
    pub(crate) params: Vec<(String, Value)>,
    pub(crate) seed: Option<u64>,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) limits: Limits,
}

/// The settings with which a run is resumed or replayed.
#[derive(Debug, Default)]
pub(crate) struct ResumeSettings {
    pub(crate) accept_changes: bool,
    /// `true` to resume the run although some of its records are lost.
    pub(crate) accept_loss: bool,
    pub(crate) limits: Limits,
}

/// The limits at which a run pauses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) budget: Budget,
}

type BeginFuture = Pin<Box<dyn Future<Output = Result<RunHandle, StartError>>>>;
type BeginRun = Box<dyn Fn(&Engine, Begin) -> BeginFuture + Send>;

/// A pipeline that a program is compiled with, and the function that starts it. `orchestra::main!` creates these.
///
/// The code that the macro generates is equivalent to this:
///
/// ```
/// use orchestra_cli::Entry;
/// use orchestra_engine::{Binding, SharedPipeline};
/// use orchestra_graph::{Pipeline, Source, load};
/// use std::sync::LazyLock;
///
/// static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
///     let source = Source::new("hello.dot", "digraph hello { start -> greet -> exit }");
///     load(source, &Default::default()).pipeline().expect("sound")
/// });
///
/// #[derive(Clone)]
/// struct Hello;
/// impl Binding<()> for Hello {
///     fn into_pipeline(self) -> SharedPipeline {
///         SharedPipeline::Static(&HELLO)
///     }
/// }
///
/// let entry = Entry::with_default("hello", Hello);
/// assert_eq!((entry.name(), entry.pipeline().nodes.len()), ("hello", 3));
/// ```
pub struct Entry {
    name: String,
    pipeline: SharedPipeline,
    configuration: Option<CompiledConfiguration>,
    begin: BeginRun,
}

impl Entry {
    /// Creates an entry of a bound pipeline. `handlers` creates new handlers for each run.
    pub fn new<B, H>(name: &str, binding: B, handlers: impl Fn() -> H + Send + 'static) -> Entry
    where
        B: Binding<H> + Clone + Send + 'static,
        H: HandlerSet,
    {
        let configuration = binding.configuration();
        let pipeline = binding.clone().into_pipeline();
        let begin: BeginRun = Box::new(move |engine, begin| {
            let (binding, handlers) = (binding.clone(), handlers());
            match begin {
                Begin::Start(settings) => start(engine.start(binding, handlers), settings),
                Begin::Resume {
                    folder,
                    settings,
                    take_over,
                    retry,
                } => resume(
                    engine.resume(folder, binding, handlers),
                    settings,
                    take_over,
                    retry,
                ),
                Begin::Replay {
                    folder,
                    checkpoint,
                    run_dir,
                    settings,
                } => replay(
                    engine.replay(folder, checkpoint, binding, handlers),
                    run_dir,
                    settings,
                ),
            }
        });
        Entry {
            name: name.to_owned(),
            pipeline,
            configuration,
            begin,
        }
    }

    /// Creates an entry of a bound pipeline whose handlers implement `Default`.
    pub fn with_default<B, H>(name: &str, binding: B) -> Entry
    where
        B: Binding<H> + Clone + Send + 'static,
        H: HandlerSet + Default,
    {
        Entry::new(name, binding, H::default)
    }

    /// Returns the name of the pipeline on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &SharedPipeline {
        &self.pipeline
    }

    /// Returns the project configuration with which the pipeline was checked.
    pub(crate) fn configuration(&self) -> Option<CompiledConfiguration> {
        self.configuration
    }

    pub(crate) async fn begin(&self, engine: &Engine, begin: Begin) -> Result<RunHandle, StartError> {
        (self.begin)(engine, begin).await
    }
}

/// Starts, resumes or replays a run of a pipeline that was loaded from a file.
pub(crate) async fn begin_loaded(
    engine: &Engine,
    pipeline: SharedPipeline,
    begin: Begin,
) -> Result<RunHandle, StartError> {
    let begin_future = match begin {
        Begin::Start(settings) => start(engine.start(pipeline, ()), settings),
        Begin::Resume {
            folder,
            settings,
            take_over,
            retry,
        } => {
            let builder = engine.resume(folder, pipeline, ()).transforms(run_transforms());
            resume(builder, settings, take_over, retry)
        }
        Begin::Replay {
            folder,
            checkpoint,
            run_dir,
            settings,
        } => {
            let builder = engine.replay(folder, checkpoint, pipeline, ());
            let builder = builder.configure_resume(|resume| resume.transforms(run_transforms()));
            replay(builder, run_dir, settings)
        }
    };
    begin_future.await
}

/// Returns the transforms for loading a file to run it. This program has no handlers for custom types.
pub(crate) fn run_transforms() -> Vec<Arc<dyn Transform>> {
    vec![Arc::new(ShapeFallback::default())]
}

/// Returns the transforms for loading a file to check it. Another program may have handlers for its types.
pub(crate) fn check_transforms() -> Vec<Arc<dyn Transform>> {
    vec![Arc::new(ShapeFallback::default().noted())]
}

fn start(mut start: StartBuilder, settings: StartSettings) -> BeginFuture {
    for (key, value) in settings.params {
        start = start.param(key, value);
    }
    if let Some(seed) = settings.seed {
        start = start.seed(seed);
    }
    if let Some(folder) = settings.run_dir {
        start = start.run_dir(folder);
    }
    if let Some(limit) = settings.limits.time {
        start = start.max_time(limit);
    }
    Box::pin(start.budget(settings.limits.budget).into_future())
}

fn resume(builder: ResumeBuilder, settings: ResumeSettings, take_over: bool, retry: bool) -> BeginFuture {
    let mut builder = configure_resume(builder, &settings);
    if retry {
        builder = builder.retry();
    }
    if take_over {
        builder = builder.take_over();
    }
    Box::pin(builder.into_future())
}

fn replay(builder: ReplayBuilder, run_dir: Option<PathBuf>, settings: ResumeSettings) -> BeginFuture {
    let mut builder = builder.configure_resume(|resume| configure_resume(resume, &settings));
    if let Some(folder) = run_dir {
        builder = builder.run_dir(folder);
    }
    Box::pin(builder.into_future())
}

fn configure_resume(mut builder: ResumeBuilder, settings: &ResumeSettings) -> ResumeBuilder {
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
