//! The events of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Message, ModelReply, ToolResult};

/// A model that did not answer. It is not asked again in the same conversation.
///
/// ```
/// use orchestra_agent::FailedModel;
/// let failed = FailedModel {
///     provider: "anthropic".into(),
///     model: "claude-opus-4-6".into(),
///     code: "model_unavailable".into(),
///     reason: "overloaded".into(),
/// };
/// assert_eq!(serde_json::to_value(&failed)?["code"], "model_unavailable");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedModel {
    /// The provider, by its name in the configuration.
    pub provider: String,
    /// The model, by its name at the provider.
    pub model: String,
    /// The code of the failure, such as `model_unavailable` or `model_refused`.
    pub code: String,
    /// A message that names the provider and the model.
    pub reason: String,
}

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
    /// A model did not answer, and the next model of the stage is asked (rule F14).
    ModelFailed {
        /// The model and its failure.
        failed: FailedModel,
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
