//! The resolver's view of a pipeline: the graph when it is checked, the compiled table when it runs.

use std::borrow::Cow;

use orchestra_graph::{Analysis, NodeIndex, Origin, Pipeline, Source, Span, kind};

use crate::resolved::Reason;

/// An attribute of a node or of the graph.
pub(crate) struct AttributeValue<'s> {
    pub(crate) text: Cow<'s, str>,
    pub(crate) span: Span,
    pub(crate) reason: Reason,
}

impl AttributeValue<'_> {
    pub(crate) fn is_filled(&self) -> bool {
        !self.text.trim().is_empty()
    }
}

/// Returns whether an attribute declares outputs of a node.
fn declares_outputs(name: &str) -> bool {
    name == "outputs" || name.starts_with("outputs.")
}

/// Read access to the stages of a pipeline.
pub(crate) trait Stages {
    /// Returns the name of the graph.
    fn name(&self) -> &str;
    fn source(&self) -> Source;
    /// Returns whether the spans of attributes are those of their values in the source.
    fn has_spans(&self) -> bool;
    /// Returns the number of nodes.
    fn count(&self) -> usize;
    fn id(&self, node: NodeIndex) -> &str;
    fn kind(&self, node: NodeIndex) -> &str;
    fn label(&self, node: NodeIndex) -> &str;
    /// Returns the span of a node.
    fn node_span(&self, node: NodeIndex) -> Span;
    fn of_node(&self, node: NodeIndex, name: &str) -> Option<AttributeValue<'_>>;
    fn of_graph(&self, name: &str) -> Option<AttributeValue<'_>>;
    /// Returns the texts of the attributes that declare the outputs of a node.
    fn outputs(&self, node: NodeIndex) -> Vec<String>;
    /// Returns the names of the attributes that the graph itself has.
    fn graph_keys(&self) -> Vec<&str>;
    /// Returns each fan-out with the node at which its branches join.
    fn joins(&self) -> Vec<(NodeIndex, NodeIndex)>;
    /// Returns the possible successors of a node: the targets of its edges, and its retry targets.
    fn next(&self, node: NodeIndex) -> Vec<NodeIndex>;

    /// Returns the span of the attribute that sets the fidelity of a node to `full`, on an edge, the node or the graph.
    /// Returns `None` if its fidelity is never `full`.
    fn full_fidelity(&self, node: NodeIndex) -> Option<Span> {
        let is_full = |attribute: &AttributeValue<'_>| attribute.text.trim() == "full";
        let edges = self.fidelities_of_edges(node);
        if let Some(attribute) = edges.iter().flatten().find(|attribute| is_full(attribute)) {
            return Some(attribute.span);
        }
        let by_edges_alone = !edges.is_empty() && edges.iter().all(Option::is_some);
        let own = self.of_node(node, "fidelity").filter(AttributeValue::is_filled);
        let attribute = own.or_else(|| self.of_graph("default_fidelity"));
        attribute
            .filter(|attribute| is_full(attribute) && !by_edges_alone)
            .map(|attribute| attribute.span)
    }

    /// Returns the fidelity of each edge that leads to a node.
    fn fidelities_of_edges(&self, node: NodeIndex) -> Vec<Option<AttributeValue<'_>>>;

    /// Returns the nodes that call a model: model stages, and fan-ins with a prompt.
    fn model_stages(&self) -> Vec<NodeIndex> {
        let nodes = (0..self.count()).map(|at| NodeIndex(u32::try_from(at).unwrap_or(u32::MAX)));
        let asks = |node: &NodeIndex| match self.kind(*node) {
            kind::CODERGEN => true,
            kind::FAN_IN => self
                .of_node(*node, "prompt")
                .is_some_and(|attribute| attribute.is_filled()),
            _ => false,
        };
        nodes.filter(asks).collect()
    }
}

impl Stages for Analysis<'_> {
    fn name(&self) -> &str {
        &self.graph().name
    }

    fn source(&self) -> Source {
        Analysis::source(self).clone()
    }

    fn has_spans(&self) -> bool {
        true
    }

    fn count(&self) -> usize {
        self.graph().nodes.len()
    }

    fn id(&self, node: NodeIndex) -> &str {
        &self.graph().node(node).id
    }

    fn kind(&self, node: NodeIndex) -> &str {
        Analysis::kind(self, node)
    }

    fn label(&self, node: NodeIndex) -> &str {
        self.graph().node(node).label()
    }

    fn node_span(&self, node: NodeIndex) -> Span {
        self.graph().node(node).span
    }

    fn of_node(&self, node: NodeIndex, name: &str) -> Option<AttributeValue<'_>> {
        self.graph()
            .node(node)
            .attributes
            .find(name)
            .map(|attribute| AttributeValue {
                text: attribute.value.to_string().into(),
                span: attribute.value_span,
                reason: match attribute.origin {
                    Origin::Stylesheet => Reason::Stylesheet,
                    _ => Reason::Node,
                },
            })
    }

    fn of_graph(&self, name: &str) -> Option<AttributeValue<'_>> {
        self.graph()
            .attributes
            .find(name)
            .map(|attribute| AttributeValue {
                text: attribute.value.to_string().into(),
                span: attribute.value_span,
                reason: Reason::Graph,
            })
    }

    fn outputs(&self, node: NodeIndex) -> Vec<String> {
        let attributes = self.graph().node(node).attributes.iter();
        let outputs = attributes.filter(|attribute| declares_outputs(attribute.key.name()));
        outputs.map(|attribute| attribute.value.to_string()).collect()
    }

    fn graph_keys(&self) -> Vec<&str> {
        self.graph()
            .attributes
            .iter()
            .map(|attribute| attribute.key.name())
            .collect()
    }

    fn joins(&self) -> Vec<(NodeIndex, NodeIndex)> {
        Analysis::joins(self)
    }

    fn fidelities_of_edges(&self, node: NodeIndex) -> Vec<Option<AttributeValue<'_>>> {
        let edges = self.incoming(node).iter();
        let values = edges.map(|edge| {
            let attribute = self.graph().edge(*edge).attributes.find("fidelity")?;
            Some(AttributeValue {
                text: attribute.value.to_string().into(),
                span: attribute.value_span,
                reason: Reason::Node,
            })
        });
        values
            .map(|value| value.filter(AttributeValue::is_filled))
            .collect()
    }

    fn next(&self, node: NodeIndex) -> Vec<NodeIndex> {
        let edges = self.outgoing(node).iter().map(|edge| self.graph().edge(*edge).to);
        edges.chain(self.retry_targets(node)).collect()
    }
}

