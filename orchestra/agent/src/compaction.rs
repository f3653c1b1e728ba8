//! Makes long conversations shorter, so that they fit what a model can take (Attractor 5.4).

use crate::model::Message;
use crate::tokens::count_tokens;

/// How many of the last messages stay as they are.
const KEPT: usize = 6;
/// How many characters of an old result stay.
const RESULT: usize = 200;
/// How many characters of an old answer stay.
const ANSWER: usize = 1_000;

/// What stands in the place of exchanges that were left out.
const LEFT_OUT: &str = "[Earlier parts of this conversation are left out here.]";

/// Makes a conversation shorter where it has more tokens than this: results of old tool calls first, then old answers,
/// then whole exchanges behind the first message, whose place a line takes that says so. The last messages stay.
pub(crate) fn compact(system: &str, messages: &mut Vec<Message>, limit: u64) {
    let base = count_tokens(system);
    let size = |messages: &[Message]| base + messages.iter().map(tokens_of).sum::<u64>();
    if size(messages) <= limit {
        return;
    }
    let old = messages.len().saturating_sub(KEPT);
    for message in messages.iter_mut().take(old).skip(1) {
        if let Message::Tools { results } = message {
            for result in results {
                shorten(&mut result.content, RESULT);
            }
        }
    }
    if size(messages) <= limit {
        return;
    }
    for message in messages.iter_mut().take(old).skip(1) {
        if let Message::Assistant { text, .. } = message {
            shorten(text, ANSWER);
        }
    }
    // Calls and their results go together, so only what a user said begins what stays.
    let mut dropped = 0;
    while size(messages) > limit {
        let behind = messages.iter().enumerate().skip(2);
        let last = messages.len().saturating_sub(1);
        let next = behind
            .filter(|(at, message)| *at < last && matches!(message, Message::User { .. }))
            .map(|(at, _)| at)
            .next();
        let Some(next) = next else { break };
        dropped += next - 1;
        messages.drain(1..next);
    }
    if let (Some(Message::User { text }), true) = (messages.first_mut(), dropped > 0)
        && !text.ends_with(LEFT_OUT)
    {
        text.push_str("\n\n");
        text.push_str(LEFT_OUT);
    }
}

/// The tokens of a message, about as a provider counts them.
pub(crate) fn tokens_of(message: &Message) -> u64 {
    /// What the frame of a message takes.
    const FRAME: u64 = 4;
    let content = match message {
        Message::User { text } => count_tokens(text),
        Message::Assistant { text, tool_calls, .. } => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                FRAME + count_tokens(&call.name) + count_tokens(&arguments)
            });
            count_tokens(text) + calls.sum::<u64>()
        }
        Message::Tools { results } => results
            .iter()
            .map(|result| FRAME + count_tokens(&result.content))
            .sum(),
    };
    FRAME + content
}

fn shorten(text: &mut String, limit: usize) {
    let length = text.chars().count();
    if length > limit {
        let kept: String = text.chars().take(limit).collect();
        *text = format!("{kept} [... {} characters left out]", length - limit);
    }
}
