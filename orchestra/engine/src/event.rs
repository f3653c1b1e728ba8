//! What a run tells while it goes (Attractor 9.6, rule R8).

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use orchestra_core::{
    AnsweredBy, BranchStatus, FailureCategory, Question, RunFailure, SharedPipeline, Status,
};
use orchestra_graph::{Decision, Next, NodeIndex, Rule, Tested};
use serde::{Serialize, Serializer};

use crate::clock::Timestamp;
use crate::id::RunId;
use crate::store::StoreError;

/// The version of the form in which events are written.
const SCHEMA: &str = "orchestra.event/1";

/// The id of a node; cheap to clone, and a `&str` to everything that reads it.
///
/// ```
/// use orchestra_engine::{Engine, EventKind};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
/// let mut events = run.events();
/// let mut stages = Vec::new();
/// while let Some(event) = events.recv().await {
///     if let EventKind::StageStarted { node, .. } = &event.kind {
///         stages.push(node.clone());
///     }
/// }
/// assert_eq!(stages, ["start", "exit"]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct NodeName {
    pipeline: SharedPipeline,
    node: NodeIndex,
}

impl NodeName {
    pub(crate) fn new(pipeline: &SharedPipeline, node: NodeIndex) -> NodeName {
        NodeName {
            pipeline: pipeline.clone(),
            node,
        }
    }
}

impl Deref for NodeName {
    type Target = str;

    fn deref(&self) -> &str {
        self.pipeline.stage(self.node).id()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for NodeName {
    fn eq(&self, other: &NodeName) -> bool {
        **self == **other
    }
}

impl Eq for NodeName {}

impl PartialEq<str> for NodeName {
    fn eq(&self, other: &str) -> bool {
        &**self == other
    }
}

impl PartialEq<&str> for NodeName {
    fn eq(&self, other: &&str) -> bool {
        &**self == *other
    }
}

impl Serialize for NodeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// Something that happened in a run.
///
/// Written as JSON it is one flat object: `schema`, `seq`, `time`, `run`, `event`, and the fields of its kind.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
/// let mut events = run.events();
/// let first = events.recv().await.expect("a run has events");
/// assert_eq!((first.seq, first.kind.name()), (1, "PipelineStarted"));
/// assert!(serde_json::to_string(&*first)?.contains(r#""event":"PipelineStarted","name":"hello""#));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    /// Its place among the events of the run, from 1, without gaps.
    pub seq: u64,
    /// When it happened.
    pub time: Timestamp,
    /// The run.
    pub run: RunId,
    /// What happened.
    pub kind: EventKind,
}

impl Serialize for RunEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            schema: &'static str,
            seq: u64,
            time: Timestamp,
            run: &'a RunId,
            #[serde(flatten)]
            kind: &'a EventKind,
        }
        let RunEvent { seq, time, run, kind } = self;
        Written {
            schema: SCHEMA,
            seq: *seq,
            time: *time,
            run,
            kind,
        }
        .serialize(serializer)
    }
}

