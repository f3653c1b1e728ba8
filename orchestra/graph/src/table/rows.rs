//! The rows of a table: nodes, edges, conditions and attributes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::policy::{FanOut, Retry};
use crate::condition::{Expression, Facts};
use crate::model::NodeIndex;
use crate::text::Position;
use crate::value::Value;

/// Text that is constant in a compiled pipeline and owned in a loaded one.
pub type Text = Cow<'static, str>;
/// A list that is constant in a compiled pipeline and owned in a loaded one.
pub type List<T> = Cow<'static, [T]>;

/// A range of rows of another list.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { goal=ship; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(pipeline.attributes(pipeline.graph_attributes)[0].key, "goal");
/// assert_eq!(pipeline.graph_attributes.range().len(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The index of the first row.
    pub start: u32,
    /// The index after the last row.
    pub end: u32,
}

impl Rows {
    /// Returns the range of indices.
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A typed attribute value in a table.
///
/// ```
/// use orchestra_graph::table::Constant;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy, replicas=3] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let ship = pipeline.stage(pipeline.find("ship").expect("declared"));
/// assert_eq!(ship.attribute("replicas"), Some(&Constant::Integer(3)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// Text.
    String(Text),
    /// A whole number.
    Integer(i64),
    /// A decimal number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A span of time.
    Duration(Duration),
}

impl Constant {
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

impl From<&Value> for Constant {
    fn from(value: &Value) -> Constant {
        match value {
            Value::String(text) => Constant::String(Cow::Owned(text.to_string())),
            Value::Integer(number) => Constant::Integer(*number),
            Value::Float(number) => Constant::Float(*number),
            Value::Boolean(value) => Constant::Boolean(*value),
            Value::Duration(duration) => Constant::Duration(*duration),
        }
    }
}

/// One attribute of a node, an edge or the graph.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy, target=production] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let ship = pipeline.stage(pipeline.find("ship").expect("declared"));
/// let keys: Vec<&str> = ship.attributes().iter().map(|row| &*row.key).collect();
/// assert_eq!(keys, ["type", "target"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeRow {
    /// The canonical name.
    pub key: Text,
    /// The value.
    pub value: Constant,
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

/// A node.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work [max_visits=3] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let work = pipeline.nodes.iter().find(|node| node.id == "work").expect("declared");
/// assert_eq!((work.max_visits, work.edges.range().len()), (Some(3), 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// The id.
    pub id: Text,
    /// The handler kind, an index into [`Pipeline::kinds`](crate::Pipeline::kinds).
    pub kind: u32,
    /// The function in the flow.
    pub role: Role,
    /// The result of a run that ends at this node.
    pub end: End,
    /// `true` if plain edges are followed after a failure (`on_failure="route"`).
    pub on_failure_route: bool,
    /// The outgoing edges, in file order.
    pub edges: Rows,
    /// The attributes, rows of [`Pipeline::attributes`](crate::Pipeline::attributes).
    pub attributes: Rows,
    /// The node to go to after a failure.
    pub retry_target: Option<NodeIndex>,
    /// The node to go to after a failure if there is no `retry_target`.
    pub fallback_retry_target: Option<NodeIndex>,
    /// The maximum number of visits in a run (rule R10); `None` for the limit of the pipeline.
    pub max_visits: Option<u32>,
    /// `true` if the node must have succeeded before the run may end (rule R7).
    pub goal_gate: bool,
    /// The condition that must hold before the run may end, an index into
    /// [`Pipeline::conditions`](crate::Pipeline::conditions); `None` if the goal gate has no condition of its own.
    pub goal_condition: Option<u32>,
    /// `true` if exhausted retries count as a partial success (rule Y5).
    pub allow_partial: bool,
    /// The retry policy.
    pub retry: Retry,
    /// The settings of a fan-out; `None` for any other node.
    pub fan_out: Option<FanOut>,
    /// The pipeline that the node runs, an index into [`Pipeline::children`](crate::Pipeline::children).
    pub child: Option<u32>,
    /// The position of the declaration.
    pub position: Position,
}

