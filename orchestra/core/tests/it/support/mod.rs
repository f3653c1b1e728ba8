//! A driver for tests that controls the machine by hand: a test ends stages, fires timers and answers questions by the
//! names of their effects.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use orchestra_core::{
    Answer, Context, Effect, EffectId, Event, ExecutionPath, Machine, Observation, Outcome, RunFailure,
    SharedPipeline,
};
use orchestra_graph::{LoadOptions, Source, load};
use serde_json::Value;

/// Loads a pipeline from statements.
pub fn pipeline(statements: &str) -> SharedPipeline {
    let text = format!("digraph {{ {statements} }}");
    let loaded = load(Source::new("a.dot", &text), &LoadOptions::default());
    let report = format!("{:?}", loaded.report);
    let pipeline = loaded.pipeline().unwrap_or_else(|| panic!("{text}\n{report}"));
    pipeline.into()
}

/// A run under the control of a test.
pub struct Run {
    pub machine: Machine,
    /// All effects so far.
    pub effects: Vec<Effect>,
}

impl Run {
    /// Starts a run of some statements.
    pub fn from_statements(statements: &str) -> Run {
        let mut effects = Vec::new();
        let machine = Machine::start(pipeline(statements), Context::new(), 7, &mut effects);
        Run { machine, effects }
    }

    /// Runs some statements to the end. The function provides the outcome of every stage from its id, visit and
    /// attempt; every back-off ends at once, and no question is answered.
    pub fn to_end(statements: &str, give: impl Fn(&str, u32, u32) -> Outcome) -> Run {
        let mut run = Run::from_statements(statements);
        while let Some(id) = run.machine.pending().first().cloned() {
            let node = run.machine.pipeline().stage(id.node).id().to_owned();
            let rings =
                |effect: &Effect| matches!(effect, Effect::StartTimer { id: timer, .. } if *timer == id);
            let event = match run.effects.iter().rev().find(|effect| of(effect) == Some(&id)) {
                Some(effect) if rings(effect) => Event::TimerFired { id },
                _ => Event::NodeFinished {
                    outcome: give(&node, id.visit, id.attempt),
                    id,
                },
            };
            run.on(event);
        }
        run
    }

    /// Applies an event and returns the number of effects that it produced.
    pub fn on(&mut self, event: Event) -> usize {
        let before = self.effects.len();
        self.machine.on(event, &mut self.effects);
        self.effects.len() - before
    }

    /// Returns the names of all pending effects.
    pub fn pending(&self) -> Vec<String> {
        let pending = self.machine.pending().into_iter();
        pending.map(|id| id.name(self.machine.pipeline())).collect()
    }

    /// Returns the pending effect with this name.
    pub fn id(&self, name: &str) -> EffectId {
        let pending = self.machine.pending();
        let mut named = pending.into_iter();
        let id = named.find(|id| id.name(self.machine.pipeline()) == name);
        id.unwrap_or_else(|| panic!("`{name}` is not waited for, but {:?}", self.pending()))
    }

    /// Ends a stage.
    pub fn ends(&mut self, name: &str, outcome: Outcome) -> &mut Run {
        let id = self.id(name);
        assert!(self.on(Event::NodeFinished { id, outcome }) > 0, "{name}");
        self
    }

    /// Ends a stage with a success.
    pub fn succeeds(&mut self, name: &str) -> &mut Run {
        self.ends(name, Outcome::success())
    }

    /// Ends a stage with a failure.
    pub fn fails(&mut self, name: &str) -> &mut Run {
        self.ends(name, Outcome::fail("broken"))
    }

    /// Fires a timer.
    pub fn rings(&mut self, name: &str) -> &mut Run {
        let id = self.id(name);
        assert!(self.on(Event::TimerFired { id }) > 0, "{name}");
        self
    }

    /// Answers a question. Returns `true` if the answer was accepted.
    pub fn answers(&mut self, name: &str, answer: Answer) -> bool {
        let id = self.id(name);
        self.on(Event::Answered { id, answer }) > 0
    }

