//! The outcomes that a pipeline names.

use std::collections::BTreeSet;

use crate::analysis::{Analysis, EdgeCondition};
use crate::attribute::Known;
use crate::condition::{Comparison, Expression, OUTCOME_WORDS};

/// Returns the outcomes that a pipeline names, the built-in ones included.
pub(super) fn outcomes<'a>(analysis: &'a Analysis<'_>) -> Vec<&'a str> {
    let mut words: BTreeSet<&str> = OUTCOME_WORDS.iter().copied().collect();
    for condition in analysis.conditions() {
        if let EdgeCondition::Parsed(expression) = condition {
            expression.visit(&mut |part| {
                if let Expression::Compare {
                    key,
                    comparison: Comparison::Equal | Comparison::NotEqual,
                    literal,
                } = part
                    && key == "outcome"
                {
                    words.insert(literal);
                }
            });
        }
    }
    for node in &analysis.graph().nodes {
        words.extend(node.attributes.words(Known::Outcomes));
    }
    words.into_iter().collect()
}
