//! The pipeline language of Orchestra: parser, model, checks, routing and diagnostics.
//!
//! Everything here is pure: no files, no clock, no threads. The macro, the engine and the command line all call this
//! crate, so a pipeline has the same meaning for each of them.
//!
//! # Glossary
//!
//! - **Pipeline**: a workflow, written as a graph in a subset of the DOT language.
//! - **Graph**: the model of a pipeline: nodes, edges and their typed attributes, with their spans in the text.
//! - **Table**: the form of a pipeline that the engine runs; [`Pipeline`] is one, either compiled or loaded.
//! - **Kind**: the kind of handler that runs a node, selected by its `type` or its shape.
//! - **Stage**: a node of the table, as a run executes it.
//! - **Outcome**: the name of the result of a stage, such as `success` or `fail`, which conditions compare with.
//! - **Routing**: the choice of the next step of a run after a node, by conditions, labels, weights and retry targets.
//! - **Block**: the nodes between a **fan-out**, which starts branches, and its **join**, where all branches meet.
//! - **Child pipeline**: a pipeline in a file of its own, which a stage of another pipeline runs.
//! - **Check**: a rule of the language with a stable code; it reports diagnostics and has a documentation page.
//!
//! # Modules, in reading order
//!
//! - `text`: source text, byte spans and positions.
//! - `severity`: severities of diagnostics.
//! - `page`: a rule with its documentation page.
//! - `diagnostic`: diagnostics and reports.
//! - `value`: typed attribute values and durations.
//! - `ast`: the syntax tree.
//! - `syntax`: the lexer and the parser.
//! - `format`: the formatter, on top of the syntax tree.
//! - `kind`: handler kinds and the shapes that select them.
//! - `attribute`: the table of known attributes, and of attribute families such as `tool_env.NAME`.
//! - `value_source`: the sources of the values that a tool stage gives to its command.
//! - `attributes`: the attributes of a node, an edge or the graph.
//! - `model`: the graph.
//! - `lower`: the lowering of the syntax tree to the graph.
//! - `spelling`: replaces spellings of other tools whose meaning depends on the whole node.
//! - `file_path`: paths of files, without reading anything.
//! - `child_reader`: the reader of the files that a pipeline names, and their paths.
//! - `prompt_files`: prompts in separate files.
//! - `answer_schema`: the JSON schemas of the answers of model stages.
//! - `schema_files`: reads and checks these schemas when a pipeline is loaded.
//! - `transform`: changes of the graph between lowering and the checks.
//! - `stylesheet`: the model stylesheet.
//! - `stylesheet_cursor`: the part of a stylesheet that is being typed.
//! - `load_options`: options for loading.
//! - `loaded`: loaded pipelines with their child pipelines.
//! - `load`: loads a pipeline: runs all of these steps and the checks.
//! - `condition`: the conditions of edges.
//! - `adjacency`: adjacency lists.
//! - `analysis`: properties of a graph that checks and table share.
//! - `search`: searches in directed graphs.
//! - `joins`: the joins of fan-outs.
//! - `child_reference`: references of nodes to their child pipelines.
//! - `contract`: the declared inputs and outputs of a pipeline, with their types.
//! - `assertion`: the assertions of a pipeline about all of its runs.
//! - `shell`: a scanner of shell commands, which finds where they execute given values.
//! - `check`: the checks, one file per rule.
//! - `occurrences`: the places where the names of a pipeline are written, and their renaming.
//! - `explain`: the list of all rules, with their documentation pages.
//! - `table`: the table, and the differences between two pipelines.
//! - `label`: labels of edges and their accelerator keys.
//! - `rule`: the rule by which an edge was chosen.
//! - `choice`: the choices of a human gate.
//! - `route`: routing.
//! - `offers`: the choices that a human gate offers, by the conditions of its edges.
//! - `flow`: the steps that runs may take, proofs about all of them, and limits on what a run does.
//! - `lock`: the lock file, and the comparison of a locked version with the pipeline of today.
//! - `reserved`: the context keys reserved for the engine.
//! - `requirements`: the requirements of a pipeline on handlers.
//! - `power`: the powers that a pipeline requires: commands, files, handlers.
//! - `render`: diagnostics as text and JSON.
//! - `print`: the appearance of nodes and edges in pictures, and pictures as Mermaid.
//! - `environment`: the environment variables of git, and the prefix of the branches of runs.

