//! The kinds of events.

use std::time::Duration;

use orchestra_core::{AnsweredBy, BranchStatus, FailureCategory, Question, RunFailure, Status, Usage};
use orchestra_graph::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::{millis, pairs, rule_word};
use super::{ModelCall, NodeName, PauseCode, StageRef};
use crate::id::RunId;

/// The kind of an event and its data, named as in Attractor 9.6. `EdgeSelected`, `StageLog`, `StageWarning`,
/// `StageCancelled`, `ModelCallCompleted`, `ToolCallCompleted`, `SteeringRead`, `GoalGateUnsatisfied`, `PipelineRestarted`,
/// `PipelineResumed`, `PipelinePaused`, `PipelineWarning` and `PipelineCancelled` are additions.
///
/// ```
/// use orchestra_engine::{Engine, EventKind};
/// let engine = Engine::builder().on_event(|event| {
///     if let EventKind::StageFailed { stage, error, .. } = &event.kind {
///         println!("{stage} failed: {error}");
///     }
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[non_exhaustive]
pub enum EventKind {
    /// The run started.
    PipelineStarted {
        /// The name of the pipeline.
        name: String,
        /// The goal of the pipeline; may be empty.
        goal: String,
    },
    /// The run was resumed from a checkpoint in this process (rule D1).
    PipelineResumed {
        /// The checkpoint, such as `cp_000012`.
        checkpoint: String,
        /// The number of times that the run was opened, including this one (rule D5).
        fencing_token: u64,
        /// Human-readable messages about damage that was found and repaired.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repaired: Vec<String>,
        /// The run that the checkpoint belongs to, if it is another one (rule D4).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replayed_from: Option<String>,
        /// The node at which a failed run is retried (rule D9).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<NodeName>,
    },
    /// The run succeeded.
    PipelineCompleted {
        /// The duration of the run; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
        /// The number of artifacts of the run.
        artifact_count: u64,
    },
    /// The run failed.
    PipelineFailed {
        /// The human-readable reason.
        error: String,
        /// The reason as data. `None` if the engine itself failed, for example because the disk was full.
        failure: Option<RunFailure>,
        /// The duration of the run; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// The run was cancelled.
    PipelineCancelled {
        /// The reason.
        reason: String,
        /// The duration of the run; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// The run paused and can be resumed later.
    PipelinePaused {
        /// The machine-readable reason.
        #[serde(default)]
        code: PauseCode,
        /// The human-readable reason.
        reason: String,
        /// The gate that waits for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate: Option<String>,
        /// The duration of the run so far; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// An attempt of a stage started.
    StageStarted {
        /// The attempt.
        #[serde(flatten)]
        stage: StageRef,
        /// `true` if the attempt was interrupted and starts again (rule D1).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeat: bool,
        /// `true` if the attempt follows the checkpoint from which the run is replayed (rule D4). An earlier event of the
        /// start, with the time at which it happened in the other run, is among the copied ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replay: bool,
    },
    /// A stage ended without a failure.
    StageCompleted {
        /// The attempt.
        #[serde(flatten)]
        stage: StageRef,
        /// The outcome.
        outcome: Status,
        /// The label that the stage prefers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preferred_label: Option<String>,
        /// A human-readable summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notes: Option<String>,
        /// The model usage of the attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<Usage>>,
        /// The duration of the attempt; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage failed.
    StageFailed {
        /// The attempt.
        #[serde(flatten)]
        stage: StageRef,
        /// The reason.
        error: String,
        /// The category, which says whether another attempt may help.
        category: FailureCategory,
        /// `true` if the stage will be retried.
        will_retry: bool,
        /// The model usage of the attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<Usage>>,
        /// The duration of the attempt; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage will be retried.
    StageRetrying {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The number of stages that started earlier in the run.
        index: u64,
        /// The number of the next attempt, from 1.
        attempt: u32,
        /// Maximum number of attempts.
        max_attempts: u32,
        /// The delay before the next attempt; serialized as `delay_ms`.
        #[serde(rename = "delay_ms", with = "millis")]
        delay: Duration,
    },
    /// A stage was cancelled, because its result is not needed any longer or because the run ends.
    StageCancelled {
        /// The attempt.
        #[serde(flatten)]
        stage: StageRef,
        /// The duration until the cancellation; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A parallel block started.
    ParallelStarted {
        /// The fan-out.
        node: NodeName,
        /// The outer branch that contains the block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The number of branches.
        branch_count: u32,
        /// The conditions that selected the branches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tested: Vec<TestedCondition>,
    },
    /// A branch of a parallel block started.
    ParallelBranchStarted {
        /// The branch, such as `fan#1:left`.
        branch: String,
        /// The index among the branches, from 0.
        index: u32,
        /// The number of the branch's edge among those that leave the fan-out, in the order of the file, starting at 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edge: Option<u32>,
        /// The beginning of the item, if the fan-out runs a branch for each item of a list.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<String>,
    },
    /// A branch of a parallel block ended.
    ParallelBranchCompleted {
        /// The branch.
        branch: String,
        /// The index among the branches, from 0.
        index: u32,
        /// The status of the branch.
        status: BranchStatus,
        /// `true` if the branch succeeded.
        success: bool,
        /// The reason of a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The duration of the branch; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// All branches of a parallel block ended.
    ParallelCompleted {
        /// The fan-out.
        node: NodeName,
        /// The outer branch that contains the block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The number of branches that succeeded.
        success_count: u32,
        /// The number of branches that failed.
        failure_count: u32,
        /// The duration of the block; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A question to a person was opened.
    InterviewStarted {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The question.
        question: Box<Question>,
    },
    /// A question was answered.
    InterviewCompleted {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The id of the question, such as `approve#1/1`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        question_id: String,
        /// The text of the question.
        question: String,
        /// The label of the chosen option, or the free text. `skipped` if the question was skipped.
        answer: String,
        /// The source of the answer.
        answered_by: AnsweredBy,
        /// The time until the answer; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A question timed out.
    InterviewTimeout {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The id of the question, such as `approve#1/1`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        question_id: String,
        /// The text of the question.
        question: String,
        /// The label of the default that is chosen. `None` if the gate has none.
        default: Option<String>,
        /// The time that the run waited; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A question to a person was opened in a child run. The events of the outermost run contain it, so that whoever
    /// follows them knows that a person is waited for.
    ChildInterviewStarted {
        /// The stage of the outermost run whose child run asks.
        node: NodeName,
        /// The branch of the stage in a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The run that asks.
        child: RunId,
        /// The gate in the child run.
        gate: NodeName,
        /// The branch of the gate in a parallel block of the child run. `None` on its main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate_branch: Option<String>,
        /// The question.
        question: Box<Question>,
    },
    /// A question of a child run is no longer open.
    ChildInterviewEnded {
        /// The stage of the outermost run whose child run asked.
        node: NodeName,
        /// The branch of the stage in a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The run that asked.
        child: RunId,
        /// The gate in the child run.
        gate: NodeName,
        /// The branch of the gate in a parallel block of the child run. `None` on its main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate_branch: Option<String>,
        /// The id of the question. Empty if it was withdrawn.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        question_id: String,
        /// The answer, or the default after a timeout. `None` if the question timed out without a default or was
        /// withdrawn.
        answer: Option<String>,
        /// `true` if the question was withdrawn, because its stage was cancelled.
        withdrawn: bool,
    },
    /// An unsatisfied goal gate sent the run back.
    GoalGateUnsatisfied {
        /// The gate.
        gate: NodeName,
        /// The node at which the run continues.
        to: NodeName,
        /// The number of times that a gate has sent the run back, including this one.
        reroute: u32,
    },
    /// The run restarted.
    PipelineRestarted {
        /// The source of the edge that restarts it.
        from: NodeName,
        /// The node at which the run restarts.
        to: NodeName,
        /// The number of restarts, including this one.
        restart: u32,
    },
    /// A model call of a stage ended.
    ModelCallCompleted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The call.
        #[serde(flatten)]
        call: Box<ModelCall>,
    },
    /// A tool call of a stage ended.
    ToolCallCompleted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The name of the tool.
        tool: String,
        /// The id that the provider of the model gave the call. `None` if no model made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        /// The reason of a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The duration of the call; serialized as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage read an instruction of the manager loop that supervises the run (rule F7).
    SteeringRead {
        /// The stage that read it.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The cycle of the manager loop that sent it.
        cycle: u32,
        /// The text of the instruction.
        instruction: String,
        /// The file that contains it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// A log message of a stage.
    StageLog {
        /// The stage.
        node: NodeName,
        /// The message.
        message: String,
    },
    /// A problem of the run as a whole. The run continues.
    PipelineWarning {
        /// The machine-readable problem: `control_own_process` if a process that the run started tried to answer or
        /// control it, `control_unavailable` if no other process can reach it.
        code: String,
        /// The human-readable problem.
        message: String,
    },
    /// The engine ignored a part of what a stage returned, or moved a file that blocked the path of a stage file, or a
    /// model did not answer and another one is asked.
    StageWarning {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The machine-readable problem: `reserved_key` (rule K1), `planted_file` or `model_fallback` (rule F14).
        code: String,
        /// The human-readable problem.
        message: String,
        /// The ignored context keys.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keys: Vec<String>,
    },
    /// The next edge was selected, or there is none.
    EdgeSelected {
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The node whose edges were considered.
        from: NodeName,
        /// The node at which the path continues. `None` if there is no next edge.
        to: Option<NodeName>,
        /// The number of the edge among those that leave the node, in the order of the file, starting at 0. `None` for
        /// a jump to a retry target, or if there is no next edge.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edge: Option<u32>,
        /// The rule that decided; serialized as its name.
        #[serde(with = "rule_word")]
        rule: Rule,
        /// The tested conditions, in the order of the file.
        tested: Vec<TestedCondition>,
    },
    /// A stage changed files, and its workspace saved a snapshot of them.
    SnapshotSaved {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block. `None` on the main path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The snapshot in the format of the workspace; for git repositories `{name: {git_sha, branch}}`.
        snapshot: Box<Value>,
        /// A human-readable message about what a stage must still finish before the run can end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfinished: Option<String>,
    },
    /// The state of the run was written to disk.
    CheckpointSaved {
        /// The stage that ended last.
        node: NodeName,
        /// The name of the checkpoint, such as `cp_000012`, from which the run can be replayed (rule D4).
        #[serde(default, skip_serializing_if = "String::is_empty")]
        checkpoint: String,
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
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestedCondition {
    /// The target of the edge.
    pub to: NodeName,
    /// The number of the edge among those that leave the node, in the order of the file, starting at 0. `None` in
    /// events of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<u32>,
    /// The condition as written.
    pub condition: String,
    /// `true` if it held.
    pub held: bool,
    /// The keys that it reads, with their values at that time.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, String>")
    )]
    #[serde(with = "pairs")]
    pub values: Vec<(String, String)>,
}

/// Where an event comes from. It decides what a recovery does about the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventOrigin {
    /// It follows from the journal. Reading the journal emits it again.
    Journal,
    /// Only the process that emitted it knew it. A recovery does not emit it again.
    Process,
    /// It ends the run. The process that ends the run emits it.
    End,
}

/// Derives the names and the origins of the kinds from one list. A missing kind is a compile error.
macro_rules! kinds {
    ($($kind:ident: $origin:ident),* $(,)?) => {
        impl EventKind {
            /// The names of all kinds.
            pub const NAMES: &[&str] = &[$(stringify!($kind)),*];

            /// Returns the name of the kind, such as `StageStarted`.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(EventKind::$kind { .. } => stringify!($kind),)*
                }
            }
        }

        impl EventOrigin {
            /// Returns the origin of the events of a name, `Journal` for an unknown name.
            pub(crate) fn from_name(name: &str) -> EventOrigin {
                match name {
                    $(stringify!($kind) => EventOrigin::$origin,)*
                    _ => EventOrigin::Journal,
                }
            }
        }
    };
}

kinds! {
    PipelineStarted: Journal,
    PipelineResumed: Process,
    PipelineCompleted: End,
    PipelineFailed: End,
    PipelineCancelled: End,
    PipelinePaused: Process,
    StageStarted: Journal,
    StageCompleted: Journal,
    StageFailed: Journal,
    StageRetrying: Journal,
    StageCancelled: Journal,
    ParallelStarted: Journal,
    ParallelBranchStarted: Journal,
    ParallelBranchCompleted: Journal,
    ParallelCompleted: Journal,
    InterviewStarted: Journal,
    InterviewCompleted: Journal,
    InterviewTimeout: Journal,
    ChildInterviewStarted: Process,
    ChildInterviewEnded: Process,
    GoalGateUnsatisfied: Journal,
    PipelineRestarted: Journal,
    ModelCallCompleted: Process,
    ToolCallCompleted: Process,
    SteeringRead: Process,
    PipelineWarning: Process,
    StageLog: Process,
    StageWarning: Process,
    EdgeSelected: Journal,
    SnapshotSaved: Journal,
    CheckpointSaved: Journal,
}