/// The executable form of a condition.
///
/// ```
/// use orchestra_graph::table::Test;
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let Test::Tree(expression) = &pipeline.conditions[0].test else { panic!("this one is loaded") };
/// assert_eq!(expression.keys(), ["outcome"]);
/// ```
#[derive(Clone, Debug)]
pub enum Test {
    /// A closure, in a compiled pipeline.
    Closure(fn(&Facts<'_>) -> bool),
    /// An expression tree, in a loaded pipeline.
    Tree(Arc<Expression>),
}

/// A condition; edges with the same condition share it.
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let condition = pipeline.condition(&pipeline.edges[0]).expect("the edge has one");
/// assert_eq!(condition.text, "outcome=success");
/// assert!(!condition.holds(&Facts { outcome: "fail", ..Facts::default() }));
/// ```
#[derive(Clone, Debug)]
pub struct ConditionRow {
    /// The text as written.
    pub text: Text,
    /// The keys that the condition reads.
    pub keys: List<Text>,
    /// `true` if the condition can hold only after a failure.
    pub needs_failure: bool,
    /// The executable form.
    pub test: Test,
}

impl ConditionRow {
    /// Returns `true` if the condition holds.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        match &self.test {
            Test::Closure(test) => test(facts),
            Test::Tree(expression) => expression.holds(facts),
        }
    }
}

/// An edge.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> exit [label=\"[Y] Yes\", weight=2] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let edge = &pipeline.edges[0];
/// assert_eq!((edge.to, edge.weight), (pipeline.exit, 2));
/// assert_eq!((&*edge.label, &*edge.normalized_label), ("[Y] Yes", "yes"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeRow {
    /// The source node.
    pub from: NodeIndex,
    /// The target node.
    pub to: NodeIndex,
    /// The label as written; empty if there is none.
    pub label: Text,
    /// The label in the normal form, in which labels are compared.
    pub normalized_label: Text,
    /// The condition, an index into [`Pipeline::conditions`](crate::Pipeline::conditions).
    pub condition: Option<u32>,
    /// The priority; the highest wins.
    pub weight: i64,
    /// `true` if the edge restarts the run (rule R9).
    pub loop_restart: bool,
    /// `true` if the edge may lead back in first-match routing (rule R11).
    pub allow_revisit: bool,
    /// The maximum number of times that the edge may lead back.
    pub max_revisits: Option<u32>,
    /// The attributes, rows of [`Pipeline::attributes`](crate::Pipeline::attributes).
    pub attributes: Rows,
    /// The position in the file.
    pub position: Position,
}

const NO_ROWS: Rows = Rows { start: 0, end: 0 };
const NO_PLACE: Position = Position { line: 0, column: 0 };

/// The row that an unknown node index refers to.
pub(super) static NO_NODE: NodeRow = NodeRow {
    id: Cow::Borrowed(""),
    kind: u32::MAX,
    role: Role::Work,
    end: End::Unstated,
    on_failure_route: false,
    edges: NO_ROWS,
    attributes: NO_ROWS,
    retry_target: None,
    fallback_retry_target: None,
    max_visits: None,
    goal_gate: false,
    goal_condition: None,
    allow_partial: false,
    retry: Retry::ONCE,
    fan_out: None,
    child: None,
    position: NO_PLACE,
};

/// The row that an unknown edge index refers to.
pub(super) static NO_EDGE: EdgeRow = EdgeRow {
    from: NodeIndex(u32::MAX),
    to: NodeIndex(u32::MAX),
    label: Cow::Borrowed(""),
    normalized_label: Cow::Borrowed(""),
    condition: None,
    weight: 0,
    loop_restart: false,
    allow_revisit: false,
    max_revisits: None,
    attributes: NO_ROWS,
    position: NO_PLACE,
};

/// Returns the value of an attribute in some rows.
pub(super) fn find<'a>(rows: &'a [AttributeRow], name: &str) -> Option<&'a Constant> {
    rows.iter().find(|row| row.key == name).map(|row| &row.value)
}

/// Returns the text of a value; `None` if there is no value, or another one.
pub(super) fn text(constant: Option<&Constant>) -> Option<&str> {
    match constant {
        Some(Constant::String(text)) => Some(text),
        _ => None,
    }
}
