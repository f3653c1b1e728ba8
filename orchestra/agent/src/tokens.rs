//! Counts the tokens of texts and requests.

use std::sync::LazyLock;

use orchestra_config::ProviderKind;
use rustc_hash::FxHashMap;
use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR, Rank};

use crate::model::{Arguments, Message, ModelRequest};

/// Returns the number of tokens of a text, counted with OpenAI's vocabulary `o200k_base`, regardless of the model.
///
/// For OpenAI's models since GPT 4o this is the exact count, except for a few tokens that frame each message. Other
/// providers do not publish their vocabularies, so for them it is an estimate: for English and program text, Gemini
/// counts about the same, plus or minus a tenth; Claude up to 4.6 counts a tenth to a third more, later versions up to
/// two thirds more. Use [`input_token_bound`] if an upper bound is needed, as for a budget.
///
/// The time is linear in the length of the text, whatever it contains. The first call loads the vocabulary, which takes
/// a fraction of a second.
///
/// ```
/// use orchestra_agent::count_tokens;
/// assert_eq!(count_tokens(""), 0);
/// assert_eq!(count_tokens("hello world"), 2);
/// ```
pub fn count_tokens(text: &str) -> u64 {
    static VOCABULARY: LazyLock<Option<CoreBPE>> = LazyLock::new(vocabulary);
    // The vocabulary is there, as the tests show; without it, each byte is a token.
    let count = VOCABULARY.as_ref().map_or(text.len(), |vocabulary| {
        pieces(text).map(|piece| vocabulary.count_ordinary(piece)).sum()
    });
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The tokens in the order of their ranks, each with its length in a byte before it, compressed. `tiktoken-rs` embeds
/// them as text of 3.6 MB, which would be a seventh of the program. Their licence is in `o200k_base.LICENSE`.
const PACKED_TOKENS: &[u8] = include_bytes!("o200k_base.deflate");

/// Reads [`PACKED_TOKENS`].
fn vocabulary() -> Option<CoreBPE> {
    let tokens = miniz_oxide::inflate::decompress_to_vec(PACKED_TOKENS).ok()?;
    let mut rest = tokens.as_slice();
    let mut ranks = FxHashMap::default();
    for rank in Rank::MIN.. {
        let Some((&length, after)) = rest.split_first() else {
            break;
        };
        let (token, after) = after.split_at_checked(usize::from(length))?;
        ranks.insert(token.to_vec(), rank);
        rest = after;
    }
    CoreBPE::new(ranks, FxHashMap::default(), O200K_BASE_PAT_STR).ok()
}

/// Splits a text into pieces of bounded length, after a line feed if possible. The tokenizer's regular expressions
/// backtrack, and fail on long runs of white space. A split costs at most one token.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const MAX_PIECE_BYTES: usize = 8 * 1024;
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(MAX_PIECE_BYTES);
        let (piece, _) = rest.split_at_checked(end)?;
        let end = match piece.rfind('\n') {
            Some(line_feed) if end < rest.len() => line_feed + 1,
            _ => end,
        };
        let (piece, more) = rest.split_at_checked(end)?;
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns an upper bound of the tokens that a provider counts for a request. A budget reserves it before the request
/// is sent.
///
/// The bound includes everything that is sent, the frames of messages and tools, and a margin for vocabularies other
/// than that of [`count_tokens`]: a tenth for OpenAI's models, a quarter for Gemini, three quarters for all others.
///
/// ```
/// use orchestra_agent::{ModelRequest, count_tokens, input_token_bound};
/// let text = "How many bugs are in this file?";
/// let request = ModelRequest::new("anthropic", "claude-sonnet-4-5").user(text);
/// assert!(input_token_bound(&request) > count_tokens(text));
/// ```
pub fn input_token_bound(request: &ModelRequest) -> u64 {
    // Providers add a frame around each message and call, and a general description of tools.
    const FRAME: u64 = 12;
    const TOOLS: u64 = 500;
    let mut count = FRAME + count_tokens(&request.system);
    if !request.tools.is_empty() {
        count += TOOLS;
    }
    if let Some(schema) = &request.answer_schema {
        count += TOOLS + count_tokens(&schema.to_string());
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

    /// `UPDATE=1` writes the file.
    #[test]
    fn the_packed_tokens_are_those_of_the_tokenizer() {
        let vocabulary = tiktoken_rs::o200k_base_singleton();
        let mut tokens = Vec::new();
        // There is a gap between the ranks of ordinary tokens and those of special ones.
        for token in (0..).map_while(|rank| vocabulary.decode_bytes(&[rank]).ok()) {
            tokens.push(u8::try_from(token.len()).unwrap());
            tokens.extend(token);
        }
        if std::env::var_os("UPDATE").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/o200k_base.deflate");
            std::fs::write(file, miniz_oxide::deflate::compress_to_vec(&tokens, 10)).unwrap();
            return;
        }
        // Without `assert_eq`, which would print megabytes.
        assert!(miniz_oxide::inflate::decompress_to_vec(PACKED_TOKENS).unwrap() == tokens);
    }

    /// The counts that the publisher of the vocabulary states for these texts.
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
        // Quadratic time would take hours.
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
        fn a_count_is_that_of_the_whole_tokenizer(text in "(\\PC|[ \n\t]){0,200}") {
            let count = count_tokens(&text);
            prop_assert_eq!(count, tiktoken_rs::o200k_base_singleton().count_ordinary(&text) as u64);
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
