//! The runtime of Orchestra on tokio: handlers, events, run folders.
//!
//! An [`Engine`] starts, resumes and replays runs of compiled and loaded pipelines. The state machine of
//! `orchestra-core` decides what happens next. The engine executes its effects, calls the [`Handler`]s of stages,
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
//! - **Fencing token**: the number of an owner of a run. It increases with each new owner and is part of every record.
//! - **Run view**: the state of a run as computed from its events, for consumers that show it; the machine does not use
//!   it.
//! - **Suspension**: the reason why an attempt pauses the run instead of returning an outcome.
//!
//! # Modules, in reading order
//!
//! A module uses only modules that are listed before it, and those of its own group.
//!
//! Basics:
//!
//! - `clock`: the clock, which a test can replace.
//! - `id`: the ids of runs.
//! - `lock`: locks that ignore poisoning.
//! - `limit`: the system limits that a program may reach.
//! - `redact`, `secrets`: the removal of secrets from everything that leaves a run, and the detection of environment
//!   variables that hold secrets.
//! - `run_status`, `run_path`: the status of a run that has ended, and the nodes that it completed.
//! - `stage_end`, `into_outcome`: the end of an attempt, and the conversion of return values of handlers to it.
//! - `model_stage`, `script`: the stages that call a model, and the script of a simulated run.
//! - `disk`: the reader of the files of child pipelines.
//! - `event`: the events of a run and their JSON form.
//!
//! Persistence and processes:
//!
//! - `ownership`: a check of whether this process still owns a run.
//! - `process`: the execution of shell commands of tool stages.
//! - `store`: the run folder: its layout, its owner and the store that writes it, and its view for other processes.
//! - `run_view`: the state of a run as a fold of its events, which all consumers of events share.
//! - `blocking`: the execution of blocking functions outside of the threads that run stages.
//! - `artifacts`: named data that is too large for the context of a run.
//! - `result`: the result of a run.
//! - `socket`: the sockets through which other processes reach runs.
//!
//! Runs and stages:
//!
//! - `gates`: the interface to people, the open questions of a run, and their deadlines.
//! - `budget`: the usage meter of a run, with budgets and reservations.
//! - `run`: the state that all parts of a run share, the view that a handler has of its stage, and the interface to
//!   workspaces.
//! - `journal`: the records of the journal, and the writer that makes them durable.
//! - `handlers`: the trait of handlers, the handlers of a program by kind, and the check that they meet the
//!   requirements of a pipeline.
//! - `error`, `handle`: the errors of engines and runs, and the handle of a run.
//! - `builtin`: the built-in handlers, and the simulation.
//!
//! Executing runs:
//!
//! - `setup`: the settings of an engine, the lookup of the handlers of a pipeline, and the pinned sources of a
//!   pipeline.
//! - `driver`: the task that executes the effects of the machine.
//! - `control`: the protocol by which other processes answer, pause and cancel a run.
//! - `start`: the start of a run.
//! - `recovery`: resuming, replaying and changing runs that another process began.
//! - `child_starter`: the starter of child runs.
//! - `host`: the execution of single attempts for runs that another process decides about.
//! - `export`: copies of such runs, as run folders.
//! - `engine`: the engine and its builder.
//! - `entry`: pipelines by name, with the functions that begin their runs.
//! - `fuzzing`: the entry points of the fuzz targets.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod artifacts;
mod blocking;
mod budget;
mod builtin;
mod child_starter;
mod clock;
mod control;
mod disk;
mod driver;
mod engine;
mod entry;
mod error;
mod event;
mod export;
#[doc(hidden)]
pub mod fuzzing;
mod gates;
mod handle;
mod handlers;
mod host;
mod id;
mod into_outcome;
mod journal;
mod limit;
mod lock;
mod ownership;
pub mod process;
mod recovery;
mod redact;
mod result;
mod run;
mod run_path;
mod run_status;
mod run_view;
#[cfg(feature = "schema")]
mod schema;
mod script;
mod secrets;
mod setup;
#[cfg_attr(not(unix), path = "socket_elsewhere.rs")]
mod socket;
mod stage_end;
mod start;
mod store;

