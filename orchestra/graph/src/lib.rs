//! The pipeline language of Orchestra: parser, model, checks, routing and diagnostics.
//!
//! Everything here is pure: no files, no clock, no threads. The macro, the command line, the server and the
//! editor all call this crate, so a pipeline means the same to each of them.

pub mod ast;
mod attribute;
mod check;
mod diagnostic;
pub mod kind;
mod lower;
mod model;
mod syntax;
mod text;
mod value;

pub use attribute::{
    ATTRIBUTES, Attribute, AttributeSpec, AttributeType, Attributes, Key, Known, Origin, Scope, Scopes,
    is_drawing_attribute,
};
pub use diagnostic::{Diagnostic, Fix, Related, Report, Severity, did_you_mean};
pub use lower::lower;
pub use model::{Edge, EdgeIndex, Graph, Node, NodeIndex, Subgraph};
pub use syntax::{Limits, Parsed, is_identifier, parse, parse_bytes};
pub use text::{Position, Source, Span};
pub use value::{Value, format_duration, parse_duration};
