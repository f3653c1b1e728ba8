//! Effects and events: the whole of what the core and its driver say to each other.

use std::sync::Arc;
use std::time::Duration;

use orchestra_graph::{Decision, EdgeIndex, NodeIndex, Pipeline, Tested, branch_id};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::context::Context;
use crate::failure::RunFailure;
use crate::files::Snapshot;
use crate::human::{Answer, AnsweredBy, Question};
use crate::outcome::Outcome;
use crate::usage::{Budget, Usage};

/// One branch on the way to an effect: which fan-out, and which of its edges.
///
/// ```
/// use orchestra_core::BranchStep;
/// use orchestra_graph::{EdgeIndex, NodeIndex};
/// let step = BranchStep { fan_out: NodeIndex(1), visit: 1, attempt: 1, edge: EdgeIndex(2) };
/// assert!(step < BranchStep { attempt: 2, ..step });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchStep {
    /// The fan-out.
    pub fan_out: NodeIndex,
    /// Which visit of it, from 1.
    pub visit: u32,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
    /// The branch's edge.
    pub edge: EdgeIndex,
}

/// Where in the branches of a run something happens; empty for the main line (rule P1).
///
/// ```
/// use orchestra_core::{BranchPath, BranchStep};
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let fan_out = pipeline.find("fan").expect("declared");
/// let (edge, _) = pipeline.stage(fan_out).edges().nth(1).expect("two branches");
/// let path = BranchPath::default().then(BranchStep { fan_out, visit: 1, attempt: 1, edge });
/// assert_eq!(path.name(&pipeline), "fan#1:b");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchPath(Option<Arc<[BranchStep]>>);

impl BranchPath {
    /// The steps from the main line on.
    pub fn steps(&self) -> &[BranchStep] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether this is the main line.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The path of a branch within this one.
    #[must_use]
    pub fn then(&self, step: BranchStep) -> BranchPath {
        BranchPath(Some(self.steps().iter().copied().chain([step]).collect()))
    }

    /// The steps as numbers.
    pub(crate) fn written(&self) -> Vec<[u32; 4]> {
        let steps = self.steps().iter();
        steps
            .map(|step| [step.fan_out.0, step.visit, step.attempt, step.edge.0])
            .collect()
    }

    /// The path with these steps.
    pub(crate) fn read(steps: &[[u32; 4]]) -> BranchPath {
        let steps = steps.iter().map(|[fan_out, visit, attempt, edge]| BranchStep {
            fan_out: NodeIndex(*fan_out),
            visit: *visit,
            attempt: *attempt,
            edge: EdgeIndex(*edge),
        });
        let steps: Arc<[BranchStep]> = steps.collect();
        BranchPath((!steps.is_empty()).then_some(steps))
    }

