//! How many tokens a text has.

use crate::model::{Arguments, Message, ModelRequest};
use crate::providers::ProviderKind;

/// The tokens of a text, counted with OpenAI's vocabulary `o200k_base`, whichever model reads it.
///
/// For OpenAI's models since GPT 4o this is what they count, but for a few tokens that frame each message. Others have
/// vocabularies of their own that are not published, so for them it is a measure, not their count: for English and
/// program text, Gemini counts about the same, give or take a tenth; Claude up to 4.6 a tenth to a third more, later
/// Claudes up to two thirds more. Where a bound is needed, as for a budget, there is [`input_token_bound`].
///
/// The time grows with the text alone, whatever is in it. The first call loads the vocabulary, which takes a fraction of
/// a second.
///
/// ```
/// use orchestra_agent::count_tokens;
/// assert_eq!(count_tokens(""), 0);
/// assert_eq!(count_tokens("hello world"), 2);
/// ```
pub fn count_tokens(text: &str) -> u64 {
    let vocabulary = tiktoken_rs::o200k_base_singleton();
    let count: usize = pieces(text).map(|piece| vocabulary.count_ordinary(piece)).sum();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A text in pieces of bounded length, cut behind a line where that is possible. The tokenizer's expressions backtrack,
/// and give up on a long run of white space; a cut costs a token at most.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const LONGEST: usize = 8 * 1024;
    let mut rest = text;
    std::iter::from_fn(move || {
        let most = rest.floor_char_boundary(LONGEST);
        let (piece, _) = rest.split_at_checked(most)?;
        let line = piece
            .rfind('\n')
            .filter(|_| most < rest.len())
            .map_or(most, |at| at + 1);
        let (piece, more) = rest.split_at_checked(line)?;
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The most tokens that a provider will count for a request, before it is sent: what a budget reserves for it.
///
/// It counts everything that is sent, adds what frames messages and tools, and then a margin for vocabularies other
/// than [`count_tokens`] knows: a tenth for OpenAI's models, a quarter for Gemini, three quarters for all others.
///
/// ```
/// use orchestra_agent::{ModelRequest, count_tokens, input_token_bound};
/// let text = "How many bugs are in this file?";
/// let request = ModelRequest::new("anthropic", "claude-sonnet-4-5").user(text);
/// assert!(input_token_bound(&request) > count_tokens(text));
/// ```
pub fn input_token_bound(request: &ModelRequest) -> u64 {
    // What providers add: a frame around each message and call, a description of tools in general.
    const FRAME: u64 = 12;
    const TOOLS: u64 = 500;
    let mut count = FRAME + count_tokens(&request.system);
    if !request.tools.is_empty() {
        count += TOOLS;
    }
    for tool in &request.tools {
        let words = count_tokens(&tool.name) + count_tokens(&tool.description);
        count += FRAME + words + count_tokens(&tool.parameters.to_string());
    }
    for message in &request.messages {
        count += FRAME;
        match message {
            Message::User { text } => count += count_tokens(text),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => {
                count += count_tokens(text);
                count += opaque
                    .as_ref()
                    .map_or(0, |value| count_tokens(&value.to_string()));
                for call in tool_calls {
                    count += FRAME + count_tokens(&call.id) + count_tokens(&call.name);
                    count += match &call.arguments {
                        Arguments::Object(fields) => {
                            count_tokens(&serde_json::to_string(fields).unwrap_or_default())
                        }
                        Arguments::Malformed { text, .. } => FRAME + count_tokens(text),
                    };
                }
            }
            Message::Tools { results } => {
                for result in results {
                    count += FRAME + count_tokens(&result.id) + count_tokens(&result.name);
                    count += count_tokens(&result.content);
                }
            }
        }
    }
    let percent = match ProviderKind::of_model(&request.model) {
        Some(ProviderKind::OpenAi) => 110,
        Some(ProviderKind::Gemini) => 125,
        _ => 175,
    };
    count.saturating_mul(percent).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// Counts that the vocabulary's publisher gives for these texts.
    #[test]
    fn texts_have_the_tokens_that_are_published_for_them() {
        let cases = [
            ("tiktoken is great!", 6),
            ("hello world", 2),
            ("antidisestablishmentarianism", 6),
            ("2 + 2 = 4", 7),
            ("お誕生日おめでとう", 8),
        ];
        for (text, count) in cases {
            assert_eq!(count_tokens(text), count, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_made_to_be_slow_is_counted_in_time() {
        let texts = [
            "a".repeat(400_000),
            " ".repeat(400_000),
            "'s".repeat(200_000),
            "\n \t".repeat(130_000),
        ];
        let began = Instant::now();
        for text in &texts {
            assert!(count_tokens(text) > 0);
        }
        // Quadratic time would be hours.
        assert!(began.elapsed() < Duration::from_secs(120));
    }

    #[test]
    fn a_long_text_has_the_tokens_of_its_parts() {
        let line = "Each line of this text is a sentence, and so the same.\n";
        assert_eq!(count_tokens(&line.repeat(1_000)), 1_000 * count_tokens(line));
        let wide = "ä€".repeat(10_000);
        assert_eq!(pieces(&wide).collect::<String>(), wide);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_count_lies_between_nothing_and_the_bytes(text in "\\PC{0,200}") {
            let count = count_tokens(&text);
            prop_assert!(count <= text.len() as u64);
            prop_assert_eq!(count == 0, text.is_empty());
        }

        #[test]
        fn a_bound_is_above_what_is_counted(text in "\\PC{0,200}") {
            for model in ["gpt-5", "gemini-2.5-pro", "claude-opus-4-5", "llama"] {
                let request = ModelRequest::new("p", model).system(text.clone()).user(text.clone());
                prop_assert!(input_token_bound(&request) > 2 * count_tokens(&text));
            }
        }
    }
}