/// What happened, with the names of Attractor 9.6; `EdgeSelected`, `StageLog`,
/// `StageCancelled`, `GoalGateUnsatisfied`, `PipelineRestarted`, `PipelinePaused` and `PipelineCancelled` are added.
///
/// ```
/// use orchestra_engine::{Engine, EventKind};
/// let engine = Engine::builder().on_event(|event| {
///     if let EventKind::StageFailed { node, error, .. } = &event.kind {
///         println!("{node} failed: {error}");
///     }
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum EventKind {
    /// The run began.
    PipelineStarted {
        /// The name of the pipeline.
        name: String,
        /// Its goal; may be empty.
        goal: String,
    },
    /// The run succeeded.
    PipelineCompleted {
        /// How long the run took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
        /// How many artifacts the run left.
        artifact_count: u64,
    },
    /// The run failed.
    PipelineFailed {
        /// Why, in words.
        error: String,
        /// Why, as data; `None` where the engine itself failed, such as by a full disk.
        failure: Option<RunFailure>,
        /// How long the run took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// Somebody ended the run.
    PipelineCancelled {
        /// Why.
        reason: String,
        /// How long the run took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// The run waits for a person, and nobody can be asked.
    PipelinePaused {
        /// Why.
        reason: String,
        /// The gate that waits.
        gate: String,
        /// How long the run took so far; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A stage begins.
    StageStarted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which visit of the node, from 1.
        visit: u32,
        /// Which attempt of the visit, from 1.
        attempt: u32,
    },
    /// A stage ended otherwise than by a failure.
    StageCompleted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which visit of the node, from 1.
        visit: u32,
        /// Which attempt of the visit, from 1.
        attempt: u32,
        /// The outcome word.
        outcome: Status,
        /// The label that the stage prefers.
        #[serde(skip_serializing_if = "Option::is_none")]
        preferred_label: Option<String>,
        /// A summary for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        notes: Option<String>,
        /// How long the attempt took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A stage failed.
    StageFailed {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which visit of the node, from 1.
        visit: u32,
        /// Which attempt of the visit, from 1.
        attempt: u32,
        /// Why.
        error: String,
        /// Whether running it again may help.
        category: FailureCategory,
        /// Whether it will be tried again.
        will_retry: bool,
        /// How long the attempt took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A stage will be tried again.
    StageRetrying {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which attempt comes next, from 1.
        attempt: u32,
        /// How many attempts there may be.
        max_attempts: u32,
        /// How long is waited before; written as `delay_ms`.
        #[serde(rename = "delay_ms", serialize_with = "millis")]
        delay: Duration,
    },
    /// A stage was cut short, because it is not needed any more or the run ends.
    StageCancelled {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which visit of the node, from 1.
        visit: u32,
        /// Which attempt of the visit, from 1.
        attempt: u32,
        /// How long it had been going; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A parallel block begins.
    ParallelStarted {
        /// The fan-out.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many branches it has.
        branch_count: u32,
        /// The conditions that chose them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tested: Vec<TestedCondition>,
    },
    /// A branch of a parallel block begins.
    ParallelBranchStarted {
        /// The branch, such as `fan#1:left`.
        branch: String,
        /// Its place among the branches, from 0.
        index: u32,
    },
    /// A branch of a parallel block has ended.
    ParallelBranchCompleted {
        /// The branch.
        branch: String,
        /// Its place among the branches, from 0.
        index: u32,
        /// How it ended.
        status: BranchStatus,
        /// Whether it succeeded.
        success: bool,
        /// Why it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// How long it took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// All branches of a parallel block have ended.
    ParallelCompleted {
        /// The fan-out.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many branches succeeded.
        success_count: u32,
        /// How many failed.
        failure_count: u32,
        /// How long the block took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A person is asked.
    InterviewStarted {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The question.
        question: Box<Question>,
    },
    /// A question was answered.
    InterviewCompleted {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// What was asked.
        question: String,
        /// The label of the option that was chosen, or the free text; `skipped` where nothing was.
        answer: String,
        /// Who answered.
        answered_by: AnsweredBy,
        /// How long it took; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// Nobody answered in time.
    InterviewTimeout {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// What was asked.
        question: String,
        /// The label of the default that is taken; `None` where the gate has none.
        default: Option<String>,
        /// How long was waited; written as `duration_ms`.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A goal gate is unsatisfied, and sends the run back.
    GoalGateUnsatisfied {
        /// The gate.
        gate: NodeName,
        /// Where the run goes.
        to: NodeName,
        /// How often a gate has sent it back, this time included.
        reroute: u32,
    },
    /// The run begins anew.
    PipelineRestarted {
        /// Where the edge comes from that restarts it.
        from: NodeName,
        /// Where the run begins.
        to: NodeName,
        /// How often the run was restarted, this time included.
        restart: u32,
    },
    /// A stage says something.
    StageLog {
        /// The stage.
        node: NodeName,
        /// What it says.
        message: String,
    },
    /// The way on was chosen, or there is none.
    EdgeSelected {
        /// The branch of a parallel block; `None` on the main line.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The node whose edges were chosen from.
        from: NodeName,
        /// Where the run goes; `None` where no way leads on.
        to: Option<NodeName>,
        /// The rule that decided; written as one word.
        #[serde(serialize_with = "rule_word")]
        rule: Rule,
        /// The conditions that were tested, in the order of the file.
        tested: Vec<TestedCondition>,
    },
    /// The state of the run is on the disk.
    CheckpointSaved {
        /// The stage that ended last.
        node: NodeName,
    },
}

/// A condition that was tested for a decision (rule R8).
///
/// ```
/// use orchestra_engine::{Engine, EventKind};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
/// let mut events = run.events();
/// let mut tested = Vec::new();
/// while let Some(event) = events.recv().await {
///     if let EventKind::EdgeSelected { tested: here, .. } = &event.kind {
///         tested.extend(here.clone());
///     }
/// }
/// assert_eq!((&*tested[0].condition, tested[0].held), ("outcome=success", true));
/// assert_eq!(serde_json::to_value(&tested[0])?["values"]["outcome"], "success");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestedCondition {
    /// Where the edge leads.
    pub to: NodeName,
    /// The condition as written.
    pub condition: String,
    /// Whether it held.
    pub held: bool,
    /// The keys that it reads, with the values that it saw.
    #[serde(serialize_with = "as_map")]
    pub values: Vec<(String, String)>,
}

impl EventKind {
    /// The name of the kind, such as `StageStarted`.
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::PipelineStarted { .. } => "PipelineStarted",
            EventKind::PipelineCompleted { .. } => "PipelineCompleted",
            EventKind::PipelineFailed { .. } => "PipelineFailed",
            EventKind::PipelineCancelled { .. } => "PipelineCancelled",
            EventKind::PipelinePaused { .. } => "PipelinePaused",
            EventKind::StageStarted { .. } => "StageStarted",
            EventKind::StageCompleted { .. } => "StageCompleted",
            EventKind::StageFailed { .. } => "StageFailed",
            EventKind::StageRetrying { .. } => "StageRetrying",
            EventKind::StageCancelled { .. } => "StageCancelled",
            EventKind::ParallelStarted { .. } => "ParallelStarted",
            EventKind::ParallelBranchStarted { .. } => "ParallelBranchStarted",
            EventKind::ParallelBranchCompleted { .. } => "ParallelBranchCompleted",
            EventKind::ParallelCompleted { .. } => "ParallelCompleted",
            EventKind::InterviewStarted { .. } => "InterviewStarted",
            EventKind::InterviewCompleted { .. } => "InterviewCompleted",
            EventKind::InterviewTimeout { .. } => "InterviewTimeout",
            EventKind::GoalGateUnsatisfied { .. } => "GoalGateUnsatisfied",
            EventKind::PipelineRestarted { .. } => "PipelineRestarted",
            EventKind::StageLog { .. } => "StageLog",
            EventKind::EdgeSelected { .. } => "EdgeSelected",
            EventKind::CheckpointSaved { .. } => "CheckpointSaved",
        }
    }

    /// The event of a decision.
    pub(crate) fn of_decision(
        pipeline: &SharedPipeline,
        branch: Option<String>,
        from: NodeIndex,
        decision: Decision,
    ) -> EventKind {
        let to = match decision.next {
            Next::Edge(edge) => Some(pipeline.edge(edge).to),
            Next::Jump(target) => Some(target),
            Next::End { .. } | Next::Fail(_) => None,
        };
        EventKind::EdgeSelected {
            branch,
            from: NodeName::new(pipeline, from),
            to: to.map(|node| NodeName::new(pipeline, node)),
            rule: decision.rule,
            tested: EventKind::of_tests(pipeline, decision.tested),
        }
    }

    /// The conditions that were tested for a decision.
    pub(crate) fn of_tests(pipeline: &SharedPipeline, tested: Vec<Tested>) -> Vec<TestedCondition> {
        let tested = tested.into_iter().map(|tested| {
            let edge = pipeline.edge(tested.edge);
            TestedCondition {
                to: NodeName::new(pipeline, edge.to),
                condition: pipeline
                    .condition(edge)
                    .map_or_else(String::new, |condition| condition.text.to_string()),
                held: tested.held,
                values: tested.values,
            }
        });
        tested.collect()
    }

    /// The event of a run's end.
    pub(crate) fn of_end(ended: &Result<Option<RunFailure>, StoreError>, duration: Duration) -> EventKind {
        match ended {
            Ok(None) => EventKind::PipelineCompleted {
                duration,
                artifact_count: 0,
            },
            Ok(Some(RunFailure::Cancelled { reason })) => EventKind::PipelineCancelled {
                reason: reason.clone(),
                duration,
            },
            Ok(Some(failure @ RunFailure::WaitsForHuman { node, .. })) => EventKind::PipelinePaused {
                reason: failure.to_string(),
                gate: node.clone(),
                duration,
            },
            Ok(Some(failure)) => EventKind::PipelineFailed {
                error: failure.to_string(),
                failure: Some(failure.clone()),
                duration,
            },
            Err(error) => EventKind::PipelineFailed {
                error: error.to_string(),
                failure: None,
                duration,
            },
        }
    }
}

/// Milliseconds, with the microseconds behind the point.
pub(crate) fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

fn rule_word<S: Serializer>(rule: &Rule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.word())
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}
