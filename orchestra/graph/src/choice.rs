//! The answers of a human gate: its outgoing edges (Attractor 4.6, rules H1, H4).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::label::{accelerator_key, normalize_label};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::{Constant, EdgeRow, Pipeline};

/// One answer of a human gate.
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
    /// The edge; the first one where several conditions share a label.
    pub edge: EdgeIndex,
    /// The key that answers for it.
    pub key: String,
    /// What a person reads: the edge's label, else the id of its target.
    pub label: String,
    /// Where the edge leads.
    pub to: NodeIndex,
    /// Whether it takes any text (rule H4).
    pub freeform: bool,
}

/// The answers of a human gate, in the order of the file (rule H1).
///
/// An edge with a condition but no label is decided by its condition and not by a person. Edges that share a label and
/// differ in their conditions are one answer, which the conditions lead to different nodes.
pub fn choices(pipeline: &Pipeline, gate: NodeIndex) -> Vec<Choice> {
    let edges = pipeline.stage(gate).edges().map(|(at, edge)| Written {
        at,
        label: &edge.label,
        condition: edge.condition,
        freeform: is_freeform(pipeline, edge),
        to: edge.to,
        to_id: pipeline.stage(edge.to).id(),
    });
    of(edges)
}

/// The same in a graph that may have faults.
pub(crate) fn graph_choices(analysis: &Analysis<'_>, gate: NodeIndex) -> Vec<Choice> {
    let graph = analysis.graph();
    let edges = analysis.outgoing(gate).iter().map(|at| {
        let edge = graph.edge(*at);
        let condition = analysis.condition_id(*at);
        Written {
            at: *at,
            label: edge.attributes.text(Known::Label).unwrap_or_default(),
            condition: (condition != 0).then_some(condition as u32),
            freeform: edge.attributes.flag(Known::Freeform),
            to: edge.to,
            to_id: &graph.node(edge.to).id,
        }
    });
    of(edges)
}

/// An edge of a gate.
struct Written<'e> {
    at: EdgeIndex,
    label: &'e str,
    condition: Option<u32>,
    freeform: bool,
    to: NodeIndex,
    to_id: &'e str,
}

fn of<'e>(edges: impl Iterator<Item = Written<'e>>) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    let mut conditions: HashMap<String, Option<u32>> = HashMap::new();
    for edge in edges {
        let unlabelled = edge.label.trim().is_empty();
        if unlabelled && edge.condition.is_some() && !edge.freeform {
            continue;
        }
        let label = if unlabelled { edge.to_id } else { edge.label };
        match conditions.entry(normalize_label(label)) {
            Entry::Occupied(first) if *first.get() != edge.condition => continue,
            Entry::Occupied(_) => {}
            Entry::Vacant(entry) => {
                entry.insert(edge.condition);
            }
        }
        choices.push(Choice {
            edge: edge.at,
            key: accelerator_key(label),
            label: label.to_owned(),
            to: edge.to,
            freeform: edge.freeform,
        });
    }
    choices
}

fn is_freeform(pipeline: &Pipeline, edge: &EdgeRow) -> bool {
    let row = pipeline
        .attributes(edge.attributes)
        .iter()
        .find(|row| row.key == "freeform");
    row.is_some_and(|row| row.value == Constant::Boolean(true))
}

/// The place of the choice that an answer names, in any case: by its key, else by its label with or without the key,
/// else by the id of its target (rule H2). A key of one choice that is also the target of another means the key.
///
/// Each choice is its key, its label and its target.
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
    let place = |names: &dyn Fn([&'c str; 3]) -> bool| choices.clone().position(names);
    place(&|[key, ..]| key.to_lowercase() == folded)
        .or_else(|| place(&|[_, own, _]| normalize_label(own) == label))
        .or_else(|| place(&|[.., target]| target.to_lowercase() == folded))
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
        let analysis = Analysis::new(&loaded.graph, &loaded.source);
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
                "D: drop -> drop",
                "M: mend -> mend",
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
