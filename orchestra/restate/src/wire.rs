//! The requests between clients, workers and the objects of runs.

use std::time::Duration;

use orchestra_core::{Answer, Budget, Context, EffectId, Question, RunFailure, Snapshot, Usage};
use orchestra_engine::{PastStage, PathFiles, PinnedPipeline, RunEvent, RunId, StageHistory, Timestamp};
use serde::{Deserialize, Serialize};

use crate::packing::Packed;
use crate::state::{LiveStage, Phase};

/// The object of a run; its key is the id.
pub(crate) const RUN: &str = "OrchestraRun";
/// The object of an attempt; its key is the run and the effect.
pub(crate) const ATTEMPT: &str = "OrchestraAttempt";
/// The service that executes attempts. Those of a pool have its name behind it.
pub(crate) const STAGE: &str = "OrchestraStage";
/// The service that shows that a worker is reached.
pub(crate) const WORKER: &str = "OrchestraWorker";

/// The keys of the state of a run. Each that a turn reads or writes costs it an entry of its journal, so there are few.
pub(crate) mod keys {
    use crate::names::Names;

    /// Everything that each turn reads.
    pub(crate) const RUN: &str = "run";
    /// The initial context.
    pub(crate) const PARAMS: &str = "params";
    /// The parent of a child run.
    pub(crate) const PARENT: &str = "parent";
    /// The reason for which no turn can be taken.
    pub(crate) const PARKED: &str = "parked";
    /// The messages that arrived since.
    pub(crate) const HELD: &str = "held";

    /// Returns a key of events.
    pub(crate) fn events(number: u64) -> &'static str {
        static NAMES: Names = Names::new("events-");
        NAMES.get(number)
    }
}

/// The request to start a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StartRequest {
    pub(crate) pipeline: String,
    /// The initial context.
    pub(crate) params: Packed,
    /// The seed that the user chose.
    pub(crate) seed: Option<u64>,
    /// The seed otherwise.
    pub(crate) random_seed: u64,
    pub(crate) budget: Budget,
    /// The secret that reports of workers must name.
    pub(crate) secret: String,
    pub(crate) at: Timestamp,
}

/// The request of a run to start a child, or to go on with the one that an earlier execution of the attempt started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StartChild {
    pub(crate) pipeline: String,
    pub(crate) sources: String,
    /// The sub-pipeline stages that lead to the pipeline of the child, from that of the root.
    pub(crate) stages: Vec<u32>,
    pub(crate) parent: Parent,
    /// The initial context, with blobs of the child.
    pub(crate) context: Packed,
    pub(crate) seed: u64,
    pub(crate) budget: Budget,
    pub(crate) secret: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) at: Timestamp,
}

/// The attempt that started a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parent {
    pub(crate) run: String,
    /// The secret of the parent run.
    pub(crate) secret: String,
    pub(crate) effect: EffectId,
    pub(crate) token: u64,
    /// The number of runs above the child.
    pub(crate) depth: u32,
}

/// The request of a run to stop a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StopChild {
    /// The secret of the child.
    pub(crate) secret: String,
    pub(crate) how: StopHow,
    pub(crate) at: Timestamp,
}

/// The way in which a child is stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopHow {
    /// It can be resumed.
    Pause(String),
    Cancel(String),
    /// The stage took too long.
    TimeOut,
}

/// The message of a child that has ended or was paused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChildEnded {
    /// The secret of the parent run.
    pub(crate) secret: String,
    pub(crate) effect: EffectId,
    pub(crate) token: u64,
    /// A [`HostedChildEnd`](orchestra_engine::HostedChildEnd), with blobs of the parent.
    pub(crate) end: Packed,
    pub(crate) used: Usage,
    pub(crate) at: Timestamp,
}

/// A message to a run that nobody waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// The secret of the run.
    pub(crate) secret: String,
    /// A [`Sent`](crate::message::Sent).
    pub(crate) sent: Packed,
}

/// Messages of a worker to a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Envelopes {
    /// The secret of the run.
    pub(crate) secret: String,
    /// Several [`Sent`](crate::message::Sent).
    pub(crate) sent: Vec<Packed>,
}

/// The request to answer a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AnswerRequest {
    pub(crate) question: String,
    pub(crate) answer: Answer,
    pub(crate) at: Timestamp,
}

/// The request to cancel or pause a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StopRequest {
    pub(crate) reason: String,
    pub(crate) at: Timestamp,
}

/// The request to resume a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResumeRequest {
    /// The invocations that no longer exist.
    pub(crate) lost: Vec<String>,
    /// `true` to move the run to the version of its pipeline that workers have now.
    #[serde(default)]
    pub(crate) accept_changes: bool,
    pub(crate) at: Timestamp,
}

/// The request to execute an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StageRequest {
    pub(crate) run: String,
    pub(crate) secret: String,
    pub(crate) pipeline: String,
    /// The blob with the sources of the pipeline.
    pub(crate) sources: String,
    /// The sub-pipeline stages that lead to the pipeline of the run.
    pub(crate) stages: Vec<u32>,
    pub(crate) effect: EffectId,
    pub(crate) token: u64,
    /// The context that the stage sees.
    pub(crate) context: Packed,
    pub(crate) budget: Budget,
    /// The state that the files of the attempt must have, if the pipeline has a workspace.
    #[serde(default, skip_serializing_if = "PathFiles::is_untouched")]
    pub(crate) files: PathFiles,
}

