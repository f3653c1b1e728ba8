//! `terminal_node`: a pipeline has exactly one exit (Attractor 7.2, rule L13).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "terminal_node",
    severity: Severity::Error,
    summary: "a pipeline has exactly one exit",
    source: "Attractor 7.2, rule L13",
    text: include_str!("../../tests/rules/terminal_node.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    match input.analysis.exits() {
        [_] => {}
        [] => diagnostics.push(missing(input)),
        [first, others @ ..] => {
            let Some(second) = others.first() else {
                return;
            };
            let mut diagnostic = Diagnostic::from_rule(
                &RULE,
                format!("`{}` is a second exit", input.id(*second)),
                input.node(*second).span,
            )
            .label("only one node may be the exit")
            .related(input.node(*first).span, format!("`{}` is the first", input.id(*first)))
            .note("goal gates are checked at the one exit; another way to end is a node without outgoing edges")
            .help("lead the edges to one exit, or give the others another shape and `end=\"success\"` or `end=\"fail\"`")
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
    let diagnostic = Diagnostic::from_rule(&RULE, "the pipeline has no exit", graph.span).note(
        "a run succeeds at the one node with shape `Msquare`; without one, at a node named `exit` or `end`",
    );
    let shaped = input.nodes_with(&[Known::Shape]).find_map(|(_, node)| {
        let shape = node.attributes.get(Known::Shape)?;
        let text = shape.value.as_str()?;
        text.eq_ignore_ascii_case("Msquare")
            .then_some((node, shape, text))
    });
    if let Some((node, shape, text)) = shaped {
        return diagnostic
            .related(shape.value_span, format!("`{text}` is not a shape"))
            .help(format!(
                "shapes are case-sensitive: `{}` needs `shape=Msquare`",
                node.id
            ))
            .fix(shape.value_span, "Msquare");
    }
    match input.exit_candidate() {
        Some(at) => diagnostic
            .related(input.node(at).span, "this node has no outgoing edge")
            .help(format!(
                "if the run ends there, declare `{} [shape=Msquare]`",
                input.id(at)
            )),
        None => diagnostic.help("add `exit [shape=Msquare]` and an edge to it from the last stage"),
    }
}
