//! Parsed conditions as trees of expressions, and their evaluation.

use std::collections::HashSet;

use serde_json::Value;

use super::comparison::Comparison;
use super::facts::{Facts, Pattern};

/// The number of keys up to which a list is searched faster than a set.
const FEW: usize = 16;

/// A parsed condition (Attractor 10.2, rule C5).
///
/// ```
/// use orchestra_graph::condition::{Expression, parse_condition};
/// let parsed = parse_condition("outcome=fail || !context.dry_run")?;
/// let Expression::Any(parts) = &parsed else { panic!("two parts are joined by `||`") };
/// assert_eq!(parts.len(), 2);
/// assert_eq!(parsed.keys(), ["outcome", "context.dry_run"]);
/// # Ok::<(), orchestra_graph::condition::ConditionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expression {
    /// Holds if every part holds; without parts, always.
    All(Vec<Expression>),
    /// Holds if any part holds.
    Any(Vec<Expression>),
    /// Holds if the part does not.
    Not(Box<Expression>),
    /// A bare key. Holds if the key is present, not empty, not `false` and not `0`.
    Truthy(String),
    /// A key compared with a literal.
    Compare {
        /// The key.
        key: String,
        /// The operator.
        comparison: Comparison,
        /// The text of the literal.
        literal: String,
    },
    /// A key whose text a regular expression matches anywhere.
    Matches {
        /// The key.
        key: String,
        /// The regular expression.
        pattern: Pattern,
    },
    /// Holds if the output of the stage itself contains the key (rule R11).
    HasOutput(String),
    /// Holds if the output of the stage itself contains the key with exactly this value, type included (rule R11).
    OutputIs {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// For `true`, holds if the stage failed; for `false`, if it did not (`condition_type`, rule R11).
    Failed(bool),
}

impl Expression {
    /// Returns `true` if the condition holds.
    ///
    /// ```
    /// use orchestra_graph::condition::{Facts, parse_condition};
    /// let condition = parse_condition("outcome=success && context.tries<3")?;
    /// let context = std::collections::BTreeMap::from([("tries".to_owned(), 2.into())]);
    /// assert!(condition.holds(&Facts { outcome: "success", context: &context, ..Facts::default() }));
    /// # Ok::<(), orchestra_graph::condition::ConditionError>(())
    /// ```
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Expression::All(parts) => parts.iter().all(|part| part.holds(facts)),
            Expression::Any(parts) => parts.iter().any(|part| part.holds(facts)),
            Expression::Not(part) => !part.holds(facts),
            Expression::Truthy(key) => facts.truthy(key),
            Expression::Compare {
                key,
                comparison,
                literal,
            } => facts.compare(key, *comparison, literal),
            Expression::Matches { key, pattern } => facts.matches(key, pattern),
            Expression::HasOutput(key) => facts.has_output(key),
            Expression::OutputIs { key, value } => facts.output_is(key, value),
            Expression::Failed(failed) => facts.failed() == *failed,
        }
    }

    /// Returns the keys that the condition reads, in order, without duplicates.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        // Filled only if there are many keys, which a list is slow to search.
        let mut many = HashSet::new();
        self.visit(&mut |part| {
            let key = match part {
                Expression::Truthy(key)
                | Expression::Compare { key, .. }
                | Expression::Matches { key, .. }
                | Expression::HasOutput(key)
                | Expression::OutputIs { key, .. } => key.as_str(),
                Expression::Failed(_) => "outcome",
                _ => return,
            };
            let is_new = if keys.len() < FEW {
                !keys.contains(&key)
            } else {
                if many.is_empty() {
                    many.extend(keys.iter().copied());
                }
                many.insert(key)
            };
            if is_new {
                keys.push(key);
            }
        });
        keys
    }

    /// Returns the outcomes that the condition compares with, in order.
    pub(crate) fn outcomes(&self) -> Vec<&str> {
        let mut words = Vec::new();
        self.visit(&mut |part| {
            if let Expression::Compare {
                key,
                comparison: Comparison::Equal | Comparison::NotEqual,
                literal,
            } = part
                && key == "outcome"
            {
                words.push(literal.as_str());
            }
        });
        words
    }

    /// Returns `true` if the condition can hold only after a failure.
    ///
    /// An edge of a human gate with such a condition is a route for a failed gate, not a choice (rule H5).
    ///
    /// ```
    /// use orchestra_graph::condition::parse_condition;
    /// assert!(parse_condition("outcome=fail && context.tries<3")?.needs_failure());
    /// assert!(!parse_condition("outcome=fail || context.forced")?.needs_failure());
    /// # Ok::<(), orchestra_graph::condition::ConditionError>(())
    /// ```
    pub fn needs_failure(&self) -> bool {
        self.after_success() == Some(false)
    }

    /// Returns whether the condition holds after a success; `None` if that depends on anything else.
    fn after_success(&self) -> Option<bool> {
        let known = Facts {
            outcome: "success",
            ..Facts::default()
        };
        match self {
            Expression::All(parts) => three_valued(parts, false),
            Expression::Any(parts) => three_valued(parts, true),
            Expression::Not(part) => part.after_success().map(|held| !held),
            Expression::Failed(_) => Some(self.holds(&known)),
            Expression::Truthy(key) | Expression::Compare { key, .. } | Expression::Matches { key, .. } => {
                matches!(key.as_str(), "outcome" | "failure_reason").then(|| self.holds(&known))
            }
            _ => None,
        }
    }

    /// Calls a function with every part, outer parts first.
    pub fn visit<'e>(&'e self, call: &mut impl FnMut(&'e Expression)) {
        call(self);
        match self {
            Expression::All(parts) | Expression::Any(parts) => parts.iter().for_each(|part| part.visit(call)),
            Expression::Not(part) => part.visit(call),
            _ => {}
        }
    }
}

/// Combines joined parts after a success: a single part with the deciding value determines the result.
fn three_valued(parts: &[Expression], deciding: bool) -> Option<bool> {
    let mut all = Some(!deciding);
    for part in parts {
        match part.after_success() {
            Some(held) if held == deciding => return Some(deciding),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}
