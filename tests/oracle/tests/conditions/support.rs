//! What the tests of conditions share: what a condition sees, and both answers to it.

use orchestra_graph::condition::{Facts, parse_condition};
use orchestra_oracle_tests::conditions::{Seen, holds};
use serde_json::Value;

pub(crate) fn facts(seen: &Seen) -> Facts<'_> {
    Facts {
        outcome: &seen.outcome,
        preferred_label: &seen.preferred_label,
        failure_reason: &seen.failure_reason,
        current_node: &seen.current_node,
        last_stage: &seen.last_stage,
        context: &seen.context,
        ..Facts::default()
    }
}

pub(crate) fn answer(condition: &str, seen: &Seen) -> bool {
    let expression = parse_condition(condition).unwrap_or_else(|problem| panic!("`{condition}`: {problem}"));
    expression.holds(&facts(seen))
}

pub(crate) fn with(outcome: &str, pairs: &[(&str, Value)]) -> Seen {
    Seen {
        outcome: outcome.to_owned(),
        context: pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        ..Seen::default()
    }
}

/// Holds both readings to a table.
pub(crate) fn table(seen: &Seen, rows: &[(&str, bool)]) {
    for (condition, expected) in rows {
        assert_eq!(answer(condition, seen), *expected, "`{condition}`");
        assert_eq!(holds(condition, seen), *expected, "`{condition}`, second reading");
    }
}
