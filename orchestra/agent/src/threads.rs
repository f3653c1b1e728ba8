//! Conversations that continue from stage to stage (Attractor 5.4, rule F5). A stage saves its conversation among its
//! files. A later stage of the thread continues it, even after the run was resumed.

use std::sync::OnceLock;

use orchestra_engine::{StageContext, StageFile, StageHistory, Status};
use orchestra_graph::Pipeline;
use orchestra_graph::table::Constant;

use crate::conversation::Conversation;
use crate::model::{Message, ToolResult};

/// Maximum size of a conversation that is read, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The cached answer whether any stage of a run continues a conversation; computed once per run.
#[derive(Default)]
struct Threads {
    any: OnceLock<bool>,
}

/// Returns `true` if any stage of a pipeline may continue a conversation.
fn has_threads(pipeline: &Pipeline) -> bool {
    let full = |value: Constant<&str>| value.text().is_some_and(|word| word.trim() == "full");
    let nodes = pipeline.nodes.iter().map(|row| row.attributes);
    let edges = pipeline.edges.iter().map(|row| row.attributes);
    pipeline.attribute("default_fidelity").is_some_and(full)
        || nodes.chain(edges).any(|rows| {
            let mut attributes = pipeline.attributes(rows);
            attributes.any(|(name, value)| name == "fidelity" && full(value))
        })
}

/// Returns `true` if any stage of the run of a stage may continue a conversation.
pub(crate) fn keeps_conversations(stage: &StageContext) -> bool {
    let threads = stage.shared::<Threads>();
    *threads.any.get_or_init(|| has_threads(stage.pipeline()))
}

/// The earlier conversation of a thread.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct EarlierConversation {
    pub(crate) messages: Vec<Message>,
    /// A description of how the latest stage of the thread failed; `None` if it did not fail.
    pub(crate) failure: Option<String>,
    /// `true` if the conversation is that of an earlier attempt of the same stage.
    pub(crate) is_own: bool,
}

impl EarlierConversation {
    /// Reads the earlier conversation of a stage's thread.
    pub(crate) fn read(stage: &StageContext, history: &StageHistory) -> EarlierConversation {
        let read = |record: &str| {
            let text = stage.stage_text(record, StageFile::Conversation, MAX_BYTES)?;
            let messages: Vec<Message> = serde_json::from_str(&text.head).ok()?;
            (!messages.is_empty()).then_some(messages)
        };
        if stage.attempt() > 1
            && let Some(messages) = read(&stage.record())
        {
            return EarlierConversation {
                messages,
                ..EarlierConversation::without_messages(stage, history, true)
            };
        }
        let before = history.thread_stage.as_ref();
        let Some(messages) = before.and_then(|before| read(before.record.as_deref()?)) else {
            return EarlierConversation::default();
        };
        EarlierConversation {
            messages,
            ..EarlierConversation::without_messages(stage, history, false)
        }
    }

    /// Describes the end of an earlier conversation that is stored elsewhere. `is_own` says that it is that of an
    /// earlier attempt of the same stage.
    pub(crate) fn without_messages(
        stage: &StageContext,
        history: &StageHistory,
        is_own: bool,
    ) -> EarlierConversation {
        let failure = if is_own {
            let reason = history.failures.last().map(String::as_str).unwrap_or_default();
            let node = format!("{}: ", stage.node().id());
            Some(failed(
                stage.node().id(),
                reason.strip_prefix(&node).unwrap_or(reason),
            ))
        } else {
            let before = history.thread_stage.as_ref();
            let before = before.filter(|before| before.status == Some(Status::Fail));
            before.map(|before| failed(&before.node, before.failure_reason.as_deref().unwrap_or_default()))
        };
        EarlierConversation {
            messages: Vec::new(),
            failure,
            is_own,
        }
    }
}

fn failed(node: &str, reason: &str) -> String {
    match reason.trim() {
        "" => format!("Your work on the stage `{node}` failed."),
        reason => format!("Your work on the stage `{node}` failed: {reason}"),
    }
}

/// A conversation that is saved for its thread when it is dropped, however the stage ends.
pub(crate) struct ThreadConversation {
    pub(crate) conversation: Conversation,
    /// Earlier messages of the thread that the current conversation does not contain.
    earlier: Vec<Message>,
    stage: Option<StageContext>,
}

impl ThreadConversation {
    pub(crate) fn new(conversation: Conversation, stage: &StageContext) -> ThreadConversation {
        ThreadConversation {
            conversation,
            earlier: Vec::new(),
            stage: keeps_conversations(stage).then(|| stage.clone()),
        }
    }

    /// Sets the earlier messages that are saved before the conversation.
    pub(crate) fn set_earlier(&mut self, earlier: Vec<Message>) {
        self.earlier = earlier;
    }
}

