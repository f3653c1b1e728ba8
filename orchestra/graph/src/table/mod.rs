//! The table: the form of a pipeline that the engine runs. The table of a compiled pipeline is constant data, that of a
//! loaded pipeline is built from a graph.

mod build;
mod canonical;
mod content;
mod difference;
mod difference_text;
mod mapping;
mod merge;
mod policy;
mod shared;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::analysis::Analysis;
use crate::condition::{Expression, Facts};
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};
use crate::text::Position;
use crate::value::Value;

pub use difference::{AttributeChange, Change, ChildDifference, Difference, Subject, What};
pub use mapping::Mapping;
pub use policy::{ErrorPolicy, FanOut, JoinPolicy, Retry};
pub use shared::{Child, SharedPipeline};

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
    /// The handler kind, an index into [`Pipeline::kinds`].
    pub kind: u32,
    /// The function in the flow.
    pub role: Role,
    /// The result of a run that ends at this node.
    pub end: End,
    /// `true` if plain edges are followed after a failure (`on_failure="route"`).
    pub on_failure_route: bool,
    /// The outgoing edges, in file order.
    pub edges: Rows,
    /// The attributes, rows of [`Pipeline::attributes`].
    pub attributes: Rows,
    /// The node to go to after a failure.
    pub retry_target: Option<NodeIndex>,
    /// The node to go to after a failure if there is no `retry_target`.
    pub fallback_retry_target: Option<NodeIndex>,
    /// The maximum number of visits in a run (rule R10); `None` for the limit of the pipeline.
    pub max_visits: Option<u32>,
    /// `true` if the node must have succeeded before the run may end (rule R7).
    pub goal_gate: bool,
    /// The condition that must hold before the run may end, an index into [`Pipeline::conditions`]; `None` if the goal
    /// gate has no condition of its own.
    pub goal_condition: Option<u32>,
    /// `true` if exhausted retries count as a partial success (rule Y5).
    pub allow_partial: bool,
    /// The retry policy.
    pub retry: Retry,
    /// The settings of a fan-out; `None` for any other node.
    pub fan_out: Option<FanOut>,
    /// The pipeline that the node runs, an index into [`Pipeline::children`].
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
    /// The condition, an index into [`Pipeline::conditions`].
    pub condition: Option<u32>,
    /// The priority; the highest wins.
    pub weight: i64,
    /// `true` if the edge restarts the run (rule R9).
    pub loop_restart: bool,
    /// `true` if the edge may lead back in first-match routing (rule R11).
    pub allow_revisit: bool,
    /// The maximum number of times that the edge may lead back.
    pub max_revisits: Option<u32>,
    /// The attributes, rows of [`Pipeline::attributes`].
    pub attributes: Rows,
    /// The position in the file.
    pub position: Position,
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

/// The settings of the whole pipeline (Attractor 2.5).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { max_node_visits=5; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!((pipeline.settings.max_node_visits, pipeline.settings.failure_breaker), (5, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The algorithm that chooses edges.
    pub routing: Routing,
    /// The maximum number of visits of any node in a run (rule R10).
    pub max_node_visits: u32,
    /// The number of consecutive equal failures that ends the run; 0 for no limit (rule R10).
    pub failure_breaker: u32,
    /// The maximum number of times that an unsatisfied goal gate sends the run back (rule R7).
    pub max_goal_gate_reroutes: u32,
    /// The maximum number of restarts of the run (rule R9).
    pub max_restarts: u32,
    /// The node to go to if a goal gate without a target of its own is unsatisfied.
    pub retry_target: Option<NodeIndex>,
    /// The node to go to in this case if there is no `retry_target`.
    pub fallback_retry_target: Option<NodeIndex>,
}

impl Settings {
    /// The settings of a pipeline that sets none.
    pub const DEFAULT: Settings = Settings {
        routing: Routing::FiveStep,
        max_node_visits: 1_000,
        failure_breaker: 0,
        max_goal_gate_reroutes: 50,
        max_restarts: 20,
        retry_target: None,
        fallback_retry_target: None,
    };
}

