//! Runs that have ended, with what they reported.

use std::sync::{Arc, Mutex};

use orchestra::engine::{Binding, EngineBuilder, EventKind, RunEvent, StartBuilder};
use orchestra::{Engine, RunResult};

use crate::{Model, Ticks, pipeline};

/// The events of an engine, as they come.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    events: Arc<Mutex<Vec<RunEvent>>>,
}

/// An engine whose events are heard.
pub fn listening(builder: EngineBuilder) -> (Engine, Heard) {
    let heard = Heard::default();
    let events = heard.events.clone();
    let builder = builder.on_event(move |event| events.lock().unwrap().push(event.clone()));
    (builder.build().unwrap(), heard)
}

impl Heard {
    /// Runs to the end.
    pub async fn end(&self, start: StartBuilder) -> Ran {
        let result = start.await.unwrap().wait().await.unwrap();
        let events = self.events.lock().unwrap();
        Ran {
            events: events
                .iter()
                .filter(|event| event.run == result.run_id)
                .cloned()
                .collect(),
            result,
        }
    }
}

/// Runs a text to the end.
pub async fn run(text: &str, model: &Model) -> Ran {
    let (engine, heard) = listening(Engine::builder().backend(model.clone()));
    heard.end(engine.start(pipeline(text), ())).await
}

/// Runs a compiled pipeline, and its text loaded at run time, which must come to the same.
pub async fn run_both(compiled: impl Binding<()>, model: &Model) -> Ran {
    let models = [model.anew(), model.clone()];
    run_both_on(compiled, models.map(|model| Engine::builder().backend(model))).await
}

/// The same, on an engine for the text and one for the compiled pipeline. Only waits take time, so that durations are
/// the same too.
pub async fn run_both_on(compiled: impl Binding<()>, [first, second]: [EngineBuilder; 2]) -> Ran {
    let compiled = compiled.into_pipeline();
    let text = compiled.source.clone();
    let (engine, heard) = listening(first.clock(Ticks::default()));
    let of_text = heard.end(engine.start(pipeline(&text), ()).seed(7)).await;
    let (engine, heard) = listening(second.clock(Ticks::default()));
    let ran = heard.end(engine.start(compiled, ()).seed(7)).await;
    assert_eq!(ran.reported(), of_text.reported(), "{text}");
    assert_eq!(ran.result.failure, of_text.result.failure, "{text}");
    assert_eq!(ran.result.context, of_text.result.context, "{text}");
    ran
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub result: RunResult,
    /// What it reported.
    pub events: Vec<RunEvent>,
}

impl Ran {
    /// The nodes that ended, in one line.
    pub fn path(&self) -> String {
        self.result.path.join(" ")
    }

    /// Whether it succeeded, and by which nodes it went.
    #[track_caller]
    pub fn succeeds_by(&self, path: &str) {
        assert_eq!((self.path().as_str(), &self.result.failure), (path, &None));
    }

    /// The outcome word of a node; empty where it has none.
    pub fn outcome(&self, node: &str) -> &str {
        self.result
            .outcomes
            .get(node)
            .map_or("", |outcome| outcome.status.word())
    }

    /// Why it failed, as one word for machines; empty where it did not.
    pub fn failure_code(&self) -> &'static str {
        self.result.failure.as_ref().map_or("", |failure| failure.code())
    }

    /// Why it failed, in words.
    pub fn failure(&self) -> String {
        self.result
            .failure
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// The way from a node that was taken last, and the rule that chose it.
    pub fn way_from(&self, node: &str) -> (String, &'static str) {
        let way = self.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::EdgeSelected {
                from,
                to: Some(to),
                rule,
                ..
            } if *from == node => Some((to.to_string(), rule.word())),
            _ => None,
        });
        way.unwrap_or_else(|| panic!("no way from `{node}` was taken"))
    }

    /// The retries that it announced: node, number of the attempt, attempts at most, delay in milliseconds.
    pub fn retries(&self) -> Vec<(String, u32, u32, u128)> {
        let retries = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::StageRetrying {
                node,
                attempt,
                max_attempts,
                delay,
                ..
            } => Some((node.to_string(), *attempt, *max_attempts, delay.as_millis())),
            _ => None,
        });
        retries.collect()
    }

    /// The events as short lines.
    pub fn reported(&self) -> Vec<String> {
        self.events.iter().map(|event| line(&event.kind)).collect()
    }
}

/// Returns an event as a short line.
pub fn line(event: &EventKind) -> String {
    let name = event.name();
    match event {
        EventKind::StageStarted { stage, .. }
        | EventKind::StageCompleted { stage, .. }
        | EventKind::StageFailed { stage, .. } => format!("{name} {}", stage.node),
        EventKind::StageRetrying { node, .. }
        | EventKind::InterviewStarted { node, .. }
        | EventKind::InterviewCompleted { node, .. }
        | EventKind::ParallelStarted { node, .. }
        | EventKind::ParallelCompleted { node, .. }
        | EventKind::CheckpointSaved { node, .. } => format!("{name} {node}"),
        EventKind::ParallelBranchStarted { branch, .. }
        | EventKind::ParallelBranchCompleted { branch, .. } => {
            format!("{name} {branch}")
        }
        EventKind::EdgeSelected {
            from, to: Some(to), ..
        } => format!("{name} {from} -> {to}"),
        EventKind::EdgeSelected { from, .. } => format!("{name} {from} -> nowhere"),
        EventKind::GoalGateUnsatisfied { gate, to, .. } => format!("{name} {gate}: to {to}"),
        _ => name.to_owned(),
    }
}
