//! The choices of a human gate, derived from its outgoing edges (Attractor 4.6, rules H1, H4, H5).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::analysis::{Analysis, EdgeCondition};
use crate::attribute::Known;
use crate::diagnostic::did_you_mean;
use crate::label::{accelerator_key, label_text, normalize_label};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::{Constant, EdgeRow, Pipeline};

/// One choice of a human gate.
///
/// ```
/// use orchestra_graph::{Source, choices, load};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[Y] Yes, ship"]; ask -> mend; mend -> ask }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let choices = choices(&pipeline, pipeline.find("ask").expect("declared"));
/// assert_eq!((choices[0].key.as_str(), choices[0].label.as_str()), ("Y", "[Y] Yes, ship"));
/// assert_eq!((choices[1].key.as_str(), choices[1].label.as_str()), ("M", "mend"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The edge; the first one if several edges have the label.
    pub edge: EdgeIndex,
    /// The key that selects the choice.
    pub key: String,
    /// The text shown to a person: the label of the edge, else the id of its target.
    pub label: String,
    /// The target of the edge.
    pub to: NodeIndex,
    /// `true` if the choice accepts any text (rule H4).
    pub freeform: bool,
}

/// Returns the choices of a human gate, in the order of the file (rule H1).
///
/// Edges with the same label form one choice; their conditions select the target. An edge whose condition can be true
/// only after a failure is a route for a failed gate, and not a choice.
pub fn choices(pipeline: &Pipeline, gate: NodeIndex) -> Vec<Choice> {
    let edges = pipeline.stage(gate).edges().map(|(at, edge)| Written {
        at,
        label: label_of(pipeline, edge),
        needs_failure: needs_failure(pipeline, edge),
        freeform: is_freeform(pipeline, edge),
        to: edge.to,
    });
    from_edges(edges).into_iter().map(|(choice, _)| choice).collect()
}

/// Like [`choices`], for a graph that may have errors.
///
/// ```
/// use orchestra_graph::{Source, graph_choices, load};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> done [label="Ship"] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let choices = graph_choices(&loaded.analysis(), loaded.graph.find("ask").expect("named"));
/// assert_eq!(choices[0].label, "Ship");
/// ```
pub fn graph_choices(analysis: &Analysis<'_>, gate: NodeIndex) -> Vec<Choice> {
    let choices = graph_choice_edges(analysis, gate).into_iter();
    choices.map(|(choice, _)| choice).collect()
}

/// Returns the choices of a gate, each with all edges that have its label.
pub(crate) fn graph_choice_edges(analysis: &Analysis<'_>, gate: NodeIndex) -> Vec<(Choice, Vec<EdgeIndex>)> {
    from_edges(graph_edges(analysis, gate))
}

fn graph_edges<'a>(analysis: &'a Analysis<'_>, gate: NodeIndex) -> impl Iterator<Item = Written<'a>> {
    let graph = analysis.graph();
    analysis.outgoing(gate).iter().map(move |at| {
        let edge = graph.edge(*at);
        let condition = analysis.condition(*at);
        Written {
            at: *at,
            label: edge
                .attributes
                .filled(Known::Label)
                .unwrap_or(&graph.node(edge.to).id),
            needs_failure: matches!(condition, EdgeCondition::Parsed(condition) if condition.needs_failure()),
            freeform: edge.attributes.flag(Known::Freeform),
            to: edge.to,
        }
    })
}

/// Returns the text of an edge shown to a person: its label, else the id of its target.
fn label_of<'p>(pipeline: &'p Pipeline, edge: &EdgeRow) -> &'p str {
    let label = pipeline.text(edge.label);
    if label.trim().is_empty() {
        pipeline.stage(edge.to).id()
    } else {
        label
    }
}

/// Returns whether an edge is a route for a failed gate, and not a choice (rule H5).
pub(crate) fn needs_failure(pipeline: &Pipeline, edge: &EdgeRow) -> bool {
    let condition = pipeline.condition(edge);
    condition.is_some_and(|condition| condition.needs_failure())
}

/// Returns whether an edge of a gate belongs to the choice with this label.
pub(crate) fn bears(pipeline: &Pipeline, edge: &EdgeRow, label: &str) -> bool {
    !needs_failure(pipeline, edge) && normalize_label(label_of(pipeline, edge)) == normalize_label(label)
}

/// The properties of an edge of a gate.
struct Written<'e> {
    at: EdgeIndex,
    label: &'e str,
    needs_failure: bool,
    freeform: bool,
    to: NodeIndex,
}

fn from_edges<'e>(edges: impl Iterator<Item = Written<'e>>) -> Vec<(Choice, Vec<EdgeIndex>)> {
    let mut choices: Vec<Choice> = Vec::new();
    let mut edges_of: Vec<Vec<EdgeIndex>> = Vec::new();
    let mut indices: HashMap<String, usize> = HashMap::new();
    for edge in edges.filter(|edge| !edge.needs_failure) {
        match indices.entry(normalize_label(edge.label)) {
            Entry::Occupied(index) => edges_of[*index.get()].push(edge.at),
            Entry::Vacant(index) => {
                index.insert(choices.len());
                edges_of.push(vec![edge.at]);
                choices.push(Choice {
                    edge: edge.at,
                    key: accelerator_key(edge.label).unwrap_or_default().to_owned(),
                    label: edge.label.to_owned(),
                    to: edge.to,
                    freeform: edge.freeform,
                });
            }
        }
    }
    derive_keys(&mut choices);
    choices.into_iter().zip(edges_of).collect()
}

