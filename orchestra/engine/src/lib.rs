//! The runtime of Orchestra on tokio: handlers, events, run folders.
//!
//! An [`Engine`] starts runs of compiled and of loaded pipelines. It asks the pure machine of `orchestra-core` what
//! comes next, runs the stages' [`Handler`]s, and tells what happens by [`RunEvent`]s.

mod artifacts;
mod asked;
mod attempt;
mod authority;
mod binding;
mod blocking;
mod builtin;
mod clock;
mod control;
mod deadline;
mod disk;
mod driver;
mod engine;
mod error;
mod event;
mod files;
mod folder_watch;
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod handler;
mod id;
mod interview;
mod keeping;
mod ledger;
mod limit;
mod needs;
mod needs_text;
mod offline;
mod output;
mod ownership;
mod pending;
mod pinned;
pub mod process;
mod question_token;
mod questions;
mod records;
mod redact;
mod registry;
mod replay;
mod requests;
mod resolve;
mod result;
mod resume;
mod run;
mod secrets;
mod settle;
mod shared;
mod sink;
mod spending;
mod stage;
mod stage_end;
mod start;
mod steering;
mod store;
mod stored_text;
mod surroundings;
mod take_up;
mod tell;
mod workspace;

pub use artifacts::{ArtifactError, ArtifactInfo, ArtifactStore};
pub use binding::{Binding, Bound, Builtin, Compiled, CompiledConfiguration, Supplies};
#[doc(hidden)]
pub use blocking::{beside, blocking};
pub use builtin::backend::{
    BackendError, ChatVerdict, CodergenAnswer, CodergenBackend, CodergenReply, CodergenRequest,
    SimulationBackend,
};
#[doc(hidden)]
pub use builtin::simulate::answer_of;
pub use builtin::simulate::{Script, ScriptedOutcome};
pub use clock::{Clock, Sleep, SystemClock, Timestamp};
pub use control::{ControlClient, ControlError, ControlRefusal, OpenQuestion};
pub use disk::Disk;
pub use engine::{Engine, EngineBuilder};
pub use error::{AnswerError, BuildError, Changed, Over, Refusal, Refusals, RunError, StartError};
pub use event::{EventError, EventKind, NodeName, PauseCode, RunEvent, TestedCondition};
pub use handle::{Canceller, RunHandle};
pub use handler::{
    AttributeError, AttributeField, FieldSpec, FieldType, FromStage, Handler, HandlerFuture, HandlerSet,
    IntoOutcome, KindSpec, Kinds, Words,
};
pub use id::{InvalidRunId, RunId};
pub use interview::{
    AskError, AutoApprove, CallbackInterviewer, InterviewError, Interviewer, QueueInterviewer,
    RecordedAnswer, Recording, RecordingInterviewer, ReplayInterviewer, SharedInterviewer,
    ask_until_accepted,
};
#[doc(hidden)]
pub use ledger::{OverBudget, Reservation};
pub use limit::SystemError;
pub use needs::verify;
pub use needs::{AttributeNeed, NeedFault, Needs, NodeNeed, Place, WordNeed, check_registry};
pub use offline::{OfflineError, PausedRun};
pub use orchestra_core::{
    Accepted, Answer, AnswerRefused, AnsweredBy, BranchStatus, Budget, Candidate, ChatTurn, Context,
    FailureCategory, JoinedBranch, NodeOutcome, Outcome, Question, QuestionKind, QuestionOption, Reply,
    RunFailure, SharedPipeline, Snapshot, Status, UnmetCondition, Usage, WithheldOption, candidates,
};
pub use output::{StageText, TextStream};
pub use ownership::RunOwnership;
pub use redact::{RedactedStream, Redactor};
pub use registry::Registry;
pub use replay::ReplayBuilder;
pub use result::{FailedAttempt, Outcomes, Path, RunResult, RunStatus, TransitionCount, TransitionCounts};
pub use resume::ResumeBuilder;
pub use secrets::{EnvironmentSecrets, is_placeholder_key, listed_variables};
pub use sink::EventStream;
#[doc(hidden)]
pub use stage::EngineFolders;
pub use stage::StageContext;
pub use stage_end::{StageEnd, Suspension};
pub use start::StartBuilder;
pub use store::{
    Access, Checkpoint, Durability, EventLine, FileSystem, Manifest, OpenFile, Owner, PinnedPipeline,
    RecordedOutcome, ReplayedFrom, RunFolder, StageFile, StoreError, SystemFiles, stage_folder_name,
};
pub use stored_text::StoredText;
pub use surroundings::{Fidelity, PastStage, Surroundings, ToolTally, UnknownFidelity};
pub use tokio_util::sync::CancellationToken;
pub use workspace::{
    OpenedWorkspace, RunEnd, Workplace, Workspace, WorkspaceEnd, WorkspaceError, WorkspaceFuture,
    WorkspaceRun, WorkspaceSession, WorkspaceStage,
};
