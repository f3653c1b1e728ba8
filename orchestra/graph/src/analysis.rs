//! The properties of a graph that the checks and the table need, computed once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::adjacency::Adjacency;
use crate::attribute::{Key, Known};
use crate::condition::{ConditionError, Expression, parse_condition};
use crate::kind;
use crate::model::{Edge, EdgeIndex, Graph, NodeIndex};
use crate::syntax::lexer;
use crate::text::{Source, Span, is_blank};
use serde_json::Value as Json;

/// The condition of an edge.
///
/// ```
/// use orchestra_graph::{EdgeCondition, EdgeIndex, Source, load};
/// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let analysis = loaded.analysis();
/// let EdgeCondition::Parsed(condition) = analysis.condition(EdgeIndex(0)) else { panic!("it is sound") };
/// assert_eq!(condition.keys(), ["outcome"]);
/// ```
#[derive(Clone, Debug)]
pub enum EdgeCondition {
    /// No condition: the edge is unconditional.
    None,
    /// A valid condition.
    Parsed(Expression),
    /// Text that is not a valid condition. The range of the error refers to the text of this attribute.
    Invalid(Known, ConditionError),
}

/// A graph with its derived properties: adjacency, conditions, start and exit, handler kinds.
///
/// ```
/// use orchestra_graph::{Analysis, LoadOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &LoadOptions::default());
/// let analysis = Analysis::new(&loaded.graph, &loaded.source);
/// assert_eq!(analysis.outgoing(analysis.start().unwrap()).len(), 1);
/// ```
pub struct Analysis<'g> {
    graph: &'g Graph,
    source: &'g Source,
    properties: Arc<DerivedProperties>,
}

/// The properties that are computed from a graph. They name its nodes and edges by their indices.
pub(crate) struct DerivedProperties {
    outgoing: Adjacency<EdgeIndex>,
    incoming: Adjacency<EdgeIndex>,
    /// The distinct conditions, starting with [`EdgeCondition::None`]. `condition_of` holds the index of each edge's
    /// condition, because few texts appear on many edges.
    conditions: Vec<EdgeCondition>,
    condition_of: Vec<u32>,
    starts: Vec<NodeIndex>,
    exits: Vec<NodeIndex>,
}

impl DerivedProperties {
    fn new(graph: &Graph) -> DerivedProperties {
        let nodes = graph.nodes.len();
        // An edge that lacks one of its ends belongs to no node. Only a manually changed graph has such an edge.
        let edges = || {
            let edges = graph.indexed_edges();
            edges.filter(|(_, edge)| edge.from.at() < nodes && edge.to.at() < nodes)
        };
        let (conditions, condition_of) = conditions(&graph.edges);
        DerivedProperties {
            outgoing: Adjacency::new(nodes, || edges().map(|(at, edge)| (edge.from.0, at))),
            incoming: Adjacency::new(nodes, || edges().map(|(at, edge)| (edge.to.0, at))),
            conditions,
            condition_of,
            starts: ends(graph, kind::START, &["Mdiamond", "circle"], START_IDS),
            exits: ends(graph, kind::EXIT, &["Msquare", "doublecircle"], EXIT_IDS),
        }
    }
}

