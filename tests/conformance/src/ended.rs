//! The end of a run, as far as all drivers must agree on it.

use std::collections::BTreeMap;

use orchestra_core::{Context, Effect, RunFailure, SharedPipeline, Usage};
use orchestra_engine::{EventKind, ObservedStage};
use orchestra_oracle_tests::Script;
use orchestra_oracle_tests::driver::{Recording, record_seeded};
use serde_json::Value;

/// The usage of each attempt.
pub const USED: Usage = Usage {
    input_tokens: 10,
    output_tokens: 1,
    cost_micros: 3,
};

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The failure, as text.
    pub failure: Option<String>,
    /// The nodes that the main path completed.
    pub path: Vec<String>,
    /// The values at the end.
    pub context: BTreeMap<String, Value>,
    /// The usage.
    pub tokens: u64,
    /// What happened, without times, in alphabetical order.
    pub events: Vec<String>,
}

/// The fields of events that depend on the time, the order, or the way in which somebody answered.
const UNCERTAIN: &[&str] = &["duration_ms", "index", "answered_by", "delay_ms", "usage"];

impl Ended {
    /// Creates the end from what a driver returns.
    pub fn new(
        failure: Option<&RunFailure>,
        path: Vec<String>,
        context: &Context,
        used: Usage,
        events: impl IntoIterator<Item = EventKind>,
    ) -> Ended {
        let mut events: Vec<String> = events.into_iter().filter_map(line).collect();
        events.sort_unstable();
        let values = context
            .iter()
            .filter(|(key, _)| !key.starts_with("internal.") && *key != "graph.label");
        Ended {
            failure: failure.map(RunFailure::to_string),
            path,
            context: values
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect(),
            tokens: used.tokens(),
            events,
        }
    }

    /// Returns an end of which nothing is known.
    pub fn unknown() -> Ended {
        Ended::new(None, Vec::new(), &Context::new(), Usage::default(), [])
    }

    /// Returns the end without the events of attempts that were interrupted and began again.
    pub fn without_repeats(mut self) -> Ended {
        self.events.retain(|event| !event.contains("\"repeat\":true"));
        self
    }

    /// Returns how another end differs from this one; empty if it does not.
    pub fn difference(&self, other: &Ended) -> String {
        let mut text = String::new();
        let mut differ = |what: &str, one: String, other: String| {
            if one != other {
                text.push_str(&format!(
                    "{what}: {one}\n{}  not {other}\n",
                    " ".repeat(what.len())
                ));
            }
        };
        differ(
            "failure",
            format!("{:?}", self.failure),
            format!("{:?}", other.failure),
        );
        differ("path", self.path.join(" "), other.path.join(" "));
        differ(
            "context",
            format!("{:?}", self.context),
            format!("{:?}", other.context),
        );
        // An attempt that is cancelled may not have begun.
        if !self
            .events
            .iter()
            .any(|event| event.contains("\"StageCancelled\""))
        {
            differ("tokens", self.tokens.to_string(), other.tokens.to_string());
        }
        let lacks = |one: &[String], other: &[String]| {
            let mut rest = other.to_vec();
            let mut missing = Vec::new();
            for event in one {
                match rest.iter().position(|known| known == event) {
                    Some(at) => drop(rest.swap_remove(at)),
                    None => missing.push(event.clone()),
                }
            }
            missing.join("\n  ")
        };
        differ(
            "missing events",
            lacks(&self.events, &other.events),
            String::new(),
        );
        differ("more events", lacks(&other.events, &self.events), String::new());
        text
    }

    /// Returns the number of attempts.
    pub fn stages(&self) -> usize {
        self.events
            .iter()
            .filter(|event| event.contains("\"StageStarted\""))
            .count()
    }

    /// Returns the end that the machine of the core reaches by a script.
    pub fn of_machine(pipeline: &SharedPipeline, script: &Script) -> Ended {
        Ended::of_schedule(pipeline, script, script.schedule)
    }

    /// Returns the end that the machine reaches with a seed, where the script says when everything happens.
    pub fn of_schedule(pipeline: &SharedPipeline, script: &Script, seed: u64) -> Ended {
        let recording = record_seeded(pipeline.clone(), script, seed);
        let mut failure = None;
        let mut events = Vec::new();
        let mut attempts = 0;
        for effect in recording.effects() {
            match effect {
                Effect::Finish { failure: end } => failure = end.clone(),
                Effect::Observe(observation) => {
                    let observed = ObservedStage::default();
                    events.extend(EventKind::from_observation(
                        pipeline,
                        observation.clone(),
                        observed,
                    ));
                }
                Effect::RunNode { .. } => attempts += 1,
                _ => {}
            }
        }
        let main = &recording.machine.state().main;
        let path = main
            .completed
            .iter()
            .map(|node| pipeline.stage(*node).id().to_owned());
        let mut ended = Ended::new(
            failure.as_ref(),
            path.collect(),
            &main.context,
            Usage::default(),
            events,
        );
        ended.tokens = attempts * USED.tokens();
        ended
    }
}

/// Returns an event as text, without what is uncertain. Returns `None` for those of the run itself.
fn line(kind: EventKind) -> Option<String> {
    if kind.name().starts_with("Pipeline") && kind.name() != "PipelineRestarted" {
        return None;
    }
    let mut value = serde_json::to_value(kind).unwrap();
    let fields = value.as_object_mut().unwrap();
    for field in UNCERTAIN {
        fields.remove(*field);
    }
    Some(value.to_string())
}

/// Returns whether a recorded run contains no wait that takes long.
pub fn is_quick(recording: &Recording) -> bool {
    recording.effects().all(|effect| match effect {
        Effect::StartTimer { delay, .. } => delay.as_millis() < 100,
        _ => true,
    })
}
