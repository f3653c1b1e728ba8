//! A model call in an event.

use std::time::Duration;

use orchestra_core::Usage;
use serde::{Deserialize, Serialize};

use super::fields::millis;

/// A model call of a stage, or all calls of a program that ran the stage, as the event reports it. Serialized, it
/// contains no prompt and no answer.
///
/// ```
/// use std::time::Duration;
/// use orchestra_engine::{ModelCall, Usage};
/// let mut call = ModelCall::new("anthropic", "claude-opus-4-6", Duration::from_millis(1_200));
/// call.usage = Usage { input_tokens: 900, output_tokens: 100, cost_micros: 12_500 };
/// let json = serde_json::to_value(&call)?;
/// assert_eq!((&json["model"], &json["input_tokens"]), (&"claude-opus-4-6".into(), &900.into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelCall {
    /// `true` if a program, such as a coding agent, made the calls: the usage is their sum.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub program: bool,
    /// The agent of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The thread or the session to which the call belongs, such as the id of a session of a coding agent. `None` if the
    /// conversation ends with the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The provider, by its name in the configuration, or the backend of a program.
    pub provider: String,
    /// The requested model; empty if the provider chose it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The model that answered, if the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The reason why the model stopped, such as `end` or `tool_calls`. `None` if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// The tokens of the call and their cost.
    #[serde(flatten)]
    pub usage: Usage,
    /// The number of input tokens that were read from a cache.
    #[serde(default)]
    pub cached_input_tokens: u64,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The machine-readable reason of a failure, such as `model_rate_limited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The duration of the call; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", with = "millis")]
    pub duration: Duration,
    /// The messages of the call, for observers that [request](crate::Engine::with_model_contents) them. They are not
    /// serialized.
    #[serde(skip)]
    pub contents: Option<Box<ModelContents>>,
}

/// The messages of a model call, as JSON in the form of the semantic conventions for generative AI: a list of objects
/// with `role` and `parts`.
///
/// ```
/// use std::time::Duration;
/// use orchestra_engine::{ModelCall, ModelContents};
/// let mut call = ModelCall::new("anthropic", "claude-opus-4-6", Duration::ZERO);
/// call.contents = Some(Box::new(ModelContents::new("[]", r#"[{"role":"assistant","parts":[]}]"#)));
/// assert!(!serde_json::to_string(&call)?.contains("assistant"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelContents {
    /// The messages that were sent.
    pub input: String,
    /// The messages that were received.
    pub output: String,
}

impl ModelContents {
    /// Creates the messages of a call.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> ModelContents {
        ModelContents {
            input: input.into(),
            output: output.into(),
        }
    }
}

impl ModelCall {
    /// Creates a call without usage.
    pub fn new(provider: impl Into<String>, model: impl Into<String>, duration: Duration) -> ModelCall {
        ModelCall {
            program: false,
            agent: None,
            conversation: None,
            provider: provider.into(),
            model: model.into(),
            response_model: None,
            stop: None,
            usage: Usage::default(),
            cached_input_tokens: 0,
            error: None,
            error_code: None,
            duration,
            contents: None,
        }
    }

    /// Returns the requested model, else the model that answered. It is empty if neither is known.
    pub fn model_name(&self) -> &str {
        match (&*self.model, &self.response_model) {
            ("", Some(model)) => model,
            (model, _) => model,
        }
    }
}
