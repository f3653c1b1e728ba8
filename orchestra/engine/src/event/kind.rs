//! The kinds of events.

use std::time::Duration;

use orchestra_core::{AnsweredBy, BranchStatus, FailureCategory, Question, RunFailure, Status, Usage};
use orchestra_graph::Rule;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NodeName;
use super::fields::{millis, pairs, rule_word};

/// What happened, with the names of Attractor 9.6; `EdgeSelected`, `StageLog`,
/// `StageWarning`, `StageCancelled`, `ToolCallCompleted`, `SteeringRead`, `GoalGateUnsatisfied`, `PipelineRestarted`,
/// `PipelineResumed`, `PipelinePaused`, `PipelineWarning`
/// and `PipelineCancelled` are added.
///
/// ```
/// use orchestra_engine::{Engine, EventKind};
/// let engine = Engine::builder().on_event(|event| {
///     if let EventKind::StageFailed { node, error, .. } = &event.kind {
///         println!("{node} failed: {error}");
///     }
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The run goes on in this process from a checkpoint (rule D1).
    PipelineResumed {
        /// The checkpoint, such as `cp_000012`.
        checkpoint: String,
        /// How often the run was opened, this time included (rule D5).
        epoch: u64,
        /// What was found damaged and mended, in words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repaired: Vec<String>,
        /// The run whose checkpoint it is, where that is another one (rule D4).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replayed_from: Option<String>,
        /// The node at which the run is retried, where it had failed (rule D9).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<NodeName>,
    },
    /// The run succeeded.
    PipelineCompleted {
        /// How long the run took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
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
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// Somebody ended the run.
    PipelineCancelled {
        /// Why.
        reason: String,
        /// How long the run took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// The run has stopped so that it can go on later.
    PipelinePaused {
        /// Why, as one word.
        #[serde(default)]
        code: PauseCode,
        /// Why, in words.
        reason: String,
        /// The gate that waits for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate: Option<String>,
        /// How long the run took so far; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage begins.
    StageStarted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which visit of the node, from 1.
        visit: u32,
        /// Which attempt of the visit, from 1.
        attempt: u32,
        /// Whether it had begun before the run was interrupted, and begins again (rule D1).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeat: bool,
    },
    /// A stage ended otherwise than by a failure.
    StageCompleted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preferred_label: Option<String>,
        /// A summary for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notes: Option<String>,
        /// What it used of models.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<Usage>>,
        /// How long the attempt took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage failed.
    StageFailed {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
        /// What it used of models.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<Usage>>,
        /// How long the attempt took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage will be tried again.
    StageRetrying {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which attempt comes next, from 1.
        attempt: u32,
        /// How many attempts there may be.
        max_attempts: u32,
        /// How long is waited before; written as `delay_ms`.
        #[serde(rename = "delay_ms", with = "millis")]
        delay: Duration,
    },
    /// A stage was cut short, because it is not needed any more or the run ends.
    StageCancelled {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many stages began before it in the run.
        index: u64,
        /// Which visit of the node, from 1.
        visit: u32,
        /// Which attempt of the visit, from 1.
        attempt: u32,
        /// How long it had been going; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A parallel block begins.
    ParallelStarted {
        /// The fan-out.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many branches it has.
        branch_count: u32,
        /// The conditions that chose them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// How long it took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// All branches of a parallel block have ended.
    ParallelCompleted {
        /// The fan-out.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// How many branches succeeded.
        success_count: u32,
        /// How many failed.
        failure_count: u32,
        /// How long the block took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A person is asked.
    InterviewStarted {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The question.
        question: Box<Question>,
    },
    /// A question was answered.
    InterviewCompleted {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// What was asked.
        question: String,
        /// The label of the option that was chosen, or the free text; `skipped` where nothing was.
        answer: String,
        /// Who answered.
        answered_by: AnsweredBy,
        /// How long it took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// Nobody answered in time.
    InterviewTimeout {
        /// The gate.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// What was asked.
        question: String,
        /// The label of the default that is taken; `None` where the gate has none.
        default: Option<String>,
        /// How long was waited; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
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
    /// A tool that a stage called has ended.
    ToolCallCompleted {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The tool.
        tool: String,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// How long it took; written as `duration_ms`.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// A stage read an instruction of the manager loop that supervises the run (rule F7).
    SteeringRead {
        /// The stage that read it.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The cycle of the manager loop that gave it.
        cycle: u32,
        /// Its text.
        instruction: String,
        /// The file that holds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// A stage says something.
    StageLog {
        /// The stage.
        node: NodeName,
        /// What it says.
        message: String,
    },
    /// Something about the run as a whole is not as it should be; the run goes on.
    PipelineWarning {
        /// What is wrong, as one word: `control_own_process` where a process that the run has started tried to answer or
        /// control it, `control_unavailable` where no other process can reach it.
        code: String,
        /// What is wrong, in words.
        message: String,
    },
    /// The engine left out a part of what a stage returned, or moved aside what stood in the place of its files.
    StageWarning {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// What was wrong, as one word: `reserved_key` (rule K1), `planted_file`.
        code: String,
        /// What was wrong, in words.
        message: String,
        /// The context keys that were left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keys: Vec<String>,
    },
    /// The way on was chosen, or there is none.
    EdgeSelected {
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The node whose edges were chosen from.
        from: NodeName,
        /// Where the run goes; `None` where no way leads on.
        to: Option<NodeName>,
        /// The rule that decided; written as one word.
        #[serde(with = "rule_word")]
        rule: Rule,
        /// The conditions that were tested, in the order of the file.
        tested: Vec<TestedCondition>,
    },
    /// A stage has changed files, and its workspace has kept that.
    SnapshotSaved {
        /// The stage.
        node: NodeName,
        /// The branch of a parallel block; `None` on the main line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The files, as the workspace names them; of git repositories `{name: {git_sha, branch}}`.
        snapshot: Box<Value>,
        /// What a stage has yet to finish before the run may end, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfinished: Option<String>,
    },
    /// The state of the run is on the disk.
    CheckpointSaved {
        /// The stage that ended last.
        node: NodeName,
        /// The checkpoint's name, such as `cp_000012`, by which it can be gone back to (rule D4).
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestedCondition {
    /// Where the edge leads.
    pub to: NodeName,
    /// The condition as written.
    pub condition: String,
    /// Whether it held.
    pub held: bool,
    /// The keys that it reads, with the values that it saw.
    #[serde(with = "pairs")]
    pub values: Vec<(String, String)>,
}

/// Why a run has paused, as one word.
///
/// ```
/// use orchestra_engine::PauseCode;
/// assert_eq!(PauseCode::Budget.word(), "budget");
/// assert_eq!(serde_json::to_string(&PauseCode::WaitsForHuman)?, r#""waits_for_human""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseCode {
    /// A human gate waits, and nobody can be asked.
    #[default]
    WaitsForHuman,
    /// A signal told the program to end.
    Interrupted,
    /// Somebody asked for it.
    Requested,
    /// A budget was reached.
    Budget,
    /// The run folder cannot be written.
    Store,
}

impl PauseCode {
    /// As one word, for machines.
    pub const fn word(self) -> &'static str {
        match self {
            PauseCode::WaitsForHuman => "waits_for_human",
            PauseCode::Interrupted => "interrupted",
            PauseCode::Requested => "requested",
            PauseCode::Budget => "budget",
            PauseCode::Store => "store",
        }
    }
}

/// The names of the kinds, once: what is missing here does not compile.
macro_rules! names {
    ($($kind:ident)*) => {
        impl EventKind {
            /// The names of all kinds.
            pub const NAMES: &[&str] = &[$(stringify!($kind)),*];

            /// The name of the kind, such as `StageStarted`.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(EventKind::$kind { .. } => stringify!($kind),)*
                }
            }
        }
    };
}

names! {
    PipelineStarted
    PipelineResumed
    PipelineCompleted
    PipelineFailed
    PipelineCancelled
    PipelinePaused
    StageStarted
    StageCompleted
    StageFailed
    StageRetrying
    StageCancelled
    ParallelStarted
    ParallelBranchStarted
    ParallelBranchCompleted
    ParallelCompleted
    InterviewStarted
    InterviewCompleted
    InterviewTimeout
    GoalGateUnsatisfied
    PipelineRestarted
    ToolCallCompleted
    SteeringRead
    PipelineWarning
    StageLog
    StageWarning
    EdgeSelected
    SnapshotSaved
    CheckpointSaved
}
