//! The pipelines that a program is compiled with.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use orchestra_engine::{Binding, Engine, RunHandle, StartError, Supplies};
use orchestra_graph::Pipeline;
use serde_json::Value;

/// What a run is started with.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct StartOptions {
    pub(crate) params: Vec<(String, Value)>,
    pub(crate) seed: Option<u64>,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) max_time: Option<Duration>,
}

type StartFuture<'e> = Pin<Box<dyn Future<Output = Result<RunHandle, StartError>> + 'e>>;
type Start = Box<dyn for<'e> Fn(&'e Engine, StartOptions) -> StartFuture<'e>>;

/// A pipeline that a program is compiled with, and how to start it. `orchestra::main!` makes these.
pub struct Entry {
    name: String,
    pipeline: &'static Pipeline,
    start: Start,
}

impl Entry {
    /// An entry of a bound pipeline; `handlers` makes its handlers anew for each run.
    pub fn new<B, H, S>(name: &str, binding: B, handlers: H) -> Entry
    where
        B: Binding + Clone + 'static,
        H: Fn() -> S + 'static,
        S: Supplies<B::Handlers>,
    {
        let pipeline = binding.pipeline();
        let start: Start = Box::new(move |engine, options| {
            let start = with_options(engine.start(binding.clone(), handlers()), options);
            Box::pin(async move { start.await })
        });
        Entry {
            name: name.to_owned(),
            pipeline,
            start,
        }
    }

    /// An entry of a bound pipeline whose handlers have a default.
    pub fn with_default<B>(name: &str, binding: B) -> Entry
    where
        B: Binding + Clone + 'static,
        B::Handlers: Default,
    {
        Entry::new(name, binding, B::Handlers::default)
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

/// Starts a pipeline that was loaded from a file.
pub(crate) async fn start_loaded(
    engine: &Engine,
    pipeline: Pipeline,
    options: StartOptions,
) -> Result<RunHandle, StartError> {
    with_options(engine.start_loaded(pipeline, ()), options).await
}
