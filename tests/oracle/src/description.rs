//! Graphs and scripts as plain data. Every attribute is text: what it means is for the reader to say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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

/// What the stages of a run will say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The outcomes of each stage, visit by visit; the last one repeats, and a stage without any succeeds.
    pub outcomes: BTreeMap<String, Vec<ScriptedOutcome>>,
}

/// What a stage says once.
#[derive(Clone, Debug, Default, PartialEq)]
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
}

impl ScriptedOutcome {
    /// An outcome that only says a word.
    pub fn word(word: &str) -> ScriptedOutcome {
        ScriptedOutcome {
            word: word.to_owned(),
            ..ScriptedOutcome::default()
        }
    }
}

impl Script {
    /// What a stage says at a visit, counted from 0.
    pub fn outcome(&self, node: &str, visit: usize) -> ScriptedOutcome {
        let said = self
            .outcomes
            .get(node)
            .and_then(|list| list.get(visit).or(list.last()));
        said.cloned().unwrap_or_else(|| ScriptedOutcome::word("success"))
    }
}

impl Graph {
    /// The graph as DOT text in the plainest way.
    pub fn dot(&self) -> String {
        self.print(None)
    }

    /// The graph as DOT text in one of the many ways in which people write it; all mean the same.
    pub fn dot_in_style(&self, style: &mut Random) -> String {
        self.print(Some(style))
    }

    fn print(&self, mut style: Option<&mut Random>) -> String {
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
        for node in &self.nodes {
            // A node that says nothing and leads on need not be declared (rule L8).
            let leads_on = self.edges.iter().any(|edge| edge.from == node.id);
            if node.attributes.is_empty() && leads_on && odds(20) {
                continue;
            }
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
        text
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
