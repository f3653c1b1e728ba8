//! Turns go on while thousands of stages are open.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use orchestra_conformance::fleet::Fleet;
use orchestra_engine::{
    Answer, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Registry, RunId,
    SharedPipeline, StageContext, Words,
};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::RemoteStart;

const OPEN: usize = 3_000;

const SPEC: KindSpec = KindSpec {
    kind: "wait",
    fields: &[],
    words: Words::Open,
};

/// A stage that never ends.
#[derive(Clone, Default)]
struct Wait(Arc<AtomicUsize>);

impl Handler for Wait {
    fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

impl HandlerSet for Wait {
    const KINDS: Kinds = Kinds::List(&[SPEC]);

    fn register(self, registry: &mut Registry) {
        registry.add(SPEC, Arc::new(self));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_takes_less_than_a_second_beside_open_stages() {
    let Some(fleet) = Fleet::start("an_answer_takes_less_than_a_second_beside_open_stages").await else {
        return;
    };
    let wait = Wait::default();
    let entry = |name: &str, dot: &str| {
        let wait = wait.clone();
        let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
        Entry::new(name, pipeline, move || wait.clone())
    };
    let gate = r#"digraph gate { start -> ask; ask [shape=hexagon, label="Ship it?"]
        ask -> exit [label="[Y] Yes"]; ask -> wait [label="[N] No"]; wait [type=wait, end=fail] }"#;
    let engine = Engine::builder().build().unwrap();
    let worker = fleet
        .worker()
        .pipeline(
            entry("wait", "digraph wait { start -> wait -> exit; wait [type=wait] }"),
            engine.clone(),
        )
        .pipeline(entry("gate", gate), engine)
        // The others wait for a slot, which takes nothing from turns.
        .stages(OPEN / 2);
    fleet.serve(&worker.build().unwrap()).await;
    let client = fleet.client();
    let starts = futures_util::stream::iter((0..OPEN).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let run = RunId::new(format!("wait-{number}")).unwrap();
            client.start(&run, RemoteStart::of("wait")).await.unwrap();
        })
    }));
    let began = Instant::now();
    starts
        .buffer_unordered(64)
        .for_each(|started| async { started.unwrap() })
        .await;
    while wait.0.load(Ordering::Relaxed) < OPEN / 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{OPEN} stages are open after {:?}", began.elapsed());
    let mut slowest = Duration::ZERO;
    for number in 0..10 {
        let run = RunId::new(format!("gate-{number}")).unwrap();
        client.start(&run, RemoteStart::of("gate")).await.unwrap();
        let began = Instant::now();
        client.answer(&run, "ask", Answer::choice("Y")).await.unwrap();
        let result = client.result(&run).await.unwrap();
        slowest = slowest.max(began.elapsed());
        assert!(result.has_ended, "{result:?}");
    }
    println!("the slowest of 10 answers took {slowest:?}");
    // Generous for a machine that does other work; the promise is a second.
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}
