//! What generated code calls. Nothing here is part of the public interface.
//!
//! The names are short because a large pipeline repeats them thousands of times.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orchestra_engine::{AttributeField, Handler, HandlerFuture};
use orchestra_graph::condition::Pattern;
use serde_json::Value;

pub use orchestra_engine::{
    AttributeError, AttributeNeed, Binding, Bound, Builtin, Compiled, FieldSpec, FieldType, FromStage,
    HandlerSet, IntoOutcome, KindSpec, Kinds, Needs, NodeNeed, Outcome, Place, Registry, StageContext,
    Status, WordNeed, Words, blocking, verify,
};
pub use orchestra_graph::condition::Comparison::*;
pub use orchestra_graph::condition::Facts;
pub use orchestra_graph::table::End::{self, Unstated};
pub use orchestra_graph::table::Role::{self, Exit, Routing, Start, Work};
pub use orchestra_graph::table::Routing::{FirstMatch, FiveStep};
pub use orchestra_graph::table::{
    AttributeRow, ConditionRow, Constant, EdgeRow, List, NodeRow, Pipeline, Rows, Settings, Test, Text,
};
pub use orchestra_graph::{NodeIndex, Position, Readable};

#[cfg(feature = "cli")]
pub use orchestra_cli as cli;

use crate::compiled::UnknownNode;

/// A text.
pub const fn t(text: &'static str) -> Text {
    Cow::Borrowed(text)
}

const fn some(index: u32) -> Option<NodeIndex> {
    // A table never has this many rows, so the number can stand for none.
    if index == u32::MAX {
        None
    } else {
        Some(NodeIndex(index))
    }
}

const fn count(number: u32) -> Option<u32> {
    if number == u32::MAX { None } else { Some(number) }
}

/// A node without anything unusual.
#[allow(clippy::too_many_arguments)]
pub const fn n(
    id: &'static str,
    kind: u16,
    role: Role,
    edges: u32,
    edges_end: u32,
    attributes: u32,
    attributes_end: u32,
    line: u32,
    column: u32,
) -> NodeRow {
    NodeRow {
        id: Cow::Borrowed(id),
        kind,
        role,
        end: End::Unstated,
        on_failure_route: false,
        edges: Rows {
            start: edges,
            end: edges_end,
        },
        attributes: Rows {
            start: attributes,
            end: attributes_end,
        },
        retry_target: None,
        fallback_retry_target: None,
        max_visits: None,
        position: Position { line, column },
    }
}

/// A node with what is unusual about it.
pub const fn nx(
    mut node: NodeRow,
    end: End,
    on_failure_route: bool,
    retry_target: u32,
    fallback_retry_target: u32,
    max_visits: u32,
) -> NodeRow {
    node.end = end;
    node.on_failure_route = on_failure_route;
    node.retry_target = some(retry_target);
    node.fallback_retry_target = some(fallback_retry_target);
    node.max_visits = count(max_visits);
    node
}

macro_rules! edges {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $ty:ty),*) = $condition:expr, $label:expr, $normalized:expr;)+) => {
        $($(#[$doc])*
        pub const fn $name(from: u32, to: u32, line: u32, column: u32 $(, $argument: $ty)*) -> EdgeRow {
            EdgeRow {
                from: NodeIndex(from),
                to: NodeIndex(to),
                label: Cow::Borrowed($label),
                normalized_label: Cow::Borrowed($normalized),
                condition: $condition,
                weight: 0,
                loop_restart: false,
                allow_revisit: false,
                max_revisits: None,
                attributes: Rows { start: 0, end: 0 },
                position: Position { line, column },
            }
        })+
    };
}

edges! {
    /// An edge without attributes.
    e() = None, "", "";
    /// An edge with a condition and nothing else.
    ec(condition: u32) = Some(condition), "", "";
    /// An edge with a label.
    el(condition: u32, label: &'static str, normalized: &'static str) = count(condition), label, normalized;
}

/// An edge with what is unusual about it.
pub const fn ex(
    mut edge: EdgeRow,
    weight: i64,
    loop_restart: bool,
    allow_revisit: bool,
    max_revisits: u32,
    attributes: u32,
    attributes_end: u32,
) -> EdgeRow {
    edge.weight = weight;
    edge.loop_restart = loop_restart;
    edge.allow_revisit = allow_revisit;
    edge.max_revisits = count(max_revisits);
    edge.attributes = Rows {
        start: attributes,
        end: attributes_end,
    };
    edge
}

