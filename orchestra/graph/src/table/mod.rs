//! The table: what the engine runs. A compiled pipeline is one in constant data, a loaded one is made from a graph.

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

/// A range of rows of another list, by their indices.
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
    /// The first.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
}

impl Rows {
    /// As a range of indices.
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
    /// The value in the model's form.
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

/// What a node is to the flow of a run (Attractor 2.8, rule L13).
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

/// How a run ends at a node without outgoing edges (rule R6).
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
    /// Nothing is said: the run fails, because the exit was not reached.
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
    /// The handler kind, an index of [`Pipeline::kinds`].
    pub kind: u32,
    /// What it is to the flow.
    pub role: Role,
    /// How a run ends there.
    pub end: End,
    /// Whether plain edges are followed after a failure (`on_failure="route"`).
    pub on_failure_route: bool,
    /// The outgoing edges, in the order of the file.
    pub edges: Rows,
    /// The attributes, rows of [`Pipeline::attributes`].
    pub attributes: Rows,
    /// Where to go after a failure.
    pub retry_target: Option<NodeIndex>,
    /// Where to go after a failure when there is no `retry_target`.
    pub fallback_retry_target: Option<NodeIndex>,
    /// How often it may be visited in a run (rule R10).
    pub max_visits: Option<u32>,
    /// Whether it must have succeeded before the run may end (rule R7).
    pub goal_gate: bool,
    /// What must hold before the run may end, an index of [`Pipeline::conditions`], where the goal gate says it itself.
    pub goal_condition: Option<u32>,
    /// Whether exhausted retries count as a partial success (rule Y5).
    pub allow_partial: bool,
    /// How often it is tried.
    pub retry: Retry,
    /// How it runs its branches, where it fans out.
    pub fan_out: Option<FanOut>,
    /// The pipeline that it runs, an index of [`Pipeline::children`].
    pub child: Option<u32>,
    /// Where it is declared.
    pub position: Position,
}

/// How a condition is tested.
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
    /// By a closure: the pipeline is compiled.
    Closure(fn(&Facts<'_>) -> bool),
    /// By evaluating the tree: the pipeline is loaded.
    Tree(Arc<Expression>),
}

/// A condition; edges that write the same one share it.
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
    /// The keys that it reads.
    pub keys: List<Text>,
    /// Whether it can hold only after a failure.
    pub needs_failure: bool,
    /// How it is tested.
    pub test: Test,
}

impl ConditionRow {
    /// Whether the condition holds.
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
    /// Where it comes from.
    pub from: NodeIndex,
    /// Where it leads.
    pub to: NodeIndex,
    /// The label as written; empty for none.
    pub label: Text,
    /// The label in the form in which labels are compared.
    pub normalized_label: Text,
    /// The condition, an index of [`Pipeline::conditions`].
    pub condition: Option<u32>,
    /// The priority; the highest wins.
    pub weight: i64,
    /// Whether taking it restarts the run (rule R9).
    pub loop_restart: bool,
    /// Whether it may lead back in first-match routing (rule R11).
    pub allow_revisit: bool,
    /// How often it may lead back.
    pub max_revisits: Option<u32>,
    /// The attributes, rows of [`Pipeline::attributes`].
    pub attributes: Rows,
    /// Where it is written.
    pub position: Position,
}

/// How edges are chosen.
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
    /// By the five steps (rule R1).
    FiveStep,
    /// The first that matches, in the order of the file (rule R11).
    FirstMatch,
}

/// What holds for the whole pipeline (Attractor 2.5).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { max_node_visits=5; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!((pipeline.settings.max_node_visits, pipeline.settings.failure_breaker), (5, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How edges are chosen.
    pub routing: Routing,
    /// How often any node may be visited in a run (rule R10).
    pub max_node_visits: u32,
    /// How often running the same failure may repeat; 0 is never (rule R10).
    pub failure_breaker: u32,
    /// How often an unsatisfied goal gate may send the run back (rule R7).
    pub max_goal_gate_reroutes: u32,
    /// How often the run may be restarted (rule R9).
    pub max_restarts: u32,
    /// Where to go from the exit when a goal gate is unsatisfied that names no target of its own.
    pub retry_target: Option<NodeIndex>,
    /// Where to go then when there is no `retry_target`.
    pub fallback_retry_target: Option<NodeIndex>,
}

impl Settings {
    /// What holds for a pipeline that says nothing.
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

/// A checked pipeline in the form that runs. Compiled and loaded pipelines are both of this type.
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
    /// What the whole pipeline says.
    pub settings: Settings,
    /// The entry point.
    pub start: NodeIndex,
    /// The exit point.
    pub exit: NodeIndex,
    /// The handler kinds in use, each once.
    pub kinds: List<Text>,
    /// The nodes.
    pub nodes: List<NodeRow>,
    /// The edges, those of one node together, in the order of the file.
    pub edges: List<EdgeRow>,
    /// The conditions, each once.
    pub conditions: List<ConditionRow>,
    /// The attributes of everything.
    pub attributes: List<AttributeRow>,
    /// The rows that are the graph's own attributes.
    pub graph_attributes: Rows,
    /// The pipelines that its stages run, each once.
    pub children: List<Child>,
}

