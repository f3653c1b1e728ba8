//! The condition language of edges (Attractor 10, rules C1-C6).
//!
//! A condition is parsed once into an [`Expression`]. A loaded pipeline evaluates this tree; a compiled pipeline
//! contains a closure that calls the same primitives of [`Facts`], so that both always agree.

mod facts;
mod parser;

pub use facts::{Facts, Lookup, Pattern, StageRecords};
pub(crate) use facts::{equal, number};
pub use parser::{ConditionError, parse_condition};

use serde_json::Value;

/// The operator of a comparison (rules C1, C3, C5).
///
/// ```
/// use orchestra_graph::condition::{Comparison, Facts};
/// let context = std::collections::BTreeMap::from([("tries".to_owned(), 9.into())]);
/// let facts = Facts { context: &context, ..Facts::default() };
/// assert!(facts.compare("context.tries", Comparison::Less, "10"));
/// assert!(!facts.compare("context.tries", Comparison::Less, "ten"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`: equal text.
    Equal,
    /// `!=`: different text.
    NotEqual,
    /// `<`, both sides numeric.
    Less,
    /// `<=`, both sides numeric.
    LessOrEqual,
    /// `>`, both sides numeric.
    Greater,
    /// `>=`, both sides numeric.
    GreaterOrEqual,
    /// `contains`: substring, or member of a list.
    Contains,
}

impl Comparison {
    /// Returns the operator as written.
    pub const fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Contains => "contains",
        }
    }
}

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
            if !keys.contains(&key) {
                keys.push(key);
            }
        });
        keys
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

/// The prefix of keys that read the number of visits of a node (rule R13).
pub(crate) const VISITS: &str = "visits.";
/// The prefix of keys that read the record of another stage (rule F1).
pub(crate) const STAGES: &str = "stages.";

/// Returns the node of a key `stages.ID.outcome`; `None` for any other key.
pub(crate) fn stage_outcome(key: &str) -> Option<&str> {
    key.strip_prefix(STAGES)?.strip_suffix(".outcome")
}

/// Returns `true` if the value of a key is a label, which is compared in its normal form (rule H6).
pub(crate) fn is_label(key: &str) -> bool {
    matches!(key, "preferred_label" | "human.gate.label")
}

/// The status names that the language itself defines (rule C4).
pub const OUTCOME_WORDS: &[&str] = &["success", "partial_success", "retry", "fail", "skipped"];

/// The keys without a dot that a condition may read (rules C1, C2, R4).
pub const PLAIN_KEYS: &[&str] = &[
    "outcome",
    "preferred_label",
    "failure_reason",
    "last_stage",
    "last_response",
    "current_node",
];

/// A key of other tools, with its equivalent here.
pub(crate) struct ForeignKey {
    /// The name in other tools, without `context.`.
    name: &'static str,
    /// The equivalent key.
    key: &'static str,
    /// The equivalent key for a comparison of the whole value.
    equal: &'static str,
    /// A description of the equivalent key, for messages.
    pub(crate) help: &'static str,
}

const FOREIGN_KEYS: &[ForeignKey] = &[
    ForeignKey {
        name: "tool_stdout",
        key: "tool.output",
        equal: "tool.last_line",
        help: "the output of a tool is `tool.output`, its last line without blanks around it `tool.last_line`",
    },
    ForeignKey {
        name: "tool_exit_code",
        key: "tool.exit_code",
        equal: "tool.exit_code",
        help: "the exit code of a tool is `tool.exit_code`",
    },
    ForeignKey {
        name: "exit_code",
        key: "tool.exit_code",
        equal: "tool.exit_code",
        help: "the exit code of a tool is `tool.exit_code`",
    },
    ForeignKey {
        name: "status",
        key: "outcome",
        equal: "outcome",
        help: "how the stage ended is `outcome`",
    },
];

impl ForeignKey {
    /// Returns the equivalent key for this comparison.
    pub(crate) fn meant(&self, comparison: Option<Comparison>) -> &'static str {
        match comparison {
            Some(Comparison::Equal | Comparison::NotEqual) => self.equal,
            _ => self.key,
        }
    }
}

/// Returns the equivalent of a key of other tools; `None` if the key is unknown.
pub(crate) fn foreign_key(name: &str) -> Option<&'static ForeignKey> {
    FOREIGN_KEYS.iter().find(|foreign| foreign.name == name)
}