    /// The path as text, such as `fan#1:left/fan2#1:a`; a repeated block tells its attempt, as in `fan#1.2:left`.
    pub fn name(&self, pipeline: &Pipeline) -> String {
        let names = self.steps().iter().map(|step| {
            let fan_out = pipeline.stage(step.fan_out).id();
            let branch = branch_id(pipeline, step.edge);
            match step.attempt {
                1 => format!("{fan_out}#{}:{branch}", step.visit),
                attempt => format!("{fan_out}#{}.{attempt}:{branch}", step.visit),
            }
        });
        names.collect::<Vec<_>>().join("/")
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EffectId {
    /// How often the run was restarted before (rule R9).
    pub restart: u32,
    /// The branch.
    pub branch: BranchPath,
    /// The node.
    pub node: NodeIndex,
    /// Which visit of the node, from 1.
    pub visit: u32,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
}

/// An effect's name as it is written: numbers, and only those that differ from the usual.
#[derive(Serialize, Deserialize)]
struct WrittenId {
    #[serde(default, skip_serializing_if = "is_zero")]
    restart: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    branch: Vec<[u32; 4]>,
    node: u32,
    visit: u32,
    attempt: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Serialize for EffectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WrittenId {
            restart: self.restart,
            branch: self.branch.written(),
            node: self.node.0,
            visit: self.visit,
            attempt: self.attempt,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EffectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EffectId, D::Error> {
        let written = WrittenId::deserialize(deserializer)?;
        Ok(EffectId {
            restart: written.restart,
            branch: BranchPath::read(&written.branch),
            node: NodeIndex(written.node),
            visit: written.visit,
            attempt: written.attempt,
        })
    }
}

impl EffectId {
    /// The name as text, such as `build#2/1`, `fan#1:left/build#1/1` or `restart-1/build#1/1`; the node is left out
    /// where the pipeline does not have it.
    pub fn name(&self, pipeline: &Pipeline) -> String {
        let mut name = String::new();
        if self.restart > 0 {
            name.push_str(&format!("restart-{}/", self.restart));
        }
        if !self.branch.is_empty() {
            name.push_str(&self.branch.name(pipeline));
            name.push('/');
        }
        let id = pipeline.stage(self.node).id();
        name.push_str(&format!("{id}#{}/{}", self.visit, self.attempt));
        name
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
    /// Wait, and answer with [`Event::TimerFired`].
    StartTimer {
        /// The name to answer with.
        id: EffectId,
        /// How long.
        delay: Duration,
    },
    /// Ask a person, and answer with [`Event::Answered`]. A question with a time-out has a timer of the same name.
    AskHuman {
        /// The name to answer with.
        id: EffectId,
        /// What is asked.
        question: Box<Question>,
    },
    /// Stop what an effect started: its stage, timer and question.
    CancelEffect {
        /// The effect.
        id: EffectId,
    },
    /// The run begins anew (rule R9); what follows belongs to its next life.
    Restart {
        /// How often the run was restarted, this time included.
        restart: u32,
        /// Where it begins.
        to: NodeIndex,
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
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A stage has ended; failures, even panics, are outcomes.
    NodeFinished {
        /// The effect.
        id: EffectId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A timer has run out.
    TimerFired {
        /// The effect.
        id: EffectId,
    },
    /// A question was answered; an answer that [the question](Question::accept) does not take changes nothing. That of a
    /// stage which runs is kept until the stage is run again (see [`Line::answer`](crate::Line::answer)).
    Answered {
        /// The effect.
        id: EffectId,
        /// The answer.
        answer: Answer,
    },
    /// There is nobody to ask, at a gate or within what a stage runs; the run ends as waiting for a person.
    Unanswerable {
        /// The effect.
        id: EffectId,
        /// Why.
        reason: String,
    },
    /// How long the run has been going, for the durations of branches; what is told next happened then.
    Tick {
        /// The time since the run began; written as `elapsed_ns`.
        #[serde(rename = "elapsed_ns", with = "crate::nanos")]
        elapsed: Duration,
    },
    /// Something that a stage wants to know if it is repeated after a crash or a pause.
    Noted {
        /// The effect.
        id: EffectId,
        /// What it noted.
        note: Value,
        /// Whether the run can be replayed from here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        checkpoint: bool,
    },
    /// How an attempt left the files of its line, told before how it ended.
    Snapshot {
        /// The effect.
        id: EffectId,
        /// The files.
        snapshot: Snapshot,
    },
    /// What an attempt used, told before how it ended.
    Used {
        /// The effect.
        id: EffectId,
        /// Tokens and money.
        usage: Usage,
    },
    /// Somebody wants a run that failed to be retried (rule D9); without effect on any other.
    Retried {
        /// The stage that is visited again, or the node whose edges are chosen from again.
        #[serde(with = "node_number")]
        node: NodeIndex,
        /// Whether it is the edges.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        from_edges: bool,
    },
    /// Somebody wants the run to end.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// Somebody wants the run to stop where it is.
    PauseRequested {
        /// Why.
        reason: String,
    },
    /// The run took longer than it may.
    TimeUp {
        /// How long it may take; written as `limit_ns`.
        #[serde(rename = "limit_ns", with = "crate::nanos")]
        limit: Duration,
    },
    /// The run used more than it may.
    OverBudget {
        /// What it may use.
        budget: Budget,
        /// What it used.
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
    /// A stage has come to a point from which the run can be replayed.
    StageNoted {
        /// The stage.
        id: EffectId,
    },
    /// An attempt has changed files.
    SnapshotSaved {
        /// Its effect.
        id: EffectId,
        /// The files as they are now.
        snapshot: Snapshot,
    },
    /// A stage will be tried again (rule Y4).
    StageRetrying {
        /// The effect of the next attempt.
        id: EffectId,
        /// How many stages began before it in the run.
        index: u64,
        /// How many attempts there may be.
        attempts: u32,
        /// How long is waited before.
        delay: Duration,
    },
    /// A stage was cut short, because its branch is not needed any more or the run ends.
    StageCancelled {
        /// Its effect.
        id: EffectId,
        /// How many stages began before it in the run.
        index: u64,
    },
    /// The way on was chosen (rule R8).
    Routed {
        /// The branch in which it was chosen.
        branch: BranchPath,
        /// The node whose edges were chosen from.
        from: NodeIndex,
        /// The decision, with the rule and the values that it saw.
        decision: Decision,
    },
    /// A parallel block begins.
    ParallelStarted {
        /// The effect of the fan-out.
        id: EffectId,
        /// How many branches it has.
        branches: u32,
        /// The conditions that chose them.
        tested: Vec<Tested>,
    },
    /// A branch begins.
    ParallelBranchStarted {
        /// The branch.
        branch: BranchPath,
        /// Its place among the branches, from 0.
        index: u32,
    },
    /// A branch has ended.
    ParallelBranchCompleted {
        /// The branch.
        branch: BranchPath,
        /// Its place among the branches, from 0.
        index: u32,
        /// How it ended.
        status: BranchStatus,
        /// Why it failed.
        reason: Option<String>,
        /// How long it took.
        duration: Duration,
    },
    /// All branches have ended.
    ParallelCompleted {
        /// The effect of the fan-out.
        id: EffectId,
        /// How many branches succeeded.
        succeeded: u32,
        /// How many failed.
        failed: u32,
        /// How long the block took.
        duration: Duration,
    },
    /// A person is asked.
    InterviewStarted {
        /// The effect of the gate.
        id: EffectId,
        /// The question.
        question: Box<Question>,
    },
    /// An answer was taken.
    InterviewCompleted {
        /// The effect of the gate.
        id: EffectId,
        /// The question's text.
        question: String,
        /// The label of the option that was chosen, or the free text; `skipped` where nothing was.
        answer: String,
        /// Who answered.
        by: AnsweredBy,
    },
    /// Nobody answered in time.
    InterviewTimeout {
        /// The effect of the gate.
        id: EffectId,
        /// The question's text.
        question: String,
        /// How long was waited.
        timeout: Duration,
        /// The label of the default that is taken; `None` where there is none.
        default: Option<String>,
    },
    /// A goal gate is unsatisfied, and sends the run back (rule R7).
    GoalGateUnsatisfied {
        /// The gate.
        gate: NodeIndex,
        /// Where the run goes.
        target: NodeIndex,
        /// How often a gate has sent it back, this time included.
        reroute: u32,
    },
    /// The run begins anew (rule R9).
    Restarted {
        /// The edge that restarts it.
        edge: EdgeIndex,
        /// How often the run was restarted, this time included.
        restart: u32,
    },
}

/// How a branch of a parallel block ended (rule P3).
///
/// ```
/// use orchestra_core::BranchStatus;
/// assert!(BranchStatus::PartialSuccess.is_success() && !BranchStatus::Cancelled.is_success());
/// assert_eq!(BranchStatus::Cancelled.word(), "cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchStatus {
    /// Its last stage succeeded.
    Success,
    /// Its last stage did part of its work.
    PartialSuccess,
    /// Its last stage failed, or nothing took a failure in it.
    Fail,
    /// It was not needed any more.
    Cancelled,
}

impl BranchStatus {
    /// As one word, for machines.
    pub const fn word(self) -> &'static str {
        match self {
            BranchStatus::Success => "success",
            BranchStatus::PartialSuccess => "partial_success",
            BranchStatus::Fail => "fail",
            BranchStatus::Cancelled => "cancelled",
        }
    }

    /// Whether it counts towards the join policy.
    pub const fn is_success(self) -> bool {
        matches!(self, BranchStatus::Success | BranchStatus::PartialSuccess)
    }
}

/// A node as the number of its row.
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