/// A condition.
pub const fn c(text: &'static str, keys: &'static [Text], test: fn(&Facts<'_>) -> bool) -> ConditionRow {
    ConditionRow {
        text: t(text),
        keys: Cow::Borrowed(keys),
        test: Test::Closure(test),
    }
}

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident($value:ident: $ty:ty) = $constant:expr;)+) => {
        // Each builds its row in one step: a call less is a frame less for the compiler to evaluate.
        $($(#[$doc])*
        pub const fn $name(key: &'static str, $value: $ty) -> AttributeRow {
            AttributeRow {
                key: Cow::Borrowed(key),
                value: $constant,
            }
        })+
    };
}

attributes! {
    /// A text attribute.
    s(value: &'static str) = Constant::String(Cow::Borrowed(value));
    /// A whole-number attribute.
    i(value: i64) = Constant::Integer(value);
    /// A decimal attribute.
    f(value: f64) = Constant::Float(value);
    /// A boolean attribute.
    b(value: bool) = Constant::Boolean(value);
    /// A duration attribute, in milliseconds.
    d(value: u64) = Constant::Duration(Duration::from_millis(value));
}

/// A pipeline.
#[allow(clippy::too_many_arguments)]
pub const fn pipeline(
    name: &'static str,
    file: &'static str,
    source: &'static str,
    settings: Settings,
    start: u32,
    exit: u32,
    kinds: &'static [Text],
    nodes: &'static [NodeRow],
    edges: &'static [EdgeRow],
    conditions: &'static [ConditionRow],
    attributes: &'static [AttributeRow],
    graph_attributes: u32,
    graph_attributes_end: u32,
) -> Pipeline {
    Pipeline {
        name: t(name),
        file: t(file),
        source: t(source),
        settings,
        start: NodeIndex(start),
        exit: NodeIndex(exit),
        kinds: Cow::Borrowed(kinds),
        nodes: Cow::Borrowed(nodes),
        edges: Cow::Borrowed(edges),
        conditions: Cow::Borrowed(conditions),
        attributes: Cow::Borrowed(attributes),
        graph_attributes: Rows {
            start: graph_attributes,
            end: graph_attributes_end,
        },
    }
}

/// A place in the text.
pub const fn at(line: u32, column: u32, offset: u32, length: u32) -> Place {
    Place {
        line,
        column,
        offset,
        length,
    }
}

/// A pattern that is compiled when it is first used.
pub struct LazyPattern {
    text: &'static str,
    pattern: OnceLock<Option<Pattern>>,
}

impl LazyPattern {
    /// The pattern of a text that was checked when the program was built.
    pub const fn new(text: &'static str) -> LazyPattern {
        LazyPattern {
            text,
            pattern: OnceLock::new(),
        }
    }

    /// Whether it matches somewhere in a key's text.
    pub fn matches(&self, facts: &Facts<'_>, key: &str) -> bool {
        let pattern = self.pattern.get_or_init(|| Pattern::new(self.text).ok());
        pattern
            .as_ref()
            .is_some_and(|pattern| facts.matches(key, pattern))
    }
}

/// A JSON value that is parsed when it is first used.
pub struct LazyJson {
    text: &'static str,
    value: OnceLock<Value>,
}

impl LazyJson {
    /// The value of a text that was checked when the program was built.
    pub const fn new(text: &'static str) -> LazyJson {
        LazyJson {
            text,
            value: OnceLock::new(),
        }
    }

    /// Whether the stage's output holds a key with this value.
    pub fn is(&self, facts: &Facts<'_>, key: &str) -> bool {
        let value = || serde_json::from_str(self.text).unwrap_or(Value::Null);
        facts.output_is(key, self.value.get_or_init(value))
    }
}

/// The id of a node.
pub fn id(pipeline: &'static Pipeline, at: usize) -> &'static str {
    pipeline.nodes.get(at).map_or("", |node| &node.id)
}

/// The node of an id.
///
/// # Errors
/// There is no such node.
pub fn parse<N: Copy>(pipeline: &'static Pipeline, nodes: &[N], id: &str) -> Result<N, UnknownNode> {
    let found = pipeline.find(id).and_then(|index| nodes.get(index.at()));
    found.copied().ok_or_else(|| UnknownNode::new(pipeline, id))
}

/// An argument of a handler, whose type is named once so that a wrong one is told once.
pub struct Argument<T> {
    pub fields: &'static [FieldSpec],
    read: fn(&StageContext) -> Result<T, AttributeError>,
}

impl<T> Argument<T> {
    /// Makes the argument.
    ///
    /// # Errors
    /// The outcome of a stage whose attributes do not fit.
    pub fn read(&self, stage: &StageContext) -> Result<T, Box<Outcome>> {
        (self.read)(stage).map_err(|error| Box::new(Outcome::fail_terminal(error.to_string())))
    }
}

/// The argument of a type.
pub const fn argument<T: FromStage>() -> Argument<T> {
    Argument {
        fields: T::FIELDS,
        read: T::from_stage,
    }
}

/// What a handler returns, whose type is named once.
pub struct Returned<T> {
    pub words: Words,
    pub outcome: fn(T) -> Outcome,
}

/// The return type of a handler.
pub const fn returned<T: IntoOutcome>() -> Returned<T> {
    Returned {
        words: T::WORDS,
        outcome: T::into_outcome,
    }
}

/// A field of a struct that derives `Attributes`, whose type is named once.
pub struct Field<T> {
    pub ty: FieldType,
    pub required: bool,
    read: fn(Option<&Constant>) -> Result<T, String>,
}

impl<T> Field<T> {
    /// Reads the field from a node.
    ///
    /// # Errors
    /// The attribute is missing or has the wrong type.
    pub fn read(&self, stage: &StageContext, name: &'static str) -> Result<T, AttributeError> {
        let node = stage.node();
        (self.read)(node.attribute(name)).map_err(|problem| AttributeError {
            node: node.id().to_owned(),
            name: name.to_owned(),
            problem,
        })
    }

    /// Reads the field, or gives its default where the attribute is missing.
    ///
    /// # Errors
    /// The attribute has the wrong type.
    pub fn read_or(
        &self,
        stage: &StageContext,
        name: &'static str,
        default: impl FnOnce() -> T,
    ) -> Result<T, AttributeError> {
        match stage.node().attribute(name) {
            Some(_) => self.read(stage, name),
            None => Ok(default()),
        }
    }
}

/// The field of a type.
pub const fn field<T: AttributeField>() -> Field<T> {
    Field {
        ty: T::TYPE,
        required: T::REQUIRED,
        read: T::read,
    }
}

/// A handler made of a function and the state that it shares with the others of its set.
struct Method<S> {
    state: Arc<S>,
    run: for<'a> fn(&'a Arc<S>, StageContext) -> HandlerFuture<'a>,
}

impl<S: Send + Sync> Handler for Method<S> {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        (self.run)(&self.state, stage)
    }
}

