//! The graph model: nodes, edges and their typed attributes, flat, with places in the text.

use std::collections::HashMap;
use std::sync::Arc;

use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::text::Span;

/// The index of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// The index of an edge in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EdgeIndex(pub u32);

impl NodeIndex {
    /// As an index of a slice.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

impl EdgeIndex {
    /// As an index of a slice.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The id.
    pub id: Arc<str>,
    /// Where it is declared, or first named.
    pub span: Span,
    /// Whether a node statement declares it; else it is only an end of edges.
    pub declared: bool,
    /// The attributes.
    pub attributes: Attributes,
    /// Classes from `class` and from the labels of enclosing subgraphs, without repeats.
    pub classes: Vec<Arc<str>>,
    /// The innermost subgraph around it.
    pub subgraph: Option<u32>,
}

impl Node {
    /// The shape; `box` where none is given.
    pub fn shape(&self) -> &str {
        self.attributes.filled(Known::Shape).unwrap_or("box")
    }

    /// The label; the id where none is given.
    pub fn label(&self) -> &str {
        self.attributes.filled(Known::Label).unwrap_or(&self.id)
    }

    /// The handler kind: `type`, else what the shape stands for, else `codergen` (Attractor 4.2).
    ///
    /// A start or exit found by its id alone is known to [`Analysis::kind`](crate::Analysis::kind).
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

/// An edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Where it comes from.
    pub from: NodeIndex,
    /// Where it leads.
    pub to: NodeIndex,
    /// Where its source is written.
    pub from_span: Span,
    /// Where its target is written.
    pub to_span: Span,
    /// The attributes.
    pub attributes: Attributes,
}

impl Edge {
    /// Where it stands, from source to target.
    pub fn span(&self) -> Span {
        self.from_span.to(self.to_span)
    }
}

/// A subgraph, kept for classes and pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Subgraph {
    /// The name, where it has one.
    pub name: Option<String>,
    /// The label, where it has one.
    pub label: Option<String>,
    /// The subgraph around it.
    pub parent: Option<u32>,
    /// Where it stands.
    pub span: Span,
}

/// A pipeline as a graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The name; empty where the file gives none.
    pub name: String,
    /// Where the name stands, else the keyword.
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

impl Graph {
    /// The node of that id.
    pub fn find(&self, id: &str) -> Option<NodeIndex> {
        self.index.get(id).copied()
    }

    /// A node by its index.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.at()]
    }

    /// An edge by its index.
    pub fn edge(&self, index: EdgeIndex) -> &Edge {
        &self.edges[index.at()]
    }

    /// The goal; empty where none is given.
    pub fn goal(&self) -> &str {
        self.attributes.text(Known::Goal).unwrap_or_default()
    }

    /// The label, else the name.
    pub fn title(&self) -> &str {
        self.attributes.filled(Known::Label).unwrap_or(&self.name)
    }

    /// Adds a node, or gives the one that has the id already. Transforms use this.
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

    /// All nodes with their indices.
    pub fn indexed_nodes(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (NodeIndex(at as u32), node))
    }

    /// All edges with their indices.
    pub fn indexed_edges(&self) -> impl Iterator<Item = (EdgeIndex, &Edge)> {
        self.edges
            .iter()
            .enumerate()
            .map(|(at, edge)| (EdgeIndex(at as u32), edge))
    }
}
