//! Human gates (rules H1 to H6).

use super::attempt::{StageResult, millis};
use super::route::{is_for_failures, shown};
use super::{Line, Rules, Stop, attribute};
use crate::conditions::{Seen, normal, without_key};
use crate::description::{Edge, Reaction};
use crate::trace::{End, Step, Values};

/// An answer that a gate offers.
#[derive(Clone)]
struct Choice {
    key: String,
    label: String,
    to: String,
    free: bool,
}

/// The key that a label is written with: that of `[K] x`, `K) x` or `K - x`.
fn written_key(label: &str) -> Option<String> {
    let chars: Vec<char> = label.trim().chars().collect();
    match chars[..] {
        ['[', key, ']', ..] | [key, ')', ..] | [key, ' ', '-', ' ', ..] => Some(key.to_string()),
        _ => None,
    }
}

/// Rule H1: written keys stand. Each other choice, those of any text last, has the first letter of its label if that is
/// free; who is left over has the first letter or digit that is free, else a number.
fn name_keys(choices: &mut [Choice]) {
    let taken = |choices: &[Choice], key: &str| choices.iter().any(|choice| choice.key.to_uppercase() == key);
    for choice in choices.iter_mut() {
        choice.key = written_key(&choice.label).unwrap_or_default();
    }
    for free in [false, true] {
        for round in ["first letters", "any letter", "numbers"] {
            for at in 0..choices.len() {
                if choices[at].free != free || !choices[at].key.is_empty() {
                    continue;
                }
                let letters: Vec<String> = choices[at]
                    .label
                    .chars()
                    .filter(|c| c.is_alphanumeric())
                    .map(|c| c.to_uppercase().to_string())
                    .collect();
                let wanted: Vec<String> = match round {
                    "first letters" => letters.into_iter().take(1).collect(),
                    "any letter" => letters,
                    _ => (1..=choices.len() * 2).map(|number| number.to_string()).collect(),
                };
                let key = wanted.into_iter().find(|key| !taken(choices, key));
                choices[at].key = key.unwrap_or_default();
            }
        }
    }
}

