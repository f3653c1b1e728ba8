//! Shortens long conversations so that they fit the context window of a model (Attractor 5.4).

use serde_json::Value;

use crate::model::{Arguments, Message};
use crate::tokens::count_tokens;

/// The number of last messages that stay unchanged.
const UNCHANGED_MESSAGES: usize = 6;
/// Maximum length of an old tool result, in characters.
const MAX_RESULT_CHARS: usize = 200;
/// Maximum length of an old answer or of a text argument of an old call, in characters.
const MAX_ANSWER_CHARS: usize = 1_000;

/// The text that replaces exchanges that were removed.
const LEFT_OUT: &str = "[Earlier parts of this conversation are left out here.]";

/// Shortens a conversation with more than `limit` tokens: first the results and arguments of old tool calls, then old
/// answers. Then it removes whole exchanges, oldest first, and notes this in the first message. The first message, the
/// task and the last messages are never removed.
pub(crate) fn compact(system: &str, messages: &mut Vec<Message>, task: &mut usize, limit: u64) {
    // A text has at most as many tokens as bytes, and the vocabulary takes time to load.
    let bytes = |text: &str| text.len() as u64;
    let most = bytes(system)
        + messages
            .iter()
            .map(|message| size_of(message, bytes))
            .sum::<u64>();
    if most <= limit {
        return;
    }
    let base = count_tokens(system);
    let size = |messages: &[Message]| base + messages.iter().map(tokens_of).sum::<u64>();
    if size(messages) <= limit {
        return;
    }
    let old = messages.len().saturating_sub(UNCHANGED_MESSAGES);
    for message in messages.iter_mut().take(old).skip(1) {
        match message {
            Message::Tools { results } => results
                .iter_mut()
                .for_each(|result| shorten(&mut result.content, MAX_RESULT_CHARS)),
            Message::Assistant { tool_calls, .. } => tool_calls
                .iter_mut()
                .for_each(|call| shorten_arguments(&mut call.arguments)),
            Message::User { .. } => {}
        }
    }
    if size(messages) <= limit {
        return;
    }
    for message in messages.iter_mut().take(old).skip(1) {
        if let Message::Assistant { text, .. } = message {
            shorten(text, MAX_ANSWER_CHARS);
        }
    }
    let mut dropped = false;
    while size(messages) > limit {
        let Some((from, to)) = oldest(messages, *task) else {
            break;
        };
        messages.drain(from..to);
        if *task >= to {
            *task -= to - from;
        }
        dropped = true;
    }
    if let (Some(Message::User { text }), true) = (messages.first_mut(), dropped)
        && !text.ends_with(LEFT_OUT)
    {
        text.push_str("\n\n");
        text.push_str(LEFT_OUT);
    }
}

/// Returns the range of the oldest messages that may be removed: a single message, or an answer with calls together
/// with their results.
fn oldest(messages: &[Message], task: usize) -> Option<(usize, usize)> {
    let from = (1..messages.len()).find(|at| *at != task)?;
    let calls = matches!(messages.get(from + 1), Some(Message::Tools { .. }));
    let to = if calls { from + 2 } else { from + 1 };
    (to + UNCHANGED_MESSAGES <= messages.len()).then_some((from, to))
}

fn shorten_arguments(arguments: &mut Arguments) {
    match arguments {
        Arguments::Object(fields) => fields.values_mut().for_each(shorten_value),
        Arguments::Malformed { text, .. } => shorten(text, MAX_RESULT_CHARS),
    }
}

fn shorten_value(value: &mut Value) {
    match value {
        Value::String(text) => shorten(text, MAX_ANSWER_CHARS),
        Value::Array(list) => list.iter_mut().for_each(shorten_value),
        Value::Object(fields) => fields.values_mut().for_each(shorten_value),
        _ => {}
    }
}

/// Returns the approximate number of tokens of a message as a provider counts them.
pub(crate) fn tokens_of(message: &Message) -> u64 {
    size_of(message, count_tokens)
}

fn size_of(message: &Message, count: impl Fn(&str) -> u64) -> u64 {
    /// The tokens of a message's frame.
    const FRAME: u64 = 4;
    let content = match message {
        Message::User { text } => count(text),
        Message::Assistant {
            text,
            tool_calls,
            opaque,
        } => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                FRAME + count(&call.name) + count(&arguments)
            });
            let opaque = opaque.as_ref().map_or(0, |opaque| count(&opaque.to_string()));
            count(text) + calls.sum::<u64>() + opaque
        }
        Message::Tools { results } => results.iter().map(|result| FRAME + count(&result.content)).sum(),
    };
    FRAME + content
}

fn shorten(text: &mut String, limit: usize) {
    let length = text.chars().count();
    if length > limit {
        let start: String = text.chars().take(limit).collect();
        *text = format!("{start} [... {} characters left out]", length - limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ToolResult;

    #[test]
    fn a_conversation_is_shortened_from_its_limit_of_tokens_on() {
        let result = |n: usize| Message::Tools {
            results: vec![ToolResult {
                id: format!("call-{n}"),
                name: "read".to_owned(),
                content: "a line of some text\n".repeat(40),
                is_error: false,
            }],
        };
        let user = Message::User {
            text: "Do it.".to_owned(),
        };
        let whole: Vec<Message> = std::iter::once(user).chain((0..12).map(result)).collect();
        let tokens = count_tokens("system") + whole.iter().map(tokens_of).sum::<u64>();
        let bytes: u64 = whole
            .iter()
            .map(|message| size_of(message, |text| text.len() as u64))
            .sum();
        assert!(tokens * 2 < bytes, "the limit in tokens is the one that counts");
        for (limit, is_shortened) in [(tokens, false), (tokens - 1, true)] {
            let mut messages = whole.clone();
            compact("system", &mut messages, &mut 0, limit);
            assert_eq!(messages != whole, is_shortened, "{limit}");
        }
    }
}
