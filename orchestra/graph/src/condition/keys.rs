//! The names that conditions read: keys, outcomes, and the keys of other tools.

use super::comparison::Comparison;

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
        help: "the output of a tool is `tool.output`, and its trimmed last line is `tool.last_line`",
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
