//! Graphs, conditions and scripts at random.

mod attributes;
mod blocks;
mod condition;
mod flat;
mod gates;
mod script;

use serde_json::{Value, json};

pub use condition::{Tree, condition, expression, key, seen};
pub use script::script;

use crate::description::{Attributes, Graph, Node, Script};
use crate::random::Random;

/// A graph with scripts for it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed that gives exactly this case as the first of [`cases`].
    pub seed: u64,
    /// The graph.
    pub graph: Graph,
    /// The graph as DOT text.
    pub dot: String,
    /// The scripts.
    pub scripts: Vec<Script>,
}

/// How many scripts a graph gets.
pub const SCRIPTS: usize = 4;

/// Cases from a seed: `cases(seed + k, 1)` gives the k-th of `cases(seed, n)`.
pub fn cases(seed: u64, count: usize) -> impl Iterator<Item = Case> {
    (0..count as u64).map(move |at| case(seed.wrapping_add(at)))
}

/// Graphs as DOT text, each with its scripts.
pub fn graphs(seed: u64, count: usize) -> impl Iterator<Item = (String, Vec<Script>)> {
    cases(seed, count).map(|case| (case.dot, case.scripts))
}

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let mut graph = if random.chance(45) {
        flat::graph(&mut random)
    } else {
        blocks::graph(&mut random)
    };
    records(&mut random, &mut graph);
    let dot = graph.dot_in_style(&mut random);
    let scripts = (0..SCRIPTS).map(|_| script(&mut random, &graph)).collect();
    Case {
        seed,
        graph,
        dot,
        scripts,
    }
}

/// Lets some conditions ask how often a node was entered, or how it ended last (rules F1, R13).
fn records(random: &mut Random, graph: &mut Graph) {
    let ids: Vec<String> = graph.nodes.iter().map(|node| node.id.clone()).collect();
    for edge in &mut graph.edges {
        let Some(condition) = edge.attributes.get_mut("condition") else {
            continue;
        };
        // The plainest condition, which a partial success may stand for (rule R12).
        if random.chance(10) {
            "outcome=success".clone_into(condition);
            continue;
        }
        if !random.chance(20) {
            continue;
        }
        // A gate's own visits, and those of the node before a loop's way back, are asked most often.
        let node = if random.chance(50) {
            edge.from.clone()
        } else {
            random.pick(&ids).clone()
        };
        let clause = if random.chance(65) {
            let operator = *random.pick(&["=", "!=", "<", "<=", ">", ">="]);
            format!("visits.{node}{operator}{}", random.between(0, 3))
        } else {
            let operator = *random.pick(&["=", "!="]);
            format!("stages.{node}.outcome{operator}{}", random.pick(WORDS))
        };
        *condition = match random.below(4) {
            0 => format!("{clause} && ({condition})"),
            1 => format!("{clause} || ({condition})"),
            _ => clause,
        };
    }
}

/// Ids whose order by bytes is not the order of any other alphabet, no two alike but for case.
const IDS: &[&str] = &[
    "build", "Test", "lint_10", "lint_9", "_audit", "Zed", "alpha", "Beta", "review", "fix_a", "fix_B",
    "ship", "plan", "Mend", "x1", "x2", "probe", "Quality", "docs", "bench",
];

const LABELS: &[&str] = &[
    "Fix",
    "Fix",
    "Ship it",
    "Ship it",
    "Try again",
    "Ask Ann",
    "Fix - all",
    "no",
];

const REASONS: &[&str] = &["", "disk full", "no such file", "7"];

const WORDS: &[&str] = &[
    "success",
    "fail",
    "partial_success",
    "retry",
    "skipped",
    "needs_work",
];

/// The key of the lists for whose items branches run.
const LIST: &str = "tags";

/// Keys that scripts set, with values of every type.
const KEYS: &[&str] = &[
    "flag",
    "tries",
    "mode",
    "tags",
    "score",
    "empty",
    "context.mode",
    "work.item",
    "human.gate.label",
    "tool.exit_code",
    "last_response",
    "failure_reason",
];

/// A boolean, number or text.
fn json_value(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!(true),
        1 => json!(false),
        2 => json!(random.between(-1, 3)),
        3 => json!(*random.pick(&[0.5, 2.25, -1.5])),
        4 => json!(random.between(0, 2).to_string()),
        _ => json!(*random.pick(&["dry", "wet run", "", "true"])),
    }
}

/// The start and the exit of a graph, in one of the ways in which they are known (rule L13).
fn ends(random: &mut Random) -> [Node; 2] {
    let (start, start_shape) =
        [("start", ""), ("Start", ""), ("go", "Mdiamond"), ("go", "circle")][random.below(4)];
    let (exit, exit_shape) = [
        ("exit", ""),
        ("end", ""),
        ("done", "Msquare"),
        ("done", "doublecircle"),
    ][random.below(4)];
    let node = |id: &str, shape: &str| {
        let shape = (!shape.is_empty()).then(|| ("shape".to_owned(), shape.to_owned()));
        Node {
            id: id.to_owned(),
            attributes: Attributes::from_iter(shape),
        }
    };
    let (start, mut exit) = (node(start, start_shape), node(exit, exit_shape));
    chance(random, 12, &mut exit.attributes, "goal_gate", condition);
    [start, exit]
}

/// Sets the attribute in that many of a hundred cases.
fn chance(
    random: &mut Random,
    percent: usize,
    attributes: &mut Attributes,
    key: &str,
    value: impl FnOnce(&mut Random) -> String,
) {
    if random.chance(percent) {
        let value = value(random);
        attributes.insert(key.to_owned(), value);
    }
}
