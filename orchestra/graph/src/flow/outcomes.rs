//! The outcomes that a pipeline names.

use std::collections::BTreeSet;

use crate::analysis::{Analysis, EdgeCondition};
use crate::attribute::Known;
use crate::condition::OUTCOME_WORDS;
use crate::contract::OUTPUTS_OF;

/// Returns the outcomes that a pipeline names, after the built-in ones. A success comes first, so that paths of runs are
/// simple.
pub(crate) fn outcomes<'a>(analysis: &'a Analysis<'_>) -> Vec<&'a str> {
    let mut words: BTreeSet<&str> = BTreeSet::new();
    for condition in analysis.conditions() {
        if let EdgeCondition::Parsed(expression) = condition {
            words.extend(expression.outcomes());
        }
    }
    for node in &analysis.graph().nodes {
        words.extend(node.attributes.words(Known::Outcomes));
        let names = node.attributes.iter().map(|attribute| attribute.key.name());
        words.extend(names.filter_map(|name| name.strip_prefix(OUTPUTS_OF)));
    }
    let others = words.into_iter().filter(|word| !OUTCOME_WORDS.contains(word));
    OUTCOME_WORDS.iter().copied().chain(others).collect()
}
