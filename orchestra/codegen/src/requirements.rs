//! The code of `REQUIREMENTS`: the requirements of a pipeline on custom handlers, with exact positions in its text.

use orchestra_graph::condition::{Comparison, find_literal};
use orchestra_graph::table::Pipeline;
use orchestra_graph::{Analysis, EdgeCondition, EdgeIndex, Known, Readable, Requirements, Span, kind};

use crate::code::Code;

/// Returns whether a kind is not part of the language itself.
pub(crate) fn is_custom(kind: &str) -> bool {
    !kind::BUILT_IN.contains(&kind)
}

/// Returns the code of the expression. `start` is the offset of `SOURCE` in the analysed text; `children` are the paths
/// of the children's requirements.
pub(crate) fn write(
    pipeline: &Pipeline,
    analysis: &Analysis<'_>,
    start: usize,
    children: &[String],
) -> String {
    let requirements = Requirements::new(pipeline, is_custom);
    let locations = Locations { analysis, start };
    let mut code = Code::default();
    code.push(
        "{use __orchestra::__private::{NodeRequirement,AttributeRequirement,OutcomeRequirement,Readable,at};",
    );
    code.push("__orchestra::engine::PipelineRequirements{file:")
        .string(&pipeline.file)
        .push(",source:SOURCE,nodes:&[");
    let graph = analysis.graph();
    for index in &requirements.nodes {
        let stage = pipeline.stage(*index);
        let node = graph.node(*index);
        code.push("NodeRequirement{id:")
            .string(stage.id())
            .push(",kind:")
            .string(stage.kind())
            .push(",location:");
        locations.write(&mut code, node.span);
        code.push(",kind_location:");
        locations.write(
            &mut code,
            node.attributes
                .get(Known::Type)
                .map_or(node.span, |ty| ty.value_span),
        );
        code.push(",attributes:&[");
        for (name, constant) in stage.attributes() {
            let span = node
                .attributes
                .find(name)
                .map_or(node.span, |found| found.value_span);
            let value: String = constant.to_value().to_string().chars().take(80).collect();
            code.push("AttributeRequirement{name:")
                .string(name)
                .push(",value:")
                .string(&value);
            code.push(",readable:Readable(")
                .show(Readable::from_constant(constant).0)
                .push("),location:");
            locations.write(&mut code, span);
            code.push("},");
        }
        code.push("]},");
    }
    code.push("],words:&[");
    let edges = locations.edges();
    for need in &requirements.words {
        let Some(edge) = edges.get(need.edge.at()) else {
            continue;
        };
        code.push("OutcomeRequirement{words:&[")
            .strings(need.words.iter().map(String::as_str));
        code.push("],nodes:&[");
        for node in &need.nodes {
            code.show(node).push(",");
        }
        code.push("],target:")
            .string(pipeline.stage(pipeline.edge(need.edge).to).id())
            .push(",location:");
        locations.write(&mut code, locations.word(*edge, &need.words));
        code.push("},");
    }
    code.push("],children:&[");
    for child in children {
        code.push(child).push(",");
    }
    code.push("]}}");
    code.text
}

struct Locations<'a, 'g> {
    analysis: &'a Analysis<'g>,
    start: usize,
}

impl Locations<'_, '_> {
    /// Returns the edges of the graph in the order of the table: grouped by their source node.
    fn edges(&self) -> Vec<EdgeIndex> {
        let graph = self.analysis.graph();
        graph
            .indexed_nodes()
            .flat_map(|(node, _)| self.analysis.outgoing(node).iter().copied())
            .collect()
    }

    fn write(&self, code: &mut Code, span: Span) {
        let source = self.analysis.source();
        let position = source.position(span.start);
        let line = source.slice(span).lines().next().unwrap_or_default();
        code.push("at(")
            .show(position.line)
            .push(",")
            .show(position.column)
            .push(",");
        code.show((span.start as usize).saturating_sub(self.start))
            .push(",");
        code.show(line.chars().count().max(1)).push(")");
    }

    /// Returns the span at which the condition of an edge names the first of some words.
    fn word(&self, edge: EdgeIndex, words: &[String]) -> Span {
        let edge_row = self.analysis.graph().edge(edge);
        let Some(attribute) = edge_row.attributes.get(Known::Condition) else {
            return edge_row.to_span;
        };
        let text = attribute.value.as_str().unwrap_or_default();
        let is_word = |key: &str, comparison: Comparison, literal: &str| {
            key == "outcome" && comparison == Comparison::Equal && words.iter().any(|word| word == literal)
        };
        let found = match self.analysis.condition(edge) {
            EdgeCondition::Parsed(_) => find_literal(text, is_word),
            _ => None,
        };
        found.map_or(attribute.value_span, |range| {
            self.analysis.inside(attribute.value_span, range)
        })
    }
}
