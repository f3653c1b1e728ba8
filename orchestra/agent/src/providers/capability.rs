//! The capabilities of models, derived from their names. An option that an unknown model might reject is left out:
//! ignoring an effort costs less than a failed call.

use orchestra_config::{ReasoningEffort, is_o_series};
use serde_json::{Value, json};

/// Default maximum number of output tokens of Anthropic models, for which the API requires a limit. The thinking budget
/// is added to it.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u32 = 8_192;

/// The kind of thinking of an Anthropic model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// No thinking, or unknown.
    No,
    /// Thinking with a budget of tokens: Claude 3.7 to 4.5.
    Budget,
    /// Adaptive thinking with an effort: Claude 4.6 and later.
    Adaptive,
}

/// The capabilities of an Anthropic model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claude {
    pub(super) thinking: Thinking,
    /// `true` if the model accepts a temperature: up to Claude 4.6.
    pub(super) temperature: bool,
    /// Default maximum number of output tokens, which every model of its generation supports.
    pub(super) default_output: u32,
}

impl Claude {
    /// Derives the capabilities from the name, `claude-FAMILY-MAJOR[-MINOR][-DATE]` or, up to Claude 3.7,
    /// `claude-MAJOR[-MINOR]-FAMILY[-DATE]`.
    pub(super) fn from_model(model: &str) -> Claude {
        let model = model.to_ascii_lowercase().replace('.', "-");
        // A date is not a version.
        let number = |part: &&str| part.parse::<u32>().ok().filter(|number| *number < 100);
        let mut numbers = model.split('-').skip_while(|part| number(part).is_none());
        let major = numbers.next().as_ref().and_then(number);
        let minor = numbers.next().as_ref().and_then(number).unwrap_or(0);
        let version = major.map(|major| (major, minor));
        let known = ["opus", "sonnet", "haiku", "fable", "mythos"];
        let known = known.iter().any(|family| model.contains(family));
        let thinking = match version {
            Some(version) if known && version >= (4, 6) => Thinking::Adaptive,
            Some(version) if known && version >= (3, 7) => Thinking::Budget,
            _ => Thinking::No,
        };
        Claude {
            thinking,
            temperature: !(known && version.is_some_and(|version| version >= (4, 7))),
            default_output: match version {
                Some(version) if version < (3, 5) => 4_096,
                _ => DEFAULT_MAX_OUTPUT_TOKENS,
            },
        }
    }
}

/// Returns the thinking budget of an effort, in tokens.
pub(super) const fn thinking_budget(effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::Low => 2_048,
        ReasoningEffort::Medium => 8_192,
        ReasoningEffort::High => 16_384,
    }
}

/// The capabilities of a model that is called in one of OpenAI's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpt {
    /// `true` if the model accepts an effort. Pro models accept only some efforts, so they get none.
    pub(super) effort: bool,
    /// `true` if OpenAI offers the model, or its tools, only in the Responses API: GPT 5.2 and later, and pro and codex
    /// models.
    pub(super) responses: bool,
    /// `true` if the model accepts a temperature: all models that do not reason.
    pub(super) temperature: bool,
}

impl Gpt {
    pub(super) fn from_model(model: &str) -> Gpt {
        let model = model.to_ascii_lowercase();
        let has = |word: &str| model.split('-').any(|part| part == word);
        if let Some(rest) = model.strip_prefix("gpt-").filter(|rest| !rest.starts_with("oss")) {
            let version = rest.split('-').next().unwrap_or_default();
            let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
            let version = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
            let reasons = version >= (5, 0) && !has("chat");
            return Gpt {
                effort: reasons && !has("pro"),
                responses: reasons && (version >= (5, 2) || has("pro") || has("codex")),
                temperature: !reasons,
            };
        }
        let o_series = is_o_series(&model);
        // The first two models of the series accept no effort.
        let early = o_series && (has("preview") || model.starts_with("o1-mini"));
        Gpt {
            effort: (o_series && !early && !has("pro")) || model.starts_with("gpt-oss"),
            responses: (o_series && has("pro")) || model.starts_with("codex-"),
            temperature: !o_series,
        }
    }
}

