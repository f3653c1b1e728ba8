//! Effects and events: the complete interface between the core and its driver.

use std::time::Duration;

use orchestra_graph::{Decision, EdgeIndex, NodeIndex, Tested};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Answer, AnsweredBy};
use crate::context::Context;
use crate::failure::RunFailure;
use crate::files::Snapshot;
use crate::id::{BranchPath, EffectId};
use crate::outcome::{BranchStatus, Outcome};
use crate::question::Question;
use crate::usage::{Budget, Usage};

/// A request to the driver, which must carry out the effects in order.
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
    /// Run a stage, then answer with [`Event::NodeFinished`].
    RunNode {
        /// The id to answer with.
        id: EffectId,
        /// The context that the stage sees.
        context: Context,
    },
    /// Wait, then answer with [`Event::TimerFired`].
    StartTimer {
        /// The id to answer with.
        id: EffectId,
        /// The time to wait.
        delay: Duration,
    },
    /// Ask a person, then answer with [`Event::Answered`]. A question with a time-out has a timer with the same id.
    AskHuman {
        /// The id to answer with.
        id: EffectId,
        /// The question.
        question: Box<Question>,
    },
    /// Stop everything that an effect started: its stage, timer and question.
    CancelEffect {
        /// The id of the effect.
        id: EffectId,
    },
    /// The run is restarted (rule R9). All later effects belong to the restarted run.
    Restart {
        /// The number of restarts of the run, including this one.
        restart: u32,
        /// The node at which the run starts again.
        to: NodeIndex,
    },
    /// Report an observation. Not produced if [nobody wants observations](crate::Machine::observe).
    Observe(Observation),
    /// The run has ended.
    Finish {
        /// The reason for the failure; `None` for a success.
        failure: Option<RunFailure>,
    },
}

