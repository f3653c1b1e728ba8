//! `fidelity_valid`: an unknown fidelity mode (Attractor 5.4 and 7.2).

use crate::attribute::{FIDELITY_MODES, Known};
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "fidelity_valid",
    severity: Severity::Warning,
    summary: "a fidelity mode does not exist",
    source: "Attractor 5.4 and 7.2",
    text: include_str!("../../tests/rules/fidelity_valid.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    let graph = input.graph();
    let of_graph = graph.attributes.get(Known::DefaultFidelity);
    let fidelity = [Known::Fidelity];
    let nodes = input
        .nodes_with(&fidelity)
        .filter_map(|(_, node)| node.attributes.get(Known::Fidelity));
    let edges = input
        .edges_with(&fidelity)
        .filter_map(|(_, edge)| edge.attributes.get(Known::Fidelity));
    for attribute in of_graph.into_iter().chain(nodes).chain(edges) {
        let mode = attribute.value.as_str().unwrap_or_default().trim();
        if !mode.is_empty() && !FIDELITY_MODES.contains(&mode) && once.first(attribute) {
            diagnostics.push(diagnostic(mode, attribute));
        }
    }
}

fn diagnostic(mode: &str, attribute: &Attribute) -> Diagnostic {
    let shown = crate::syntax::shorten(mode);
    let diagnostic =
        Diagnostic::from_rule(&RULE, format!("unknown fidelity `{shown}`"), attribute.value_span)
            .label("no such mode")
            .note(format!(
                "the modes are {}; an unknown one counts as `{}`",
                FIDELITY_MODES.join(", "),
                Known::DefaultFidelity.default_text()
            ));
    let near = if mode == "summary" {
        Some("summary:medium")
    } else {
        did_you_mean(mode, FIDELITY_MODES.iter().copied())
    };
    match near {
        Some(near) => diagnostic
            .help(format!("did you mean `{near}`?"))
            .fix(attribute.value_span, format!("\"{near}\"")),
        None => diagnostic.help("write one of the modes"),
    }
}