/// Returns whether a model of Anthropic binds its answers to a schema: Claude 4.5 and later.
pub(super) fn answers_by_schema_at_anthropic(model: &str) -> bool {
    let model = model.to_ascii_lowercase().replace('.', "-");
    let number = |part: &&str| part.parse::<u32>().ok().filter(|number| *number < 100);
    let mut numbers = model.split('-').skip_while(|part| number(part).is_none());
    let major = numbers.next().as_ref().and_then(number);
    let minor = numbers.next().as_ref().and_then(number).unwrap_or(0);
    let known = ["opus", "sonnet", "haiku"];
    known.iter().any(|family| model.contains(family)) && major.is_some_and(|major| (major, minor) >= (4, 5))
}

/// Returns whether a model of OpenAI binds its answers to a schema: GPT-4o and later, except for the first version of
/// GPT-4o and for audio, and o1 and later.
pub(super) fn answers_by_schema_at_openai(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let has = |words: &[&str]| model.split('-').any(|part| words.contains(&part));
    if let Some(rest) = model.strip_prefix("gpt-").filter(|rest| !rest.starts_with("oss")) {
        let version = rest.split('-').next().unwrap_or_default();
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        let version = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
        let is_known = rest.starts_with("4o") || version >= (4, 1);
        return is_known
            && !rest.ends_with("2024-05-13")
            && !has(&["audio", "realtime", "transcribe", "tts"]);
    }
    is_o_series(&model) && !has(&["preview"]) && !model.starts_with("o1-mini")
}

/// Returns whether a model of Gemini binds its answers to a JSON schema: Gemini 2.5 and later.
pub(super) fn answers_by_schema_at_gemini(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let model = model.strip_prefix("models/").unwrap_or(&model);
    let Some(version) = model
        .strip_prefix("gemini-")
        .and_then(|rest| rest.split('-').next())
    else {
        return false;
    };
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let (major, minor): (u32, u32) = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
    (major, minor) >= (2, 5) && !model.contains("image") && !model.contains("tts")
}

