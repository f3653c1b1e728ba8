//! The graph model: flat lists of nodes and edges with typed attributes and their spans in the text.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::text::Span;

/// The index of a node in its graph.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let graph = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &Default::default()).graph;
/// let work = graph.find("work").expect("an edge names it");
/// assert_eq!(graph.node(work).label(), "work");
/// assert_eq!(work.at(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// The index of an edge in its graph.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &Default::default());
/// let analysis = loaded.analysis();
/// let out = analysis.outgoing(analysis.start().expect("there is one start"));
/// assert_eq!(loaded.graph.edge(out[0]).to, loaded.graph.find("work").expect("an edge names it"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeIndex(pub u32);

impl NodeIndex {
    /// Returns the index for use with a slice.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

impl EdgeIndex {
    /// Returns the index for use with a slice.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// A node (Attractor 2.6).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work [label=Build, class=slow] }";
/// let graph = load(Source::new("a.dot", text), &Default::default()).graph;
/// let work = graph.nodes.iter().find(|node| &*node.id == "work").expect("declared");
/// assert_eq!((work.label(), work.shape(), &*work.classes[0]), ("Build", "box", "slow"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The id.
    pub id: Arc<str>,
    /// The span of its declaration, else of its first mention.
    pub span: Span,
    /// `true` if a node statement declares it; otherwise only edges mention it.
    pub declared: bool,
    /// The attributes.
    pub attributes: Attributes,
    /// The classes from `class` and from the labels of the enclosing subgraphs, without duplicates.
    pub classes: Vec<Arc<str>>,
    /// The index of the innermost subgraph that contains it.
    pub subgraph: Option<u32>,
}

impl Node {
    /// Returns the shape; `box` if none is set.
    pub fn shape(&self) -> &str {
        self.attributes
            .filled(Known::Shape)
            .unwrap_or_else(|| Known::Shape.default_text())
    }

    /// Returns the label; the id if none is set.
    pub fn label(&self) -> &str {
        self.attributes.filled(Known::Label).unwrap_or(&self.id)
    }

    /// Returns the handler kind: `type`, else the kind of the shape, else `codergen` (Attractor 4.2).
    ///
    /// This does not detect a start or exit that is identified by its id alone;
    /// [`Analysis::kind`](crate::Analysis::kind) does.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph { t [shape=parallelogram] }"), &Default::default());
    /// assert_eq!(loaded.graph.nodes[0].kind(), "tool");
    /// ```
    pub fn kind(&self) -> &str {
        let by_shape = || crate::kind::of_shape(self.shape()).unwrap_or(crate::kind::CODERGEN);
        self.attributes.filled(Known::Type).unwrap_or_else(by_shape)
    }
}

/// An edge (Attractor 2.7).
///
/// ```
/// use orchestra_graph::{Known, Source, load};
/// let source = Source::new("a.dot", "digraph { start -> exit [weight=2] }");
/// let graph = load(source.clone(), &Default::default()).graph;
/// let edge = &graph.edges[0];
/// assert_eq!(edge.attributes.integer(Known::Weight), Some(2));
/// assert_eq!(source.slice(edge.span()), "start -> exit");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The source node.
    pub from: NodeIndex,
    /// The target node.
    pub to: NodeIndex,
    /// The span of the source in the text.
    pub from_span: Span,
    /// The span of the target in the text.
    pub to_span: Span,
    /// The attributes.
    pub attributes: Attributes,
}

impl Edge {
    /// Returns the span from source to target.
    pub fn span(&self) -> Span {
        self.from_span.to(self.to_span)
    }

    /// Returns the priority among edges that may be taken.
    pub(crate) fn weight(&self) -> i64 {
        const DEFAULT: i64 = Known::Weight.default_integer();
        self.attributes.integer(Known::Weight).unwrap_or(DEFAULT)
    }
}

/// A subgraph, stored for classes and pictures (Attractor 2.10).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; subgraph { label=\"Loop A\"; work } }";
/// let graph = load(Source::new("a.dot", text), &Default::default()).graph;
/// assert_eq!(graph.subgraphs[0].label.as_deref(), Some("Loop A"));
/// assert_eq!(&*graph.node(graph.find("work").expect("declared")).classes[0], "loop-a");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Subgraph {
    /// The name, if it has one.
    pub name: Option<String>,
    /// The label, if it has one.
    pub label: Option<String>,
    /// The index of the subgraph that contains it.
    pub parent: Option<u32>,
    /// The span in the text.
    pub span: Span,
}

