//! The events of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Message, ModelReply, ToolResult};

/// An event of a conversation. The list of its events is everything that must be persisted of a conversation.
///
/// ```
/// use orchestra_agent::ConversationEvent;
/// let text = serde_json::to_string(&ConversationEvent::PersonReplied { text: "/done".into() })?;
/// assert_eq!(text, r#"{"said":{"text":"/done"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationEvent {
    /// The conversation began.
    Began {
        /// The system prompt.
        system: String,
        /// The earlier messages, and the task as the last message.
        messages: Vec<Message>,
    },
    /// The model answered.
    Replied {
        /// The answer.
        reply: ModelReply,
    },
    /// The tools that the model called have ended.
    Called {
        /// The results, in the order of the calls.
        results: Vec<ToolResult>,
    },
    /// The person replied.
    #[serde(rename = "said")]
    PersonReplied {
        /// The text of the person.
        text: String,
    },
    /// The manager loop that supervises the run gave instructions (rule F7).
    Steered {
        /// The instructions, oldest first.
        instructions: Vec<String>,
    },
}

/// Deserializes the persisted events of a conversation.
///
/// # Errors
/// Returns an error if a note is not a conversation event.
pub(crate) fn events(notes: &[Value]) -> Result<Vec<ConversationEvent>, serde_json::Error> {
    notes.iter().map(ConversationEvent::deserialize).collect()
}
