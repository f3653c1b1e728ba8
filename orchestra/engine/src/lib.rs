//! The runtime of Orchestra on tokio: handlers, events, run folders.
//!
//! An [`Engine`] starts runs of compiled and of loaded pipelines. It asks the pure machine of `orchestra-core` what
//! comes next, runs the stages' [`Handler`]s, and tells what happens by [`RunEvent`]s.

mod attempt;
mod binding;
mod blocking;
mod builtin;
mod clock;
mod driver;
mod engine;
mod error;
mod event;
mod handle;
mod handler;
mod id;
mod needs;
mod needs_text;
pub mod process;
mod registry;
mod resolve;
mod result;
mod run;
mod sink;
mod stage;
mod steering;
mod store;

pub use binding::{Binding, Bound, Builtin, Compiled, Supplies};
#[doc(hidden)]
pub use blocking::blocking;
pub use builtin::backend::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, SimulationBackend,
};
pub use builtin::simulate::Script;
pub use clock::{Clock, Sleep, SystemClock, Timestamp};
pub use engine::{Engine, EngineBuilder, StartBuilder};
pub use error::{BuildError, Refusal, Refusals, RunError, StartError};
pub use event::{EventKind, NodeName, RunEvent, TestedCondition};
pub use handle::{Canceller, RunHandle};
pub use handler::{
    AttributeError, AttributeField, FieldSpec, FieldType, FromStage, Handler, HandlerFuture, HandlerSet,
    IntoOutcome, KindSpec, Kinds, Words,
};
pub use id::{InvalidRunId, RunId};
#[doc(hidden)]
pub use needs::verify;
pub use needs::{AttributeNeed, NeedFault, Needs, NodeNeed, Place, WordNeed, check_registry};
pub use orchestra_core::{
    Context, FailureCategory, NodeOutcome, Outcome, RunFailure, SharedPipeline, Status,
};
pub use registry::Registry;
pub use result::{Outcomes, Path, RunResult, RunStatus};
pub use sink::EventStream;
pub use stage::StageContext;
pub use store::{Checkpoint, FolderStore, Manifest, RecordedOutcome, RunStore, StageFile, StoreError};
pub use tokio_util::sync::CancellationToken;
