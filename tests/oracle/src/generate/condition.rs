//! Conditions at random.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{IDS, KEYS, LABELS, REASONS, WORDS, json_value};
use crate::conditions::Seen;
use crate::random::Random;

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
            0 if random.chance(50) => format!("[K] {}", random.pick(LABELS)),
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
        0 if random.chance(40) => random
            .pick(&["human.gate.label", "human.gate.selected"])
            .to_string(),
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
        if own < outer || random.chance(5) {
            format!("({}{text}{})", blank(random), blank(random))
        } else {
            text
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
    if bare {
        format!("{key}{blank}{operator}{blank}{literal}")
    } else {
        format!("{key}{blank}{operator}{blank}{quote}{literal}{quote}")
    }
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
        ..Seen::default()
    }
}
