//! Stages that only the workers of a pool execute.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_conformance::fleet::Fleet;
use orchestra_core::RunFailure;
use orchestra_engine::{
    Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, RunId,
    SharedPipeline, StageContext, Words,
};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Client, Phase, RemoteStart, Worker};

const SPEC: KindSpec = KindSpec {
    kind: "test",
    fields: &[],
    words: Words::Open,
};

/// Notes which worker executed which stage.
#[derive(Clone)]
struct Stages {
    worker: &'static str,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Handler for Stages {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let seen = format!("{} {}", self.worker, stage.node().id());
            self.seen.lock().unwrap().push(seen);
            Outcome::success().into()
        })
    }
}

impl HandlerSet for Stages {
    const KINDS: Kinds = Kinds::List(&[SPEC]);

    fn register(self, registry: &mut Registry) {
        registry.add(SPEC, Arc::new(self));
    }
}

/// All stages are in the pool of the graph, except the first, and one that is in another.
const TRAIN: &str = r#"digraph train { pool=cpu; start -> load -> fit -> report -> exit
    load [type=test, pool=""]; fit [type=test, pool=gpu]; report [type=test] }"#;

/// Two branches, of which one has a pool.
const SPLIT: &str = r#"digraph split { start -> fork; fork [shape=component]; fork -> a -> join; fork -> b -> join
    join [shape=tripleoctagon]; join -> exit; a [type=test]; b [type=test, pool=gpu] }"#;

struct World {
    fleet: Fleet,
    client: Client,
    seen: Arc<Mutex<Vec<String>>>,
}

impl World {
    async fn start(test: &str) -> Option<World> {
        let fleet = Fleet::start(test).await?;
        Some(World {
            client: fleet.client(),
            fleet,
            seen: Arc::default(),
        })
    }

    fn worker(&self, name: &'static str, pools: &[&str], inline: bool) -> Worker {
        let mut worker = self.fleet.worker();
        for (pipeline, dot) in [("train", TRAIN), ("split", SPLIT)] {
            let stages = Stages {
                worker: name,
                seen: self.seen.clone(),
            };
            let pipeline = Entry::new(
                pipeline,
                SharedPipeline::from(load_pipeline(dot).unwrap()),
                move || stages.clone(),
            );
            worker = worker.pipeline(pipeline, Engine::builder().build().unwrap());
        }
        worker = pools.iter().fold(worker, |worker, pool| worker.pool(pool));
        if inline {
            worker = worker.inline("test");
        }
        worker.build().unwrap()
    }

    async fn begin(&self, pipeline: &str) -> RunId {
        let run = RunId::new(format!("{pipeline}-run")).unwrap();
        self.client.start(&run, RemoteStart::of(pipeline)).await.unwrap();
        run
    }

    /// Waits until the run is paused, and returns the reason.
    async fn until_paused(&self, run: &RunId) -> String {
        for _ in 0..500 {
            match self.client.status(run).await.unwrap().phase {
                Phase::Paused(RunFailure::Paused { reason }) => return reason,
                Phase::Running => tokio::time::sleep(Duration::from_millis(20)).await,
                other => panic!("{other:?}"),
            }
        }
        panic!("{:?}", self.client.status(run).await);
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_is_executed_by_a_worker_of_its_pool() {
    let Some(world) = World::start("a_stage_is_executed_by_a_worker_of_its_pool").await else {
        return;
    };
    world.fleet.serve(&world.worker("large", &["gpu"], false)).await;
    // Takes the turns of all runs, and would execute everything that has no pool.
    world.fleet.serve(&world.worker("small", &["cpu"], true)).await;
    let run = world.begin("train").await;
    assert_eq!(world.client.wait(&run).await.unwrap().failure, None);
    assert_eq!(world.seen(), ["small load", "large fit", "small report"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_a_pool_that_no_worker_serves() {
    let Some(world) = World::start("a_run_waits_for_a_pool_that_no_worker_serves").await else {
        return;
    };
    world.fleet.serve(&world.worker("small", &["cpu"], false)).await;
    let run = world.begin("train").await;
    let reason = "no worker of the server serves the pool `gpu`, which node `fit` needs; start one, then resume the run";
    assert_eq!(world.until_paused(&run).await, reason);
    // It is asked for again, and still not served.
    world.client.resume(&run, None).await.unwrap();
    assert_eq!(world.until_paused(&run).await, reason);
    let split = world.begin("split").await;
    assert!(world.until_paused(&split).await.contains("node `b` needs"));
    assert_eq!(world.client.status(&split).await.unwrap().stages.len(), 0);
    world.seen();
    world.fleet.serve(&world.worker("large", &["gpu"], false)).await;
    for run in [&run, &split] {
        world.client.resume(run, None).await.unwrap();
        assert_eq!(world.client.wait(run).await.unwrap().failure, None);
    }
    let seen = world.seen();
    let count = |stage: &str| seen.iter().filter(|seen| seen.ends_with(stage)).count();
    assert_eq!(
        [" load", " fit", " report", " b"].map(count),
        [0, 1, 1, 1],
        "{seen:?}"
    );
}
