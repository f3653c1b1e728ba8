//! The next action in a conversation, and its end.

use crate::model::ToolCall;
use crate::report::Report;

/// The next action in a conversation.
///
/// ```
/// use orchestra_agent::{Conversation, ConversationEvent, ConversationRules, ConversationStep, Message, ModelReply};
/// let mut conversation = Conversation::new(ConversationRules::default());
/// conversation.on(ConversationEvent::Began { system: String::new(), messages: vec![Message::user("Write a poem.")] });
/// assert_eq!(conversation.next(), ConversationStep::AskModel);
/// conversation.on(ConversationEvent::Replied { reply: ModelReply::text("Leaves fall.") });
/// let ConversationStep::End(end) = conversation.next() else { panic!("nothing is left to do") };
/// assert_eq!(end.text, "Leaves fall.");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ConversationStep {
    /// Call the model with [`messages`](crate::Conversation::messages).
    AskModel,
    /// Execute tool calls.
    CallTools(Vec<ToolCall>),
    /// Wait for the reply of the person.
    AskPerson,
    /// Nothing: the conversation has ended.
    End(ConversationEnd),
}

/// The end of a conversation.
///
/// ```
/// use orchestra_agent::{ConversationEnd, EndReason};
/// let end = ConversationEnd { text: "Leaves fall.".into(), reason: EndReason::Answered };
/// assert!(end.reason.is_success());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationEnd {
    /// The last text of the model.
    pub text: String,
    /// The reason why the conversation ended.
    pub reason: EndReason,
}

/// The reason why a conversation ended.
///
/// ```
/// use orchestra_agent::EndReason;
/// assert!(EndReason::Approved.is_success());
/// assert!(!EndReason::TurnsUsedUp { turns: 50 }.is_success());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EndReason {
    /// The model gave its final answer.
    Answered,
    /// The model reported its outcome.
    Reported(Report),
    /// The model chose one of several candidates.
    Chosen {
        /// The id of the chosen candidate.
        best: String,
        /// The reason for the choice; may be empty.
        reason: String,
    },
    /// The person ended the conversation with `/done`.
    Done,
    /// The person approved the result.
    Approved,
    /// The person rejected the result.
    Rejected {
        /// The reason for the rejection; may be empty.
        reason: String,
    },
    /// The maximum number of model calls was reached.
    TurnsUsedUp {
        /// The number of model calls.
        turns: u32,
    },
    /// The model repeatedly made invalid tool calls.
    Malformed {
        /// The problem of the last call.
        problem: String,
    },
    /// The model did not report its outcome, although it was reminded.
    Unreported,
    /// The model stopped without an answer.
    Stopped {
        /// The reason, as the provider names it; empty if the provider names none.
        reason: String,
    },
    /// The answer was repeatedly cut off because it was too long.
    Cut,
    /// The model, or a filter of its provider, declined to answer.
    Refused,
}

impl EndReason {
    /// Returns `true` if the stage succeeded.
    pub fn is_success(&self) -> bool {
        match self {
            EndReason::Answered | EndReason::Chosen { .. } | EndReason::Done | EndReason::Approved => true,
            EndReason::Reported(report) => report.status.is_success(),
            _ => false,
        }
    }
}
