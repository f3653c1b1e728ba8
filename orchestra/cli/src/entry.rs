//! The pipelines that a program is compiled with.

use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use orchestra_engine::{
    Binding, Engine, HandlerSet, RunHandle, SharedPipeline, StartBuilder, StartError, Supplies,
};
use orchestra_graph::Pipeline;
use serde_json::Value;

/// What a run is started with.
#[derive(Debug, Default)]
pub(crate) struct StartOptions {
    pub(crate) params: Vec<(String, Value)>,
    pub(crate) seed: Option<u64>,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) max_time: Option<Duration>,
}

type StartFuture = Pin<Box<dyn Future<Output = Result<RunHandle, StartError>>>>;
type Start = Box<dyn Fn(&Engine, StartOptions) -> StartFuture>;

/// A pipeline that a program is compiled with, and how to start it. `orchestra::main!` makes these.
///
/// What the macro writes, by hand:
///
/// ```
/// use orchestra_cli::Entry;
/// use orchestra_engine::{Binding, Builtin};
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
/// impl Binding<Builtin> for Hello {
///     fn pipeline(&self) -> &'static Pipeline {
///         &HELLO
///     }
/// }
///
/// let entry = Entry::with_default("hello", Hello);
/// assert_eq!((entry.name(), entry.pipeline().nodes.len()), ("hello", 3));
/// ```
pub struct Entry {
    name: String,
    pipeline: &'static Pipeline,
    start: Start,
}

impl Entry {
    /// An entry of a bound pipeline; `handlers` makes its handlers anew for each run.
    pub fn new<B, H, S>(name: &str, binding: B, handlers: impl Fn() -> S + 'static) -> Entry
    where
        B: Binding<H> + Clone + 'static,
        H: HandlerSet,
        S: Supplies<H>,
    {
        let pipeline = binding.pipeline();
        let start: Start = Box::new(move |engine, options| {
            let start = with_options(engine.start(binding.clone(), handlers()), options);
            Box::pin(start.into_future())
        });
        Entry {
            name: name.to_owned(),
            pipeline,
            start,
        }
    }

    /// An entry of a bound pipeline whose handlers have a default.
    pub fn with_default<B, H>(name: &str, binding: B) -> Entry
    where
        B: Binding<H> + Clone + 'static,
        H: HandlerSet + Default,
    {
        Entry::new(name, binding, H::default)
    }

    /// The name by which the command line knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &'static Pipeline {
        self.pipeline
    }

    pub(crate) async fn start(
        &self,
        engine: &Engine,
        options: StartOptions,
    ) -> Result<RunHandle, StartError> {
        (self.start)(engine, options).await
    }
}

fn with_options(mut start: StartBuilder, options: StartOptions) -> StartBuilder {
    for (key, value) in options.params {
        start = start.param(key, value);
    }
    if let Some(seed) = options.seed {
        start = start.seed(seed);
    }
    if let Some(folder) = options.run_dir {
        start = start.run_dir(folder);
    }
    if let Some(limit) = options.max_time {
        start = start.max_time(limit);
    }
    start
}

/// Starts a pipeline that was loaded from a file.
pub(crate) async fn start_loaded(
    engine: &Engine,
    pipeline: SharedPipeline,
    options: StartOptions,
) -> Result<RunHandle, StartError> {
    with_options(engine.start_loaded(pipeline, ()), options).await
}
