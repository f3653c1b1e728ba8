//! Attribute names and values of other tools, with their equivalents here (rule L7).

use super::table::Known;
use crate::value::Value;

/// Attribute names of other tools, with the attribute that each one means here (rule L7).
pub(crate) const FOREIGN: &[(&str, Known)] = &[
    ("command", Known::ToolCommand),
    ("script", Known::ToolCommand),
    ("cmd", Known::ToolCommand),
    ("model", Known::LlmModel),
    ("provider", Known::LlmProvider),
    ("handler", Known::Type),
    ("llm_prompt", Known::Prompt),
    ("quorum_count", Known::JoinK),
    ("assertion", Known::Assert),
    ("assertions", Known::Assert),
    ("invariant", Known::Assert),
];

/// The name that other tools use for the child pipeline of any kind of node. The kind decides which attribute it means.
pub(crate) const FOREIGN_CHILD: &str = "dot_file";

/// A value of other tools that has exactly one meaning here (rule L7).
pub(crate) struct ForeignValue {
    /// The attribute.
    pub(crate) known: Known,
    /// The value in other tools.
    pub(crate) word: &'static str,
    /// The equivalent value here.
    pub(crate) value: &'static str,
    /// A second attribute that is part of the meaning.
    pub(crate) also: Option<(Known, &'static str)>,
}

/// The accepted values of other tools.
const FOREIGN_VALUES: &[ForeignValue] = &[
    ForeignValue {
        known: Known::JoinPolicy,
        word: "all_success",
        value: "wait_all",
        also: Some((Known::ErrorPolicy, "fail_fast")),
    },
    ForeignValue {
        known: Known::JoinPolicy,
        word: "any_success",
        value: "first_success",
        also: None,
    },
];

/// Returns the accepted value of another tool that equals the value of an attribute.
pub(crate) fn foreign_value(known: Known, value: &Value) -> Option<&'static ForeignValue> {
    let word = value.as_str()?.trim();
    FOREIGN_VALUES
        .iter()
        .find(|foreign| foreign.known == known && foreign.word == word)
}