    /// Returns the nodes that ended, in order.
    pub fn path(&self) -> String {
        let path = &self.main().completed;
        let ids = path.iter().map(|node| self.machine.pipeline().stage(*node).id());
        ids.collect::<Vec<_>>().join(" ")
    }

    /// Returns the main path.
    pub fn main(&self) -> &ExecutionPath {
        &self.machine.state().main
    }

    /// Returns a value of the context as JSON; `null` if there is none.
    pub fn value(&self, key: &str) -> Value {
        self.main().context.get(key).cloned().unwrap_or_default()
    }

    /// Returns the name of a node's latest status; empty if there is none.
    pub fn word(&self, node: &str) -> String {
        let at = self.machine.pipeline().find(node).unwrap();
        let outcome = self.main().outcomes.get(at);
        outcome.map_or(String::new(), |outcome| outcome.status.word().to_owned())
    }

    /// Returns the failure with which the run ended; `None` for a success.
    pub fn end(&self) -> Option<RunFailure> {
        match self.effects.last() {
            Some(Effect::Finish { failure }) => failure.clone(),
            other => panic!("the run goes on: {:?}, {other:?}", self.pending()),
        }
    }

    /// Returns the code of the failure, or `success`.
    pub fn code(&self) -> &'static str {
        self.end().map_or("success", |failure| failure.code())
    }

    /// Returns the message of the failure; empty for a success.
    pub fn failure(&self) -> String {
        self.end().map_or(String::new(), |failure| failure.to_string())
    }

    /// Returns the observations as short texts: `starts a#1/1`, `a ends as fail`, `cancels a#1/1`.
    pub fn reported(&self) -> Vec<String> {
        let pipeline = self.machine.pipeline();
        let reported = self.effects.iter().filter_map(|effect| match effect {
            Effect::Observe(observation) => Some(observation),
            _ => None,
        });
        let reported = reported.filter_map(|observation| match observation {
            Observation::StageStarted { id, .. } => Some(format!("starts {}", id.name(pipeline))),
            Observation::StageCompleted { id, outcome, .. }
            | Observation::StageFailed { id, outcome, .. } => {
                Some(format!("{} ends as {}", id.name(pipeline), outcome.status.word()))
            }
            Observation::StageCancelled { id, .. } => Some(format!("cancels {}", id.name(pipeline))),
            Observation::StageRetrying { id, delay, .. } => Some(format!(
                "waits {} ms for {}",
                delay.as_millis(),
                id.name(pipeline)
            )),
            Observation::ParallelBranchCompleted { branch, status, .. } => {
                Some(format!("{} ends as {}", branch.name(pipeline), status.word()))
            }
            Observation::GoalGateUnsatisfied { gate, target, .. } => Some(format!(
                "{} sends back to {}",
                pipeline.stage(*gate).id(),
                pipeline.stage(*target).id()
            )),
            Observation::Routed { from, decision, .. } => {
                let from = pipeline.stage(*from).id();
                Some(format!("{from} by {}", decision.rule.word()))
            }
            Observation::Restarted { restart, .. } => Some(format!("restarts, {restart}")),
            _ => None,
        });
        reported.collect()
    }

    /// Returns `true` if this observation was emitted.
    pub fn was_reported(&self, reported: &str) -> bool {
        self.reported().iter().any(|one| one == reported)
    }

    /// Returns the delays between attempts.
    pub fn delays(&self) -> Vec<Duration> {
        let reported = self.effects.iter().filter_map(|effect| match effect {
            Effect::Observe(Observation::StageRetrying { delay, .. }) => Some(*delay),
            _ => None,
        });
        reported.collect()
    }
}

/// Returns the id of the effect if it starts something.
fn of(effect: &Effect) -> Option<&EffectId> {
    match effect {
        Effect::RunNode { id, .. } | Effect::StartTimer { id, .. } | Effect::AskHuman { id, .. } => Some(id),
        _ => None,
    }
}
