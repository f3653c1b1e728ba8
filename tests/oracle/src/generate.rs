//! Graphs, conditions and scripts at random.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::conditions::Seen;
use crate::description::{Attributes, Edge, Graph, Node, Script, ScriptedOutcome};
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
    let mut graph = graph(&mut random);
    let dot = graph.dot_in_style(&mut random);
    let scripts = (0..SCRIPTS).map(|_| script(&mut random, &graph)).collect();
    Case {
        seed,
        graph,
        dot,
        scripts,
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

/// A graph whose nodes can all be reached.
pub fn graph(random: &mut Random) -> Graph {
    let first_match = random.chance(30);
    let mut graph = Graph {
        attributes: graph_attributes(random, first_match),
        ..Graph::default()
    };
    let (start, start_attributes) =
        [("start", ""), ("Start", ""), ("go", "Mdiamond"), ("go", "circle")][random.below(4)];
    let (exit, exit_attributes) = [
        ("exit", ""),
        ("end", ""),
        ("done", "Msquare"),
        ("done", "doublecircle"),
    ][random.below(4)];
    let shaped = |shape: &str| {
        Attributes::from_iter((!shape.is_empty()).then(|| ("shape".to_owned(), shape.to_owned())))
    };
    let mut ids: Vec<&str> = IDS.to_vec();
    let middle = random.between(1, 13) as usize;
    for _ in 0..middle {
        let id = ids.remove(random.below(ids.len())).to_owned();
        graph.nodes.push(Node {
            id,
            attributes: Attributes::new(),
        });
    }
    // Ends by intent are leaves; the first node never is one, so that something leads on.
    let ends: Vec<bool> = (0..middle).map(|at| at > 0 && random.chance(10)).collect();
    let names: Vec<String> = graph.nodes.iter().map(|node| node.id.clone()).collect();
    for (at, is_end) in ends.iter().enumerate() {
        let attributes = node_attributes(random, *is_end, &names);
        graph.nodes[at].attributes = attributes;
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    // A tree from the start reaches everything.
    for at in 0..middle {
        let parents: Vec<&String> = (0..at)
            .filter(|parent| !ends[*parent])
            .map(|parent| &names[parent])
            .collect();
        let from = match parents.is_empty() || random.chance(10) {
            true => start.to_owned(),
            false => (*random.pick(&parents)).clone(),
        };
        pairs.push((from, names[at].clone()));
    }
    let leading: Vec<&String> = (0..middle).filter(|at| !ends[*at]).map(|at| &names[at]).collect();
    pairs.push(((*random.pick(&leading)).clone(), exit.to_owned()));
    let targets: Vec<&str> = names.iter().map(String::as_str).chain([exit]).collect();
    for id in &leading {
        let out = pairs.iter().filter(|(from, _)| from == *id).count();
        let more = [0, 1, 2, 3][random.weighted(&[35, 35, 20, 10])];
        let least = usize::from(out == 0 && random.chance(90));
        for _ in 0..more.max(least) {
            pairs.push(((*id).clone(), (*random.pick(&targets)).to_owned()));
        }
    }
    for at in (1..pairs.len()).rev() {
        pairs.swap(at, random.below(at + 1));
    }
    for (from, to) in pairs {
        // The start always succeeds; a condition on its only edge would end most runs at once.
        let free = from == start && random.chance(80);
        let attributes = edge_attributes(random, first_match, free);
        graph.edges.push(Edge { from, to, attributes });
    }
    graph.nodes.push(Node {
        id: start.to_owned(),
        attributes: shaped(start_attributes),
    });
    graph.nodes.push(Node {
        id: exit.to_owned(),
        attributes: shaped(exit_attributes),
    });
    graph
}

fn graph_attributes(random: &mut Random, first_match: bool) -> Attributes {
    let mut attributes = Attributes::new();
    let mut set = |key: &str, value: String| attributes.insert(key.to_owned(), value);
    if first_match {
        set("routing", "first_match".to_owned());
    }
    // The default of a thousand visits is right for users, and slow for ten thousand cases.
    if random.below(400) > 0 {
        set("max_node_visits", random.between(1, 9).to_string());
    }
    if random.chance(60) {
        set(
            "failure_breaker",
            random.pick(&["0", "0", "1", "2", "4"]).to_string(),
        );
    }
    if random.chance(10) {
        set("on_failure", random.pick(&["route", "fail"]).to_string());
    }
    if random.chance(30) {
        set("goal", random.pick(&["ship", "mend all"]).to_string());
    }
    attributes
}

fn node_attributes(random: &mut Random, is_end: bool, names: &[String]) -> Attributes {
    let mut attributes = Attributes::new();
    let mut set = |key: &str, value: &str| {
        attributes.insert(key.to_owned(), value.to_owned());
    };
    match random.weighted(&[45, 25, 10, 5, 5, 5, 5]) {
        0 => {}
        1 => set("shape", "diamond"),
        2 => {
            set("shape", "parallelogram");
            set("tool_command", "make");
        }
        3 => set("shape", "box"),
        4 => set("type", "conditional"),
        5 => {
            set("shape", "diamond");
            set("type", "team.judge");
        }
        _ => set("type", "team.work"),
    }
    if is_end && random.chance(75) {
        set("end", ["fail", "fail", "success"][random.below(3)]);
    }
    if random.chance(15) {
        let missing = random.chance(10);
        set(
            "retry_target",
            if missing {
                "nowhere"
            } else {
                random.pick(names).as_str()
            },
        );
    }
    if random.chance(15) {
        set("fallback_retry_target", random.pick(names).as_str());
    }
    if random.chance(12) {
        set("on_failure", ["route", "route", "fail"][random.below(3)]);
    }
    if random.chance(15) {
        set("max_visits", &random.between(1, 4).to_string());
    }
    if random.chance(10) {
        set("allow_partial", "true");
    }
    if random.chance(20) {
        set("outcomes", "needs_work");
    }
    attributes
}

fn edge_attributes(random: &mut Random, first_match: bool, free: bool) -> Attributes {
    let mut attributes = Attributes::new();
    let mut set = |key: &str, value: String| attributes.insert(key.to_owned(), value);
    if random.chance(30) {
        set("weight", random.between(-1, 3).to_string());
    }
    if random.chance(60) {
        set("label", label(random));
    }
    if first_match {
        if random.chance(70) && !free {
            match random.below(8) {
                0 => set("condition_type", "always".to_owned()),
                1 => set("condition_type", "unconditional".to_owned()),
                2 => set("condition_type", "success".to_owned()),
                3 => set("condition_type", "failure".to_owned()),
                _ => {
                    set("condition_value", condition_value(random));
                    set("condition_type", "conditional".to_owned())
                }
            };
        } else if random.chance(30) && !free {
            set("condition", condition(random));
        }
        if random.chance(50) {
            set(
                "allow_revisit",
                random.pick(&["true", "true", "true", "false"]).to_string(),
            );
            if random.chance(50) {
                set("max_revisits", random.between(1, 3).to_string());
            }
        }
    } else if random.chance(50) && !free {
        set("condition", condition(random));
    }
    attributes
}

/// A label, in one of the forms that name a key or in none.
fn label(random: &mut Random) -> String {
    let word = *random.pick(LABELS);
    let first = word.chars().next().unwrap();
    match random.below(8) {
        0 => format!("[{}] {word}", first.to_uppercase()),
        1 => format!("{first}) {word}"),
        2 => format!("{first} - {word}"),
        3 => format!("  {word} "),
        4 => word.to_uppercase(),
        5 => format!("[7]   {word}"),
        _ => word.to_owned(),
    }
}

fn condition_value(random: &mut Random) -> String {
    let key = *random.pick(&["flag", "tries", "mode", "score", "empty", "never"]);
    let value = json_value(random);
    match random.below(6) {
        0 => key.to_owned(),
        1 => format!(" {key} "),
        2 => format!("\"{key}\""),
        3 => json!({"check_output_key": key, "expected_value": value}).to_string(),
        _ => json!({"key": key, "value": value}).to_string(),
    }
}

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

/// The text of a condition that the language accepts.
pub fn condition(random: &mut Random) -> String {
    let depth = random.weighted(&[55, 25, 15, 5]);
    expression(random, depth).print(random)
}

/// A condition as a tree, so that its meaning does not hang on how it is written.
#[derive(Clone, Debug)]
pub enum Tree {
    /// All parts.
    All(Vec<Tree>),
    /// Any part.
    Any(Vec<Tree>),
    /// Not the part.
    Not(Box<Tree>),
    /// Key, operator, literal; a bare key has an empty operator.
    Clause(String, &'static str, String),
}

/// A random tree.
pub fn expression(random: &mut Random, depth: usize) -> Tree {
    if depth == 0 {
        return clause(random);
    }
    let parts = |random: &mut Random| {
        let count = random.between(2, 3);
        (0..count).map(|_| expression(random, depth - 1)).collect()
    };
    match random.below(4) {
        0 => Tree::Any(parts(random)),
        1 => Tree::Not(Box::new(expression(random, depth - 1))),
        _ => Tree::All(parts(random)),
    }
}

fn clause(random: &mut Random) -> Tree {
    if random.chance(40) {
        let operator = *random.pick(&["=", "=", "!="]);
        return Tree::Clause("outcome".to_owned(), operator, random.pick(WORDS).to_string());
    }
    let key = key(random);
    let operator = *random.pick(&["", "=", "=", "!=", "<", "<=", ">", ">=", "contains", "matches"]);
    let literal = match operator {
        "" => String::new(),
        "matches" => random
            .pick(&["^dry$", "[0-9]+", "full", "^[a-z_]*$", "w.t", "ru?n$", "^$"])
            .to_string(),
        "<" | "<=" | ">" | ">=" => random
            .pick(&["0", "1", "2", "0.5", "-1", "2.25", "1e1", "many"])
            .to_string(),
        _ => match random.below(8) {
            0 => random.pick(LABELS).to_string(),
            1 => random.pick(IDS).to_string(),
            2 => random.pick(REASONS).to_string(),
            3 => random.pick(&["a", "b", "c", "1"]).to_string(),
            4 => random
                .pick(&["a && b", "(x)", "!", "it's", "ünïcode"])
                .to_string(),
            _ => match json_value(random) {
                Value::String(text) => text,
                other => other.to_string(),
            },
        },
    };
    Tree::Clause(key, operator, literal)
}

/// A key of every kind that there is.
pub fn key(random: &mut Random) -> String {
    match random.below(10) {
        0 => "preferred_label".to_owned(),
        1 => random
            .pick(&["failure_reason", "last_stage", "current_node", "last_response"])
            .to_string(),
        2 => random
            .pick(&[
                "graph.goal",
                "work.item",
                "human.gate.label",
                "tool.exit_code",
                "parallel.none",
            ])
            .to_string(),
        3 => random
            .pick(&[
                "context.outcome",
                "context.last_stage",
                "context.never",
                "context.a-b:c.d",
            ])
            .to_string(),
        _ => match *random.pick(KEYS) {
            key if key.contains('.') => key.to_owned(),
            key => format!("context.{key}"),
        },
    }
}

impl Tree {
    /// Whether the tree holds: the meaning that its text must keep.
    pub fn holds(&self, seen: &Seen) -> bool {
        match self {
            Tree::All(parts) => parts.iter().all(|part| part.holds(seen)),
            Tree::Any(parts) => parts.iter().any(|part| part.holds(seen)),
            Tree::Not(part) => !part.holds(seen),
            Tree::Clause(key, operator, literal) => seen.clause(key, operator, literal),
        }
    }

    /// The tree as text, with no more parentheses than needed, but for some by chance.
    pub fn print(&self, random: &mut Random) -> String {
        self.written(random, 0)
    }

    /// Binds 0 for `||`, 1 for `&&`, 2 for `!` and clauses.
    fn written(&self, random: &mut Random, outer: usize) -> String {
        let blank = |random: &mut Random| *random.pick(&["", " ", " ", "  "]);
        let (text, own) = match self {
            Tree::Clause(key, operator, literal) => (clause_text(random, key, operator, literal), 2),
            Tree::Not(part) => (format!("!{}{}", blank(random), part.written(random, 2)), 2),
            Tree::All(parts) | Tree::Any(parts) => {
                let (sign, own) = match self {
                    Tree::Any(_) => ("||", 0),
                    _ => ("&&", 1),
                };
                let mut text = String::new();
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        text = format!("{text}{}{sign}{}", blank(random), blank(random));
                    }
                    text.push_str(&part.written(random, own));
                }
                (text, own)
            }
        };
        match own < outer || random.chance(5) {
            true => format!("({}{text}{})", blank(random), blank(random)),
            false => text,
        }
    }
}

fn clause_text(random: &mut Random, key: &str, operator: &str, literal: &str) -> String {
    if operator.is_empty() {
        return key.to_owned();
    }
    let blank = match operator {
        "contains" | "matches" => " ",
        _ => *random.pick(&["", "", " "]),
    };
    let bare = !literal.is_empty()
        && literal.trim() == literal
        && !literal.chars().any(|c| "&|()!=<>\"'".contains(c))
        && random.chance(70);
    let quote = if literal.contains('\'') || random.chance(30) {
        '"'
    } else {
        '\''
    };
    match bare {
        true => format!("{key}{blank}{operator}{blank}{literal}"),
        false => format!("{key}{blank}{operator}{blank}{quote}{literal}{quote}"),
    }
}

/// What the stages of a graph may say.
pub fn script(random: &mut Random, graph: &Graph) -> Script {
    let mut outcomes = BTreeMap::new();
    for node in &graph.nodes {
        if random.chance(25) {
            continue;
        }
        let visits = random.between(1, 3);
        let list = (0..visits).map(|_| scripted(random, graph, node)).collect();
        outcomes.insert(node.id.clone(), list);
    }
    Script {
        outcomes,
        ..Script::default()
    }
}

fn scripted(random: &mut Random, graph: &Graph, node: &Node) -> ScriptedOutcome {
    let mut word = WORDS[random.weighted(&[40, 32, 8, 6, 5, 9])];
    if word == "fail" && node.attributes.contains_key("allow_partial") {
        // Whether a failure, too, becomes a partial success is a matter of the rules on retries (Y5).
        word = "retry";
    }
    let mut said = ScriptedOutcome::word(word);
    if random.chance(45) {
        said.preferred_label = label(random);
    }
    while random.chance(25) {
        let id = match random.chance(10) {
            true => "nowhere".to_owned(),
            false => random.pick(&graph.nodes).id.clone(),
        };
        said.suggested.push(id);
    }
    while random.chance(55) {
        let value = match random.below(8) {
            0 => json!(null),
            1 => json!(["a", "b", 1]),
            _ => json_value(random),
        };
        said.updates.insert(random.pick(KEYS).to_string(), value);
    }
    if word == "fail" || word == "retry" {
        said.reason = random.pick(REASONS).to_string();
    }
    if word == "retry" && said.reason.is_empty() {
        said.reason = "again".to_owned();
    }
    said
}

/// What a condition may ask about, at random.
pub fn seen(random: &mut Random) -> Seen {
    let mut context = BTreeMap::new();
    for key in KEYS {
        if random.chance(60) {
            let value = match random.below(8) {
                0 => json!(null),
                1 => json!(["a", "b", 1]),
                2 => json!({"a": 1}),
                _ => json_value(random),
            };
            context.insert((*key).to_owned(), value);
        }
    }
    Seen {
        outcome: random.pick(WORDS).to_string(),
        preferred_label: random.pick(LABELS).to_string(),
        failure_reason: random.pick(REASONS).to_string(),
        current_node: random.pick(IDS).to_string(),
        last_stage: random.pick(IDS).to_string(),
        context,
    }
}
