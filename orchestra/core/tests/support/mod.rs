//! A run of the machine by hand: stages end, timers ring and people answer when a test says so, by the names of effects.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use orchestra_core::{
    Answer, Context, Effect, EffectId, Event, Line, Machine, Observation, Outcome, RunFailure, SharedPipeline,
};
use orchestra_graph::{LoadOptions, Source, load};
use serde_json::Value;

/// The pipeline of some statements.
pub fn pipeline(statements: &str) -> SharedPipeline {
    let text = format!("digraph {{ {statements} }}");
    let loaded = load(Source::new("a.dot", &text), &LoadOptions::default());
    let report = format!("{:?}", loaded.report);
    let pipeline = loaded.pipeline().unwrap_or_else(|| panic!("{text}\n{report}"));
    pipeline.into()
}

/// A run.
pub struct Run {
    pub machine: Machine,
    /// All effects so far.
    pub effects: Vec<Effect>,
}

impl Run {
    /// Begins a run of some statements.
    pub fn of(statements: &str) -> Run {
        let mut effects = Vec::new();
        let machine = Machine::start(pipeline(statements), Context::new(), 7, &mut effects);
        Run { machine, effects }
    }

    /// Runs some statements to the end: every stage gives the outcome that the function makes of its id, visit and
    /// attempt, every back-off is over at once, and no question is answered.
    pub fn to_end(statements: &str, give: impl Fn(&str, u32, u32) -> Outcome) -> Run {
        let mut run = Run::of(statements);
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

    /// Tells an event; gives how many effects came of it.
    pub fn on(&mut self, event: Event) -> usize {
        let before = self.effects.len();
        self.machine.on(event, &mut self.effects);
        self.effects.len() - before
    }

    /// The names of what is waited for.
    pub fn pending(&self) -> Vec<String> {
        let pending = self.machine.pending().into_iter();
        pending.map(|id| id.name(self.machine.pipeline())).collect()
    }

    /// What is waited for under a name.
    pub fn id(&self, name: &str) -> EffectId {
        let pending = self.machine.pending();
        let mut named = pending.into_iter();
        let id = named.find(|id| id.name(self.machine.pipeline()) == name);
        id.unwrap_or_else(|| panic!("`{name}` is not waited for, but {:?}", self.pending()))
    }

    /// A stage ends.
    pub fn ends(&mut self, name: &str, outcome: Outcome) -> &mut Run {
        let id = self.id(name);
        assert!(self.on(Event::NodeFinished { id, outcome }) > 0, "{name}");
        self
    }

    /// A stage ends well.
    pub fn succeeds(&mut self, name: &str) -> &mut Run {
        self.ends(name, Outcome::success())
    }

    /// A stage fails.
    pub fn fails(&mut self, name: &str) -> &mut Run {
        self.ends(name, Outcome::fail("broken"))
    }

    /// A timer rings.
    pub fn rings(&mut self, name: &str) -> &mut Run {
        let id = self.id(name);
        assert!(self.on(Event::TimerFired { id }) > 0, "{name}");
        self
    }

    /// A person answers; says whether the answer was taken.
    pub fn answers(&mut self, name: &str, answer: Answer) -> bool {
        let id = self.id(name);
        self.on(Event::Answered { id, answer }) > 0
    }

    /// The nodes that ended, in order.
    pub fn path(&self) -> String {
        let path = &self.line().path;
        let ids = path.iter().map(|node| self.machine.pipeline().stage(*node).id());
        ids.collect::<Vec<_>>().join(" ")
    }

    /// The main line.
    pub fn line(&self) -> &Line {
        &self.machine.state().main
    }

    /// A value of the context, as JSON; `null` where there is none.
    pub fn value(&self, key: &str) -> Value {
        self.line().context.get(key).cloned().unwrap_or_default()
    }

    /// The latest outcome word of a node; empty where it has none.
    pub fn word(&self, node: &str) -> String {
        let at = self.machine.pipeline().find(node).unwrap();
        let outcome = self.line().outcomes.get(at);
        outcome.map_or(String::new(), |outcome| outcome.status.word().to_owned())
    }

    /// How the run ended.
    pub fn end(&self) -> Option<RunFailure> {
        match self.effects.last() {
            Some(Effect::Finish { failure }) => failure.clone(),
            other => panic!("the run goes on: {:?}, {other:?}", self.pending()),
        }
    }

    /// The code of the failure, or `success`.
    pub fn code(&self) -> &'static str {
        self.end().map_or("success", |failure| failure.code())
    }

    /// The failure in words; empty for a success.
    pub fn failure(&self) -> String {
        self.end().map_or(String::new(), |failure| failure.to_string())
    }

    /// What observers were told, each in a word or two: `starts a#1/1`, `a ends as fail`, `cancels a#1/1`.
    pub fn told(&self) -> Vec<String> {
        let pipeline = self.machine.pipeline();
        let told = self.effects.iter().filter_map(|effect| match effect {
            Effect::Observe(observation) => Some(observation),
            _ => None,
        });
        let told = told.filter_map(|observation| match observation {
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
        told.collect()
    }

    /// Whether observers were told.
    pub fn was_told(&self, told: &str) -> bool {
        self.told().iter().any(|one| one == told)
    }

    /// The delays between attempts.
    pub fn delays(&self) -> Vec<Duration> {
        let told = self.effects.iter().filter_map(|effect| match effect {
            Effect::Observe(Observation::StageRetrying { delay, .. }) => Some(*delay),
            _ => None,
        });
        told.collect()
    }
}

/// The name of what an effect begins.
fn of(effect: &Effect) -> Option<&EffectId> {
    match effect {
        Effect::RunNode { id, .. } | Effect::StartTimer { id, .. } | Effect::AskHuman { id, .. } => Some(id),
        _ => None,
    }
}
