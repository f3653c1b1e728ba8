//! Graphs and scripts as plain data. Every attribute is text: what it means is for the reader to say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::random::Random;

/// Attributes by name.
pub type Attributes = BTreeMap<String, String>;

/// A graph as its author thinks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The attributes of the graph.
    pub attributes: Attributes,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges, in the order of the file.
    pub edges: Vec<Edge>,
    /// Where the branches of each fan-out meet. Who draws the brackets knows it; it is not a part of the text.
    pub joins: BTreeMap<String, String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its attributes.
    pub attributes: Attributes,
}

/// An edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The id of the node from which it comes.
    pub from: String,
    /// The id of the node to which it leads.
    pub to: String,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What the stages and people of a run will say, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// The outcomes of each stage, call by call; the last one repeats, and a stage without any succeeds.
    pub outcomes: BTreeMap<String, Vec<ScriptedOutcome>>,
    /// What becomes of the questions of each gate, call by call; the last one repeats.
    pub reactions: BTreeMap<String, Vec<Reaction>>,
    /// Decides how long everything takes, and with that which of the things that run at a time ends first.
    pub schedule: u64,
}

/// What a stage says once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptedOutcome {
    /// The outcome word.
    pub word: String,
    /// The label that it prefers; empty for none.
    pub preferred_label: String,
    /// The nodes that it suggests.
    pub suggested: Vec<String>,
    /// What it sets in the context.
    pub updates: BTreeMap<String, Value>,
    /// Why it failed; empty for no reason.
    pub reason: String,
    /// A summary; empty for none.
    pub notes: String,
    /// What kind of failure it is.
    pub category: Category,
    /// How many milliseconds a server wants to be left alone.
    pub retry_after: Option<u64>,
}

/// The kinds of failures (Attractor appendix D).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Category {
    /// Another attempt may help.
    #[default]
    Retryable,
    /// Another attempt will not help.
    Terminal,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// Somebody answers; who answers what the question does not offer is taken to skip it then.
    Answer(String),
    /// Somebody does not want to answer.
    Skip,
    /// The time is up; a question that waits for ever is skipped.
    Silence,
    /// There is nobody to ask.
    Nobody,
}

/// Which call of a stage or gate it is: each further visit, attempt, restart, and place among branches is another.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The visit, from 1.
    pub visit: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// How often the run was restarted.
    pub restart: u32,
    /// The sum of the places, from 0, of the branches in which it is among the edges of their fan-outs.
    pub positions: usize,
}

impl Call {
    /// Which of a list of reactions or outcomes the call is given: the last one repeats.
    pub fn of<T: Clone>(self, list: Option<&Vec<T>>) -> Option<T> {
        let at = (self.visit + self.attempt + self.restart) as usize - 2 + self.positions;
        list.and_then(|list| list.get(at).or(list.last())).cloned()
    }
}

impl ScriptedOutcome {
    /// An outcome that only says a word.
    pub fn word(word: &str) -> ScriptedOutcome {
        ScriptedOutcome {
            word: word.to_owned(),
            ..ScriptedOutcome::default()
        }
    }

    /// A failure with a reason.
    pub fn fail(reason: &str) -> ScriptedOutcome {
        ScriptedOutcome {
            reason: reason.to_owned(),
            ..ScriptedOutcome::word("fail")
        }
    }
}

impl Script {
    /// A script of outcomes.
    pub fn new<'a>(outcomes: impl IntoIterator<Item = (&'a str, Vec<ScriptedOutcome>)>) -> Script {
        let outcomes = outcomes.into_iter().map(|(node, list)| (node.to_owned(), list));
        Script {
            outcomes: outcomes.collect(),
            ..Script::default()
        }
    }

    /// What a stage says at a call.
    pub fn outcome(&self, node: &str, call: Call) -> ScriptedOutcome {
        let said = call.of(self.outcomes.get(node));
        said.unwrap_or_else(|| ScriptedOutcome::word("success"))
    }

    /// What becomes of a gate's question at a call.
    pub fn reaction(&self, gate: &str, call: Call) -> Reaction {
        call.of(self.reactions.get(gate)).unwrap_or(Reaction::Skip)
    }

    /// How many nanoseconds something takes: a stage, a wait, an answer. No two things take equally long.
    pub fn duration(&self, kind: &str, name: &str) -> u64 {
        let start = self.schedule.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325;
        let bytes = kind.bytes().chain([0]).chain(name.bytes());
        let hash = bytes.fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        1_000_000 + (mixed >> 32)
    }
}

