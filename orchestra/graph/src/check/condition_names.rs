//! The names that the conditions on the edges of a node may use.

use std::collections::BTreeMap;

use crate::attribute::{Known, key_pairs};
use crate::check::declared::written;
use crate::check::outcomes::Outcomes;
use crate::check::properties::Properties;
use crate::condition::{OUTCOME_WORDS, PLAIN_KEYS};
use crate::contract::{ValueType, plain_key};
use crate::kind;
use crate::loaded::Loaded;
use crate::model::NodeIndex;

/// The names that the conditions on the edges of a node may use.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> a -> exit; a [outcomes="later", outputs="score: int"] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let names = loaded.condition_names(loaded.graph.find("a").expect("named"));
/// assert!(names.outcomes.contains(&"later".to_owned()) && names.likely == 2);
/// assert!(names.keys.iter().any(|(key, _)| key == "context.score"));
/// assert!(names.keys.iter().any(|(key, _)| key == "visits.a"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConditionNames {
    /// The keys, each with its description.
    pub keys: Vec<(String, String)>,
    /// The types of the declared context values, by their keys without `context.`.
    pub types: BTreeMap<String, ValueType>,
    /// The outcomes: first those that are visible at the node, then the other built-in ones.
    pub outcomes: Vec<String>,
    /// The number of outcomes that are visible at the node.
    pub likely: usize,
}

impl Loaded {
    /// Returns the names that the conditions on the edges of a node may use, also for a pipeline with errors.
    pub fn condition_names(&self, node: NodeIndex) -> ConditionNames {
        let analysis = self.analysis();
        let properties = Properties::new(&analysis);
        let outcomes = Outcomes::new(&properties);
        let seen = outcomes.seen(node);
        let mut words: Vec<String> = outcomes
            .list(seen.words | seen.declared)
            .into_iter()
            .map(str::to_owned)
            .collect();
        let likely = words.len();
        let others = OUTCOME_WORDS
            .iter()
            .filter(|word| !words.iter().any(|known| known == *word));
        let others: Vec<String> = others.map(|word| (*word).to_owned()).collect();
        words.extend(others);
        let mut names = ConditionNames {
            outcomes: words,
            likely,
            ..ConditionNames::default()
        };
        names.keys.extend(PLAIN_KEYS.iter().map(|key| {
            let described = plain_key_doc(key).to_owned();
            ((*key).to_owned(), described)
        }));
        declared(&properties, &mut names);
        for (_, node) in self.graph.indexed_nodes() {
            let id = &node.id;
            let visits = "The number of visits of the node since the last restart of the run.";
            names.keys.push((format!("visits.{id}"), visits.to_owned()));
            let outcome = "The outcome with which the node last ended; empty before that.";
            names
                .keys
                .push((format!("stages.{id}.outcome"), outcome.to_owned()));
        }
        names
    }
}

/// Adds the context values that the pipeline declares, and those that its attributes name.
fn declared(properties: &Properties<'_>, names: &mut ConditionNames) {
    let mut described: BTreeMap<String, String> = BTreeMap::new();
    for written in written(properties) {
        let setter = match (written.node, written.word) {
            (None, _) => "An input of the pipeline".to_owned(),
            (Some(node), None) => format!("Set by every success of `{}`", properties.id(node)),
            (Some(node), Some(word)) => format!("Set by `{}` with the outcome `{word}`", properties.id(node)),
        };
        for entry in written.entries.into_iter().flatten() {
            let shown = match &entry.declared {
                Some((value_type, optional)) => {
                    let mark = if *optional { "?" } else { "" };
                    format!("{setter}: `{value_type}{mark}`.")
                }
                None => format!("{setter}."),
            };
            if let Some((value_type, _)) = entry.declared {
                names.types.entry(entry.key.clone()).or_insert(value_type);
            }
            described.entry(entry.key).or_insert(shown);
        }
    }
    for (at, node) in properties.nodes() {
        let id = properties.id(at);
        for key in node.attributes.words(Known::OutputKeys) {
            let shown = format!("A key of the response of `{id}`.");
            described.entry(plain_key(key).to_owned()).or_insert(shown);
        }
        let pairs = node
            .attributes
            .text(Known::SubpipelineOutputs)
            .and_then(key_pairs);
        let pairs = pairs.filter(|_| properties.kind(at) == kind::SUBPIPELINE);
        for (own, _) in pairs.into_iter().flatten() {
            let shown = format!("Returned by the sub-pipeline of `{id}`.");
            described.entry(plain_key(own).to_owned()).or_insert(shown);
        }
    }
    let keys = described.into_iter();
    names
        .keys
        .extend(keys.map(|(key, shown)| (format!("context.{key}"), shown)));
}

fn plain_key_doc(key: &str) -> &'static str {
    match key {
        "outcome" => "The outcome of the stage; at a routing node, of the stage before it.",
        "preferred_label" => "The label that the stage prefers.",
        "failure_reason" => "The reason for the failure; empty if the stage did not fail.",
        "last_stage" => "The stage that ran last.",
        "last_response" => "The response of the stage that ran last.",
        "current_node" => "The node whose edges are chosen from.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plain_key_is_described() {
        for key in PLAIN_KEYS {
            assert_ne!(plain_key_doc(key), "", "{key}");
        }
    }
}
