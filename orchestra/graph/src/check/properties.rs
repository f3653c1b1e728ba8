//! The properties of a graph that all checks read, and the limit on the cases that they examine together.

use std::cell::{Cell, OnceCell};

use crate::analysis::Analysis;
use crate::attribute::{ATTRIBUTES, Key, Known};
use crate::attributes::Attributes;
use crate::condition::Expression;
use crate::condition::space::Space;
use crate::joins::Joins;
use crate::kind;
use crate::model::{Edge, EdgeIndex, Graph, Node, NodeIndex};

/// Maximum number of points that all checks together examine. A pipeline with more is checked less closely.
const MAX_POINTS: usize = 500_000;

/// A graph with the kinds of its nodes, the attributes that are set, and its joins.
pub(crate) struct Properties<'c> {
    pub(crate) analysis: &'c Analysis<'c>,
    /// The handler kind of each node.
    pub(crate) kinds: Vec<&'c str>,
    /// The known attributes of each node.
    nodes: Vec<Present>,
    /// The known attributes of each edge.
    edges: Vec<Present>,
    points: Cell<usize>,
    joins: OnceCell<Joins>,
}

impl<'c> Properties<'c> {
    pub(crate) fn new(analysis: &'c Analysis<'c>) -> Properties<'c> {
        let graph = analysis.graph();
        Properties {
            analysis,
            kinds: graph.indexed_nodes().map(|(at, _)| analysis.kind(at)).collect(),
            nodes: graph
                .nodes
                .iter()
                .map(|node| Present::from_attributes(&node.attributes))
                .collect(),
            edges: graph
                .edges
                .iter()
                .map(|edge| Present::from_attributes(&edge.attributes))
                .collect(),
            points: Cell::new(MAX_POINTS),
            joins: OnceCell::new(),
        }
    }

    pub(crate) fn graph(&self) -> &'c Graph {
        self.analysis.graph()
    }

    pub(crate) fn node(&self, at: NodeIndex) -> &'c Node {
        self.graph().node(at)
    }

    pub(crate) fn edge(&self, at: EdgeIndex) -> &'c Edge {
        self.graph().edge(at)
    }

    pub(crate) fn id(&self, at: NodeIndex) -> &'c str {
        &self.node(at).id
    }

    pub(crate) fn kind(&self, at: NodeIndex) -> &'c str {
        self.kinds.get(at.at()).copied().unwrap_or(kind::CODERGEN)
    }

    /// Returns the joins of the fan-outs.
    pub(crate) fn joins(&self) -> &Joins {
        self.joins.get_or_init(|| Joins::new(self.analysis))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeIndex, &'c Node)> {
        self.graph().indexed_nodes()
    }

    /// Returns the nodes that have at least one of some attributes.
    pub(crate) fn nodes_with(&self, wanted: &[Known]) -> impl Iterator<Item = (NodeIndex, &'c Node)> {
        let wanted = Present::all(wanted);
        let hit = move |at: usize| self.nodes.get(at).is_some_and(|present| present.meets(wanted));
        self.graph().indexed_nodes().filter(move |(at, _)| hit(at.at()))
    }

    /// Returns the edges that have at least one of some attributes.
    pub(crate) fn edges_with(&self, wanted: &[Known]) -> impl Iterator<Item = (EdgeIndex, &'c Edge)> {
        let wanted = Present::all(wanted);
        let hit = move |at: usize| self.edges.get(at).is_some_and(|present| present.meets(wanted));
        self.graph().indexed_edges().filter(move |(at, _)| hit(at.at()))
    }

    /// Returns whether a node has at least one of some attributes.
    pub(crate) fn has(&self, at: NodeIndex, wanted: &[Known]) -> bool {
        let wanted = Present::all(wanted);
        self.nodes
            .get(at.at())
            .is_some_and(|present| present.meets(wanted))
    }

    /// Returns the weight of an edge.
    pub(crate) fn weight(&self, at: EdgeIndex) -> i64 {
        self.edge(at).weight()
    }

    /// Returns whether edges are chosen in the order of the file (rule R11).
    pub(crate) fn first_match(&self) -> bool {
        self.graph().attributes.text_or_default(Known::Routing) == "first_match"
    }

    pub(crate) fn is_start(&self, at: NodeIndex) -> bool {
        self.analysis.is_start(at)
    }

    pub(crate) fn is_exit(&self, at: NodeIndex) -> bool {
        self.analysis.is_exit(at)
    }

    /// Returns the points of some conditions. Returns `None` if they are too many, or if the limit of all checks is
    /// used up.
    pub(crate) fn space<'e>(
        &self,
        expressions: &[&'e Expression],
        words: Option<&[&str]>,
    ) -> Option<Space<'e>> {
        let space = Space::new(expressions, words)?;
        self.points.set(self.points.get().checked_sub(space.size())?);
        Some(space)
    }
}

/// A set of known attributes, with a bit for each.
#[derive(Clone, Copy, Default)]
struct Present(u128);

const _: () = assert!(ATTRIBUTES.len() <= u128::BITS as usize);

impl Present {
    fn from_attributes(attributes: &Attributes) -> Present {
        attributes
            .iter()
            .fold(Present(0), |set, attribute| match attribute.key {
                Key::Known(known) => Present(set.0 | 1 << (known as u32)),
                Key::Other(_) => set,
            })
    }

    fn all(wanted: &[Known]) -> Present {
        Present(wanted.iter().fold(0, |set, known| set | 1 << (*known as u32)))
    }

    const fn meets(self, wanted: Present) -> bool {
        self.0 & wanted.0 != 0
    }
}
