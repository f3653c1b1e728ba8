//! `duplicate_choice_key`: two choices of a human gate cannot be distinguished (Attractor 4.6, rule H1).

use std::collections::HashMap;

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::choice::{Choice, graph_choice_edges};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::label::{accelerator_key, label_text};
use crate::model::EdgeIndex;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "duplicate_choice_key",
    severity: Severity::Error,
    summary: "two choices of a human gate have the same written key or the same label",
    source: "Attractor 4.6, rule H1",
    text: include_str!("../../tests/rules/duplicate_choice_key.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// Maximum number of diagnostics of each kind for one gate.
const MAX_REPORTED: usize = 100;

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, _) in input
        .nodes()
        .filter(|(at, _)| input.kind(*at) == kind::WAIT_HUMAN)
    {
        let edges = graph_choice_edges(input.analysis, at);
        let choices: Vec<&Choice> = edges.iter().map(|(choice, _)| choice).collect();
        same_key(input, &choices, diagnostics);
        same_label(input, &edges, diagnostics);
    }
}

/// Reports choices that are written with the same key. A derived key is never a duplicate.
fn same_key(input: &Input<'_>, choices: &[&Choice], diagnostics: &mut Vec<Diagnostic>) {
    let mut keys: HashMap<String, &Choice> = HashMap::new();
    let mut found = 0;
    // A choice that takes text accepts every answer that is not the key of another choice.
    let written = choices.iter().copied().filter(|choice| !choice.freeform);
    for choice in written.filter(|choice| accelerator_key(&choice.label).is_some()) {
        let first = *keys.entry(choice.key.to_lowercase()).or_insert(choice);
        if first.edge == choice.edge || found == MAX_REPORTED {
            continue;
        }
        found += 1;
        let text = label_text(&choice.label);
        let help = match free_key(text, choices) {
            Some(key) => format!("give one of them a key of its own, as in `[{key}] {text}`"),
            None => "give one of them a key of its own, as in `[X] label`".to_owned(),
        };
        let diagnostic = diagnostic(
            input,
            first.edge,
            choice.edge,
            format!("are written with the key `{}`", choice.key),
        );
        diagnostics.push(
            diagnostic
                .note("a key is written as in `[K] label`, `K) label` or `K - label`")
                .help(help),
        );
    }
}

/// Reports edges with the same label that lead to different nodes without conditions that decide between them.
fn same_label(input: &Input<'_>, choices: &[(Choice, Vec<EdgeIndex>)], diagnostics: &mut Vec<Diagnostic>) {
    let mut found = 0;
    for (choice, edges) in choices {
        let mut first: HashMap<usize, EdgeIndex> = HashMap::new();
        for edge in edges.iter().copied() {
            let earlier = *first.entry(input.analysis.condition_id(edge)).or_insert(edge);
            if input.edge(earlier).to == input.edge(edge).to || found == MAX_REPORTED {
                continue;
            }
            found += 1;
            let shown = crate::syntax::shorten(label_text(&choice.label));
            diagnostics.push(
                diagnostic(input, earlier, edge, format!("have the label `{shown}`"))
                    .note("labels are compared without case, outer blanks and key")
                    .help("give each choice a label of its own, or conditions that say which edge is meant"),
            );
        }
    }
}

fn diagnostic(input: &Input<'_>, first: EdgeIndex, second: EdgeIndex, what: String) -> Diagnostic {
    let position = |edge: EdgeIndex| {
        let edge = input.edge(edge);
        let label = edge.attributes.get(Known::Label);
        label.map_or(edge.to_span, |label| label.value_span)
    };
    let edge = input.edge(second);
    let gate = input.id(edge.from);
    Diagnostic::from_rule(
        &RULE,
        format!("two choices of the gate `{gate}` {what}"),
        position(second),
    )
    .label("this choice")
    .related(position(first), "and this one")
    .node(gate)
    .edge(gate, input.id(edge.to))
}

/// Returns a letter of a label that is not the key of any choice of the gate.
fn free_key(label: &str, choices: &[&Choice]) -> Option<char> {
    const MAX: usize = 64;
    let taken: Vec<String> = choices
        .iter()
        .take(MAX)
        .map(|choice| choice.key.to_lowercase())
        .collect();
    let mut letters = label.chars().filter(char::is_ascii_alphanumeric);
    let free = |letter: &char| !taken.contains(&letter.to_ascii_lowercase().to_string());
    letters.find(free).map(|letter| letter.to_ascii_uppercase())
}
