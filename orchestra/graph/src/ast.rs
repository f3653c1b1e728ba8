//! The syntax tree: what stands in the file, in its order, with the place of every token.

use smol_str::SmolStr;

use crate::text::Span;
use crate::value::Value;

/// A parsed file. Parsing always gives a tree, together with a list of faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The name of the graph, where it has one.
    pub name: Option<Identifier>,
    /// The span of the `digraph` keyword; empty where it is missing.
    pub keyword: Span,
    /// The statements between the braces.
    pub statements: Vec<Statement>,
    /// The span from the opening to the closing brace.
    pub body: Span,
    /// All comments, in order.
    pub comments: Vec<Comment>,
}

/// A comment with its marks (`//`, `/* */` or `#`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The comment without its line end.
    pub span: Span,
}

/// A name: of a graph, a node, a subgraph.
#[derive(Clone, Debug, PartialEq)]
pub struct Identifier {
    /// The text without quotes; short ones, as nearly all are, need no allocation.
    pub text: SmolStr,
    /// Where, with quotes.
    pub span: Span,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `key = value` on its own.
    Assignment(Attribute),
    /// `graph [..]`, `node [..]` or `edge [..]`.
    Defaults(Defaults),
    /// A node with its attributes.
    Node(NodeStatement),
    /// A chain of edges.
    Edge(EdgeStatement),
    /// A subgraph.
    Subgraph(Subgraph),
}

impl Statement {
    /// Where the statement stands, without its semicolon.
    pub fn span(&self) -> Span {
        match self {
            Statement::Assignment(attribute) => attribute.key.span.to(attribute.value_span),
            Statement::Defaults(defaults) => defaults.span,
            Statement::Node(node) => node.span,
            Statement::Edge(edge) => edge.span,
            Statement::Subgraph(subgraph) => subgraph.span,
        }
    }
}

/// What a block of defaults speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultsTarget {
    /// `graph [..]`.
    Graph,
    /// `node [..]`.
    Node,
    /// `edge [..]`.
    Edge,
}

/// `graph [..]`, `node [..]` or `edge [..]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Which of the three.
    pub target: DefaultsTarget,
    /// The attributes of all its brackets.
    pub attributes: Vec<Attribute>,
    /// From the keyword to the last bracket.
    pub span: Span,
}

/// A node statement.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatement {
    /// The node's id.
    pub id: Identifier,
    /// The attributes of all its brackets.
    pub attributes: Vec<Attribute>,
    /// From the id to the last bracket.
    pub span: Span,
}

/// A chain of edges, `a -> b -> c`.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeStatement {
    /// The nodes of the chain, two at least.
    pub nodes: Vec<Identifier>,
    /// The attributes, which hold for each edge of the chain.
    pub attributes: Vec<Attribute>,
    /// From the first id to the last bracket.
    pub span: Span,
}

/// A subgraph, which scopes defaults and gives a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Subgraph {
    /// Its name, where it has one.
    pub name: Option<Identifier>,
    /// The statements between its braces.
    pub statements: Vec<Statement>,
    /// From the keyword (or brace) to the closing brace.
    pub span: Span,
    /// From the opening to the closing brace.
    pub body: Span,
}

/// One `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The key, dotted or not, without quotes.
    pub key: Identifier,
    /// The value; a quoted one is always a string.
    pub value: Value,
    /// Where the value stands, with quotes.
    pub value_span: Span,
    /// Whether the value was quoted.
    pub quoted: bool,
}