/// A checked pipeline in executable form. Compiled and loaded pipelines both have this type.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph release { goal=\"Ship it\"; start -> build -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!((pipeline.title(), pipeline.goal()), ("release", "Ship it"));
/// assert_eq!(pipeline.stage(pipeline.edges[0].to).id(), "build");
/// ```
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The name of the graph.
    pub name: Text,
    /// The name of the file, for messages.
    pub file: Text,
    /// The text of the file.
    pub source: Text,
    /// The settings of the whole pipeline.
    pub settings: Settings,
    /// The entry point.
    pub start: NodeIndex,
    /// The exit point.
    pub exit: NodeIndex,
    /// The handler kinds in use, without duplicates.
    pub kinds: List<Text>,
    /// The nodes.
    pub nodes: List<NodeRow>,
    /// The edges, grouped by source node, in file order.
    pub edges: List<EdgeRow>,
    /// The conditions, without duplicates.
    pub conditions: List<ConditionRow>,
    /// The attributes of the graph, the nodes and the edges.
    pub attributes: List<AttributeRow>,
    /// The rows with the attributes of the graph.
    pub graph_attributes: Rows,
    /// The pipelines that its stages run, without duplicates.
    pub children: List<Child>,
}

const NO_ROWS: Rows = Rows { start: 0, end: 0 };
const NO_PLACE: Position = Position { line: 0, column: 0 };

/// The row that an unknown node index refers to.
static NO_NODE: NodeRow = NodeRow {
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
static NO_EDGE: EdgeRow = EdgeRow {
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

impl Pipeline {
    /// Builds the table of a checked graph, without children. Returns `None` if the graph does not have exactly one
    /// start and one exit, or has an invalid condition; the checks report all of these as errors.
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &LoadOptions::default());
    /// let pipeline = loaded.pipeline().expect("the graph is sound");
    /// assert_eq!(pipeline.stage(pipeline.start).id(), "start");
    /// ```
    pub fn from_analysis(analysis: &Analysis<'_>) -> Option<Pipeline> {
        build::Builder::new(analysis).build()
    }

    /// Returns a node. If the pipeline does not have the index, returns a node without id, attributes and edges.
    pub fn stage(&self, index: NodeIndex) -> Stage<'_> {
        Stage {
            pipeline: self,
            index,
            row: self.nodes.get(index.at()).unwrap_or(&NO_NODE),
        }
    }

    /// Returns the node with this id; `None` if there is none.
    pub fn find(&self, id: &str) -> Option<NodeIndex> {
        self.nodes
            .iter()
            .position(|node| node.id == id)
            .map(|at| NodeIndex(at as u32))
    }

    /// Returns an edge. If the pipeline does not have the index, returns an edge without label, condition and
    /// attributes, whose ends do not exist in any pipeline.
    pub fn edge(&self, index: EdgeIndex) -> &EdgeRow {
        self.edges.get(index.at()).unwrap_or(&NO_EDGE)
    }

    /// Returns the pipeline that a stage runs; `None` if it runs none.
    pub fn child(&self, row: &NodeRow) -> Option<&Child> {
        self.children.get(row.child? as usize)
    }

    /// Returns the condition of an edge; `None` if it has none.
    pub fn condition(&self, edge: &EdgeRow) -> Option<&ConditionRow> {
        self.conditions.get(edge.condition? as usize)
    }

    /// Returns the attributes in a range of rows; empty if the pipeline does not have all of the rows.
    pub fn attributes(&self, rows: Rows) -> &[AttributeRow] {
        self.attributes.get(rows.range()).unwrap_or_default()
    }

    /// Returns an attribute of the graph; `None` if it is not set.
    pub fn attribute(&self, name: &str) -> Option<&Constant> {
        find(self.attributes(self.graph_attributes), name)
    }

    /// Returns the goal; empty if there is none.
    pub fn goal(&self) -> &str {
        text(self.attribute("goal")).unwrap_or_default()
    }

    /// Returns the label of the graph, or its name if there is no label.
    pub fn title(&self) -> &str {
        text(self.attribute("label"))
            .filter(|label| !label.is_empty())
            .unwrap_or(&self.name)
    }
}

