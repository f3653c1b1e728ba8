//! A node of a table, with access to its attributes and edges.

use std::borrow::Cow;
use std::time::Duration;

use super::pipeline::Pipeline;
use super::rows::{EdgeRow, NodeRow};
use super::values::{Constant, Role};
use crate::attribute::Known;
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};

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
        self.pipeline.text(self.row.id)
    }

    /// Returns the handler kind.
    pub fn kind(&self) -> &'p str {
        self.pipeline
            .kinds
            .get(self.row.kind as usize)
            .map_or(kind::CODERGEN, |kind| self.pipeline.text(*kind))
    }

    /// Returns the label, or the id if there is no label.
    pub fn label(&self) -> &'p str {
        self.text("label")
            .filter(|label| !label.is_empty())
            .unwrap_or_else(|| self.id())
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
    pub fn attribute(&self, name: &str) -> Option<Constant<&'p str>> {
        self.pipeline.attribute_in(self.row.attributes, name)
    }

    /// Iterates over all attributes, each as its name and its value.
    pub fn attributes(&self) -> impl Iterator<Item = (&'p str, Constant<&'p str>)> + use<'p> {
        self.pipeline.attributes(self.row.attributes)
    }

    /// Returns whether the stage has a prompt. The model of a fan-in with a prompt chooses the best branch (rule P6).
    pub fn has_prompt(&self) -> bool {
        self.text("prompt")
            .is_some_and(|prompt| !prompt.trim().is_empty())
    }

    /// Returns whether the stage calls a model.
    pub fn calls_model(&self) -> bool {
        match self.kind() {
            kind::CODERGEN => true,
            kind::FAN_IN => self.has_prompt(),
            _ => false,
        }
    }

    /// Returns whether the machine of a run completes the node by itself, without an effect: a start or exit of the
    /// built-in kind, or a routing node. No run waits there.
    pub fn is_immediate(&self) -> bool {
        match self.row.role {
            Role::Start => self.kind() == kind::START,
            Role::Exit => self.kind() == kind::EXIT,
            Role::Routing => true,
            Role::Work => false,
        }
    }

    /// Returns the text of an attribute; `None` if it is not set or not a text.
    pub fn text(&self, name: &str) -> Option<&'p str> {
        self.attribute(name).and_then(Constant::text)
    }

    /// Returns the pool of workers that executes the stage in a run on a server: its own, or that of the graph.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { pool=cpu; start -> train -> report -> exit; train [prompt=a, pool=gpu]; report [prompt=b] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let pool = |id: &str| pipeline.stage(pipeline.find(id).expect("declared")).pool();
    /// assert_eq!((pool("train"), pool("report")), (Some("gpu"), Some("cpu")));
    /// ```
    pub fn pool(&self) -> Option<&'p str> {
        let name = Known::Pool.name();
        let own = self.text(name);
        let of_graph = || self.pipeline.attribute(name).and_then(Constant::text);
        own.or_else(of_graph).filter(|pool| !pool.is_empty())
    }

    /// Returns `true` if an attribute is `true`.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.attribute(name), Some(Constant::Boolean(true)))
    }

    /// Returns the duration of an attribute; `None` if it is not set or not a duration.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.attribute(name) {
            Some(Constant::Duration(duration)) => Some(duration),
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

impl Pipeline {
    /// Iterates over the nodes.
    pub fn stages(&self) -> impl Iterator<Item = Stage<'_>> {
        (0..self.nodes.len() as u32).map(move |at| self.stage(NodeIndex(at)))
    }

    /// Returns a node. If the pipeline does not have the index, returns a node without id, attributes and edges.
    pub fn stage(&self, index: NodeIndex) -> Stage<'_> {
        Stage {
            pipeline: self,
            index,
            row: self.nodes.get(index.at()).unwrap_or(&NodeRow::DEFAULT),
        }
    }
}