/// A compiled pipeline. It has neither the spans of attributes nor the information which of them a stylesheet set; the
/// values are the same.
pub(crate) struct Table<'p> {
    pipeline: &'p Pipeline,
    /// The offset at which each line of the text begins.
    lines: Vec<usize>,
}

impl<'p> Table<'p> {
    pub(crate) fn new(pipeline: &'p Pipeline) -> Table<'p> {
        let breaks = pipeline.source.match_indices('\n').map(|(at, _)| at + 1);
        Table {
            pipeline,
            lines: std::iter::once(0).chain(breaks).collect(),
        }
    }
}

impl Stages for Table<'_> {
    fn name(&self) -> &str {
        &self.pipeline.name
    }

    fn source(&self) -> Source {
        Source::new(&*self.pipeline.file, &*self.pipeline.source)
    }

    fn has_spans(&self) -> bool {
        false
    }

    fn count(&self) -> usize {
        self.pipeline.nodes.len()
    }

    fn id(&self, node: NodeIndex) -> &str {
        self.pipeline.stage(node).id()
    }

    fn kind(&self, node: NodeIndex) -> &str {
        self.pipeline.stage(node).kind()
    }

    fn label(&self, node: NodeIndex) -> &str {
        self.pipeline.stage(node).label()
    }

    fn node_span(&self, node: NodeIndex) -> Span {
        let position = self.pipeline.stage(node).row().position;
        let line = (position.line as usize).saturating_sub(1);
        let before = self
            .lines
            .get(line)
            .copied()
            .unwrap_or(self.pipeline.source.len());
        let rest = self.pipeline.source.get(before..).unwrap_or_default();
        let column = (position.column as usize).saturating_sub(1);
        let inside: usize = rest.chars().take(column).map(char::len_utf8).sum();
        let start = u32::try_from(before + inside).unwrap_or(u32::MAX);
        let length = u32::try_from(self.pipeline.stage(node).id().len()).unwrap_or(0);
        Span::new(start, start.saturating_add(length))
    }

    fn of_node(&self, node: NodeIndex, name: &str) -> Option<AttributeValue<'_>> {
        self.pipeline
            .stage(node)
            .attribute(name)
            .map(|value| AttributeValue {
                text: value.to_value().to_string().into(),
                span: self.node_span(node),
                reason: Reason::Node,
            })
    }

    fn of_graph(&self, name: &str) -> Option<AttributeValue<'_>> {
        self.pipeline.attribute(name).map(|value| AttributeValue {
            text: value.to_value().to_string().into(),
            span: Span::default(),
            reason: Reason::Graph,
        })
    }

    fn outputs(&self, node: NodeIndex) -> Vec<String> {
        let attributes = self.pipeline.stage(node).attributes();
        let outputs = attributes.filter(|(name, _)| declares_outputs(name));
        outputs.map(|(_, value)| value.to_value().to_string()).collect()
    }

    fn graph_keys(&self) -> Vec<&str> {
        let attributes = self.pipeline.attributes(self.pipeline.graph_attributes);
        attributes.map(|(name, _)| name).collect()
    }

    fn joins(&self) -> Vec<(NodeIndex, NodeIndex)> {
        let nodes = self.pipeline.nodes.iter().zip(0..);
        nodes
            .filter_map(|(row, at)| Some((NodeIndex(at), row.fan_out.as_ref()?.join)))
            .collect()
    }

    fn fidelities_of_edges(&self, node: NodeIndex) -> Vec<Option<AttributeValue<'_>>> {
        let edges = self.pipeline.edges.iter().filter(|edge| edge.to == node);
        let values = edges.map(|edge| {
            let value = self.pipeline.attribute_in(edge.attributes, "fidelity")?;
            Some(AttributeValue {
                text: value.to_value().to_string().into(),
                span: self.node_span(node),
                reason: Reason::Node,
            })
        });
        values
            .map(|value| value.filter(AttributeValue::is_filled))
            .collect()
    }

    fn next(&self, node: NodeIndex) -> Vec<NodeIndex> {
        let stage = self.pipeline.stage(node);
        let again = [stage.row().retry_target, stage.row().fallback_retry_target];
        let edges = stage.edges().map(|(_, edge)| edge.to);
        edges.chain(again.into_iter().flatten()).collect()
    }
}