/// The end of a run that worked on files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CloseRequest {
    pub(crate) run: String,
    pub(crate) pipeline: String,
    /// The blob with the sources of the pipeline.
    pub(crate) sources: String,
    pub(crate) restarts: u32,
    /// The last snapshot of the main path.
    pub(crate) snapshot: Option<Snapshot>,
}

/// The answer to a question of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AnswerSignal {
    pub(crate) question: String,
    pub(crate) answer: Answer,
}

/// The begin of an execution of an attempt that was executed before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    pub(crate) token: u64,
}

/// A note of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NoteRequest {
    pub(crate) token: u64,
    /// The number of the note in the attempt, from 0.
    pub(crate) number: u64,
    /// The note.
    pub(crate) note: Packed,
    /// The state of the files at the note, if it has changed since the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<Snapshot>,
    /// The message to the run about the usage since the last note, if there is any.
    pub(crate) used: Option<Envelope>,
    pub(crate) run: String,
}

/// The reply to a [`NoteRequest`] or an [`OpenRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoteReply {
    /// The notes so far, for an execution that begins.
    Notes(Vec<Packed>),
    /// The same, with the latest state of the files.
    NotesOnFiles(Vec<Packed>, Snapshot),
    Accepted,
    /// Another execution of the attempt has begun.
    OldToken,
}

/// A question about a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Look {
    Status,
    /// What is left of the run: its context and the path that it took.
    Result,
    /// The history that an attempt sees.
    History(EffectId),
    /// The latest outcomes of nodes that an attempt sees.
    Latest(EffectId, Option<Vec<String>>),
    /// The events that are not in a segment yet, and the blob of the last segment.
    Events,
    /// Everything of which a copy of the run is made.
    Export,
}

/// The answer to a [`Look`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Seen {
    Status(Box<RemoteStatus>),
    Result(Box<RemoteResult>),
    History(Box<StageHistory>),
    Latest(Vec<PastStage>),
    Events(EventTail),
    Export(Box<ExportedParts>),
}

/// The sources of the pipeline of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportedSources {
    /// A blob.
    Blob(String),
    /// Those of a child run.
    Child(Box<PinnedPipeline>),
}

/// The parts of a copy of a run, as they are stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ExportedParts {
    pub(crate) state: Packed,
    pub(crate) sources: ExportedSources,
    /// The initial context.
    pub(crate) params: Packed,
    pub(crate) events: EventTail,
}

/// The latest events of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EventTail {
    /// The blob of the last segment.
    pub(crate) segment: Option<String>,
    pub(crate) events: Vec<RunEvent>,
}

/// A part of the events of a run, which is a blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Segment<E = RunEvent> {
    /// The blob of the part before this one.
    pub(crate) before: Option<String>,
    pub(crate) events: Vec<E>,
}

/// The status of a run on the durable engine.
///
/// ```
/// # async fn show(client: orchestra_restate::Client) -> Result<(), orchestra_restate::ClientError> {
/// let run = orchestra_engine::RunId::new("nightly-7").expect("valid");
/// for question in client.status(&run).await?.questions {
///     println!("{} waits for an answer: {}", question.id, question.text);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteStatus {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The hash of the pipeline that the run follows.
    pub hash: String,
    /// Whether the run goes on.
    pub phase: Phase,
    /// The reason for which no worker can take a turn, such as a missing blob. What arrives is kept until the run is
    /// resumed.
    pub parked: Option<String>,
    /// The attempts that workers execute, with their names.
    pub stages: Vec<(String, LiveStage)>,
    /// The open questions.
    pub questions: Vec<Question>,
    /// The number of events.
    pub events: u64,
    /// The limits on the usage.
    pub budget: Budget,
    /// The usage so far.
    pub used: Usage,
    /// The time of the start.
    pub began: Timestamp,
    /// The time of the last turn.
    pub now: Timestamp,
    /// The execution time; pauses do not count.
    pub executed: Duration,
}

impl RemoteStatus {
    /// Returns the ids of the child runs that go on.
    pub fn children(&self) -> Vec<RunId> {
        let ids = self.stages.iter().filter_map(|(_, stage)| stage.child.clone());
        ids.filter_map(|id| RunId::new(id).ok()).collect()
    }
}

/// The result of a run on the durable engine so far.
///
/// ```
/// # async fn show(client: orchestra_restate::Client) -> Result<(), orchestra_restate::ClientError> {
/// let run = orchestra_engine::RunId::new("nightly-7").expect("valid");
/// let result = client.wait(&run).await?;
/// assert_eq!(result.failure, None);
/// println!("{}: {:?}", result.path.join(" -> "), result.context.get("version"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteResult {
    /// `true` if the run has ended.
    pub has_ended: bool,
    /// The failure with which the run ended or was paused.
    pub failure: Option<RunFailure>,
    /// The ids of the nodes that the main path completed, in order.
    pub path: Vec<String>,
    /// The context of the main path.
    pub context: Context,
    /// The usage.
    pub usage: Usage,
}

/// Returns the name of the signal with an answer.
pub(crate) fn answer_signal(number: u64) -> String {
    format!("answer-{number}")
}

/// Returns the key of the object of an attempt.
pub(crate) fn attempt_key(run: &str, effect: &str) -> String {
    format!("{run}/{effect}")
}
