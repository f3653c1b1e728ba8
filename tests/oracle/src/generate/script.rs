//! What stages and people say, at random.

use serde_json::{Value, json};

use super::attributes::label;
use super::{KEYS, LIST, REASONS, WORDS, json_value};
use crate::description::{Attributes, Category, Graph, Node, Reaction, Script, ScriptedOutcome};
use crate::random::Random;

/// What the stages and people of a graph may say, and how long they take.
pub fn script(random: &mut Random, graph: &Graph) -> Script {
    let mut script = Script {
        schedule: random.number(),
        ..Script::default()
    };
    // Blocks run more stages, of which one is enough to fail them.
    let failing = if graph.joins.is_empty() { 32 } else { 18 };
    for node in &graph.nodes {
        let calls = random.between(1, 4);
        if is_gate(&node.attributes) {
            let list = (0..calls).map(|_| reaction(random, graph, &node.id)).collect();
            script.reactions.insert(node.id.clone(), list);
        } else if !random.chance(25) {
            let list = (0..calls).map(|_| said(random, graph, failing)).collect();
            script.outcomes.insert(node.id.clone(), list);
        }
    }
    script
}

fn is_gate(attributes: &Attributes) -> bool {
    let of = |key: &str| attributes.get(key).map_or("", String::as_str);
    of("type") == "wait.human" || of("type").is_empty() && of("shape") == "hexagon"
}

fn reaction(random: &mut Random, graph: &Graph, gate: &str) -> Reaction {
    match random.weighted(&[60, 8, 25, 5]) {
        1 => return Reaction::Skip,
        2 => return Reaction::Silence,
        3 => return Reaction::Nobody,
        _ => {}
    }
    let edges: Vec<_> = graph.edges.iter().filter(|edge| edge.from == gate).collect();
    if edges.is_empty() || random.chance(8) {
        return Reaction::Answer("something else".to_owned());
    }
    let edge = *random.pick(&edges);
    let Some(label) = edge.attributes.get("label") else {
        return Reaction::Answer(edge.to.clone());
    };
    let letters = label.trim_start_matches('[');
    let key = letters.chars().next().unwrap().to_string();
    let answer = match random.below(5) {
        0 => edge.to.clone(),
        1 => key.to_lowercase(),
        2 => format!(" {key} "),
        3 => label.to_uppercase(),
        _ => label.clone(),
    };
    Reaction::Answer(answer)
}

fn said(random: &mut Random, graph: &Graph, failing: usize) -> ScriptedOutcome {
    let has_list = graph
        .nodes
        .iter()
        .any(|node| node.attributes.contains_key("foreach"));
    let word = WORDS[random.weighted(&[40, failing, 8, 9, 5, 9])];
    let mut said = ScriptedOutcome::word(word);
    if random.chance(45) {
        said.preferred_label = label(random);
    }
    while random.chance(25) {
        let id = if random.chance(10) {
            "nowhere".to_owned()
        } else {
            random.pick::<Node>(&graph.nodes).id.clone()
        };
        said.suggested.push(id);
    }
    while random.chance(50) {
        let value = match random.below(8) {
            0 => json!(null),
            1 => json!(["a", "b", 1]),
            _ => json_value(random),
        };
        said.updates.insert(random.pick(KEYS).to_string(), value);
    }
    if has_list && random.chance(60) {
        let items = [
            json!("a"),
            json!({"mode": "dry", "tags": ["x"]}),
            json!(2),
            json!(["b", "c"]),
        ];
        let list: Vec<Value> = (0..random.below(4))
            .map(|_| random.pick(&items).clone())
            .collect();
        let list = json!(list);
        let list = if random.chance(15) {
            list.to_string().into()
        } else {
            list
        };
        said.updates.insert(LIST.to_owned(), list);
    }
    if random.chance(15) {
        said.notes = random.pick(&["done", "half of it", "see the log"]).to_string();
    }
    if word == "fail" || word == "retry" {
        said.reason = random.pick(REASONS).to_string();
        said.category = match random.weighted(&[77, 23]) {
            0 => Category::Retryable,
            _ => Category::Terminal,
        };
        if random.chance(8) {
            said.retry_after = Some(*random.pick(&[0, 1_500, 60_001, 90_000_000]));
        }
    }
    said
}
