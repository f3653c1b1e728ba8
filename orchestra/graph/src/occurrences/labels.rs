//! The labels of edges as names: answers of human gates, and the labels that stages prefer.
//!
//! A label belongs to the node whose edges have it. It is one name for the whole pipeline if something compares it that
//! may come from several nodes, such as the condition of an edge that leaves a routing node.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::symbol::Symbol;
use crate::analysis::Analysis;
use crate::assertion::{Claim, parse_assertions};
use crate::attribute::Known;
use crate::attributes::Origin;
use crate::choice::{Choice, graph_choices};
use crate::condition::{Comparison, clauses, is_label};
use crate::contract::plain_key;
use crate::kind;
use crate::label::{label_text, normalize_label};
use crate::model::NodeIndex;
use crate::text::Span;

/// The conditions of nodes.
const OF_NODES: &[Known] = &[
    Known::GoalGate,
    Known::StopCondition,
    Known::GuardIntervene,
    Known::GuardEscalate,
];

/// The labels of a pipeline.
#[derive(Default)]
pub(super) struct Labels {
    /// The labels that are one name for all nodes, in the form in which labels are compared.
    shared: HashSet<String>,
    /// The labels as they are first written, by their nodes (`None` for shared ones) and the form in which they are
    /// compared.
    written: HashMap<(Option<NodeIndex>, String), String>,
    /// The ids of the nodes.
    ids: Vec<String>,
}

impl Labels {
    pub(super) fn new(analysis: &Analysis<'_>) -> Labels {
        let graph = analysis.graph();
        let mut labels = Labels {
            ids: graph.nodes.iter().map(|node| node.id.to_string()).collect(),
            ..Labels::default()
        };
        let mut texts: HashSet<Span> = HashSet::new();
        let mut owned: HashSet<(NodeIndex, String)> = HashSet::new();
        for edge in &graph.edges {
            let Some(attribute) = edge.attributes.get(Known::Label) else {
                continue;
            };
            let label = normalize_label(attribute.value.as_str().unwrap_or_default());
            // One text is the label of several edges, or selects an edge by the stage before a routing node.
            let is_first = texts.insert(attribute.value_span) && attribute.origin == Origin::Explicit;
            if !is_first || analysis.kind(edge.from) == kind::CONDITIONAL {
                labels.shared.insert(label.clone());
            }
            owned.insert((edge.from, label));
        }
        for edge in &graph.edges {
            let Some(attribute) = edge.attributes.get(Known::Condition) else {
                continue;
            };
            let is_first = texts.insert(attribute.value_span) && attribute.origin == Origin::Explicit;
            for (key, literal) in compared(attribute.value.as_str().unwrap_or_default()) {
                let literal = normalize_label(&literal);
                let is_own = key == "preferred_label" && owned.contains(&(edge.from, literal.clone()));
                if !is_own || !is_first {
                    labels.shared.insert(literal);
                }
            }
        }
        for node in &graph.nodes {
            let texts = OF_NODES.iter().filter_map(|known| node.attributes.text(*known));
            for (_, literal) in texts.flat_map(compared) {
                labels.shared.insert(normalize_label(&literal));
            }
        }
        for edge in &graph.edges {
            if let Some(label) = edge.attributes.filled(Known::Label) {
                labels.add(edge.from, label);
            }
        }
        labels
    }

    fn add(&mut self, node: NodeIndex, label: &str) {
        let folded = normalize_label(label);
        let node = (!self.shared.contains(&folded)).then_some(node);
        let written = label_text(label).to_owned();
        self.written.entry((node, folded)).or_insert(written);
    }

    /// Returns whether a label would be one name with another one of the same node, or of the whole pipeline.
    pub(super) fn is_taken(&self, node: Option<&str>, label: &str) -> bool {
        let folded = normalize_label(label);
        let mut written = self.written.keys().filter(|(_, own)| *own == folded);
        let at = |id: &str| self.ids.iter().position(|own| own == id);
        let is_same = |own: &Option<NodeIndex>| match (own, node) {
            (Some(own), Some(node)) => at(node) == Some(own.at()),
            _ => true,
        };
        self.shared.contains(&folded) || written.any(|(own, _)| is_same(own))
    }

