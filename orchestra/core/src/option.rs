//! The answers that a question offers, and those that it withholds (rules H1, H5).

use std::collections::BTreeMap;
use std::fmt;

use orchestra_graph::{choice_named, label_text};
use serde::{Deserialize, Serialize};

/// One of the answers that a question offers.
///
/// ```
/// use orchestra_core::QuestionOption;
/// let option = QuestionOption::new("Y", "Yes, ship");
/// assert_eq!((option.key.as_str(), option.label.as_str()), ("Y", "Yes, ship"));
/// assert_eq!((option.to.is_none(), option.to_string().as_str()), (true, "[Y] Yes, ship"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct QuestionOption {
    /// The key that selects the option.
    pub key: String,
    /// The text that a person reads.
    pub label: String,
    /// The id of the node to which the run goes, if the question belongs to a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `true` if the option takes any text that names no other option (rule H4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub freeform: bool,
}

impl QuestionOption {
    /// Creates an option.
    pub fn new(key: impl Into<String>, label: impl Into<String>) -> QuestionOption {
        QuestionOption {
            key: key.into(),
            label: label.into(),
            to: None,
            freeform: false,
        }
    }
}

/// Writes the option as it is offered: `[Y] Yes`, or `any text: Comment`.
impl fmt::Display for QuestionOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = label_text(&self.label);
        if self.freeform {
            write!(f, "any text: {label}")
        } else {
            write!(f, "[{}] {label}", self.key)
        }
    }
}

/// An answer that a question does not offer now, because no condition on its edges holds (rule H5).
///
/// ```
/// use orchestra_core::WithheldOption;
/// let withheld: WithheldOption = serde_json::from_str(r#"{"key": "A", "label": "[A] Approve",
///     "conditions": [{"condition": "context.tests_passed=true", "values": {"context.tests_passed": ""}}]}"#)?;
/// let shown = "[A] Approve (`context.tests_passed=true` does not hold: context.tests_passed is empty)";
/// assert_eq!(withheld.to_string(), shown);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WithheldOption {
    /// The option.
    #[serde(flatten)]
    pub option: QuestionOption,
    /// The conditions of the option's edges, none of which holds.
    pub conditions: Vec<UnmetCondition>,
}

/// A condition that does not hold, with the values that it was evaluated with.
///
/// ```
/// use orchestra_core::UnmetCondition;
/// let unmet: UnmetCondition = serde_json::from_str(r#"{"condition": "visits.fix<3", "values": {"visits.fix": "3"}}"#)?;
/// assert_eq!(unmet.to_string(), "`visits.fix<3` does not hold: visits.fix is `3`");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct UnmetCondition {
    /// The condition as written.
    pub condition: String,
    /// The keys that it reads, with their values.
    pub values: BTreeMap<String, String>,
}

impl fmt::Display for WithheldOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<String> = self.conditions.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.option, conditions.join("; "))
    }
}

impl fmt::Display for UnmetCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` does not hold", self.condition)?;
        let mut separator = ":";
        for (key, value) in &self.values {
            match value.as_str() {
                "" => write!(f, "{separator} {key} is empty")?,
                value => write!(f, "{separator} {key} is `{value}`")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// An option that an answer names.
pub(crate) enum Named<'o> {
    Offered(&'o QuestionOption),
    Withheld(&'o WithheldOption),
}

/// Returns the option that an answer names, whether it is offered or withheld. A key takes precedence over a label, and
/// a label over a target. An offered option that takes any text cannot be named.
pub(crate) fn named<'o>(
    options: &'o [QuestionOption],
    withheld: &'o [WithheldOption],
    answer: &str,
) -> Option<Named<'o>> {
    let fixed = options.iter().filter(|option| !option.freeform);
    let offered = fixed.map(|option| (option, Named::Offered(option)));
    let not_offered = withheld
        .iter()
        .map(|withheld| (&withheld.option, Named::Withheld(withheld)));
    let (options, mut found): (Vec<&QuestionOption>, Vec<Named<'o>>) = offered.chain(not_offered).unzip();
    let names = options.iter().map(|option| {
        [
            &*option.key,
            &*option.label,
            option.to.as_deref().unwrap_or_default(),
        ]
    });
    let position = choice_named(names, answer)?;
    Some(found.swap_remove(position))
}
