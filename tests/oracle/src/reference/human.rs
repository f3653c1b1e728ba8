//! Human gates (rules H1 to H4).

use super::attempt::{Said, millis};
use super::route::normal;
use super::{Line, Rules, Stop, attribute};
use crate::description::Reaction;
use crate::trace::{End, Step};

/// An answer that a gate offers.
#[derive(Clone)]
struct Choice {
    key: String,
    label: String,
    to: String,
    free: bool,
}

/// The key of a label: that of `[K] x`, `K) x` or `K - x`, else the first letter.
fn key(label: &str) -> String {
    let chars: Vec<char> = label.trim().chars().collect();
    match chars[..] {
        ['[', key, ']', ..] | [key, ')', ..] | [key, ' ', '-', ' ', ..] => key.to_string(),
        [first, ..] => first.to_uppercase().collect(),
        [] => String::new(),
    }
}

impl Rules<'_> {
    fn choices(&self, at: &str) -> Vec<Choice> {
        let mut choices: Vec<Choice> = Vec::new();
        for (_, edge) in self.graph.out(at) {
            let label = attribute(&edge.attributes, "label");
            let free = attribute(&edge.attributes, "freeform") == "true";
            let conditional = !attribute(&edge.attributes, "condition").trim().is_empty()
                || ["success", "failure", "conditional"]
                    .contains(&attribute(&edge.attributes, "condition_type"));
            // An edge that has a condition and no label is not for a person to choose.
            if label.is_empty() && conditional && !free {
                continue;
            }
            let label = match label {
                "" => edge.to.clone(),
                label => label.to_owned(),
            };
            // Edges of one label are one choice, which conditions lead to different nodes.
            let known = choices.iter().any(|known| normal(&known.label) == normal(&label));
            if conditional && known {
                continue;
            }
            choices.push(Choice {
                key: key(&label),
                label,
                to: edge.to.clone(),
                free,
            });
        }
        choices
    }

    /// Asks a person for the way on.
    pub(super) fn ask(&self, line: &mut Line, at: &str, attempt: u32) -> Result<Said, Stop> {
        let name = self.name(line, at, attempt);
        let attributes = self.graph.attributes_of(at);
        let choices = self.choices(at);
        if choices.is_empty() {
            return Ok(Said::terminal(
                "the gate has no outgoing edge that a person could choose",
            ));
        }
        let wanted = attribute(attributes, "human.default_choice");
        let default = named(&choices, wanted).cloned();
        let timeout = attributes.get("timeout").map(|text| millis(text) as u64);
        let offered = |choice: &Choice| (choice.key.clone(), choice.label.clone(), choice.to.clone());
        line.say(Step::Asked {
            name: name.clone(),
            choices: choices.iter().map(offered).collect(),
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
                let fixed: Vec<Choice> = choices.iter().filter(|choice| !choice.free).cloned().collect();
                if let Some(choice) = named(&fixed, &answer) {
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
            Reaction::Skip => Ok(skipped(line, name)),
            Reaction::Silence => {
                line.say(Step::Unanswered {
                    name,
                    default: default.as_ref().map(|choice| choice.label.clone()),
                });
                Ok(match &default {
                    Some(choice) => chosen(choice, "default", "default, nobody answered in time"),
                    None => Said {
                        word: "retry".to_owned(),
                        ..Said::fail("nobody answered in time, and the gate has no default")
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

fn skipped(line: &mut Line, name: String) -> Said {
    let answer = "skipped".to_owned();
    line.say(Step::Answered { name, answer });
    Said::terminal("the person skipped the question")
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

fn chosen(choice: &Choice, by: &str, how: &str) -> Said {
    let mut said = Said::word("success");
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
