//! The interface between generated code and this crate. It is not part of the public interface.
//!
//! The names are short because a large pipeline repeats them thousands of times.

mod handlers;
mod items;
mod lazy;
mod table;

pub use orchestra_engine::{
    AttributeError, AttributeRequirement, Binding, Bound, Builtin, Compiled, CompiledConfiguration,
    FieldSpec, FieldType, FromStage, HandlerSet, IntoOutcome, KindSpec, Kinds, NodeRequirement, Outcome,
    OutcomeRequirement, PipelineRequirements, Registry, SourceLocation, StageContext, StageEnd, Status,
    Words, blocking, verify,
};
pub use orchestra_graph::condition::Comparison::*;
pub use orchestra_graph::condition::Facts;
pub use orchestra_graph::table::{
    AttributeRow, Child, ConditionRow, Constant, EdgeRow, End, ErrorPolicy, FanOut, JoinPolicy, NodeRow,
    Pipeline, Retry, Role, Routing, Rows, Settings, SharedPipeline, Test, Text,
};
pub use orchestra_graph::{NodeIndex, Position, Readable};

pub use handlers::{Argument, Field, Returned, add, argument, field, outcome, returned};
pub use items::{gate, id, parse, simulate};
pub use lazy::{LazyCondition, LazyJson, LazyPattern};
pub use table::V::*;
pub use table::{
    Attribute, Condition, Edge, EdgeMore, Label, Node, NodeFanOut, NodeMore, NodeRetry, V, at, attributes,
    child, conditions, edges, nodes, pipeline, settings, t, texts,
};

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