impl Rules<'_> {
    /// The choices of a gate, each with the places of the edges that bear its label.
    fn choices(&self, edges: &[(usize, &Edge)]) -> Vec<(Choice, Vec<usize>)> {
        let mut choices: Vec<Choice> = Vec::new();
        let mut positions: Vec<Vec<usize>> = Vec::new();
        for (position, (_, edge)) in edges.iter().enumerate() {
            if is_for_failures(edge) {
                continue;
            }
            let label = shown(edge);
            let known = choices
                .iter()
                .position(|known| normal(&known.label) == normal(label));
            if let Some(known) = known {
                positions[known].push(position);
                continue;
            }
            positions.push(vec![position]);
            choices.push(Choice {
                key: String::new(),
                label: label.to_owned(),
                to: edge.to.clone(),
                free: attribute(&edge.attributes, "freeform") == "true",
            });
        }
        name_keys(&mut choices);
        choices.into_iter().zip(positions).collect()
    }

    /// Rule H5: which choices are offered, and which are not. Conditions are asked as if the choice had been made.
    fn offers(&self, line: &Line, at: &str) -> (Vec<Choice>, Vec<(Choice, String)>) {
        let edges = self.graph.out(at);
        let (mut offered, mut withheld) = (Vec::new(), Vec::new());
        for (mut choice, positions) in self.choices(&edges) {
            let seen = self.seen(line, at);
            let made = chosen(&choice, "person", "");
            let mut seen = Seen {
                outcome: "success".to_owned(),
                preferred_label: choice.label.clone(),
                failure_reason: String::new(),
                last_stage: at.to_owned(),
                ..seen
            };
            seen.context.remove("human.gate.text");
            seen.context.extend(made.updates.clone());
            let own = [
                ("outcome", "success"),
                ("preferred_label", &choice.label),
                ("last_stage", at),
            ];
            seen.context
                .extend(own.map(|(key, text)| (key.to_owned(), text.into())));
            let tested = self.test_as(&edges, &positions, &seen, &made.updates);
            // What hangs on the text of the answer is decided when that is given.
            let by_text = tested.iter().map(|(position, _)| *position).find(|position| {
                let condition = attribute(&edges[*position].1.attributes, "condition");
                choice.free && condition.contains("human.gate.text")
            });
            match self.preferred(&edges, &positions, &tested).or(by_text) {
                Some(position) => {
                    choice.to = edges[position].1.to.clone();
                    offered.push(choice);
                }
                None => {
                    let unmet = tested
                        .iter()
                        .map(|(position, _)| self.unmet(edges[*position].1, &seen, &made.updates));
                    let unmet = unmet.collect::<Vec<_>>().join("; ");
                    withheld.push((choice, unmet));
                }
            }
        }
        (offered, withheld)
    }

    fn test_as(
        &self,
        edges: &[(usize, &Edge)],
        positions: &[usize],
        seen: &Seen,
        output: &Values,
    ) -> Vec<(usize, bool)> {
        let mut tested = Vec::new();
        for position in positions {
            let held = self.holds(edges[*position].1, seen, output);
            tested.extend(held.map(|held| (*position, held)));
            if self.first_match() && held != Some(false) {
                break;
            }
        }
        tested
    }

    /// A condition that does not hold, in words.
    fn unmet(&self, edge: &Edge, seen: &Seen, output: &Values) -> String {
        let (reported, mut values) = self.reported(edge, seen, output);
        values.sort();
        let values = values.into_iter().map(|(key, value)| match value.as_str() {
            "" => format!("{key} is empty"),
            value => format!("{key} is `{value}`"),
        });
        format!(
            "`{reported}` does not hold: {}",
            values.collect::<Vec<_>>().join(", ")
        )
    }

    /// Asks a person for the way on.
    pub(super) fn ask(&self, line: &mut Line, at: &str, attempt: u32) -> Result<StageResult, Stop> {
        let name = self.name(line, at, attempt);
        let attributes = self.graph.attributes_of(at);
        let (choices, withheld) = self.offers(line, at);
        let shown = |(choice, why): &(Choice, String)| {
            if choice.free {
                format!("any text: {} ({why})", without_key(&choice.label))
            } else {
                format!("[{}] {} ({why})", choice.key, without_key(&choice.label))
            }
        };
        if choices.is_empty() {
            let reported: Vec<String> = withheld.iter().map(shown).collect();
            return Ok(StageResult::terminal(&if reported.is_empty() {
                "the gate has no outgoing edge that a person could choose".to_owned()
            } else {
                format!("the gate offers no choice; withheld are {}", reported.join(", "))
            }));
        }
        let all: Vec<Choice> = choices
            .iter()
            .chain(withheld.iter().map(|(choice, _)| choice))
            .cloned()
            .collect();
        let is_offered = |choice: &Choice| choices.iter().any(|offered| offered.label == choice.label);
        let wanted = attribute(attributes, "human.default_choice");
        let default = named(&all, wanted).filter(|choice| is_offered(choice)).cloned();
        let timeout = attributes.get("timeout").map(|text| millis(text) as u64);
        let offered = |choice: &Choice| (choice.key.clone(), choice.label.clone(), choice.to.clone());
        line.say(Step::Asked {
            name: name.clone(),
            choices: choices.iter().map(offered).collect(),
            withheld: withheld.iter().map(shown).collect(),
            default: default.as_ref().map(|choice| choice.key.clone()),
            timeout,
        });
        self.wait(line, "ask", &name)?;
        let reaction = match self.script.reaction(at, self.call(line, at, attempt)) {
            Reaction::Silence if timeout.is_none() => Reaction::Skip,
            other => other,
        };
        match reaction {
            Reaction::Answer(answer) => {
                line.context.remove("human.gate.text");
                let known = |choice: &&Choice| !choice.free || !is_offered(choice);
                let fixed: Vec<Choice> = all.iter().filter(known).cloned().collect();
                if let Some(choice) = named(&fixed, &answer) {
                    if !is_offered(choice) {
                        return Ok(skipped(line, name));
                    }
                    line.say(Step::Answered {
                        name,
                        answer: choice.label.clone(),
                    });
                    return Ok(chosen(choice, "person", "answered by a person"));
                }
                if let Some(choice) = choices.iter().find(|choice| choice.free) {
                    let mut said = chosen(choice, "person", "answered by a person");
                    said.updates
                        .insert("human.gate.text".to_owned(), answer.as_str().into());
                    line.say(Step::Answered { name, answer });
                    return Ok(said);
                }
                Ok(skipped(line, name))
            }
            Reaction::Skip => {
                line.context.remove("human.gate.text");
                Ok(skipped(line, name))
            }
            Reaction::Silence => {
                line.context.remove("human.gate.text");
                line.say(Step::Unanswered {
                    name,
                    default: default.as_ref().map(|choice| choice.label.clone()),
                });
                Ok(match &default {
                    Some(choice) => chosen(choice, "default", "default, nobody answered in time"),
                    None => StageResult {
                        word: "retry".to_owned(),
                        ..StageResult::fail("nobody answered in time, and the gate has no default")
                    },
                })
            }
            Reaction::Nobody => {
                line.cancelled.push(Step::Cancelled(name));
                Err(Stop::Abort(End::WaitsForHuman(at.to_owned())))
            }
        }
    }
}

fn skipped(line: &mut Line, name: String) -> StageResult {
    let answer = "skipped".to_owned();
    line.say(Step::Answered { name, answer });
    StageResult::terminal("the person skipped the question")
}

/// The choice that an answer names in any case: by its key, else by its label, else by its target (rule H2).
fn named<'c>(choices: &'c [Choice], answer: &str) -> Option<&'c Choice> {
    let answer = answer.trim().to_lowercase();
    if answer.is_empty() {
        return None;
    }
    let by_key = choices.iter().find(|choice| choice.key.to_lowercase() == answer);
    let by_label = choices
        .iter()
        .find(|choice| normal(&choice.label) == normal(&answer));
    let by_target = choices.iter().find(|choice| choice.to.to_lowercase() == answer);
    by_key.or(by_label).or(by_target)
}

fn chosen(choice: &Choice, by: &str, how: &str) -> StageResult {
    let mut said = StageResult::word("success");
    said.preferred_label = choice.label.clone();
    said.suggested = vec![choice.to.clone()];
    said.notes = format!("{} ({how})", choice.label);
    for (key, value) in [
        ("human.gate.selected", choice.key.as_str()),
        ("human.gate.label", choice.label.as_str()),
        ("human.gate.answered_by", by),
    ] {
        said.updates.insert(key.to_owned(), value.into());
    }
    said
}
