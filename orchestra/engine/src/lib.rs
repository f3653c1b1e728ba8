//! The runtime of Orchestra on tokio: handlers, events, run folders.
//!
//! An [`Engine`] starts, resumes and replays runs of compiled and loaded pipelines. The state machine of
//! `orchestra-core` decides what comes next. The engine executes its effects, calls the [`Handler`]s of stages,
//! persists the results and emits [`RunEvent`]s.
//!
//! # Glossary
//!
//! - **Machine**: the state machine of a run in `orchestra-core`, which receives events and returns effects.
//! - **Effect**: a request of the machine to the engine, such as to run a node, start a timer or ask a person.
//! - **Driver**: the task of a run that executes effects and applies the resulting events to the machine.
//! - **Attempt**: one execution of a stage by its handler; a visit of a node has several attempts if it is retried.
//! - **Execution path**: a sequence of stages with a state of its own; a run has a main path, and one path for each
//!   running branch of a parallel block.
//! - **Run folder**: the folder in which a run is persisted, with its manifest, journal, checkpoint, events and stage
//!   files.
//! - **Journal**: the durable list of the events that were applied to the machine; replaying it restores the state.
//! - **Checkpoint**: the saved state of a run at a record of the journal, from which it can be resumed or replayed.
//! - **Fencing token**: the number of an owner of a run, which rises with each new owner and is written to every
//!   record.
//! - **Suspension**: the reason why an attempt pauses the run instead of returning an outcome.
//!
//! # Modules, in reading order
//!
//! Starting a run:
//!
//! - `engine`: the engine, its builder and the settings that runs share.
//! - `start`: the start of a run.
//! - `handle`: the handle of a run, which waits for it, cancels it and answers its questions.
//! - `run`: the state that all parts of a run share.
//! - `result`: the result of a run.
//! - `id`: the ids of runs.
//! - `error`: the errors of engines and runs.
//!
//! Executing a run:
//!
//! - `driver`: the task that executes the effects of the machine.
//! - `emit`: the events of a run, from the observations of the machine.
//! - `commit`: the commit of events to the journal, and pauses.
//! - `pending`: the tasks that a run waits for.
//! - `attempt`: an attempt of a stage, from its start to its end.
//! - `stage_end`: the end of an attempt, an outcome or a suspension.
//! - `authority`: the check of the context values that stages write.
//! - `requests`: the requests of running stages to the driver.
//! - `clock`: the clock, which a test can replace.
//! - `deadline`: the deadlines of people.
//! - `blocking`: the execution of blocking functions outside of the threads that run stages.
//!
//! Handlers:
//!
//! - `handler`: the trait of handlers, and the types of their arguments and results.
//! - `stage`: the view that a handler has of its stage.
//! - `registry`: the handlers of a program by kind.
//! - `resolve`: the lookup of the handlers of a pipeline.
//! - `binding`: the bindings of compiled pipelines to handlers.
//! - `requirements`, `violations_text`: the check that handlers meet the requirements of a pipeline, and its messages.
//! - `builtin`: the built-in handlers, and the simulation.
//! - `history`: the history that the model of a stage receives.
//! - `stored_text`: the texts that earlier stages stored.
//! - `output`: the output of models while it is generated.
//! - `run_usage`, `usage_meter`: the usage of models, its budgets and reservations.
//! - `steering`: the instructions of a manager loop to the run that it supervises.
//! - `disk`: the reader of the files of child pipelines.
//!
//! Persistence:
//!
//! - `store`: the run folder, with its manifest, journal, checkpoints and stage files.
//! - `records`: the records of the journal.
//! - `journal_writer`: the journal of a run that is being executed.
//! - `resume`: the resume of a run that this or another process began.
//! - `recovery`: the replay of a journal to the machine.
//! - `replay`: new runs that start from a checkpoint of another run.
//! - `offline`: changes to a run that no process executes.
//! - `pinned_source`: the sources of the pipeline that are stored with a run.
//! - `ownership`: a check of whether this process still owns a run.
//! - `folder_watch`: the thread that notices the loss of a run folder.
//! - `artifacts`: named data that is too large for the context of a run.
//! - `workspace`, `files`: the interface to workspaces, and its use by runs.
//! - `shared`: the nodes that several branches may run at the same time.
//!
//! Events and people:
//!
//! - `event`: the events of a run and their JSON form.
//! - `sink`: the delivery of events to the store, the subscribers and the callbacks.
//! - `interview`: the interface to people.
//! - `pending_questions`, `question_token`: the open questions of a run, and the tokens by which other processes answer
//!   them.
//! - `control`: the socket through which other processes answer, pause and cancel a run.
//!
//! Processes and secrets:
//!
//! - `process`: the execution of shell commands of tool stages.
//! - `redact`: the removal of secrets from everything that leaves a run.
//! - `secrets`: the detection of environment variables that hold secrets.
//! - `limit`: the system limits that a program may reach.
//! - `fuzzing`: the entry points of the fuzz targets.

mod artifacts;
mod attempt;
mod authority;
mod binding;
mod blocking;
mod builtin;
mod clock;
mod commit;
mod control;
mod deadline;
mod disk;
mod driver;
mod emit;
mod engine;
mod error;
mod event;
mod files;
mod folder_watch;
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod handler;
mod history;
mod id;
mod interview;
mod journal_writer;
mod limit;
mod offline;
mod output;
mod ownership;
mod pending;
mod pending_questions;
mod pinned_source;
pub mod process;
mod question_token;
mod records;
mod recovery;
mod redact;
mod registry;
mod replay;
mod requests;
mod requirements;
mod resolve;
mod result;
mod resume;
mod run;
mod run_usage;
mod secrets;
mod shared;
mod sink;
mod stage;
mod stage_end;
mod start;
mod steering;
mod store;
mod stored_text;
mod usage_meter;
mod violations_text;
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
pub use error::{AlreadyFinished, AnswerError, BuildError, Changed, Refusal, Refusals, RunError, StartError};
pub use event::{EventError, EventKind, NodeName, PauseCode, RunEvent, TestedCondition};
pub use handle::{Canceller, RunHandle};
pub use handler::{
    AttributeError, AttributeField, FieldSpec, FieldType, FromStage, Handler, HandlerFuture, HandlerSet,
    IntoOutcome, KindSpec, Kinds, Words,
};
pub use history::{Fidelity, PastStage, StageHistory, ToolTally, UnknownFidelity};
pub use id::{InvalidRunId, RunId};
pub use interview::{
    AskError, AutoApprove, CallbackInterviewer, InterviewError, Interviewer, QueueInterviewer,
    RecordedAnswer, Recording, RecordingInterviewer, ReplayInterviewer, SharedInterviewer,
    ask_until_accepted,
};
pub use limit::SystemError;
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
pub use requirements::verify;
pub use requirements::{
    AttributeRequirement, NodeRequirement, OutcomeRequirement, PipelineRequirements, SourceLocation,
    UnmetRequirement, check_registry,
};
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
    Access, Checkpoint, Durability, EventLine, FileSystem, Manifest, OpenFile, Owner, PinnedSource,
    RecordedOutcome, ReplayedFrom, RunFolder, StageFile, StoreError, SystemFiles, stage_folder_name,
};
pub use stored_text::StoredText;
pub use tokio_util::sync::CancellationToken;
#[doc(hidden)]
pub use usage_meter::{OverBudget, Reservation};
pub use workspace::{
    OpenedWorkspace, RunEnd, Workplace, Workspace, WorkspaceEnd, WorkspaceError, WorkspaceFuture,
    WorkspaceRun, WorkspaceSession, WorkspaceStage,
};