    /// Returns the symbol of a label of the edges of a node; of a shared label without a node. Returns `None` if no such
    /// edge has the label.
    pub(super) fn symbol(&self, node: Option<NodeIndex>, label: &str) -> Option<Symbol> {
        let folded = normalize_label(label);
        let is_shared = self.shared.contains(&folded);
        let node = if is_shared { None } else { Some(node?) };
        let label = self.written.get(&(node, folded))?.clone();
        let node = node.and_then(|node| self.ids.get(node.at()).cloned());
        Some(Symbol::Label { node, label })
    }
}

/// Returns the literals with which a condition compares labels, each with its key.
fn compared(text: &str) -> Vec<(String, String)> {
    let clauses = clauses(text).into_iter().filter_map(|clause| {
        let key = plain_key(text.get(clause.key)?);
        let is_whole = matches!(clause.comparison, Some(Comparison::Equal | Comparison::NotEqual));
        let literal = text.get(clause.literal?)?;
        (is_whole && is_label(key)).then(|| (key.to_owned(), literal.to_owned()))
    });
    clauses.collect()
}

/// Returns whether a condition tests labels by `contains` or `matches`, or keys of answers.
fn tests_parts(text: &str) -> bool {
    clauses(text).into_iter().any(|clause| {
        let key = plain_key(text.get(clause.key).unwrap_or_default());
        let is_whole = matches!(clause.comparison, Some(Comparison::Equal | Comparison::NotEqual));
        clause.literal.is_some() && !is_whole && is_label(key)
    })
}

/// Returns the keys of answers with which conditions compare.
fn compared_keys(text: &str) -> Vec<String> {
    let clauses = clauses(text).into_iter().filter_map(|clause| {
        let key = plain_key(text.get(clause.key)?);
        (key == "human.gate.selected").then(|| text.get(clause.literal?).map(str::to_lowercase))?
    });
    clauses.collect()
}

fn conditions<'a>(analysis: &'a Analysis<'_>) -> impl Iterator<Item = &'a str> {
    let graph = analysis.graph();
    let edges = graph
        .edges
        .iter()
        .filter_map(|edge| edge.attributes.text(Known::Condition));
    let nodes = graph.nodes.iter();
    edges.chain(nodes.flat_map(|node| OF_NODES.iter().filter_map(|known| node.attributes.text(*known))))
}

/// Returns whether something compares labels in a way that no renaming can follow.
pub(super) fn is_tested_in_part(analysis: &Analysis<'_>) -> bool {
    let mut values = analysis.graph().edges.iter();
    conditions(analysis).any(tests_parts)
        || values.any(|edge| {
            let value = edge.attributes.text(Known::ConditionValue).unwrap_or_default();
            value.contains("human.gate.label") || value.contains("preferred_label")
        })
}

/// Returns the choices of all gates.
pub(super) fn all_choices(analysis: &Analysis<'_>) -> Vec<(NodeIndex, Vec<Choice>)> {
    let nodes = analysis.graph().indexed_nodes().map(|(at, _)| at);
    let gates = nodes.filter(|at| analysis.kind(*at) == kind::WAIT_HUMAN);
    gates.map(|gate| (gate, graph_choices(analysis, gate))).collect()
}

/// Returns the keys of answers that something in the pipeline names, in lower case.
pub(super) fn named_keys(analysis: &Analysis<'_>) -> HashSet<String> {
    let mut named: HashSet<String> = conditions(analysis).flat_map(compared_keys).collect();
    for node in &analysis.graph().nodes {
        named.extend(
            node.attributes
                .filled(Known::DefaultChoice)
                .map(|choice| choice.trim().to_lowercase()),
        );
    }
    let assertions = analysis
        .graph()
        .attributes
        .text(Known::Assert)
        .map(parse_assertions);
    for assertion in assertions.into_iter().flatten().flatten() {
        if let Claim::Requires {
            result: Some(result), ..
        } = assertion.claim
        {
            named.insert(result.text.trim().to_lowercase());
        }
    }
    named
}

/// Returns the range of a label in a text, without its accelerator key.
pub(super) fn label_range(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let written = text.get(range)?;
    crate::text::range_of(text, label_text(written))
}

/// Returns whether a character needs no quotes in a literal of a condition or an assertion.
pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}
