//! The pipeline language of Orchestra: parser, model, checks, routing and diagnostics.
//!
//! Everything here is pure: no files, no clock, no threads. The macro, the command line, the server and the
//! editor all call this crate, so a pipeline means the same to each of them.

mod analysis;
pub mod ast;
mod attribute;
mod attribute_family;
mod attributes;
mod check;
mod children;
mod choice;
pub mod condition;
mod diagnostic;
mod environment;
mod explain;
mod joins;
pub mod kind;
mod label;
mod load;
mod lower;
mod model;
mod needs;
mod reserved;
mod route;
mod rule;
mod spelling;
mod stylesheet;
mod syntax;
pub mod table;
mod text;
mod transform;
mod value;
mod ways;

pub use analysis::{Analysis, EdgeCondition};
pub use attribute::{
    ATTRIBUTES, AttributeSpec, AttributeType, Key, Known, Scope, Scopes, is_drawing_attribute,
};
pub use attribute_family::{ATTRIBUTE_FAMILIES, AttributeFamily};
pub use attributes::{Attribute, Attributes, Origin};
pub use check::LintRule;
pub use children::{ChildReader, LoadedChild, ReadFault, key_pairs, plain_path};
pub use choice::{Choice, Offers, Withheld, choice_named, choices, offers};
pub use diagnostic::{Diagnostic, Fix, Related, Report, Severity, did_you_mean};
pub use environment::GIT_VARIABLES;
pub use explain::{Page, explain, rules};
pub use label::{accelerator_key, label_text, normalize_label};
pub use load::{LoadOptions, Loaded, load, load_bytes};
pub use lower::lower;
pub use model::{Edge, EdgeIndex, Graph, Node, NodeIndex, Subgraph};
pub use needs::{Needs, Readable, WordNeed};
pub use reserved::KeyOwner;
pub use route::{Decision, Next, RouteFault, Tested, branch_id, branches, route};
pub use rule::Rule;
pub use stylesheet::{Declaration, Selector, StyleRule, StylesheetFault, parse_stylesheet};
pub use syntax::{Limits, Parsed, is_identifier, parse, parse_bytes};
pub use table::{AttributeChange, Change, ChildDifference, Difference, Mapping, Subject, What};
pub use table::{Pipeline, Role, SharedPipeline, Stage};
pub use text::{Position, Source, Span};
pub use transform::{ShapeFallback, Transform};
pub use value::{Value, format_duration, parse_duration};

mod format;
pub mod print;
mod prompt_files;
pub mod render;

pub use format::format;
pub use print::{NodeState, PictureOptions, print_dot, print_mermaid};