/// Adds a handler to a registry.
pub fn add<S: Send + Sync + 'static>(
    registry: &mut Registry,
    spec: KindSpec,
    state: &Arc<S>,
    run: for<'a> fn(&'a Arc<S>, StageContext) -> HandlerFuture<'a>,
) {
    let state = Arc::clone(state);
    registry.add(spec, Arc::new(Method { state, run }));
}

/// The outcome of a word that is known when the program is built.
pub fn outcome(word: &'static str) -> Outcome {
    match Status::of(word) {
        Status::Custom(_) => Outcome::custom(word),
        status => Outcome::new(status),
    }
}

/// What each answer of a human gate has in common with the others.
#[macro_export]
#[doc(hidden)]
macro_rules! __gate {
    ($gate:ident $($answer:ident = $label:literal, $key:literal, $target:ident;)+) => {
        impl $gate {
            /// All answers, in the order of the file.
            pub const ALL: &'static [$gate] = &[$($gate::$answer),+];
        }
        impl ::core::clone::Clone for $gate {
            fn clone(&self) -> $gate {
                *self
            }
        }
        impl ::core::marker::Copy for $gate {}
        impl ::core::ops::Deref for $gate {
            type Target = $crate::Answer<super::Node>;
            fn deref(&self) -> &$crate::Answer<super::Node> {
                static ANSWERS: &[$crate::Answer<super::Node>] =
                    &[$($crate::Answer::new($label, $key, super::Node::$target)),+];
                &ANSWERS[*self as usize]
            }
        }
    };
}
pub use __gate as gate;