impl<'g> Analysis<'g> {
    /// Analyses a graph. The spans of the graph refer to the source. Edges without both ends are ignored.
    ///
    /// A loaded pipeline has been analysed already; see [`Loaded::analysis`](crate::Loaded::analysis).
    pub fn new(graph: &'g Graph, source: &'g Source) -> Analysis<'g> {
        Analysis::from_properties(graph, source, Arc::new(DerivedProperties::new(graph)))
    }

    /// Combines a graph with the properties that were computed from it before.
    pub(crate) fn from_properties(
        graph: &'g Graph,
        source: &'g Source,
        properties: Arc<DerivedProperties>,
    ) -> Analysis<'g> {
        Analysis {
            graph,
            source,
            properties,
        }
    }

    /// Returns the properties without the graph.
    pub(crate) fn into_properties(self) -> Arc<DerivedProperties> {
        self.properties
    }

    /// Returns the graph.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Returns the text that the spans of the graph refer to.
    pub fn source(&self) -> &'g Source {
        self.source
    }

    /// Returns the edges out of a node, in the order of the file. Returns none for a node of another graph.
    pub fn outgoing(&self, node: NodeIndex) -> &[EdgeIndex] {
        self.properties.outgoing.get(node.at())
    }

    /// Returns the edges into a node, in the order of the file. Returns none for a node of another graph.
    pub fn incoming(&self, node: NodeIndex) -> &[EdgeIndex] {
        self.properties.incoming.get(node.at())
    }

    /// Returns the condition of an edge; [`EdgeCondition::None`] for an edge of another graph.
    pub fn condition(&self, edge: EdgeIndex) -> &EdgeCondition {
        self.properties
            .conditions
            .get(self.condition_id(edge))
            .unwrap_or(&EdgeCondition::None)
    }

    /// Returns the index of an edge's condition among the distinct ones; 0 means no condition.
    pub(crate) fn condition_id(&self, edge: EdgeIndex) -> usize {
        let condition = self.properties.condition_of.get(edge.at());
        condition.map_or(0, |id| *id as usize)
    }

    /// Returns the distinct conditions. The first is [`EdgeCondition::None`].
    pub(crate) fn conditions(&self) -> &[EdgeCondition] {
        &self.properties.conditions
    }

    /// Returns all nodes that qualify as the start (rule L13); a valid pipeline has exactly one.
    pub fn starts(&self) -> &[NodeIndex] {
        &self.properties.starts
    }

    /// Returns all nodes that qualify as the exit (rule L13); a valid pipeline has exactly one.
    pub fn exits(&self) -> &[NodeIndex] {
        &self.properties.exits
    }

    /// Returns the start, or `None` unless there is exactly one.
    pub fn start(&self) -> Option<NodeIndex> {
        <[NodeIndex; 1]>::try_from(self.starts())
            .ok()
            .map(|[start]| start)
    }

    /// Returns the exit, or `None` unless there is exactly one.
    pub fn exit(&self) -> Option<NodeIndex> {
        <[NodeIndex; 1]>::try_from(self.exits()).ok().map(|[exit]| exit)
    }

    /// Returns whether a node is among the starts.
    pub fn is_start(&self, node: NodeIndex) -> bool {
        self.starts().binary_search(&node).is_ok()
    }

    /// Returns whether a node is among the exits.
    pub fn is_exit(&self, node: NodeIndex) -> bool {
        self.exits().binary_search(&node).is_ok()
    }

    /// Returns the handler kind of a node (Attractor 4.2), with start and exit determined by rule L13.
    pub fn kind(&self, node: NodeIndex) -> &'g str {
        let kind = self.graph.node(node).kind();
        match kind {
            kind::CODERGEN if self.is_start(node) => kind::START,
            kind::CODERGEN if self.is_exit(node) => kind::EXIT,
            // A drawing shape such as `circle` on another node has no meaning once the start is known.
            kind::START if !self.is_start(node) => kind::CODERGEN,
            kind::EXIT if !self.is_exit(node) => kind::CODERGEN,
            other => other,
        }
    }

    /// Returns the existing targets of a node's `retry_target` and `fallback_retry_target`.
    pub fn retry_targets(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> {
        let attributes = &self.graph.node(node).attributes;
        [Known::RetryTarget, Known::FallbackRetryTarget]
            .into_iter()
            .filter_map(|known| attributes.filled(known).and_then(|id| self.graph.find(id.trim())))
    }

    /// Returns the existing targets of the graph's `retry_target` and `fallback_retry_target`.
    pub fn graph_retry_targets(&self) -> impl Iterator<Item = NodeIndex> {
        [Known::RetryTarget, Known::FallbackRetryTarget]
            .into_iter()
            .filter_map(|known| {
                self.graph
                    .attributes
                    .filled(known)
                    .and_then(|id| self.graph.find(id.trim()))
            })
    }

    /// Returns the span in the file of a part of an attribute's text.
    pub fn inside(&self, value_span: Span, range: std::ops::Range<usize>) -> Span {
        lexer::inside(self.source.text(), value_span, range)
    }
}

/// The ids that make a node the start if no shape does.
pub(crate) const START_IDS: &[&str] = &["start", "Start"];
/// The ids that make a node the exit if no shape does.
pub(crate) const EXIT_IDS: &[&str] = &["exit", "end"];