mod adjacency;
mod analysis;
mod answer_schema;
mod assertion;
pub mod ast;
mod attribute;
mod attributes;
mod check;
mod child_reader;
mod child_reference;
mod choice;
pub mod condition;
mod contract;
mod diagnostic;
mod environment;
mod explain;
mod file_path;
mod flow;
mod joins;
pub mod kind;
mod label;
mod load;
mod load_options;
mod loaded;
mod lock;
mod lower;
mod model;
mod occurrences;
mod offers;
mod page;
mod power;
mod reachable;
mod requirements;
mod reserved;
mod route;
mod rule;
mod schema_files;
mod search;
mod severity;
mod shell;
mod spelling;
mod stylesheet;
mod stylesheet_cursor;
mod syntax;
pub mod table;
mod text;
mod transform;
mod value;
mod value_source;

pub use analysis::{Analysis, EdgeCondition};
pub use answer_schema::{AnswerSchema, SchemaError};
pub use assertion::{ASSERTION_FORMS, AssertionCursor};
pub use attribute::{
    ATTRIBUTE_FAMILIES, ATTRIBUTES, AttributeDefault, AttributeFamily, AttributeSpec, AttributeType, Key,
    Known, Scope, Scopes, is_drawing_attribute, key_pairs,
};
pub use attributes::{Attribute, Attributes, Origin};
pub use check::{ConditionNames, LintRule, MissingValues};
pub use child_reader::{ChildReader, ReadError, plain_path};
pub use choice::{Choice, choice_named, choices, graph_choices};
pub use contract::{Contract, DeclarationCursor, Field, ValueType, declared_keys, declared_outputs};
pub use diagnostic::{Diagnostic, Fix, Related, Report, did_you_mean};
pub use environment::{DEFAULT_BRANCH_PREFIX, GIT_VARIABLES};
pub use explain::{explain, rules};
pub use file_path::{normal_path, relative_path};
pub use flow::{Exit, ExitStep, NodeLimit, PathStep, PathTarget, PossibleSteps, RunLimits};
pub use label::{accelerator_key, label_text, normalize_label};
pub use load::{load, load_bytes};
pub use load_options::LoadOptions;
pub use loaded::{Loaded, LoadedChild};
pub use lock::{
    ChangeClass, Compatibility, LOCK_FILE, LockError, LockFile, LockedPipeline, LockedVersion, VersionChange,
};
pub use lower::lower;
pub use model::{Edge, EdgeIndex, Graph, Node, NodeIndex, Subgraph};
pub use occurrences::{Occurrence, OccurrenceRole, RenameError, Renaming, Symbol, TextEdit, occurrences};
pub use offers::{Offers, Withheld, offers};
pub use page::Page;
pub use power::{Power, PowerKind, powers};
pub use reachable::Reachable;
pub use requirements::{OutcomeRequirement, Readable, Requirements};
pub use reserved::KeyOwner;
pub use route::{Decision, Next, RouteError, Tested, branch_id, branches, route};
pub use rule::Rule;
pub use severity::Severity;
pub use stylesheet::{Declaration, Selector, StyleRule, StylesheetError, parse_stylesheet};
pub use stylesheet_cursor::StylesheetCursor;
pub use syntax::{
    AttributeOwner, Cursor, Limits, Parsed, SyntaxContext, is_identifier, parse, parse_bytes, value_fix,
    value_range, value_text,
};
pub use table::{AttributeChange, Change, ChildDifference, Difference, Mapping, Subject, What};
pub use table::{Pipeline, Role, SharedPipeline, Stage};
pub use text::{Position, Source, Span};
pub use transform::{ShapeFallback, Transform};
pub use value::{Value, format_duration, parse_duration};
pub use value_source::{StageOutput, ValueSource, given_variables};

mod format;
pub mod print;
mod prompt_files;
pub mod render;

pub use format::format;
pub use print::{NodeState, PictureOptions, print_mermaid};