const NO_ROWS: Rows = Rows { start: 0, end: 0 };
const NO_PLACE: Position = Position { line: 0, column: 0 };

/// What an index of another pipeline leads to.
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

/// The same for an edge.
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
    /// Makes the table of a checked graph, without children; `None` where it has no single start and exit, or a faulty condition,
    /// all of which the checks report as errors.
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &LoadOptions::default());
    /// let pipeline = loaded.pipeline().expect("the graph is sound");
    /// assert_eq!(pipeline.stage(pipeline.start).id(), "start");
    /// ```
    pub fn of(analysis: &Analysis<'_>) -> Option<Pipeline> {
        build::Builder::new(analysis).build()
    }

    /// A node with what belongs to it; for an index that this pipeline does not have, a node without id,
    /// attributes and edges.
    pub fn stage(&self, index: NodeIndex) -> Stage<'_> {
        Stage {
            pipeline: self,
            index,
            row: self.nodes.get(index.at()).unwrap_or(&NO_NODE),
        }
    }

    /// The node of an id.
    pub fn find(&self, id: &str) -> Option<NodeIndex> {
        self.nodes
            .iter()
            .position(|node| node.id == id)
            .map(|at| NodeIndex(at as u32))
    }

    /// An edge by its index; for an index that this pipeline does not have, an edge without label, condition and
    /// attributes, whose ends are nodes of no pipeline.
    pub fn edge(&self, index: EdgeIndex) -> &EdgeRow {
        self.edges.get(index.at()).unwrap_or(&NO_EDGE)
    }

    /// The pipeline that a stage runs; `None` where it runs none.
    pub fn child(&self, row: &NodeRow) -> Option<&Child> {
        self.children.get(row.child? as usize)
    }

    /// The condition of an edge; `None` where it has none.
    pub fn condition(&self, edge: &EdgeRow) -> Option<&ConditionRow> {
        self.conditions.get(edge.condition? as usize)
    }

    /// The attributes of some rows; none where this pipeline does not have all of them.
    pub fn attributes(&self, rows: Rows) -> &[AttributeRow] {
        self.attributes.get(rows.range()).unwrap_or_default()
    }

    /// An attribute of the graph.
    pub fn attribute(&self, name: &str) -> Option<&Constant> {
        find(self.attributes(self.graph_attributes), name)
    }

    /// The goal; empty where none is given.
    pub fn goal(&self) -> &str {
        text(self.attribute("goal")).unwrap_or_default()
    }

    /// The label, else the name.
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

/// A node of a [`Pipeline`] with what belongs to it.
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
    /// The pipeline to which it belongs.
    pub fn pipeline(&self) -> &'p Pipeline {
        self.pipeline
    }

    /// The index.
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    /// The row.
    pub fn row(&self) -> &'p NodeRow {
        self.row
    }

    /// The id.
    pub fn id(&self) -> &'p str {
        &self.row.id
    }

    /// The handler kind.
    pub fn kind(&self) -> &'p str {
        self.pipeline
            .kinds
            .get(self.row.kind as usize)
            .map_or(kind::CODERGEN, |kind| kind)
    }

    /// The label; the id where none is given.
    pub fn label(&self) -> &'p str {
        self.text("label")
            .filter(|label| !label.is_empty())
            .unwrap_or(&self.row.id)
    }

    /// The prompt; the label where none is given (Attractor 4.5), with the goal in the place of `$goal`.
    pub fn prompt(&self) -> Cow<'p, str> {
        if let Some(prompt) = self.text("prompt").filter(|prompt| !prompt.is_empty()) {
            return Cow::Borrowed(prompt);
        }
        let label = self.label();
        match label.contains("$goal") {
            true => Cow::Owned(label.replace("$goal", self.pipeline.goal())),
            false => Cow::Borrowed(label),
        }
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&'p Constant> {
        find(self.attributes(), name)
    }

    /// All attributes.
    pub fn attributes(&self) -> &'p [AttributeRow] {
        self.pipeline.attributes(self.row.attributes)
    }

    /// The text of an attribute.
    pub fn text(&self, name: &str) -> Option<&'p str> {
        text(self.attribute(name))
    }

    /// Whether an attribute is `true`.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.attribute(name), Some(Constant::Boolean(true)))
    }

    /// The duration of an attribute.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.attribute(name) {
            Some(Constant::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// The outgoing edges with their indices, in the order of the file.
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
    /// The table of the pipeline, with the tables of its children; `None` where the report has errors.
    pub fn pipeline(&self) -> Option<Pipeline> {
        if self.report.has_errors() {
            return None;
        }
        let mut pipeline = Pipeline::of(&Analysis::new(&self.graph, &self.source))?;
        crate::children::attach(&self.children, &mut pipeline);
        Some(pipeline)
    }
}
