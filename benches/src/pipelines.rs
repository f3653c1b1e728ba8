//! The pipelines and handlers that the workloads share.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Engine, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, StageContext, Words,
};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};

/// Handlers that set one small value: `noop` always the same, `each` a value per node, `turn` a counter. `filed` asks
/// for the folder of the stage, so it gets one. `nap` sleeps for [`NAP`], and `wait` never ends.
#[derive(Clone, Copy, Debug)]
pub struct Noops;

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
pub const NAP: Duration = Duration::from_millis(10);

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
pub fn lasting(text: String) -> &'static Pipeline {
    let loaded = load(Source::new("bench.dot", text), &LoadOptions::default());
    Box::leak(Box::new(loaded.pipeline().expect("the pipeline is sound")))
}

/// Returns a chain of stages of one kind.
pub fn chain(stages: usize, kind: &str) -> &'static Pipeline {
    chain_of(stages, &format!("type={kind}"))
}

/// Returns a chain of stages with the same attributes.
pub fn chain_of(stages: usize, attributes: &str) -> &'static Pipeline {
    let mut text = String::from("digraph chain {\n    graph [goal=\"Go\"]\n    start [shape=Mdiamond]\n");
    let _ = writeln!(
        text,
        "    exit [shape=Msquare]\n    node [{attributes}]\n    start -> n0"
    );
    for at in 1..stages {
        let _ = writeln!(text, "    n{} -> n{at}", at - 1);
    }
    let _ = writeln!(text, "    n{} -> exit\n}}", stages - 1);
    lasting(text)
}

/// Returns a loop over three stages with a conditional exit.
pub fn circle(turns: u32) -> &'static Pipeline {
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
pub fn fan(branches: usize, kind: &str) -> &'static Pipeline {
    fan_of(branches, &format!("type={kind}"))
}

/// Returns a fan-out to concurrent branches of one stage with these attributes each, and their join.
pub fn fan_of(branches: usize, attributes: &str) -> &'static Pipeline {
    let mut text = String::from("digraph fan {\n    start [shape=Mdiamond]\n    exit [shape=Msquare]\n");
    let _ = writeln!(
        text,
        "    fan [shape=component, max_parallel={branches}]\n    join [shape=tripleoctagon]\n    start -> fan\n    \
         join -> exit\n    node [{attributes}]"
    );
    for at in 0..branches {
        let _ = writeln!(text, "    fan -> n{at} -> join");
    }
    text.push('}');
    lasting(text)
}

/// Returns an engine without any setting.
pub fn engine() -> Engine {
    Engine::builder().build().expect("the engine is sound")
}

/// Runs a pipeline to its successful end. Returns the number of its stages.
pub async fn run(engine: &Engine, pipeline: &'static Pipeline) -> usize {
    let run = engine.start(pipeline, Noops).await.expect("the run starts");
    let result = run.wait().await.expect("the run ends");
    assert!(result.is_success(), "{result:?}");
    result.path.len()
}
