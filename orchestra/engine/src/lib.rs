//! The runtime of Orchestra on tokio: handlers, events, run folders.

mod binding;
mod blocking;
mod handler;
mod needs;
mod needs_text;
pub mod process;
mod registry;
mod stage;

pub use binding::{Binding, Bound, Builtin, Compiled, Supplies};
#[doc(hidden)]
pub use blocking::blocking;
pub use handler::{
    AttributeError, AttributeField, FieldSpec, FieldType, FromStage, Handler, HandlerFuture, HandlerSet,
    IntoOutcome, KindSpec, Kinds, Words,
};
#[doc(hidden)]
pub use needs::verify;
pub use needs::{AttributeNeed, NeedFault, Needs, NodeNeed, Place, WordNeed, check_registry};
pub use orchestra_core::{Context, FailureCategory, Outcome, Status};
pub use registry::Registry;
pub use stage::StageContext;
