//! The types of the columns of a table, except texts and policies.

use std::borrow::Cow;
use std::time::Duration;

use crate::value::Value;

/// A list that is constant in a compiled pipeline and owned in a loaded one.
pub type List<T> = Cow<'static, [T]>;

/// A range of rows of another list.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { goal=ship; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(pipeline.graph_attributes.range().len(), 1);
/// let row = pipeline.attributes[pipeline.graph_attributes.range()][0];
/// assert_eq!(pipeline.text(row.key), "goal");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The index of the first row.
    pub start: u32,
    /// The index after the last row.
    pub end: u32,
}

impl Rows {
    /// No rows.
    pub const NONE: Rows = Rows { start: 0, end: 0 };

    /// Returns the range of indices.
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A typed attribute value. `S` is the form of a text: [`Text`](super::Text) in a row, `&str` when the value is read.
///
/// ```
/// use orchestra_graph::table::Constant;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy, replicas=3, target=production] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let ship = pipeline.stage(pipeline.find("ship").expect("declared"));
/// assert_eq!(ship.attribute("replicas"), Some(Constant::Integer(3)));
/// assert_eq!(ship.attribute("target"), Some(Constant::String("production")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant<S> {
    /// Text.
    String(S),
    /// A whole number.
    Integer(i64),
    /// A decimal number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A span of time.
    Duration(Duration),
}

impl<S> Constant<S> {
    /// Converts the text, if the value is one.
    pub fn map<T>(self, text: impl FnOnce(S) -> T) -> Constant<T> {
        match self {
            Constant::String(own) => Constant::String(text(own)),
            Constant::Integer(number) => Constant::Integer(number),
            Constant::Float(number) => Constant::Float(number),
            Constant::Boolean(value) => Constant::Boolean(value),
            Constant::Duration(duration) => Constant::Duration(duration),
        }
    }
}

impl<'v> Constant<&'v str> {
    /// Returns the text; `None` if the value is another one.
    pub fn text(self) -> Option<&'v str> {
        match self {
            Constant::String(text) => Some(text),
            _ => None,
        }
    }
}

impl<S: AsRef<str>> Constant<S> {
    /// Converts the value to the form of the model.
    pub fn to_value(&self) -> Value {
        match self {
            Constant::String(text) => Value::String(text.as_ref().into()),
            Constant::Integer(number) => Value::Integer(*number),
            Constant::Float(number) => Value::Float(*number),
            Constant::Boolean(value) => Value::Boolean(*value),
            Constant::Duration(duration) => Value::Duration(*duration),
        }
    }
}

impl<'v> From<&'v Value> for Constant<&'v str> {
    fn from(value: &'v Value) -> Constant<&'v str> {
        match value {
            Value::String(text) => Constant::String(text),
            Value::Integer(number) => Constant::Integer(*number),
            Value::Float(number) => Constant::Float(*number),
            Value::Boolean(value) => Constant::Boolean(*value),
            Value::Duration(duration) => Constant::Duration(*duration),
        }
    }
}

/// The function of a node in the flow of a run (Attractor 2.8, rule L13).
///
/// ```
/// use orchestra_graph::{Role, Source, load};
/// let text = r#"digraph { start -> t -> ok; ok [shape=diamond]
///     ok -> exit [condition="outcome=success"]; ok -> t }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let roles: Vec<Role> = pipeline.nodes.iter().map(|node| node.role).collect();
/// assert_eq!(roles, [Role::Start, Role::Work, Role::Routing, Role::Exit]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The entry point.
    Start,
    /// The exit point.
    Exit,
    /// A routing point, transparent to outcomes (rule R4).
    Routing,
    /// A stage that does something.
    Work,
}

/// The result of a run that ends at a node without outgoing edges (rule R6).
///
/// ```
/// use orchestra_graph::table::End;
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> t; t -> exit [condition="outcome=success"]; t -> stop; stop [end=fail] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let stop = pipeline.stage(pipeline.find("stop").expect("declared"));
/// assert_eq!(stop.row().end, End::Fail);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not specified: the run fails, because it did not reach the exit.
    Unstated,
    /// The run fails, as intended.
    Fail,
    /// The run succeeds, as intended.
    Success,
}

/// The algorithm that chooses edges.
///
/// ```
/// use orchestra_graph::table::Routing;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { routing=first_match; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(pipeline.settings.routing, Routing::FirstMatch);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The five steps (rule R1).
    FiveStep,
    /// The first edge that matches, in file order (rule R11).
    FirstMatch,
}