/// A pipeline as a graph.
///
/// Transforms may change all of it. [`load`](crate::load) then rebuilds the index of ids and reports edges without an
/// end.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph release { goal=\"Ship it\"; start -> build -> exit }";
/// let graph = load(Source::new("a.dot", text), &Default::default()).graph;
/// assert_eq!((graph.title(), graph.goal()), ("release", "Ship it"));
/// assert_eq!((graph.nodes.len(), graph.edges.len()), (3, 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The name; empty if the file defines none.
    pub name: String,
    /// The span of the name, else of the keyword.
    pub span: Span,
    /// The attributes of the graph.
    pub attributes: Attributes,
    /// The nodes, in the order of their first mention.
    pub nodes: Vec<Node>,
    /// The edges, in the order of the file.
    pub edges: Vec<Edge>,
    /// The subgraphs, outer ones before inner ones.
    pub subgraphs: Vec<Subgraph>,
    pub(crate) index: HashMap<Arc<str>, NodeIndex>,
}

/// The node returned for an index outside the graph.
static NOWHERE: LazyLock<Node> = LazyLock::new(|| Node {
    id: "".into(),
    span: Span::new(0, 0),
    declared: false,
    attributes: Attributes::default(),
    classes: Vec::new(),
    subgraph: None,
});

/// The edge returned for an index outside the graph.
static NO_EDGE: Edge = Edge {
    from: NodeIndex(u32::MAX),
    to: NodeIndex(u32::MAX),
    from_span: Span::new(0, 0),
    to_span: Span::new(0, 0),
    attributes: Attributes::new(),
};

impl Graph {
    /// Returns the index of the node with this id.
    pub fn find(&self, id: &str) -> Option<NodeIndex> {
        self.index.get(id).copied()
    }

    /// Returns a node by its index. For an index outside this graph, returns a node without id, attributes and edges.
    ///
    /// ```
    /// use orchestra_graph::{Graph, NodeIndex};
    /// assert_eq!(&*Graph::default().node(NodeIndex(7)).id, "");
    /// ```
    pub fn node(&self, index: NodeIndex) -> &Node {
        self.nodes.get(index.at()).unwrap_or_else(|| &NOWHERE)
    }

    /// Returns an edge by its index. For an index outside this graph, returns an edge without attributes whose ends are
    /// outside every graph.
    ///
    /// ```
    /// use orchestra_graph::{EdgeIndex, Graph};
    /// let graph = Graph::default();
    /// assert_eq!(&*graph.node(graph.edge(EdgeIndex(7)).to).id, "");
    /// ```
    pub fn edge(&self, index: EdgeIndex) -> &Edge {
        self.edges.get(index.at()).unwrap_or(&NO_EDGE)
    }

    /// Rebuilds the index of ids. Removes and returns the edges that lack an end, as a transform may leave them.
    pub(crate) fn rebuild_index(&mut self) -> Vec<Edge> {
        // If two nodes have the same id, the first one is found, as in a file.
        let ids = self.nodes.iter().enumerate().rev();
        self.index = ids
            .map(|(at, node)| (node.id.clone(), NodeIndex(at as u32)))
            .collect();
        let nodes = self.nodes.len();
        let whole = |edge: &mut Edge| edge.from.at() < nodes && edge.to.at() < nodes;
        self.edges.extract_if(.., |edge| !whole(edge)).collect()
    }

    /// Returns the goal; empty if none is set.
    pub fn goal(&self) -> &str {
        self.attributes.text(Known::Goal).unwrap_or_default()
    }

    /// Returns the label, else the name.
    pub fn title(&self) -> &str {
        self.attributes.filled(Known::Label).unwrap_or(&self.name)
    }

    /// Adds a node, or returns the existing node with this id. Intended for transforms.
    pub fn add_node(&mut self, id: &str, span: Span) -> NodeIndex {
        if let Some(index) = self.find(id) {
            return index;
        }
        let id: Arc<str> = id.into();
        let index = NodeIndex(self.nodes.len() as u32);
        self.nodes.push(Node {
            id: id.clone(),
            span,
            declared: true,
            attributes: Attributes::default(),
            classes: Vec::new(),
            subgraph: None,
        });
        self.index.insert(id, index);
        index
    }

    /// Returns all nodes with their indices.
    pub fn indexed_nodes(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (NodeIndex(at as u32), node))
    }

    /// Returns all edges with their indices.
    pub fn indexed_edges(&self) -> impl Iterator<Item = (EdgeIndex, &Edge)> {
        self.edges
            .iter()
            .enumerate()
            .map(|(at, edge)| (EdgeIndex(at as u32), edge))
    }
}
