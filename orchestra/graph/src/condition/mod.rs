//! The condition language of edges (Attractor 10, rules C1-C6).
//!
//! A condition is parsed once into an [`Expression`]. A loaded pipeline evaluates that tree; a compiled one holds
//! a closure that calls the same primitives of [`Facts`], so the two cannot differ.

mod facts;
mod parser;

pub use facts::{Facts, Lookup, Pattern, StageRecords};
pub(crate) use facts::{equal, number};
pub use parser::{ConditionFault, parse_condition};

use serde_json::Value;

/// How a clause compares (rules C1, C3, C5).
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
    /// The operator as written.
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
/// # Ok::<(), orchestra_graph::condition::ConditionFault>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expression {
    /// Holds when every part holds; with no part, always.
    All(Vec<Expression>),
    /// Holds when any part holds.
    Any(Vec<Expression>),
    /// Holds when the part does not.
    Not(Box<Expression>),
    /// A bare key: present, not empty, not `false`, not `0`.
    Truthy(String),
    /// A key compared with a literal.
    Compare {
        /// The key.
        key: String,
        /// How.
        comparison: Comparison,
        /// The literal's text.
        literal: String,
    },
    /// A key that a regular expression matches somewhere.
    Matches {
        /// The key.
        key: String,
        /// The expression.
        pattern: Pattern,
    },
    /// The stage's own output holds the key (rule R11).
    HasOutput(String),
    /// The stage's own output holds the key with exactly this value, type included (rule R11).
    OutputIs {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// The stage failed, or did not (`condition_type`, rule R11).
    Failed(bool),
}

impl Expression {
    /// Whether the condition holds.
    ///
    /// ```
    /// use orchestra_graph::condition::{Facts, parse_condition};
    /// let condition = parse_condition("outcome=success && context.tries<3")?;
    /// let context = std::collections::BTreeMap::from([("tries".to_owned(), 2.into())]);
    /// assert!(condition.holds(&Facts { outcome: "success", context: &context, ..Facts::default() }));
    /// # Ok::<(), orchestra_graph::condition::ConditionFault>(())
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

    /// The keys that the condition reads, in order, without repeats.
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

    /// Whether the condition can hold only after a failure.
    ///
    /// An edge of a human gate with such a condition is a route for a gate that failed and no choice (rule H5).
    ///
    /// ```
    /// use orchestra_graph::condition::parse_condition;
    /// assert!(parse_condition("outcome=fail && context.tries<3")?.needs_failure());
    /// assert!(!parse_condition("outcome=fail || context.forced")?.needs_failure());
    /// # Ok::<(), orchestra_graph::condition::ConditionFault>(())
    /// ```
    pub fn needs_failure(&self) -> bool {
        self.after_success() == Some(false)
    }

    /// Whether the condition holds after a success, where that does not depend on anything else.
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

    /// Calls a function with every part, outer ones first.
    pub fn visit<'e>(&'e self, call: &mut impl FnMut(&'e Expression)) {
        call(self);
        match self {
            Expression::All(parts) | Expression::Any(parts) => parts.iter().for_each(|part| part.visit(call)),
            Expression::Not(part) => part.visit(call),
            _ => {}
        }
    }
}

/// What parts that are joined amount to after a success: one that gives the deciding value settles all of them.
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

/// What a key begins with that counts how often a node was entered (rule R13).
pub(crate) const VISITS: &str = "visits.";
/// What a key begins with that reads the record of another stage (rule F1).
pub(crate) const STAGES: &str = "stages.";

/// The node of a key `stages.ID.outcome`.
pub(crate) fn stage_outcome(key: &str) -> Option<&str> {
    key.strip_prefix(STAGES)?.strip_suffix(".outcome")
}

/// Whether the value of a key is a label, which is compared as labels are (rule H6).
pub(crate) fn is_label(key: &str) -> bool {
    matches!(key, "preferred_label" | "human.gate.label")
}

/// Outcome words that the language itself defines (rule C4).
pub const OUTCOME_WORDS: &[&str] = &["success", "partial_success", "retry", "fail", "skipped"];

/// Keys without a dot that a condition may read (rules C1, C2, R4).
pub const PLAIN_KEYS: &[&str] = &[
    "outcome",
    "preferred_label",
    "failure_reason",
    "last_stage",
    "last_response",
    "current_node",
];

/// A key of other tools, and what it is called here.
pub(crate) struct ForeignKey {
    /// The name in other tools, without `context.`.
    name: &'static str,
    /// The key here.
    key: &'static str,
    /// The key here where the whole value is compared.
    equal: &'static str,
    /// What the key here holds.
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
    /// The key here, as this comparison needs it.
    pub(crate) fn meant(&self, comparison: Option<Comparison>) -> &'static str {
        match comparison {
            Some(Comparison::Equal | Comparison::NotEqual) => self.equal,
            _ => self.key,
        }
    }
}

/// What a key of other tools is called here.
pub(crate) fn foreign_key(name: &str) -> Option<&'static ForeignKey> {
    FOREIGN_KEYS.iter().find(|foreign| foreign.name == name)
}