impl Drop for ThreadConversation {
    fn drop(&mut self) {
        let Some(stage) = &self.stage else {
            return;
        };
        let messages = self.conversation.messages();
        if messages.is_empty() {
            return;
        }
        let messages = with_all_results(self.earlier.iter().chain(messages).cloned().collect());
        // A failed write stops the run elsewhere; `drop` cannot report it.
        if let Ok(text) = serde_json::to_string(&messages) {
            let _ = stage.keep_conversation(&text);
        }
    }
}

/// Adds error results to calls without results, so that a provider accepts the conversation.
fn with_all_results(mut messages: Vec<Message>) -> Vec<Message> {
    let answered: Vec<String> = match messages.last() {
        Some(Message::Tools { results }) => results.iter().map(|result| result.id.clone()).collect(),
        _ => Vec::new(),
    };
    let calls = messages.iter().rev().find_map(|message| match message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls.clone()),
        Message::Tools { .. } => None,
        Message::User { .. } => Some(Vec::new()),
    });
    let open = calls.unwrap_or_default().into_iter();
    let open = open.filter(|call| !answered.contains(&call.id));
    let cut: Vec<ToolResult> = open
        .map(|call| ToolResult {
            id: call.id,
            name: call.name,
            content: "The call was cut short.".to_owned(),
            is_error: true,
        })
        .collect();
    if !cut.is_empty() {
        match messages.last_mut() {
            Some(Message::Tools { results }) => results.extend(cut),
            _ => messages.push(Message::Tools { results: cut }),
        }
    }
    messages
}

/// Converts tool calls and their results to plain text, because a provider rejects them in a stage without tools.
pub(crate) fn without_tool_calls(messages: Vec<Message>) -> Vec<Message> {
    let mut plain: Vec<Message> = Vec::new();
    for message in messages {
        match message {
            Message::Assistant { text, tool_calls, .. } if !tool_calls.is_empty() => {
                let calls = tool_calls.iter().map(|call| format!("[I call `{}`.]", call.name));
                let parts: Vec<String> = Some(text).into_iter().chain(calls).collect();
                let text = parts.join("\n").trim().to_owned();
                plain.push(Message::Assistant {
                    text,
                    tool_calls: Vec::new(),
                    opaque: None,
                });
            }
            Message::Tools { results } => {
                let results = results
                    .iter()
                    .map(|result| format!("[`{}` gave:]\n{}", result.name, result.content));
                plain = with_user_message(plain, results.collect::<Vec<_>>().join("\n\n"));
            }
            Message::User { text } => plain = with_user_message(plain, text),
            answer @ Message::Assistant { .. } => plain.push(answer),
        }
    }
    plain
}

/// Adds a message of the user. Merges it with the last message if that is also from the user.
pub(crate) fn with_user_message(mut messages: Vec<Message>, message: String) -> Vec<Message> {
    match messages.last_mut() {
        Some(Message::User { text }) => {
            text.push_str("\n\n---\n\n");
            text.push_str(&message);
        }
        _ => messages.push(Message::user(message)),
    }
    messages
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::model::{Arguments, ToolCall};

    fn calls(ids: &[&str]) -> Message {
        let calls = ids.iter().map(|id| ToolCall {
            id: (*id).to_owned(),
            name: "shell".to_owned(),
            arguments: Arguments::parse("{}"),
        });
        Message::Assistant {
            text: String::new(),
            tool_calls: calls.collect(),
            opaque: None,
        }
    }

    #[test]
    fn calls_without_results_are_answered() {
        let ended = with_all_results(vec![Message::user("x"), calls(&["1", "2"])]);
        let Some(Message::Tools { results }) = ended.last() else {
            panic!("{ended:?}");
        };
        assert_eq!(results.len(), 2);
        let again = with_all_results(ended.clone());
        assert_eq!(again, ended, "nothing is left open");
        let plain = without_tool_calls(ended.clone());
        assert!(
            matches!(&plain[1], Message::Assistant { text, tool_calls, .. } if tool_calls.is_empty() && text.contains("`shell`")),
            "{plain:?}"
        );
        assert!(
            matches!(&plain[2], Message::User { text } if text.contains("cut short")),
            "{plain:?}"
        );
        let complete = vec![Message::user("x")];
        assert_eq!(with_all_results(complete.clone()), complete);
    }

    #[test]
    fn two_messages_of_the_user_are_one() {
        let joined = with_user_message(vec![Message::user("first")], "second".to_owned());
        assert_eq!(joined, [Message::user("first\n\n---\n\nsecond")]);
        assert_eq!(
            with_user_message(Vec::new(), "only".to_owned()),
            [Message::user("only")]
        );
    }
}
