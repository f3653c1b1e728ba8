//! `thread_id_without_full_fidelity`: a session key that is never used (Attractor 5.4).

use std::collections::HashMap;

use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "thread_id_without_full_fidelity",
    severity: Severity::Warning,
    summary: "a `thread_id` has no effect without `full` fidelity",
    source: "Attractor 5.4",
    text: include_str!("../../tests/rules/thread_id_without_full_fidelity.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

const FULL: Option<&str> = Some("full");

fn run<'c>(input: &Input<'c>, diagnostics: &mut Vec<Diagnostic>) {
    let of_graph = &input.graph().attributes;
    let by_default = of_graph.filled(Known::DefaultFidelity) == FULL;
    let mut full_edge_into = vec![false; input.kinds.len()];
    let mut any_full = by_default;
    for (_, edge) in input.edges_with(&[Known::Fidelity]) {
        if edge.attributes.filled(Known::Fidelity) == FULL {
            full_edge_into[edge.to.at()] = true;
            any_full = true;
        }
    }
    let is_full = |at: NodeIndex| {
        let own = || input.node(at).attributes.filled(Known::Fidelity);
        match input.has(at, &[Known::Fidelity]).then(own).flatten() {
            Some(own) => own == "full",
            None => by_default,
        }
    };
    // A block of defaults sets one key on many nodes. It has an effect if at least one of them uses it.
    let mut positions: Vec<(&'c Attribute, NodeIndex, bool)> = Vec::new();
    let mut known: HashMap<Span, usize> = HashMap::new();
    let mut add = |attribute: &'c Attribute, at, used| {
        let position = *known.entry(attribute.value_span).or_insert(positions.len());
        match positions.get_mut(position) {
            Some((_, _, known)) => *known |= used,
            None => positions.push((attribute, at, used)),
        }
    };
    for (at, node) in input.nodes_with(&[Known::ThreadId]) {
        if let Some(attribute) = node.attributes.get(Known::ThreadId) {
            add(attribute, at, is_full(at) || full_edge_into[at.at()]);
        }
    }
    for (_, edge) in input.edges_with(&[Known::ThreadId]) {
        if let Some(attribute) = edge.attributes.get(Known::ThreadId) {
            let used = match edge.attributes.filled(Known::Fidelity) {
                Some(own) => own == "full",
                None => is_full(edge.to),
            };
            add(attribute, edge.to, used);
        }
    }
    for (attribute, at, _) in positions.iter().filter(|(_, _, used)| !used) {
        let message = "`thread_id` has no effect without `full` fidelity";
        diagnostics.push(diagnostic(message, attribute).node(input.id(*at)));
    }
    any_full = any_full || input.nodes_with(&[Known::Fidelity]).any(|(at, _)| is_full(at));
    if let Some(attribute) = of_graph.get(Known::DefaultThreadId)
        && !any_full
    {
        diagnostics.push(diagnostic(
            "`default_thread_id` has no effect without `full` fidelity",
            attribute,
        ));
    }
}

fn diagnostic(message: &str, attribute: &Attribute) -> Diagnostic {
    Diagnostic::from_rule(&RULE, message, attribute.key_span.to(attribute.value_span))
        .label("never used")
        .note("only `fidelity=\"full\"` continues a model session; every other mode starts a fresh one")
        .help("add `fidelity=\"full\"` beside it, or `default_fidelity=\"full\"` to the graph")
}
