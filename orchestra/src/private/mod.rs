//! The interface between generated code and this crate. It is not part of the public interface.
//!
//! Names that a large pipeline repeats thousands of times are short.

mod handlers;
mod items;
mod lazy;

pub use std::borrow::Cow::Borrowed;

pub use serde_json::Value as JsonValue;
/// A JSON object.
pub type JsonObject = serde_json::Map<String, JsonValue>;

pub use orchestra_core::GateAnswer;
pub use orchestra_engine::{
    AttributeError, AttributeRequirement, Binding, Bound, Compiled, CompiledConfiguration, CompiledVersion,
    FieldSpec, FieldType, FromStage, HandlerSet, IntoOutcome, KindSpec, Kinds, NodeRequirement, Outcome,
    OutcomeRequirement, PipelineRequirements, Registry, SourceLocation, StageContext, StageEnd, Startable,
    StartsWithoutInputs, Status, Words, blocking, verify,
};
pub use orchestra_graph::condition::Comparison::*;
pub use orchestra_graph::condition::Facts;
pub use orchestra_graph::table::{
    AttributeRow, Child, ConditionRow, EdgeRow, NodeRow, Pipeline, Predicate, Predicates, Rows, Settings,
    SharedPipeline, Text, Texts,
};
pub use orchestra_graph::{NodeIndex, Readable};

pub use handlers::{Argument, Field, Returned, add, argument, field, outcome, returned};
pub use items::{at, gate, id, limits, parse, paths, simulate};
pub use lazy::{LazyCondition, LazyJson, LazyPattern};

#[cfg(feature = "agents")]
pub use orchestra_agent::support as agents;
#[cfg(feature = "cli")]
pub use orchestra_cli as cli;

/// Fails the build if a set of tools does not contain a name.
///
/// # Panics
///
/// Panics at compile time, with the given message.
#[cfg(feature = "agents")]
#[allow(clippy::panic)] // A panic in a constant is the only way to a compile error there.
pub const fn verify_tool(known: &orchestra_agent::ToolNames, name: &str, words: &str) {
    if !known.contain(name) {
        panic!("{}", words)
    }
}
