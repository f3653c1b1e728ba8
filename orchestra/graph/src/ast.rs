//! The syntax tree: the contents of a file in their order, with the span of every token.

use smol_str::SmolStr;

use crate::text::Span;
use crate::value::Value;

/// A parsed file (Attractor 2.2). Parsing always returns a tree, together with a list of diagnostics.
///
/// ```
/// use orchestra_graph::{Limits, Source, parse};
/// let source = Source::new("a.dot", "digraph release { start -> work; work -> exit }");
/// let file = parse(&source, &Limits::default()).file;
/// assert_eq!(file.name.expect("it has one").text, "release");
/// assert_eq!(file.statements.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The name of the graph, if it has one.
    pub name: Option<Identifier>,
    /// The span of the `digraph` keyword; empty if the keyword is missing.
    pub keyword: Span,
    /// The statements between the braces.
    pub statements: Vec<Statement>,
    /// The span from the opening to the closing brace.
    pub body: Span,
    /// All comments, in order.
    pub comments: Vec<Comment>,
}

/// A comment with its delimiters: `//`, `/* */` or `#` (rule L5).
///
/// ```
/// use orchestra_graph::{Limits, Source, parse};
/// let source = Source::new("a.dot", "digraph a { // nightly\n start -> exit }");
/// let file = parse(&source, &Limits::default()).file;
/// assert_eq!(source.slice(file.comments[0].span), "// nightly");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The span of the comment without its line end.
    pub span: Span,
}

/// The name of a graph, a node or a subgraph (rule L3).
///
/// ```
/// use orchestra_graph::{Limits, Source, parse};
/// let source = Source::new("a.dot", r#"digraph "release" { start -> exit }"#);
/// let name = parse(&source, &Limits::default()).file.name.expect("it has one");
/// assert_eq!((&*name.text, source.slice(name.span)), ("release", r#""release""#));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Identifier {
    /// The text without quotes. Short texts, as nearly all are, need no allocation.
    pub text: SmolStr,
    /// The span, with quotes.
    pub span: Span,
}

/// One statement (Attractor 2.2).
///
/// ```
/// use orchestra_graph::{Limits, Source, ast::Statement, parse};
/// let source = Source::new("a.dot", "digraph a { goal=ship; start -> exit; exit [label=Done] }");
/// let file = parse(&source, &Limits::default()).file;
/// let edges = file.statements.iter().find(|statement| matches!(statement, Statement::Edge(_)));
/// assert_eq!(source.slice(edges.expect("there is one").span()), "start -> exit");
/// ```
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
    /// Returns the span of the statement, without its semicolon.
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

/// The target of a block of defaults (Attractor 2.11).
///
/// ```
/// use orchestra_graph::{Limits, Source, ast::{DefaultsTarget, Statement}, parse};
/// let source = Source::new("a.dot", "digraph a { edge [weight=2] }");
/// let file = parse(&source, &Limits::default()).file;
/// assert!(matches!(&file.statements[0], Statement::Defaults(block) if block.target == DefaultsTarget::Edge));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultsTarget {
    /// `graph [..]`.
    Graph,
    /// `node [..]`.
    Node,
    /// `edge [..]`.
    Edge,
}

/// `graph [..]`, `node [..]` or `edge [..]` (Attractor 2.11).
///
/// ```
/// use orchestra_graph::{Limits, Source, ast::Statement, parse};
/// let source = Source::new("a.dot", "digraph a { node [shape=box] [timeout=5m] }");
/// let file = parse(&source, &Limits::default()).file;
/// let Statement::Defaults(block) = &file.statements[0] else { panic!("defaults stand there") };
/// assert_eq!(block.attributes[1].key.text, "timeout");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// The target of the defaults.
    pub target: DefaultsTarget,
    /// The attributes of all its bracket groups, in order.
    pub attributes: Vec<Attribute>,
    /// The span from the keyword to the last bracket.
    pub span: Span,
}

/// A node statement (Attractor 2.6).
///
/// ```
/// use orchestra_graph::{Limits, Source, ast::Statement, parse};
/// let source = Source::new("a.dot", "digraph a { build [shape=parallelogram] }");
/// let file = parse(&source, &Limits::default()).file;
/// let Statement::Node(node) = &file.statements[0] else { panic!("a node stands there") };
/// assert_eq!((&*node.id.text, node.attributes.len()), ("build", 1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatement {
    /// The node's id.
    pub id: Identifier,
    /// The attributes of all its bracket groups, in order.
    pub attributes: Vec<Attribute>,
    /// The span from the id to the last bracket.
    pub span: Span,
}

/// A chain of edges, `a -> b -> c` (Attractor 2.9).
///
/// ```
/// use orchestra_graph::{Limits, Source, ast::Statement, parse};
/// let source = Source::new("a.dot", "digraph a { start -> work -> exit [weight=2] }");
/// let file = parse(&source, &Limits::default()).file;
/// let Statement::Edge(chain) = &file.statements[0] else { panic!("a chain stands there") };
/// let ids: Vec<&str> = chain.nodes.iter().map(|node| &*node.text).collect();
/// assert_eq!(ids, ["start", "work", "exit"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeStatement {
    /// The nodes of the chain, at least two.
    pub nodes: Vec<Identifier>,
    /// The attributes, which apply to each edge of the chain.
    pub attributes: Vec<Attribute>,
    /// The span from the first id to the last bracket.
    pub span: Span,
}

/// A subgraph, which limits the scope of defaults and adds a class to its nodes (Attractor 2.10, rule L9).
///
/// ```
/// use orchestra_graph::{Limits, Source, ast::Statement, parse};
/// let source = Source::new("a.dot", "digraph a { subgraph cluster_loop { label=\"Loop A\"; work } }");
/// let file = parse(&source, &Limits::default()).file;
/// let Statement::Subgraph(inner) = &file.statements[0] else { panic!("a subgraph stands there") };
/// assert_eq!(inner.statements.len(), 2);
/// assert!(source.slice(inner.body).starts_with("{ label"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Subgraph {
    /// The name, if it has one.
    pub name: Option<Identifier>,
    /// The statements between its braces.
    pub statements: Vec<Statement>,
    /// The span from the keyword (or brace) to the closing brace.
    pub span: Span,
    /// The span from the opening to the closing brace.
    pub body: Span,
}

/// One `key = value` (Attractor 2.4).
///
/// ```
/// use orchestra_graph::{Limits, Source, Value, ast::Statement, parse};
/// let source = Source::new("a.dot", r#"digraph a { max_restarts="3" }"#);
/// let file = parse(&source, &Limits::default()).file;
/// let Statement::Assignment(attribute) = &file.statements[0] else { panic!("an attribute stands there") };
/// assert!(attribute.quoted);
/// assert_eq!(attribute.value, Value::String("3".into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The key, dotted or not, without quotes.
    pub key: Identifier,
    /// The value; a quoted one is always a string.
    pub value: Value,
    /// The span of the value, with quotes.
    pub value_span: Span,
    /// `true` if the value was quoted.
    pub quoted: bool,
}