/// Derives a key for each choice that is written without one (rule H1): the first letter of its label if that is free,
/// else the first free letter or digit, else a number. Choices that accept any text come last, because nobody types
/// their keys.
fn derive_keys(choices: &mut [Choice]) {
    let mut taken: HashSet<String> = choices.iter().map(|choice| choice.key.to_uppercase()).collect();
    let letters = |label: &str| -> Vec<String> {
        let letters = label_text(label).chars().filter(|c| c.is_alphanumeric());
        letters.map(|letter| letter.to_uppercase().collect()).collect()
    };
    for freeform in [false, true] {
        for most in [1, usize::MAX] {
            for choice in choices.iter_mut() {
                if choice.freeform == freeform && choice.key.is_empty() {
                    let mut free = letters(&choice.label).into_iter().take(most);
                    choice.key = free.find(|key| !taken.contains(key)).unwrap_or_default();
                    taken.insert(choice.key.clone());
                }
            }
        }
        let mut number = 0u32;
        for choice in choices.iter_mut() {
            while choice.freeform == freeform && choice.key.is_empty() {
                number += 1;
                if taken.insert(number.to_string()) {
                    choice.key = number.to_string();
                }
            }
        }
    }
}

fn is_freeform(pipeline: &Pipeline, edge: &EdgeRow) -> bool {
    pipeline.attribute_in(edge.attributes, "freeform") == Some(Constant::Boolean(true))
}

/// Returns the index of the choice that an answer names, ignoring case: by its key, else by its label with or without
/// the key, else by the id of its target (rule H2). If the key of one choice is also the target of another, the key
/// wins.
///
/// Each choice is given as its key, its label and its target.
///
/// ```
/// use orchestra_graph::choice_named;
/// let choices = [["Y", "[Y] Yes, ship", "exit"], ["N", "No", "mend"]];
/// let named = |answer| choice_named(choices.into_iter(), answer);
/// for answer in ["y", "[Y] Yes, ship", "yes, ship", " Y ", "Exit"] {
///     assert_eq!(named(answer), Some(0), "{answer}");
/// }
/// assert_eq!((named("mend"), named("ye"), named("")), (Some(1), None, None));
/// ```
pub fn choice_named<'c>(choices: impl Iterator<Item = [&'c str; 3]> + Clone, answer: &str) -> Option<usize> {
    let folded = answer.trim().to_lowercase();
    if folded.is_empty() {
        return None;
    }
    let label = normalize_label(answer);
    let index = |names: &dyn Fn([&'c str; 3]) -> bool| choices.clone().position(names);
    index(&|[key, ..]| key.to_lowercase() == folded)
        .or_else(|| index(&|[_, own, _]| normalize_label(own) == label))
        .or_else(|| index(&|[.., target]| target.to_lowercase() == folded))
}

/// Returns the label or the target of the choice that a misspelt answer probably means. A label is returned without its
/// accelerator key if that is nearer.
pub(crate) fn choice_meant<'c>(choices: impl Iterator<Item = [&'c str; 3]>, answer: &str) -> Option<&'c str> {
    let names = choices.flat_map(|[_, label, target]| [label, label_text(label), target]);
    did_you_mean(answer, names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, load};

    const GATE: &str = r#"digraph { start -> ask; ask [shape=hexagon, label="Ship?"]
        ask -> exit [label="[Y] Yes", condition="context.tests=passed"]
        ask -> mend [label="yes", condition="context.tests!=passed"]
        ask -> mend [condition="context.tests=unknown"]
        ask -> drop; ask -> mend [label="  "]
        ask -> note [label="Comment", freeform=true]
        ask -> keep [freeform=true, condition="context.open=true"]
        drop [end=fail]; mend -> ask; note -> ask; keep -> ask }"#;

    #[test]
    fn table_and_graph_have_the_same_choices() {
        let loaded = load(Source::new("a.dot", GATE), &Default::default());
        let analysis = loaded.analysis();
        let gate = loaded.graph.find("ask").expect("declared");
        let of_graph = graph_choices(&analysis, gate);
        let shown: Vec<String> = of_graph
            .iter()
            .map(|choice| {
                let text = if choice.freeform { " takes text" } else { "" };
                let to = &loaded.graph.node(choice.to).id;
                format!("{}: {} -> {to}{text}", choice.key, choice.label)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "Y: [Y] Yes -> exit",
                "M: mend -> mend",
                "D: drop -> drop",
                "C: Comment -> note takes text",
                "K: keep -> keep takes text",
            ]
        );
        let pipeline = loaded.pipeline().expect("sound");
        let labels = |choices: &[Choice]| -> Vec<_> {
            let parts = choices.iter().map(|choice| {
                (
                    choice.key.clone(),
                    choice.label.clone(),
                    choice.to,
                    choice.freeform,
                )
            });
            parts.collect()
        };
        assert_eq!(labels(&choices(&pipeline, gate)), labels(&of_graph));
    }

    #[test]
    fn a_key_comes_before_a_label_and_a_label_before_a_target() {
        let choices = [["A", "Approve", "b"], ["B", "Back", "approve"], ["C", "b", "a"]];
        let named = |answer| choice_named(choices.into_iter(), answer);
        assert_eq!(
            (named("b"), named("a"), named("approve")),
            (Some(1), Some(0), Some(0))
        );
        assert_eq!(
            (named("[X] back"), named("c"), named("d")),
            (Some(1), Some(2), None)
        );
    }
}
