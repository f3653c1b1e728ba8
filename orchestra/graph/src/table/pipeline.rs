//! A pipeline as a table, and the pipelines that its stages run.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::predicates::Predicates;
use super::rows::{AttributeRow, ConditionRow, EdgeRow, NodeRow};
use super::settings::Settings;
use super::texts::{Text, Texts};
use super::values::{Constant, List, Rows};
use crate::model::{EdgeIndex, NodeIndex};

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
    pub name: Cow<'static, str>,
    /// The name of the file, for messages.
    pub file: Cow<'static, str>,
    /// The text of the file.
    pub source: Cow<'static, str>,
    /// The texts of the rows.
    pub texts: Texts,
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
    /// The keys that the conditions read.
    pub keys: List<Text>,
    /// The executable forms of the conditions.
    pub predicates: Predicates,
    /// The attributes of the graph, the nodes and the edges.
    pub attributes: List<AttributeRow>,
    /// The rows with the attributes of the graph.
    pub graph_attributes: Rows,
    /// The pipelines that its stages run, without duplicates.
    pub children: List<Child>,
}

impl Pipeline {
    /// Returns a text of a row.
    pub fn text(&self, text: Text) -> &str {
        self.texts.get(text)
    }

    /// Iterates over the handler kinds in use.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(move |kind| self.text(*kind))
    }

    /// Returns the node with this id; `None` if there is none.
    pub fn find(&self, id: &str) -> Option<NodeIndex> {
        self.nodes
            .iter()
            .position(|node| self.text(node.id) == id)
            .map(|at| NodeIndex(at as u32))
    }

    /// Returns an edge. If the pipeline does not have the index, returns an edge without label, condition and
    /// attributes, whose ends do not exist in any pipeline.
    pub fn edge(&self, index: EdgeIndex) -> &EdgeRow {
        self.edges.get(index.at()).unwrap_or(&EdgeRow::DEFAULT)
    }

    /// Returns the number of an edge among those that leave its node, in the order of the file, starting at 0. It
    /// distinguishes edges between the same two nodes.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> t; t -> exit [label=Pass]; t -> exit [label=Skip] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let t = pipeline.stage(pipeline.find("t").expect("an edge names it"));
    /// let numbers: Vec<u32> = t.edges().map(|(edge, _)| pipeline.edge_number(edge)).collect();
    /// assert_eq!(numbers, [0, 1]);
    /// ```
    pub fn edge_number(&self, edge: EdgeIndex) -> u32 {
        let of_node = self.stage(self.edge(edge).from).row().edges;
        edge.0.saturating_sub(of_node.start)
    }

    /// Returns the pipeline that a stage runs; `None` if it runs none.
    pub fn child(&self, row: &NodeRow) -> Option<&Child> {
        self.children.get(row.child? as usize)
    }

    /// Iterates over the attributes in a range of rows, each as its name and its value. There are none if the pipeline
    /// does not have all of the rows.
    ///
    /// ```
    /// use orchestra_graph::table::Constant;
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { goal=ship; start -> exit }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let attributes = pipeline.attributes(pipeline.graph_attributes);
    /// assert!(attributes.eq([("goal", Constant::String("ship"))]));
    /// ```
    pub fn attributes(&self, rows: Rows) -> impl Iterator<Item = (&str, Constant<&str>)> {
        let rows = self.attributes.get(rows.range()).unwrap_or_default();
        rows.iter().map(move |row| (self.text(row.key), self.value(row)))
    }

    /// Returns an attribute in a range of rows; `None` if it is not set.
    pub fn attribute_in(&self, rows: Rows, name: &str) -> Option<Constant<&str>> {
        let mut rows = self.attributes.get(rows.range())?.iter();
        let row = rows.find(|row| self.text(row.key) == name)?;
        Some(self.value(row))
    }

    fn value(&self, row: &AttributeRow) -> Constant<&str> {
        row.value.map(|text| self.text(text))
    }

    /// Returns an attribute of the graph; `None` if it is not set.
    pub fn attribute(&self, name: &str) -> Option<Constant<&str>> {
        self.attribute_in(self.graph_attributes, name)
    }

    /// Returns the goal; empty if there is none.
    pub fn goal(&self) -> &str {
        self.attribute("goal")
            .and_then(Constant::text)
            .unwrap_or_default()
    }

    /// Returns the label of the graph, or its name if there is no label.
    pub fn title(&self) -> &str {
        self.attribute("label")
            .and_then(Constant::text)
            .filter(|label| !label.is_empty())
            .unwrap_or(&self.name)
    }

    /// Returns this pipeline and all pipelines that its stages run, each once, parents before their children.
    ///
    /// ```
    /// use orchestra_graph::table::Child;
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> build -> exit }";
    /// let child = load(Source::new("child.dot", text), &Default::default()).pipeline().expect("sound");
    /// let mut parent = load(Source::new("parent.dot", text), &Default::default()).pipeline().expect("sound");
    /// parent.children.to_mut().push(Child { file: "child.dot".into(), pipeline: child.into() });
    /// let files: Vec<&str> = parent.family().iter().map(|pipeline| &*pipeline.file).collect();
    /// assert_eq!(files, ["parent.dot", "child.dot"]);
    /// ```
    pub fn family(&self) -> Vec<&Pipeline> {
        let mut family = vec![self];
        let mut at = 0;
        while let Some(parent) = family.get(at).copied() {
            for child in parent.children.iter() {
                let child: &Pipeline = &child.pipeline;
                // Several parents may share a child.
                if !family.iter().any(|known| std::ptr::eq(*known, child)) {
                    family.push(child);
                }
            }
            at += 1;
        }
        family
    }
}