/// Something that has happened, which the driver passes to [`Machine::on`](crate::Machine::on).
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
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A stage has ended. Failures, even panics, are outcomes.
    NodeFinished {
        /// The id of the effect.
        id: EffectId,
        /// The outcome of the stage.
        outcome: Outcome,
    },
    /// A timer has fired.
    TimerFired {
        /// The id of the effect.
        id: EffectId,
    },
    /// A question was answered. An answer that [the question](Question::accept) does not accept changes nothing. The
    /// answer to the question of a running stage is stored until the stage is run again (see
    /// [`ExecutionPath::answer`](crate::ExecutionPath::answer)).
    Answered {
        /// The id of the effect.
        id: EffectId,
        /// The answer.
        answer: Answer,
    },
    /// Nobody can answer the question of a gate, or of a handler within a stage. The run ends with
    /// [`RunFailure::WaitsForHuman`].
    Unanswerable {
        /// The id of the effect.
        id: EffectId,
        /// The reason why nobody can answer.
        reason: String,
    },
    /// The current duration of the run, from which the durations of branches follow. The events after it happened at
    /// this time.
    Tick {
        /// The time since the run began, serialized as `elapsed_ns`.
        #[serde(rename = "elapsed_ns", with = "crate::nanos")]
        elapsed: Duration,
    },
    /// A note that a stage reads if it is repeated after a crash or a pause.
    Noted {
        /// The id of the effect.
        id: EffectId,
        /// The note.
        note: Value,
        /// `true` if the run can be replayed from here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        checkpoint: bool,
    },
    /// The state of the files of a path after an attempt; sent before the attempt's end.
    Snapshot {
        /// The id of the effect.
        id: EffectId,
        /// The files.
        snapshot: Snapshot,
    },
    /// The usage of an attempt; sent before the attempt's end.
    Used {
        /// The id of the effect.
        id: EffectId,
        /// The tokens and the cost.
        usage: Usage,
    },
    /// A user requests a retry of a run that failed (rule D9); ignored by any other run.
    Retried {
        /// The stage to visit again, or the node whose edges are chosen from again.
        #[serde(with = "node_number")]
        node: NodeIndex,
        /// `true` to choose from the edges again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        from_edges: bool,
    },
    /// A request to end the run.
    CancelRequested {
        /// The reason.
        reason: String,
    },
    /// A request to stop the run where it is.
    PauseRequested {
        /// The reason.
        reason: String,
    },
    /// The run exceeded its time limit.
    TimeUp {
        /// The time limit, serialized as `limit_ns`.
        #[serde(rename = "limit_ns", with = "crate::nanos")]
        limit: Duration,
    },
    /// The run exceeded its budget.
    OverBudget {
        /// The budget.
        budget: Budget,
        /// The usage of the run.
        used: Usage,
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
        /// The id of its effect.
        id: EffectId,
        /// The number of stages that began before it in the run.
        index: u64,
    },
    /// A stage ended without a failure.
    StageCompleted {
        /// The id of its effect.
        id: EffectId,
        /// The number of stages that began before it in the run.
        index: u64,
        /// The outcome of the stage.
        outcome: Box<Outcome>,
    },
    /// A stage failed.
    StageFailed {
        /// The id of its effect.
        id: EffectId,
        /// The number of stages that began before it in the run.
        index: u64,
        /// The outcome of the stage.
        outcome: Box<Outcome>,
        /// `true` if the stage will be retried.
        will_retry: bool,
    },
    /// A stage has reached a point from which the run can be replayed.
    StageNoted {
        /// The id of its effect.
        id: EffectId,
    },
    /// An attempt has changed files.
    SnapshotSaved {
        /// The id of its effect.
        id: EffectId,
        /// The current state of the files.
        snapshot: Snapshot,
    },
    /// A stage will be retried (rule Y4).
    StageRetrying {
        /// The id of the next attempt's effect.
        id: EffectId,
        /// The number of stages that began before it in the run.
        index: u64,
        /// The maximum number of attempts.
        attempts: u32,
        /// The delay before the next attempt.
        delay: Duration,
    },
    /// A stage was cancelled, because its branch is no longer needed or the run ends.
    StageCancelled {
        /// The id of its effect.
        id: EffectId,
        /// The number of stages that began before it in the run.
        index: u64,
    },
    /// The next step was chosen (rule R8).
    Routed {
        /// The branch in which it was chosen.
        branch: BranchPath,
        /// The node whose edges were chosen from.
        from: NodeIndex,
        /// The decision, with the rule and the values that it was based on.
        decision: Decision,
    },
    /// A parallel block begins.
    ParallelStarted {
        /// The id of the fan-out's effect.
        id: EffectId,
        /// The number of branches.
        branches: u32,
        /// The conditions that chose the branches.
        tested: Vec<Tested>,
    },
    /// A branch begins.
    ParallelBranchStarted {
        /// The branch.
        branch: BranchPath,
        /// The index among the branches of the block, starting at 0.
        index: u32,
        /// The item, if the fan-out runs a branch for each item of a list.
        item: Option<Value>,
    },
    /// A branch has ended.
    ParallelBranchCompleted {
        /// The branch.
        branch: BranchPath,
        /// The index among the branches of the block, starting at 0.
        index: u32,
        /// The status with which the branch ended.
        status: BranchStatus,
        /// The reason for the failure, if the branch failed.
        reason: Option<String>,
        /// The duration of the branch.
        duration: Duration,
    },
    /// All branches of a block have ended.
    ParallelCompleted {
        /// The id of the fan-out's effect.
        id: EffectId,
        /// The number of branches that succeeded.
        succeeded: u32,
        /// The number of branches that failed.
        failed: u32,
        /// The duration of the block.
        duration: Duration,
    },
    /// A person is asked.
    InterviewStarted {
        /// The id of the gate's effect.
        id: EffectId,
        /// The question.
        question: Box<Question>,
    },
    /// An answer was accepted.
    InterviewCompleted {
        /// The id of the gate's effect.
        id: EffectId,
        /// The text of the question.
        question: String,
        /// The label of the chosen option, or the free text; `skipped` if the person skipped the question.
        answer: String,
        /// The origin of the answer.
        by: AnsweredBy,
    },
    /// Nobody answered in time.
    InterviewTimeout {
        /// The id of the gate's effect.
        id: EffectId,
        /// The text of the question.
        question: String,
        /// The time-out of the question.
        timeout: Duration,
        /// The label of the default that is used; `None` if there is no default.
        default: Option<String>,
    },
    /// A goal gate is unsatisfied and sends the run back (rule R7).
    GoalGateUnsatisfied {
        /// The goal gate.
        gate: NodeIndex,
        /// The node to which the run goes.
        target: NodeIndex,
        /// The number of times that a gate has sent the run back, including this one.
        reroute: u32,
    },
    /// The run is restarted (rule R9).
    Restarted {
        /// The edge that restarts the run.
        edge: EdgeIndex,
        /// The number of restarts of the run, including this one.
        restart: u32,
    },
}

/// Serialization of a node as the number of its row.
mod node_number {
    use orchestra_graph::NodeIndex;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(node: &NodeIndex, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(node.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeIndex, D::Error> {
        u32::deserialize(deserializer).map(NodeIndex)
    }
}
