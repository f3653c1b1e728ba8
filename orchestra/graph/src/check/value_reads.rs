//! The context values that attributes of nodes name.

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::check::tool_value::{given, tools};
use crate::kind;
use crate::model::NodeIndex;
use crate::text::Span;
use crate::value_source::ValueSource;

/// A context value that a node reads when a run enters it.
pub(crate) struct ValueRead<'g> {
    pub(crate) node: NodeIndex,
    pub(crate) key: &'g str,
    pub(crate) span: Span,
}

/// Returns the context values that tool stages give to their commands, and the lists of fan-outs.
pub(crate) fn value_reads<'g>(analysis: &Analysis<'g>) -> Vec<ValueRead<'g>> {
    let given = tools(analysis).flat_map(|node| {
        let given = given(analysis, node).into_iter();
        given.map(move |(_, attribute)| (node, attribute))
    });
    let nodes = analysis.graph().indexed_nodes();
    let lists = nodes.filter_map(|(node, row)| {
        let foreach = row.attributes.get(Known::Foreach)?;
        (analysis.kind(node) == kind::PARALLEL).then_some((node, foreach))
    });
    let reads = given.chain(lists).filter_map(|(node, attribute)| {
        let text = attribute.value.as_str().unwrap_or_default();
        let Some(ValueSource::Context(key)) = ValueSource::parse(text) else {
            return None;
        };
        let span = analysis.inside(attribute.value_span, 0..text.len());
        Some(ValueRead { node, key, span })
    });
    reads.collect()
}