/// A pipeline that many runs share: either constant data of the program, or loaded.
///
/// ```
/// use orchestra_graph::{SharedPipeline, Source, load};
/// let text = "digraph { start -> build -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let shared = SharedPipeline::from(pipeline);
/// assert_eq!(shared.clone().nodes.as_ptr(), shared.nodes.as_ptr(), "nothing was copied");
/// ```
#[derive(Clone, Debug)]
pub enum SharedPipeline {
    /// Constant data of the program.
    Static(&'static Pipeline),
    /// Loaded at run time.
    Loaded(Arc<Pipeline>),
}

impl Deref for SharedPipeline {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        match self {
            SharedPipeline::Static(pipeline) => pipeline,
            SharedPipeline::Loaded(pipeline) => pipeline,
        }
    }
}

impl From<&'static Pipeline> for SharedPipeline {
    fn from(pipeline: &'static Pipeline) -> SharedPipeline {
        SharedPipeline::Static(pipeline)
    }
}

impl From<Pipeline> for SharedPipeline {
    fn from(pipeline: Pipeline) -> SharedPipeline {
        SharedPipeline::Loaded(Arc::new(pipeline))
    }
}

impl From<Arc<Pipeline>> for SharedPipeline {
    fn from(pipeline: Arc<Pipeline>) -> SharedPipeline {
        SharedPipeline::Loaded(pipeline)
    }
}

/// A pipeline that a stage runs: the child of a manager loop, or a sub-pipeline (Attractor 4.11, 9.4).
///
/// ```
/// use orchestra_graph::table::Child;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> build -> exit }";
/// let pipeline = load(Source::new("build.dot", text), &Default::default()).pipeline().expect("sound");
/// let child = Child { file: "build.dot".into(), pipeline: pipeline.into() };
/// assert_eq!(child.pipeline.file, "build.dot");
/// ```
#[derive(Clone, Debug)]
pub struct Child {
    /// The file of the child, as the parent writes it.
    pub file: Cow<'static, str>,
    /// The pipeline.
    pub pipeline: SharedPipeline,
}