impl Graph {
    /// The graph as DOT text in the plainest way.
    pub fn dot(&self) -> String {
        self.print(None).0
    }

    /// The graph as DOT text in one of the many ways in which people write it; all mean the same. Afterwards the nodes
    /// are in the order in which the text first names them.
    pub fn dot_in_style(&mut self, style: &mut Random) -> String {
        let (text, order) = self.print(Some(style));
        let rank = |id: &str| order.iter().position(|known| known == id);
        self.nodes.sort_by_key(|node| rank(&node.id));
        text
    }

    /// The text, and the ids of the nodes in the order in which it first names them.
    fn print(&self, mut style: Option<&mut Random>) -> (String, Vec<String>) {
        let mut odds = |percent: usize| style.as_deref_mut().is_some_and(|style| style.chance(percent));
        let mut text = String::from("digraph pipeline {\n");
        let block = odds(50);
        if block && !self.attributes.is_empty() {
            let _ = writeln!(text, "    graph{}", list(&self.attributes, &mut odds));
        } else {
            for (key, value) in &self.attributes {
                let _ = writeln!(text, "    {key}={}{}", written(value, &mut odds), end(&mut odds));
            }
        }
        let nodes_last = odds(25);
        let mut nodes = String::new();
        let mut declared: Vec<String> = Vec::new();
        for node in &self.nodes {
            // A node that says nothing and leads on need not be declared (rule L8).
            let leads_on = self.edges.iter().any(|edge| edge.from == node.id);
            if node.attributes.is_empty() && leads_on && odds(20) {
                continue;
            }
            declared.push(node.id.clone());
            if odds(10) {
                nodes.push_str("    // a stage: { not \"this\" }\n");
            }
            let boxed = odds(8);
            let _ = writeln!(
                nodes,
                "    {}{}{}{}{}",
                if boxed { "subgraph { " } else { "" },
                node.id,
                list(&node.attributes, &mut odds),
                end(&mut odds),
                if boxed { " }" } else { "" },
            );
        }
        if !nodes_last {
            text.push_str(&nodes);
        }
        let mut at = 0;
        while let Some(edge) = self.edges.get(at) {
            let _ = write!(text, "    {} -> {}", edge.from, edge.to);
            let mut last = edge;
            while let Some(next) = self.edges.get(at + 1) {
                if next.from != last.to || next.attributes != last.attributes || !odds(60) {
                    break;
                }
                let _ = write!(text, " -> {}", next.to);
                last = next;
                at += 1;
            }
            let _ = writeln!(text, "{}{}", list(&last.attributes, &mut odds), end(&mut odds));
            at += 1;
        }
        if nodes_last {
            text.push_str(&nodes);
        }
        text.push_str("}\n");
        let ends = |edge: &Edge| [edge.from.clone(), edge.to.clone()];
        let named: Vec<String> = self.edges.iter().flat_map(ends).collect();
        let order = if nodes_last {
            [named, declared].concat()
        } else {
            [declared, named].concat()
        };
        (text, order)
    }
}

fn end(odds: &mut impl FnMut(usize) -> bool) -> &'static str {
    if odds(50) { ";" } else { "" }
}

fn list(attributes: &Attributes, odds: &mut impl FnMut(usize) -> bool) -> String {
    if attributes.is_empty() {
        return String::new();
    }
    let mut pairs: Vec<String> = attributes
        .iter()
        .map(|(key, value)| format!("{key}={}", written(value, odds)))
        .collect();
    if odds(30) {
        pairs.reverse();
    }
    let separator = if odds(10) { ",\n        " } else { ", " };
    format!(" [{}]", pairs.join(separator))
}

/// A value, bare where the language allows it and chance wants it, else quoted.
fn written(value: &str, odds: &mut impl FnMut(usize) -> bool) -> String {
    let identifier = value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let number = value.parse::<i64>().is_ok() && !value.starts_with('+');
    if (identifier || number) && odds(60) {
        return value.to_owned();
    }
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}
