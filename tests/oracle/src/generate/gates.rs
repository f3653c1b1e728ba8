//! The choices of human gates at random.

use super::chance;
use crate::description::Graph;
use crate::random::Random;

const CHOICES: &[&str] = &[
    "Approve",
    "Reject",
    "Later",
    "Mend it",
    "Drop",
    "Keep",
    "Undo",
    "Hand over",
];

/// Makes the edges of human gates choices of which no two are written with one key, some of them guarded, and says what
/// silence means.
pub(super) fn choices(random: &mut Random, graph: &mut Graph) {
    let is_gate = |at: usize| {
        let attributes = &graph.nodes[at].attributes;
        let is = |key: &str, value: &str| attributes.get(key).is_some_and(|own| own == value);
        is("type", "wait.human") || is("shape", "hexagon") && !attributes.contains_key("type")
    };
    for at in (0..graph.nodes.len())
        .filter(|at| is_gate(*at))
        .collect::<Vec<_>>()
    {
        let gate = graph.nodes[at].id.clone();
        let mut names: Vec<String> = Vec::new();
        let mut words = CHOICES.iter();
        let mut any_text = false;
        let mut guarded: Vec<(String, String)> = Vec::new();
        for edge in graph.edges.iter_mut().filter(|edge| edge.from == gate) {
            let conditional = ["condition", "condition_type"]
                .iter()
                .any(|key| edge.attributes.contains_key(*key));
            edge.attributes.remove("label");
            let condition = edge.attributes.get("condition").cloned().unwrap_or_default();
            // Edges of one label are one choice, if their conditions differ.
            let other = guarded.iter().find(|(known, _)| *known != condition);
            if let Some((_, label)) = other
                && !condition.is_empty()
                && guarded.iter().all(|(known, _)| *known != condition)
                && random.chance(40)
            {
                edge.attributes.insert("label".to_owned(), label.clone());
                guarded.push((condition, label.clone()));
                continue;
            }
            if conditional && random.chance(35) {
                continue;
            }
            // More edges than words need a condition, so that they are no choices.
            let Some(word) = words.next() else {
                edge.attributes.retain(|key, _| !key.starts_with("condition"));
                edge.attributes
                    .insert("condition".to_owned(), "outcome=fail".to_owned());
                continue;
            };
            let key = word.chars().next().unwrap();
            let label = match random.below(6) {
                0 => format!("[{key}] {word}"),
                1 => format!("{key}) {word}"),
                2 => format!("{} - {word}", key.to_lowercase()),
                _ => (*word).to_owned(),
            };
            if random.chance(8) {
                any_text = true;
                edge.attributes.insert("freeform".to_owned(), "true".to_owned());
            } else {
                names.extend([key.to_string(), (*word).to_owned(), edge.to.clone()]);
            }
            if !condition.is_empty() {
                guarded.push((condition, label.clone()));
            }
            edge.attributes.insert("label".to_owned(), label);
        }
        let attributes = &mut graph.nodes[at].attributes;
        chance(random, 65, attributes, "timeout", |random| {
            random.pick(&["250ms", "2s", "1m"]).to_string()
        });
        if !names.is_empty() && !any_text {
            chance(random, 45, attributes, "human.default_choice", |random| {
                random.pick(&names).clone()
            });
        }
    }
}
