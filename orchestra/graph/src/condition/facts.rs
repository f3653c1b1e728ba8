//! The facts that a condition reads, and the primitives that both forms of a condition call.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use regex_lite::Regex;
use serde_json::Value;

use super::comparison::Comparison;
use super::keys::{VISITS, is_label, stage_outcome};
use crate::label::{label_text, normalize_label};

/// A store of named values, such as the context of a run.
///
/// ```
/// use orchestra_graph::condition::{Facts, Lookup, parse_condition};
/// use serde_json::Value;
///
/// /// A store that answers every question alike.
/// struct Always(Value);
/// impl Lookup for Always {
///     fn lookup(&self, _: &str) -> Option<&Value> {
///         Some(&self.0)
///     }
/// }
///
/// let facts = Facts { context: &Always(3.into()), ..Facts::default() };
/// assert!(parse_condition("context.tries >= 3")?.holds(&facts));
/// # Ok::<(), orchestra_graph::condition::ConditionError>(())
/// ```
pub trait Lookup {
    /// Returns the value of a key; `None` if there is none.
    fn lookup(&self, key: &str) -> Option<&Value>;
}

impl Lookup for () {
    fn lookup(&self, _: &str) -> Option<&Value> {
        None
    }
}

impl Lookup for BTreeMap<String, Value> {
    fn lookup(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

impl Lookup for HashMap<String, Value> {
    fn lookup(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

impl Lookup for serde_json::Map<String, Value> {
    fn lookup(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

/// The records of a run about its stages, by their ids: the keys `visits.ID` and `stages.ID.outcome` (rules F1, R13).
///
/// ```
/// use orchestra_graph::condition::{Facts, StageRecords, parse_condition};
///
/// /// A run that has entered each node twice and failed there.
/// struct Twice;
/// impl StageRecords for Twice {
///     fn visits(&self, _: &str) -> u32 {
///         2
///     }
///     fn outcome(&self, _: &str) -> Option<&str> {
///         Some("fail")
///     }
/// }
///
/// let facts = Facts { stages: &Twice, ..Facts::default() };
/// assert!(parse_condition("visits.work >= 2 && stages.work.outcome=fail")?.holds(&facts));
/// assert!(!parse_condition("visits.work >= 3")?.holds(&facts));
/// # Ok::<(), orchestra_graph::condition::ConditionError>(())
/// ```
pub trait StageRecords {
    /// Returns the number of visits of a node since the last restart of the run.
    fn visits(&self, node: &str) -> u32;

    /// Returns the name of the status with which a node last ended; `None` if it has none.
    fn outcome(&self, node: &str) -> Option<&str>;
}

impl StageRecords for () {
    fn visits(&self, _: &str) -> u32 {
        0
    }

    fn outcome(&self, _: &str) -> Option<&str> {
        None
    }
}

/// The facts on which the choice of an edge depends: the outcome of the stage and the context of the run.
///
/// At a `diamond` the outcome is that of the stage before it (rule R4). Keys are looked up as in Attractor 10.4.
///
/// ```
/// use orchestra_graph::condition::{Facts, parse_condition};
/// let context = std::collections::BTreeMap::from([("tests_passed".to_owned(), true.into())]);
/// let facts = Facts { outcome: "success", context: &context, ..Facts::default() };
/// assert!(parse_condition("outcome=success && context.tests_passed")?.holds(&facts));
/// assert_eq!(facts.text("context.missing"), "");
/// # Ok::<(), orchestra_graph::condition::ConditionError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The name of the stage's status.
    pub outcome: &'a str,
    /// The label that the stage prefers; empty if there is none.
    pub preferred_label: &'a str,
    /// The reason for the failure; empty if the stage did not fail.
    pub failure_reason: &'a str,
    /// The ids of the nodes that the stage suggests, best first.
    pub suggested_next_ids: &'a [String],
    /// The node whose edges are chosen from.
    pub current_node: &'a str,
    /// The stage that ran last.
    pub last_stage: &'a str,
    /// The context of the run.
    pub context: &'a (dyn Lookup + Sync),
    /// The output of the stage itself, for first-match routing (rule R11).
    pub output: &'a (dyn Lookup + Sync),
    /// The visits and outcomes of the stages of the run (rule R13).
    pub stages: &'a (dyn StageRecords + Sync),
}

impl Default for Facts<'_> {
    fn default() -> Self {
        Facts {
            outcome: "",
            preferred_label: "",
            failure_reason: "",
            suggested_next_ids: &[],
            current_node: "",
            last_stage: "",
            context: &(),
            output: &(),
            stages: &(),
        }
    }
}

impl<'a> Facts<'a> {
    /// Returns `true` if the stage failed.
    pub fn failed(&self) -> bool {
        self.outcome == "fail"
    }

    /// Returns the value of a key in the context: looks up `context.x` as `context.x`, then as `x` (rule C3).
    fn value(&self, key: &str) -> Option<&'a Value> {
        let short = || {
            key.strip_prefix("context.")
                .and_then(|key| self.context.lookup(key))
        };
        self.context.lookup(key).or_else(short)
    }

    /// Returns the value of a key that the context does not hold: a fact of the stage itself, or a record of another
    /// stage.
    fn own(&self, key: &str) -> Option<Cow<'a, str>> {
        Some(Cow::Borrowed(match key {
            "outcome" => self.outcome,
            "preferred_label" => self.preferred_label,
            "failure_reason" => self.failure_reason,
            "current_node" => self.current_node,
            "last_stage" => self.last_stage,
            _ => {
                if let Some(node) = key.strip_prefix(VISITS) {
                    return Some(Cow::Owned(self.stages.visits(node).to_string()));
                }
                self.stages.outcome(stage_outcome(key)?).unwrap_or_default()
            }
        }))
    }

    /// Returns the plain text of a key; empty for a missing key (rule C3).
    ///
    /// ```
    /// use orchestra_graph::condition::Facts;
    /// assert_eq!(Facts { outcome: "fail", ..Facts::default() }.text("outcome"), "fail");
    /// assert_eq!(Facts::default().text("context.missing"), "");
    /// ```
    pub fn text(&self, key: &str) -> Cow<'a, str> {
        self.own(key)
            .unwrap_or_else(|| self.value(key).map_or(Cow::Borrowed(""), plain_text))
    }

    /// Returns `true` if the text of a key is not empty, not `false` and not `0`.
    pub fn truthy(&self, key: &str) -> bool {
        !matches!(&*self.text(key), "" | "false" | "0")
    }

    /// Returns `true` if a comparison holds (rules C3, C5). An ordering comparison of texts that are not numbers never
    /// holds.
    ///
    /// A label is compared in its normal form, on both sides (rule H6).
    ///
    /// ```
    /// use orchestra_graph::condition::{Comparison, Facts};
    /// let facts = Facts { preferred_label: "[A] Approve", ..Facts::default() };
    /// assert!(facts.compare("preferred_label", Comparison::Equal, "approve"));
    /// ```
    pub fn compare(&self, key: &str, comparison: Comparison, literal: &str) -> bool {
        match comparison {
            Comparison::Equal => equal(key, &self.text(key), literal),
            Comparison::NotEqual => !equal(key, &self.text(key), literal),
            Comparison::Contains => self.contains(key, literal),
            _ => {
                let (Some(left), Some(right)) = (number(&self.text(key)), number(literal)) else {
                    return false;
                };
                match comparison {
                    Comparison::Less => left < right,
                    Comparison::LessOrEqual => left <= right,
                    Comparison::Greater => left > right,
                    _ => left >= right,
                }
            }
        }
    }

    fn contains(&self, key: &str, literal: &str) -> bool {
        if self.own(key).is_none()
            && let Some(Value::Array(items)) = self.value(key)
        {
            return items.iter().any(|item| plain_text(item) == literal);
        }
        let text = self.text(key);
        if is_label(key) {
            return normalize_label(&text).contains(&normalize_label(literal));
        }
        text.contains(literal)
    }

    /// Returns `true` if a regular expression matches anywhere in the text of a key. A label is matched without its
    /// accelerator.
    pub fn matches(&self, key: &str, pattern: &Pattern) -> bool {
        let text = self.text(key);
        let seen = if is_label(key) { label_text(&text) } else { &text };
        pattern.regex.is_match(seen)
    }

    /// Returns `true` if the output of the stage itself contains a key (rule R11).
    pub fn has_output(&self, key: &str) -> bool {
        self.output.lookup(key).is_some()
    }

    /// Returns `true` if the output of the stage itself contains a key with this value, type included (rule R11).
    pub fn output_is(&self, key: &str, expected: &Value) -> bool {
        match (self.output.lookup(key), expected) {
            (Some(Value::Number(found)), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
            (Some(found), expected) => found == expected,
            (None, _) => false,
        }
    }
}

/// Returns `true` if the text of a key equals a literal (rules C3, H6).
pub(crate) fn equal(key: &str, text: &str, literal: &str) -> bool {
    if is_label(key) {
        return normalize_label(text) == normalize_label(literal);
    }
    text == literal
}

/// Converts a value to plain text: `true`, `3`, `0.5`; lists and objects become JSON.
pub(crate) fn plain_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => Cow::Owned(float.to_string()),
            _ => Cow::Owned(number.to_string()),
        },
        other => Cow::Owned(other.to_string()),
    }
}