/// Returns the `thinkingConfig` of a Gemini model with an output limit. Returns `None` for models before 2.5, which
/// have none.
pub(super) fn gemini_thinking(model: &str, effort: ReasoningEffort, limit: Option<u32>) -> Option<Value> {
    let model = model.to_ascii_lowercase();
    let version = model.strip_prefix("gemini-")?.split('-').next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let version: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    if version >= (3, 0) {
        // Gemini 3 Pro has no level between low and high.
        let level = match effort {
            ReasoningEffort::Medium if version == (3, 0) && model.contains("pro") => "high",
            effort => effort.word(),
        };
        Some(json!({"thinkingLevel": level}))
    } else if version >= (2, 5) {
        // Thinking counts as output, so leave tokens for the answer.
        let most = limit.map_or(u32::MAX, |limit| limit / 4 * 3);
        Some(json!({"thinkingBudget": thinking_budget(effort).min(most)}))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claudes_are_known_by_their_versions() {
        let cases = [
            ("claude-3-opus-20240229", Thinking::No, true, 4_096),
            ("claude-3-5-sonnet-20241022", Thinking::No, true, 8_192),
            ("claude-3-7-sonnet-latest", Thinking::Budget, true, 8_192),
            ("claude-sonnet-4-20250514", Thinking::Budget, true, 8_192),
            ("claude-opus-4-1-20250805", Thinking::Budget, true, 8_192),
            ("claude-haiku-4-5", Thinking::Budget, true, 8_192),
            ("claude-sonnet-4-6", Thinking::Adaptive, true, 8_192),
            ("claude-opus-4.7", Thinking::Adaptive, false, 8_192),
            ("claude-sonnet-5", Thinking::Adaptive, false, 8_192),
            ("claude-fable-5-1", Thinking::Adaptive, false, 8_192),
            ("claude-instant", Thinking::No, true, 8_192),
            ("house-model-7", Thinking::No, true, 8_192),
        ];
        for (model, thinking, temperature, default_output) in cases {
            let expected = Claude {
                thinking,
                temperature,
                default_output,
            };
            assert_eq!(Claude::from_model(model), expected, "{model}");
        }
    }

    #[test]
    fn models_of_openai_that_reason_are_known() {
        let of = |model: &str| {
            let gpt = Gpt::from_model(model);
            (gpt.effort, gpt.responses, gpt.temperature)
        };
        for model in [
            "gpt-4o",
            "gpt-4.1-mini",
            "gpt-5-chat-latest",
            "gpt-3.5-turbo",
            "llama3",
            "opal-1",
            "chatgpt-4o-latest",
        ] {
            assert_eq!(of(model), (false, false, true), "{model}");
        }
        for model in [
            "o1",
            "o3-mini",
            "o4-mini-2025-04-16",
            "gpt-5",
            "gpt-5-mini",
            "gpt-5.1",
        ] {
            assert_eq!(of(model), (true, false, false), "{model}");
        }
        for model in [
            "gpt-5.2",
            "gpt-5.4-mini",
            "gpt-5.10",
            "gpt-6",
            "gpt-5.1-codex-max",
        ] {
            assert_eq!(of(model), (true, true, false), "{model}");
        }
        for model in ["gpt-5-pro", "gpt-5.2-pro-2025-12-11", "o3-pro"] {
            assert_eq!(of(model), (false, true, false), "{model}");
        }
        assert_eq!(of("o1-preview"), (false, false, false));
        assert_eq!(of("gpt-oss:20b"), (true, false, true));
    }

    #[test]
    fn models_that_bind_their_answers_to_a_schema_are_known() {
        for model in [
            "claude-sonnet-4-5",
            "claude-opus-4.7",
            "claude-haiku-4-5-20251001",
            "claude-sonnet-5",
        ] {
            assert!(answers_by_schema_at_anthropic(model), "{model}");
        }
        for model in [
            "claude-opus-4-1-20250805",
            "claude-sonnet-4-20250514",
            "claude-3-7-sonnet-latest",
            "house-9",
        ] {
            assert!(!answers_by_schema_at_anthropic(model), "{model}");
        }
        for model in [
            "gpt-4o",
            "gpt-4o-mini",
            "gpt-4.1-nano",
            "gpt-5",
            "gpt-5.2-pro",
            "o1",
            "o3-mini",
            "o4-mini",
        ] {
            assert!(answers_by_schema_at_openai(model), "{model}");
        }
        for model in [
            "gpt-4",
            "gpt-4-turbo",
            "gpt-3.5-turbo",
            "gpt-4o-2024-05-13",
            "o1-preview",
            "o1-mini",
            "gpt-oss:20b",
        ] {
            assert!(!answers_by_schema_at_openai(model), "{model}");
        }
        assert!(
            answers_by_schema_at_gemini("gemini-2.5-flash")
                && answers_by_schema_at_gemini("models/gemini-3-pro-preview")
        );
        assert!(
            !answers_by_schema_at_gemini("gemini-2.0-flash")
                && !answers_by_schema_at_gemini("gemma-3-27b-it")
        );
    }

    #[test]
    fn models_of_gemini_think_in_tokens_or_in_levels() {
        use ReasoningEffort::{High, Low, Medium};
        assert_eq!(
            gemini_thinking("gemini-2.5-flash", Low, None),
            Some(json!({"thinkingBudget": 2048}))
        );
        assert_eq!(
            gemini_thinking("gemini-3-pro-preview", Medium, None),
            Some(json!({"thinkingLevel": "high"}))
        );
        assert_eq!(
            gemini_thinking("gemini-3.1-pro-preview", Medium, None),
            Some(json!({"thinkingLevel": "medium"}))
        );
        assert_eq!(
            gemini_thinking("gemini-2.5-pro", High, Some(1000)),
            Some(json!({"thinkingBudget": 750}))
        );
        assert_eq!(gemini_thinking("gemini-2.0-flash", High, None), None);
        assert_eq!(gemini_thinking("gemma-3-27b-it", High, None), None);
    }
}
