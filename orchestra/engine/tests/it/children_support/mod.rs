//! Shared parts of the tests of child runs: parents with children, and a clock that tokio's tests can control.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_engine::{Clock, Durability, Engine, EngineBuilder, RunEvent, Sleep, Timestamp};
use orchestra_graph::table::Child;
use orchestra_graph::{Pipeline, SharedPipeline};

/// The clock of tokio, which a test with `start_paused` advances whenever nothing else happens.
pub(crate) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub(crate) fn new() -> TokioClock {
        TokioClock(tokio::time::Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.elapsed().as_millis() as u64)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Adds a child pipeline to a node of a parent.
pub(crate) fn with_child(mut parent: Pipeline, node: &str, child: impl Into<SharedPipeline>) -> Pipeline {
    let at = parent.find(node).unwrap().at();
    let index = parent.children.len() as u32;
    parent.children.to_mut().push(Child {
        file: "child.dot".into(),
        pipeline: child.into(),
    });
    parent.nodes.to_mut()[at].child = Some(index);
    parent
}

/// The events of all runs of an engine.
pub(crate) type Heard = Arc<Mutex<Vec<RunEvent>>>;

/// Builds an engine on tokio's clock that collects the events of all runs.
pub(crate) fn engine(builder: EngineBuilder) -> (Engine, Heard) {
    let heard = Heard::default();
    let list = heard.clone();
    let builder = builder
        .clock(TokioClock::new())
        .on_event(move |event| list.lock().unwrap().push(event.clone()));
    (builder.build().unwrap(), heard)
}

/// Returns the events of one run as short lines.
pub(crate) fn lines(heard: &Heard, run: &str, short: impl Fn(&RunEvent) -> String) -> Vec<String> {
    let heard = heard.lock().unwrap();
    heard
        .iter()
        .filter(|event| &*event.run == run)
        .map(short)
        .collect()
}

/// Returns an engine that persists its runs without waiting for other threads, during which tokio's clock would
/// advance.
pub(crate) fn kept_in(folder: &std::path::Path) -> EngineBuilder {
    let builder = Engine::builder().runs_dir(folder);
    builder.durability(Durability::Process)
}
