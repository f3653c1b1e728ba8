//! `duplicate_choice_key`: two choices of a human gate answer to one key (Attractor 4.6, rule H1).

use std::collections::HashMap;

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::{Diagnostic, Severity};
use crate::kind;
use crate::label::{accelerator_key, normalize_label};
use crate::model::EdgeIndex;

pub(crate) static CHECK: Check = Check {
    code: "duplicate_choice_key",
    severity: Severity::Error,
    summary: "two choices of a human gate answer to one key",
    source: "Attractor 4.6, rule H1",
    whole: false,
    run,
};

/// The most faults of one gate that are worked out.
const MAX_FAULTS: usize = 100;

fn run(input: &Input<'_>, faults: &mut Vec<Diagnostic>) {
    for (at, _) in input
        .nodes()
        .filter(|(at, _)| input.kind(*at) == kind::WAIT_HUMAN)
    {
        let mut keys: HashMap<String, EdgeIndex> = HashMap::new();
        let mut found = 0;
        for edge in input.analysis.outgoing(at).iter().copied() {
            let Some(label) = choice(input, edge) else {
                continue;
            };
            let key = accelerator_key(label).to_lowercase();
            let first = *keys.entry(key).or_insert(edge);
            if first != edge && found < MAX_FAULTS && !is_same_choice(input, first, edge) {
                found += 1;
                faults.push(fault(input, first, edge));
            }
        }
    }
}

/// What a person reads for an edge; `None` for an edge that is no choice.
pub(crate) fn choice<'c>(input: &Input<'c>, edge: EdgeIndex) -> Option<&'c str> {
    let attributes = &input.edge(edge).attributes;
    if attributes.flag(Known::Freeform) {
        return None;
    }
    match attributes.filled(Known::Label) {
        Some(label) => Some(label),
        // Without a label a condition decides, such as `outcome=fail`, and not a person.
        None if input.analysis.condition_id(edge) != 0 => None,
        None => Some(input.id(input.edge(edge).to)),
    }
}

/// Whether two edges are one choice, which conditions lead to different nodes.
fn is_same_choice(input: &Input<'_>, first: EdgeIndex, second: EdgeIndex) -> bool {
    let label = |edge| choice(input, edge).map(normalize_label);
    let conditions = [first, second].map(|edge| input.analysis.condition_id(edge));
    conditions[0] != conditions[1] && label(first) == label(second)
}

fn fault(input: &Input<'_>, first: EdgeIndex, second: EdgeIndex) -> Diagnostic {
    let label = |edge| choice(input, edge).unwrap_or_default();
    let place = |edge: EdgeIndex| {
        let edge = input.edge(edge);
        let label = edge.attributes.get(Known::Label);
        label.map_or(edge.to_span, |label| label.value_span)
    };
    let edge = input.edge(second);
    let gate = input.id(edge.from);
    let key = accelerator_key(label(second));
    let fault = Diagnostic::error(
        CHECK.code,
        format!("two choices of the gate `{gate}` answer to the key `{key}`"),
        place(second),
    )
    .label("this choice")
    .related(place(first), "and this one")
    .note("the key is the one in `[K] label`, `K) label` or `K - label`, else the first letter")
    .node(gate)
    .edge(gate, input.id(edge.to));
    match free_key(input, second) {
        Some(key) => {
            let text = normalize(label(second));
            fault.help(format!(
                "give one of them a key of its own, as in `[{key}] {text}`"
            ))
        }
        None => fault.help("give one of them a key of its own, as in `[X] label`"),
    }
}

/// The label without its key.
fn normalize(label: &str) -> String {
    let normal = normalize_label(label);
    // The end of the label is the same text in its own case.
    let characters = normal.chars().count();
    let own: Vec<char> = label.trim().chars().collect();
    own.get(own.len().saturating_sub(characters)..)
        .map_or(normal, |own| own.iter().collect())
}

/// A letter of the choice's label that no other choice of the gate answers to.
fn free_key(input: &Input<'_>, edge: EdgeIndex) -> Option<char> {
    const MAX: usize = 64;
    let gate = input.edge(edge).from;
    let others = input.analysis.outgoing(gate).iter().take(MAX);
    let taken: Vec<String> = others
        .filter_map(|other| choice(input, *other))
        .map(|label| accelerator_key(label).to_lowercase())
        .collect();
    let label = normalize_label(choice(input, edge)?);
    let letter = label
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .find(|letter| !taken.contains(&letter.to_string()))?;
    Some(letter.to_ascii_uppercase())
}
