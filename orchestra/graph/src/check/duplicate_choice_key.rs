//! `duplicate_choice_key`: two choices of a human gate answer to one key (Attractor 4.6, rule H1).

use std::collections::HashMap;

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::choice::{Choice, graph_choices};
use crate::diagnostic::{Diagnostic, Severity};
use crate::kind;
use crate::label::label_text;

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
        let mut choices = graph_choices(input.analysis, at);
        // Whatever is no key of another choice is a text for these.
        choices.retain(|choice| !choice.freeform);
        let mut keys: HashMap<String, &Choice> = HashMap::new();
        let mut found = 0;
        for choice in &choices {
            let first = *keys.entry(choice.key.to_lowercase()).or_insert(choice);
            if first.edge != choice.edge && found < MAX_FAULTS {
                found += 1;
                faults.push(fault(input, first, choice, &choices));
            }
        }
    }
}

fn fault(input: &Input<'_>, first: &Choice, second: &Choice, choices: &[Choice]) -> Diagnostic {
    let place = |choice: &Choice| {
        let edge = input.edge(choice.edge);
        let label = edge.attributes.get(Known::Label);
        label.map_or(edge.to_span, |label| label.value_span)
    };
    let gate = input.id(input.edge(second.edge).from);
    let fault = Diagnostic::error(
        CHECK.code,
        format!(
            "two choices of the gate `{gate}` answer to the key `{}`",
            second.key
        ),
        place(second),
    )
    .label("this choice")
    .related(place(first), "and this one")
    .note("the key is the one in `[K] label`, `K) label` or `K - label`, else the first letter")
    .node(gate)
    .edge(gate, input.id(second.to));
    let text = label_text(&second.label);
    match free_key(text, choices) {
        Some(key) => fault.help(format!(
            "give one of them a key of its own, as in `[{key}] {text}`"
        )),
        None => fault.help("give one of them a key of its own, as in `[X] label`"),
    }
}

/// A letter of a label that no choice of the gate answers to.
fn free_key(label: &str, choices: &[Choice]) -> Option<char> {
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
