//! The declarations of a pipeline as they are written, with their positions.

use crate::attribute::{Key, Known};
use crate::attributes::{Attribute, Origin};
use crate::check::properties::Properties;
use crate::contract::{DeclarationError, Entry, OUTPUTS_OF, may_have_outputs, parse_declarations};
use crate::model::{Graph, NodeIndex};
use crate::text::Span;

/// An attribute with declarations.
pub(crate) struct Written<'g> {
    /// The node with the attribute; `None` for the graph.
    pub(crate) node: Option<NodeIndex>,
    /// The outcome after which the values are set; `None` for every success, and for inputs.
    pub(crate) word: Option<&'g str>,
    pub(crate) attribute: &'g Attribute,
    pub(crate) entries: Vec<Result<Entry, DeclarationError>>,
}

impl Written<'_> {
    /// Returns whether any declaration has a type. Without one, the attribute is only a list of names.
    pub(crate) fn has_types(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.as_ref().map_or(true, |entry| entry.declared.is_some()))
    }

    /// Returns the span of a part of the text.
    pub(crate) fn span(&self, input: &Properties<'_>, range: std::ops::Range<usize>) -> Span {
        // Declarations that follow from a schema are not written in the pipeline.
        if self.attribute.origin == Origin::Transform {
            return self.attribute.value_span;
        }
        input.analysis.inside(self.attribute.value_span, range)
    }

    /// Returns the name of the owner, for messages.
    pub(crate) fn owner(&self, input: &Properties<'_>) -> String {
        match self.node {
            Some(node) => format!("`{}`", input.id(node)),
            None => "the inputs".to_owned(),
        }
    }
}

/// Returns whether a graph has an attribute that may declare values. Most graphs have none.
pub(crate) fn declares_values(graph: &Graph) -> bool {
    let is_output = |key: &Key| match key {
        Key::Known(known) => *known == Known::Outputs,
        Key::Other(name) => name.starts_with(OUTPUTS_OF),
    };
    let mut attributes = graph.nodes.iter().flat_map(|node| node.attributes.iter());
    graph.attributes.get(Known::Inputs).is_some() || attributes.any(|attribute| is_output(&attribute.key))
}

/// Returns the declarations of a pipeline: its inputs, then the outputs of its nodes. Those of nodes that the engine
/// itself completes are left out.
pub(crate) fn written<'g>(input: &Properties<'g>) -> Vec<Written<'g>> {
    if !declares_values(input.graph()) {
        return Vec::new();
    }
    let read = |node, word, attribute: &'g Attribute| Written {
        node,
        word,
        attribute,
        entries: parse_declarations(attribute.value.as_str().unwrap_or_default()),
    };
    let inputs = input.graph().attributes.get(Known::Inputs);
    let mut found: Vec<Written<'g>> = inputs
        .map(|inputs| read(None, None, inputs))
        .into_iter()
        .collect();
    for (at, node) in input.nodes().filter(|(at, _)| may_have_outputs(input.kind(*at))) {
        for attribute in node.attributes.iter() {
            match &attribute.key {
                Key::Known(Known::Outputs) => found.push(read(Some(at), None, attribute)),
                Key::Other(name) => {
                    if let Some(word) = name.strip_prefix(OUTPUTS_OF) {
                        found.push(read(Some(at), Some(word), attribute));
                    }
                }
                Key::Known(_) => {}
            }
        }
    }
    found
}
