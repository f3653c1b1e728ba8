//! The rules of a conversation.

use orchestra_graph::{Contract, NodeIndex};

use crate::answer_format::AnswerFormat;

/// The rules of a conversation.
///
/// ```
/// use orchestra_agent::ConversationRules;
/// let rules = ConversationRules::default();
/// assert_eq!((rules.max_turns, rules.interactive), (50, false));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConversationRules {
    /// Maximum number of model calls.
    pub max_turns: u32,
    /// `true` if a person replies when the model calls no tools.
    pub interactive: bool,
    /// `true` if the model reports its outcome with the tool `report_outcome`.
    pub reports: bool,
    /// `true` if the model is reminded once when it ends without a report.
    pub reminds: bool,
    /// Outcome statuses that a report may contain in addition to the built-in ones.
    pub words: Vec<String>,
    /// The ids of the nodes that a report may suggest as the next stage.
    pub successors: Vec<String>,
    /// The context keys that the report of a success must set.
    pub keys: Vec<String>,
    /// The contract of the pipeline, which a report must keep.
    pub contract: Contract,
    /// The node of the stage in the contract.
    pub node: NodeIndex,
    /// The form of the final answer; `None` if it may be any text.
    pub answer: Option<AnswerFormat>,
    /// The ids among which the model chooses with the tool `choose`; empty if there is nothing to choose.
    pub choices: Vec<String>,
    /// The number of tokens above which the conversation is compacted; `None` means never.
    pub compact_at: Option<u64>,
}

impl Default for ConversationRules {
    fn default() -> ConversationRules {
        ConversationRules {
            max_turns: 50,
            interactive: false,
            reports: false,
            reminds: false,
            words: Vec::new(),
            successors: Vec::new(),
            keys: Vec::new(),
            contract: Contract::default(),
            node: NodeIndex(0),
            answer: None,
            choices: Vec::new(),
            compact_at: None,
        }
    }
}
