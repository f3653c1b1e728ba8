//! Effects and events: the whole of what the core and its driver say to each other.

use std::time::Duration;

use orchestra_graph::{Decision, NodeIndex, Pipeline};

use crate::context::Context;
use crate::failure::RunFailure;
use crate::outcome::Outcome;

/// The name of an effect, derived from its place in the run and never counted.
///
/// ```
/// use orchestra_core::{Context, Effect, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let Some(Effect::RunNode { id, .. }) = effects.last() else { panic!("the first stage is to run") };
/// assert_eq!(id.name(machine.pipeline()), "build#1/1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EffectId {
    /// The node.
    pub node: NodeIndex,
    /// Which visit of the node, from 1.
    pub visit: u32,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
}

impl EffectId {
    /// The name as text, such as `build#2/1`; the node is left out where the pipeline does not have it.
    pub fn name(&self, pipeline: &Pipeline) -> String {
        format!(
            "{}#{}/{}",
            pipeline.stage(self.node).id(),
            self.visit,
            self.attempt
        )
    }
}

/// What the driver must do, in the order given.
///
/// ```
/// use orchestra_core::{Context, Effect, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { goal=ship; start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// Machine::start(pipeline, Context::new(), 0, &mut effects);
/// for effect in effects {
///     match effect {
///         Effect::RunNode { context, .. } => assert_eq!(context.text("graph.goal"), "ship"),
///         Effect::Observe(_) => {}
///         other => panic!("nothing else is due yet: {other:?}"),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// Run a stage, and answer with [`Event::NodeFinished`].
    RunNode {
        /// The name to answer with.
        id: EffectId,
        /// The context that the stage sees.
        context: Context,
    },
    /// Stop what an effect started.
    CancelEffect {
        /// The effect.
        id: EffectId,
    },
    /// Tell whoever listens; not given where [nobody does](crate::Machine::observe).
    Observe(Observation),
    /// The run has ended.
    Finish {
        /// Why it failed; `None` for a success.
        failure: Option<RunFailure>,
    },
}

/// What has happened; the driver tells it to [`Machine::on`](crate::Machine::on).
///
/// ```
/// use orchestra_core::{Context, Effect, Event, Machine, RunFailure};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// machine.on(Event::CancelRequested { reason: "a new version".to_owned() }, &mut effects);
/// let Some(Effect::Finish { failure: Some(failure) }) = effects.last() else { panic!("the run is to end") };
/// assert_eq!(failure.code(), "cancelled");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A stage has ended; failures, even panics, are outcomes.
    NodeFinished {
        /// The effect.
        id: EffectId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// Somebody wants the run to end.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// The run took longer than it may.
    TimeUp {
        /// How long it may take.
        limit: Duration,
    },
}

/// Something that an observer may want to know (Attractor 9.6).
///
/// ```
/// use orchestra_core::{Context, Effect, Machine, Observation};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let started = effects.iter().filter(|effect| {
///     matches!(effect, Effect::Observe(Observation::StageStarted { .. }))
/// });
/// assert_eq!(started.count(), 2, "the start, and the stage behind it");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// A stage begins.
    StageStarted {
        /// Its effect.
        id: EffectId,
        /// How many stages began before it in the run.
        index: u64,
    },
    /// A stage ended otherwise than by a failure.
    StageCompleted {
        /// Its effect.
        id: EffectId,
        /// How many stages began before it in the run.
        index: u64,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A stage failed.
    StageFailed {
        /// Its effect.
        id: EffectId,
        /// How many stages began before it in the run.
        index: u64,
        /// Its outcome.
        outcome: Outcome,
        /// Whether it will be tried again.
        will_retry: bool,
    },
    /// The way on was chosen (rule R8).
    Routed {
        /// The node whose edges were chosen from.
        from: NodeIndex,
        /// The decision, with the rule and the values that it saw.
        decision: Decision,
    },
}
