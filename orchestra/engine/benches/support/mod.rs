//! Shared parts of the benchmarks: pipelines, handlers that do nothing, and the output format.
#![allow(dead_code, clippy::expect_used, clippy::print_stdout)]

pub(crate) mod constant;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_engine::{
    Engine, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, StageContext, Words,
};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};

/// Handlers that set one small value: `noop` always the same, `each` a value per node, `turn` a counter. `filed` asks for
/// the folder of the stage, so it gets one.
pub(crate) struct Noops;

const SPECS: &[KindSpec] = &[
    spec("noop"),
    spec("each"),
    spec("turn"),
    spec("wait"),
    spec("nap"),
    spec("filed"),
];

const fn spec(kind: &'static str) -> KindSpec {
    KindSpec {
        kind,
        fields: &[],
        words: Words::Open,
    }
}

impl HandlerSet for Noops {
    const KINDS: Kinds = Kinds::List(SPECS);

    fn register(self, registry: &mut Registry) {
        registry.add(SPECS[0], Arc::new(Noop));
        registry.add(SPECS[1], Arc::new(Each));
        registry.add(SPECS[2], Arc::new(Turn));
        registry.add(SPECS[3], Arc::new(Wait));
        registry.add(SPECS[4], Arc::new(Nap));
        registry.add(SPECS[5], Arc::new(Filed));
    }
}

struct Noop;
impl Handler for Noop {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let _ = stage;
            Outcome::success().set("value", 1).into()
        })
    }
}

struct Filed;
impl Handler for Filed {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            stage.stage_dir().expect("the folder is made");
            Outcome::success().set("value", 1).into()
        })
    }
}

struct Each;
impl Handler for Each {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { Outcome::success().set(stage.node().id(), 1).into() })
    }
}

struct Turn;
impl Handler for Turn {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { Outcome::success().set("turn", stage.visit()).into() })
    }
}

/// The duration of a stage of kind `nap`.
pub(crate) const NAP: Duration = Duration::from_millis(10);

struct Nap;
impl Handler for Nap {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            tokio::time::sleep(NAP).await;
            drop(stage);
            Outcome::success().set("value", 1).into()
        })
    }
}

struct Wait;
impl Handler for Wait {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let _held = stage;
            std::future::pending().await
        })
    }
}

/// Returns a pipeline that lives as long as the program, like a compiled one.
pub(crate) fn lasting(text: String) -> &'static Pipeline {
    let loaded = load(Source::new("bench.dot", text), &LoadOptions::default());
    Box::leak(Box::new(loaded.pipeline().expect("the pipeline is sound")))
}

/// Returns a chain of stages of one kind.
pub(crate) fn chain(stages: usize, kind: &str) -> &'static Pipeline {
    let mut text = format!("digraph chain {{\n    graph [goal=\"Go\"]\n    node [type={kind}]\n");
    text.push_str(
        "    start [shape=Mdiamond, type=start]\n    exit [shape=Msquare, type=exit]\n    start -> n0\n",
    );
    for at in 1..stages {
        let _ = writeln!(text, "    n{} -> n{at}", at - 1);
    }
    let _ = writeln!(text, "    n{} -> exit\n}}", stages - 1);
    lasting(text)
}

/// Returns a loop over three stages with a conditional exit.
pub(crate) fn circle(turns: u32) -> &'static Pipeline {
    lasting(format!(
        "digraph circle {{
            graph [max_node_visits=1000000]
            node [type=turn]
            start [shape=Mdiamond, type=start]
            exit [shape=Msquare, type=exit]
            start -> a -> b -> c
            c -> exit [condition=\"context.turn={turns}\"]
            c -> a
        }}"
    ))
}

/// Returns a fan-out to concurrent branches of one stage each, and their join.
pub(crate) fn fan(branches: usize, kind: &str) -> &'static Pipeline {
    let mut text = format!(
        "digraph fan {{\n    start -> fan\n    fan [shape=component, max_parallel={branches}]\n    node [type={kind}]\n"
    );
    for at in 0..branches {
        let _ = writeln!(text, "    fan -> n{at} -> join");
    }
    text.push_str(
        "    join [shape=tripleoctagon, type=\"parallel.fan_in\"]\n    exit [shape=Msquare, type=exit]\n",
    );
    text.push_str("    join -> exit\n}");
    lasting(text)
}

pub(crate) fn engine() -> Engine {
    Engine::builder().build().expect("the engine is sound")
}

pub(crate) async fn run(engine: &Engine, pipeline: &'static Pipeline) -> usize {
    let run = engine.start(pipeline, Noops).await.expect("the run starts");
    let result = run.wait().await.expect("the run ends");
    assert!(result.is_success(), "{result:?}");
    result.path.len()
}

pub(crate) fn single() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Returns the median time of the rounds, divided by `parts`, in microseconds.
pub(crate) fn median(rounds: usize, parts: usize, mut round: impl FnMut()) -> f64 {
    round();
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            round();
            began.elapsed().as_secs_f64() * 1e6 / parts as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub(crate) fn print(name: &str, unit: &str, ours: f64, limit: f64, target: f64) {
    let figure = |value: f64| (value * 1e4).round() / 1e4;
    let line = serde_json::json!({
        "name": name, "unit": unit, "ours": figure(ours), "limit": figure(limit), "target": target,
        "ratio": figure(ours / limit),
    });
    println!("{line}");
}

/// Returns the median of some figures.
pub(crate) fn middle(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