pub use artifacts::{ArtifactError, ArtifactInfo, ArtifactStore};
#[doc(hidden)]
pub use blocking::{beside, blocking};
#[doc(hidden)]
pub use budget::{OverBudget, node_budget};
pub use builtin::answer::answer_object;
pub use builtin::backend::{
    BackendError, ChatVerdict, CodergenAnswer, CodergenBackend, CodergenReply, CodergenRequest,
    SimulationBackend,
};
pub use clock::{Clock, Sleep, SystemClock, Timestamp};
pub use control::{ControlClient, ControlError, ControlRefusal, OpenQuestion};
pub use disk::Disk;
pub use driver::limits::Limits;
pub use engine::{Engine, EngineBuilder};
pub use entry::{Begin, BeginFuture, Entry, ResumeSettings, StartSettings};
pub use error::{AlreadyFinished, BuildError, Changed, Refusal, Refusals, RunError, StartError};
pub use event::{
    AttemptEnd, AttemptResult, EventError, EventKind, ModelCall, ModelContents, NodeName, ObservedStage,
    PauseCode, RunEvent, StageRef, TestedCondition, branch_label, stage_label,
};
pub use export::{ExportedCopy, ExportedPhase, ExportedRun};
pub use gates::answer_error::AnswerError;
pub use gates::interview::{
    AskError, AutoApprove, CallbackInterviewer, InterviewError, Interviewer, QueueInterviewer,
    RecordedAnswer, Recording, RecordingInterviewer, ReplayInterviewer, SharedInterviewer,
    ask_until_accepted,
};
pub use handle::{Canceller, RunHandle};
pub use handlers::binding::{Binding, Bound, Compiled, CompiledConfiguration, CompiledVersion};
pub use handlers::declared_values::{
    ContextValue, DeclaredInputs, DeclaredKey, Startable, StartsWithoutInputs, WithInputs,
};
pub use handlers::from_stage::{AttributeError, AttributeField, FromStage};
pub use handlers::handler::{Handler, HandlerFuture};
pub use handlers::handler_set::HandlerSet;
pub use handlers::kinds::{FieldSpec, FieldType, KindSpec, Kinds};
pub use handlers::registry::Registry;
pub use handlers::requirements::{
    AttributeRequirement, NodeRequirement, OutcomeRequirement, PipelineRequirements, SourceLocation,
    UnmetRequirement,
};
pub use handlers::verify::{check_registry, verify};
pub use host::child::{HostedChild, HostedChildEnd};
pub use host::{AttemptHost, HostedAttempt, HostedEnd, HostedResult, HostedSuspension};
pub use id::{InvalidRunId, RunId};
#[doc(hidden)]
pub use into_outcome::error_chain;
pub use into_outcome::{IntoOutcome, Words};
pub use limit::SystemError;
pub use orchestra_core::{
    Accepted, Answer, AnswerRefused, AnsweredBy, BranchStatus, Budget, Candidate, ChatTurn, Context,
    Exploration, ExploreOptions, ExploredEnd, FailureCategory, FoundPaths, FoundTarget, JoinedBranch,
    NodeOutcome, Outcome, PathEntry, PathOptions, PathScript, PathVerdict, Question, QuestionKind,
    QuestionOption, Reply, RunFailure, SharedPipeline, Snapshot, Status, UnmetCondition, Usage,
    WithheldOption, candidates, explore, find_paths,
};
pub use ownership::RunOwnership;
pub use recovery::lineage::{ContextLineage, ContextReader, ContextWriter};
pub use recovery::offline::{OfflineError, PausedRun};
pub use recovery::replay::ReplayBuilder;
pub use recovery::resume::ResumeBuilder;
pub use recovery::state_at::CarryOver;
pub use recovery::what_if::WhatIf;
pub use redact::{RedactedStream, Redactor};
pub use result::{FailedAttempt, Outcomes, RunResult, TransitionCount, TransitionCounts};
#[doc(hidden)]
pub use run::engine_folders::EngineFolders;
pub use run::history::{Fidelity, PastStage, StageHistory, ToolTally, UnknownFidelity};
pub use run::hosted_text::HostedText;
pub use run::model_output::TextStream;
pub use run::path_files::PathFiles;
pub use run::port::{AttemptPort, PortFuture};
#[doc(hidden)]
pub use run::reservation::Reservation;
pub use run::sink::EventStream;
pub use run::stage::StageContext;
pub use run::stage_text::StageText;
pub use run::stored_text::StoredText;
pub use run::workplace::Workplace;
pub use run::workspace::{
    OpenedWorkspace, RunEnd, Workspace, WorkspaceEnd, WorkspaceError, WorkspaceFuture, WorkspaceRun,
    WorkspaceSession, WorkspaceStage,
};
pub use run_path::Path;
pub use run_status::RunStatus;
pub use run_view::{
    EndedAttempt, ReplayPoint, ReplayPoints, RunPhase, RunSummary, RunView, RunWarning, RunningAttempt,
    STAGE_DURATION_BUCKETS, UnansweredQuestion, UnansweredQuestions,
};
#[doc(hidden)]
pub use script::answer_of;
pub use script::{Script, ScriptedOutcome};
pub use secrets::{EnvironmentSecrets, is_placeholder_key, listed_variables};
pub use setup::pinned_source::PinnedPipeline;
pub use stage_end::{StageEnd, Suspension};
pub use start::StartBuilder;
pub use store::{
    Access, Checkpoint, Durability, EventCursor, EventLine, EventReader, FileSystem, Manifest, OpenFile,
    Owner, PinnedSource, RecordedOutcome, ReplayedFrom, RunFile, RunFolder, StageFile, StoreError,
    SystemFiles, stage_folder_name,
};
pub use tokio_util::sync::CancellationToken;