/// Parses a number that is written in digits; words such as `inf` are not numbers here.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let plain = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    (digits && plain)
        .then(|| text.parse::<f64>().ok())
        .flatten()
        .filter(|number| number.is_finite())
}

/// A compiled regular expression, the right side of `matches` (rule C5). Matching takes time linear in the length of
/// the text.
///
/// ```
/// use orchestra_graph::condition::{Facts, Pattern};
/// let pattern = Pattern::new("^rel-[0-9]+$")?;
/// assert!(Facts { preferred_label: "rel-7", ..Facts::default() }.matches("preferred_label", &pattern));
/// assert!(!Facts::default().matches("preferred_label", &pattern));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns a message that describes the error in the expression.
    ///
    /// ```
    /// use orchestra_graph::condition::Pattern;
    /// assert!(Pattern::new("^v[0-9]+$").is_ok());
    /// assert!(Pattern::new("(").is_err());
    /// ```
    pub fn new(text: &str) -> Result<Pattern, String> {
        Regex::new(text)
            .map(|regex| Pattern { regex })
            .map_err(|error| error.to_string())
    }

    /// Returns the expression as written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// Returns whether the expression matches the empty text.
    pub(crate) fn matches_empty(&self) -> bool {
        self.regex.is_match("")
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.as_str() == other.as_str()
    }
}