fn find<'a>(rows: &'a [AttributeRow], name: &str) -> Option<&'a Constant> {
    rows.iter().find(|row| row.key == name).map(|row| &row.value)
}

fn text(constant: Option<&Constant>) -> Option<&str> {
    match constant {
        Some(Constant::String(text)) => Some(text),
        _ => None,
    }
}

/// A node of a [`Pipeline`], with access to its attributes and edges.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> write -> exit; write [label=Poem, timeout=5m] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let write = pipeline.stage(pipeline.find("write").expect("declared"));
/// assert_eq!((write.kind(), &*write.prompt()), ("codergen", "Poem"));
/// assert_eq!(write.duration("timeout"), Some(std::time::Duration::from_secs(300)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stage<'p> {
    pipeline: &'p Pipeline,
    index: NodeIndex,
    row: &'p NodeRow,
}

impl<'p> Stage<'p> {
    /// Returns the pipeline that contains the node.
    pub fn pipeline(&self) -> &'p Pipeline {
        self.pipeline
    }

    /// Returns the index.
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    /// Returns the row.
    pub fn row(&self) -> &'p NodeRow {
        self.row
    }

    /// Returns the id.
    pub fn id(&self) -> &'p str {
        &self.row.id
    }

    /// Returns the handler kind.
    pub fn kind(&self) -> &'p str {
        self.pipeline
            .kinds
            .get(self.row.kind as usize)
            .map_or(kind::CODERGEN, |kind| kind)
    }

    /// Returns the label, or the id if there is no label.
    pub fn label(&self) -> &'p str {
        self.text("label")
            .filter(|label| !label.is_empty())
            .unwrap_or(&self.row.id)
    }

    /// Returns the prompt, or the label if there is no prompt (Attractor 4.5). In the label, `$goal` is replaced by the
    /// goal.
    pub fn prompt(&self) -> Cow<'p, str> {
        if let Some(prompt) = self.text("prompt").filter(|prompt| !prompt.is_empty()) {
            return Cow::Borrowed(prompt);
        }
        let label = self.label();
        if label.contains("$goal") {
            Cow::Owned(label.replace("$goal", self.pipeline.goal()))
        } else {
            Cow::Borrowed(label)
        }
    }

    /// Returns an attribute; `None` if it is not set.
    pub fn attribute(&self, name: &str) -> Option<&'p Constant> {
        find(self.attributes(), name)
    }

    /// Returns all attributes.
    pub fn attributes(&self) -> &'p [AttributeRow] {
        self.pipeline.attributes(self.row.attributes)
    }

    /// Returns the text of an attribute; `None` if it is not set or not a text.
    pub fn text(&self, name: &str) -> Option<&'p str> {
        text(self.attribute(name))
    }

    /// Returns `true` if an attribute is `true`.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.attribute(name), Some(Constant::Boolean(true)))
    }

    /// Returns the duration of an attribute; `None` if it is not set or not a duration.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.attribute(name) {
            Some(Constant::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// Iterates over the outgoing edges with their indices, in file order.
    pub fn edges(&self) -> impl Iterator<Item = (EdgeIndex, &'p EdgeRow)> + use<'p> {
        let rows = self.row.edges;
        let edges = self.pipeline.edges.get(rows.range()).unwrap_or_default();
        edges
            .iter()
            .enumerate()
            .map(move |(at, edge)| (EdgeIndex(rows.start + at as u32), edge))
    }
}

impl crate::load::Loaded {
    /// Returns the table of the pipeline with the tables of its children; `None` if the report has errors.
    pub fn pipeline(&self) -> Option<Pipeline> {
        if self.report.has_errors() {
            return None;
        }
        let mut pipeline = Pipeline::from_analysis(&Analysis::new(&self.graph, &self.source))?;
        crate::children::attach(&self.children, &mut pipeline);
        Some(pipeline)
    }
}
