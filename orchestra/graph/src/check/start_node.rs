//! `start_node`: a pipeline has exactly one start (Attractor 7.2, rule L13).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "start_node",
    severity: Severity::Error,
    summary: "a pipeline has exactly one start",
    source: "Attractor 7.2, rule L13",
    text: include_str!("../../tests/rules/start_node.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    match input.analysis.starts() {
        [_] => {}
        [] => diagnostics.push(missing(input)),
        // `node_id_case_clash` reports two ids that differ only in case.
        [first, second] if input.twins.contains(&(*second, *first)) => {}
        [first, others @ ..] => {
            let Some(second) = others.first() else {
                return;
            };
            let mut diagnostic = Diagnostic::from_rule(
                &RULE,
                format!("`{}` is a second start", input.id(*second)),
                input.node(*second).span,
            )
            .label("only one node may be the start")
            .related(
                input.node(*first).span,
                format!("`{}` is the first", input.id(*first)),
            )
            .note("a run begins at the one node with shape `Mdiamond`")
            .help("give all but one another shape, or move them to a pipeline of their own")
            .node(input.id(*second));
            for other in others.iter().skip(1).take(8) {
                let label = format!("`{}` is one more", input.id(*other));
                diagnostic = diagnostic.related(input.node(*other).span, label);
            }
            diagnostics.push(diagnostic);
        }
    }
}

fn missing(input: &Input<'_>) -> Diagnostic {
    let graph = input.graph();
    let diagnostic = Diagnostic::from_rule(&RULE, "the pipeline has no start", graph.span)
        .note("a run begins at the one node with shape `Mdiamond`; without one, at a node named `start`");
    let shaped = input.nodes_with(&[Known::Shape]).find_map(|(_, node)| {
        let shape = node.attributes.get(Known::Shape)?;
        let text = shape.value.as_str()?;
        text.eq_ignore_ascii_case("Mdiamond")
            .then_some((node, shape, text))
    });
    if let Some((node, shape, text)) = shaped {
        return diagnostic
            .related(shape.value_span, format!("`{text}` is not a shape"))
            .help(format!(
                "shapes are case-sensitive: `{}` needs `shape=Mdiamond`",
                node.id
            ))
            .fix(shape.value_span, "Mdiamond");
    }
    let mut first = input.nodes().filter(|(at, _)| {
        input.analysis.incoming(*at).is_empty() && !input.analysis.outgoing(*at).is_empty()
    });
    match (first.next(), first.next()) {
        (Some((_, node)), None) => diagnostic
            .related(node.span, "nothing leads to this node")
            .help(format!("add `start [shape=Mdiamond]` and `start -> {}`", node.id)),
        _ => diagnostic.help("add `start [shape=Mdiamond]` and an edge from it to the first stage"),
    }
}
