//! The kinds of owner on which an attribute is allowed.

/// The kinds of owner on which an attribute is allowed.
///
/// ```
/// use orchestra_graph::{Known, Scope};
/// let scopes = Known::RetryTarget.spec().scopes;
/// assert!(scopes.contains(Scope::Graph) && scopes.contains(Scope::Node) && !scopes.edge);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes {
    /// `true` if it is allowed on the graph.
    pub graph: bool,
    /// `true` if it is allowed on a node.
    pub node: bool,
    /// `true` if it is allowed on an edge.
    pub edge: bool,
}

impl Scopes {
    /// Returns whether the attribute is allowed in that scope.
    pub const fn contains(self, scope: Scope) -> bool {
        match scope {
            Scope::Graph => self.graph,
            Scope::Node => self.node,
            Scope::Edge => self.edge,
        }
    }
}

/// The kind of owner of an attribute.
///
/// ```
/// use orchestra_graph::{ATTRIBUTES, Scope};
/// let on_edges = ATTRIBUTES.iter().filter(|row| row.scopes.contains(Scope::Edge));
/// assert!(on_edges.map(|row| row.name).any(|name| name == "condition"));
/// assert_eq!(Scope::Edge.word(), "edge");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The graph.
    Graph,
    /// A node.
    Node,
    /// An edge.
    Edge,
}

impl Scope {
    /// Returns the name shown to the user: `graph`, `node` or `edge`.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Graph => "graph",
            Scope::Node => "node",
            Scope::Edge => "edge",
        }
    }
}
