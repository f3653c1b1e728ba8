//! The runtime of Orchestra on tokio: handlers, events, run folders.

mod binding;
mod handler;
pub mod process;
mod registry;
mod stage;

pub use binding::{Binding, Bound, Builtin, Compiled, Supplies};
pub use handler::{
    AttributeError, AttributeField, FieldSpec, FieldType, FromStage, Handler, HandlerFuture, HandlerSet,
    IntoOutcome, KindSpec, Kinds, Words,
};
pub use orchestra_core::{Context, FailureCategory, Outcome, Status};
pub use registry::Registry;
pub use stage::StageContext;