/// Returns the nodes that qualify as the start or exit, sorted: by type or main shape, else by second shape, else by
/// id.
fn ends(graph: &Graph, of_kind: &str, shapes: &[&str], ids: &[&str]) -> Vec<NodeIndex> {
    let typed = |at: NodeIndex| graph.node(at).attributes.filled(Known::Type);
    let all = || graph.indexed_nodes().map(|(at, _)| at);
    for (nth, shape) in shapes.iter().enumerate() {
        let found: Vec<NodeIndex> = all()
            .filter(|at| match typed(*at) {
                Some(kind) => kind == of_kind,
                None => graph.node(*at).shape() == *shape,
            })
            .collect();
        // The second shape is also used to draw ordinary nodes. If several nodes have it, the id decides.
        let named = || ids.iter().any(|id| graph.find(id).is_some());
        let decided = nth == 0 || found.len() == 1 || !named();
        if !found.is_empty() && decided {
            return found;
        }
    }
    let mut found: Vec<NodeIndex> = ids.iter().filter_map(|id| graph.find(id)).collect();
    found.sort_unstable();
    found
}

/// Returns the distinct conditions of some edges, and the index of each edge's condition.
fn conditions(edges: &[Edge]) -> (Vec<EdgeCondition>, Vec<u32>) {
    let mut distinct = vec![EdgeCondition::None];
    let mut by_text: HashMap<(Known, &str), u32> = HashMap::new();
    let mut of_edge = Vec::with_capacity(edges.len());
    for edge in edges {
        let key = condition_text(edge);
        of_edge.push(key.map_or(0, |(known, text)| {
            *by_text.entry((known, text)).or_insert_with(|| {
                distinct.push(parser_of(known)(text));
                distinct.len() as u32 - 1
            })
        }));
    }
    (distinct, of_edge)
}

/// Returns the attribute that holds an edge's condition, with its text. Returns `None` if the edge has no condition.
fn condition_text(edge: &Edge) -> Option<(Known, &str)> {
    let mut dialect = None;
    let mut value = "";
    // A single pass over the attributes, because this runs for every edge of a pipeline.
    for attribute in edge.attributes.iter() {
        match (&attribute.key, attribute.value.as_str()) {
            (Key::Known(Known::Condition), Some(text)) if !is_blank(text) => {
                return Some((Known::Condition, text));
            }
            (Key::Known(Known::ConditionType), text) => dialect = text,
            (Key::Known(Known::ConditionValue), Some(text)) => value = text,
            _ => {}
        }
    }
    match dialect {
        Some(word @ ("success" | "failure")) => Some((Known::ConditionType, word)),
        Some("conditional") => Some((Known::ConditionValue, value)),
        // This is reported as an error, but the edge counts as conditional.
        None if !is_blank(value) => Some((Known::ConditionValue, value)),
        _ => None,
    }
}

fn parser_of(known: Known) -> fn(&str) -> EdgeCondition {
    match known {
        Known::ConditionType => |word| EdgeCondition::Parsed(Expression::Failed(word == "failure")),
        Known::ConditionValue => |text| match output_condition(text) {
            Ok(expression) => EdgeCondition::Parsed(expression),
            Err(error) => EdgeCondition::Invalid(Known::ConditionValue, error),
        },
        _ => |text| match parse_condition(text) {
            Ok(expression) => EdgeCondition::Parsed(expression),
            Err(error) => EdgeCondition::Invalid(Known::Condition, error),
        },
    }
}

/// Parses the four forms of `condition_value` (rule R11).
fn output_condition(text: &str) -> Result<Expression, ConditionError> {
    let diagnostic = |message: &str| ConditionError {
        message: message.to_owned(),
        range: 0..text.len(),
        help: "write the name of an output key, or `{\"key\": \"NAME\", \"value\": VALUE}`".to_owned(),
        replacement: None,
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(diagnostic("a `conditional` edge has no `condition_value`"));
    }
    match serde_json::from_str::<Json>(trimmed) {
        Ok(Json::String(key)) => Ok(Expression::HasOutput(key)),
        Ok(Json::Object(object)) => {
            let pair = |key: &str, value: &str| {
                object
                    .get(key)
                    .and_then(Json::as_str)
                    .zip(object.get(value).cloned())
            };
            match pair("key", "value").or_else(|| pair("check_output_key", "expected_value")) {
                Some((key, value)) => Ok(Expression::OutputIs {
                    key: key.to_owned(),
                    value,
                }),
                None => Err(diagnostic("`condition_value` needs `key` and `value`")),
            }
        }
        Ok(_) => Err(diagnostic(
            "`condition_value` must be a key, or an object with `key` and `value`",
        )),
        Err(_) if trimmed.starts_with(['{', '[', '"']) => {
            Err(diagnostic("`condition_value` is not valid JSON"))
        }
        Err(_) => Ok(Expression::HasOutput(trimmed.to_owned())),
    }
}
