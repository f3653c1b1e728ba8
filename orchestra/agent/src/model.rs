//! Provider-independent types for calls of a model: requests, messages, replies and errors.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestra_config::ReasoningEffort;
use orchestra_engine::{BackendError, FailureCategory};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::ToolSpec;

/// One call of a model: the conversation so far, the tools that the model may call, and the options of the call.
///
/// ```
/// use orchestra_agent::{Message, ModelRequest};
/// let request = ModelRequest::new("anthropic", "claude-sonnet-4-5").system("You review code.").user("Look at this.");
/// assert_eq!(request.messages, [Message::user("Look at this.")]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The provider, by its name in the configuration.
    pub provider: String,
    /// The model, by its name at the provider.
    pub model: String,
    /// The system prompt; may be empty.
    pub system: String,
    /// The conversation so far. The last message is not from the model.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The maximum number of output tokens; if `None`, the provider's configuration decides.
    pub max_output_tokens: Option<u32>,
    /// The reasoning effort; if `None`, the model decides.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// The sampling temperature; if `None`, the model decides.
    pub temperature: Option<f64>,
    /// The JSON schema that the text of the answer must fit. It is sent if the model is known to support it, so the
    /// messages must request it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
}

impl ModelRequest {
    /// Creates a request without messages.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> ModelRequest {
        ModelRequest {
            provider: provider.into(),
            model: model.into(),
            system: String::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            max_output_tokens: None,
            reasoning_effort: None,
            temperature: None,
            answer_schema: None,
        }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> ModelRequest {
        self.system = text.into();
        self
    }

    /// Adds a user message.
    #[must_use]
    pub fn user(mut self, text: impl Into<String>) -> ModelRequest {
        self.messages.push(Message::user(text));
        self
    }

    /// Sets the tools that the model may call.
    #[must_use]
    pub fn tools(mut self, tools: Vec<ToolSpec>) -> ModelRequest {
        self.tools = tools;
        self
    }
}

/// One message of a conversation.
///
/// ```
/// use orchestra_agent::Message;
/// let text = serde_json::to_string(&Message::user("Hello."))?;
/// assert_eq!(text, r#"{"role":"user","text":"Hello."}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A message to the model, from the pipeline or from a person.
    User {
        /// The text.
        text: String,
    },
    /// An answer of the model.
    Assistant {
        /// The text; may be empty if the model called tools.
        text: String,
        /// The tools that the model called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Data that the provider needs back with the next request, such as signed reasoning; nothing else reads it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// The results of the tools that the model called, in the order of its calls.
    Tools {
        /// The results.
        results: Vec<ToolResult>,
    },
}

impl Message {
    /// Creates a user message.
    pub fn user(text: impl Into<String>) -> Message {
        Message::User { text: text.into() }
    }

    /// Creates an answer of the model without tool calls.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::Assistant {
            text: text.into(),
            tool_calls: Vec::new(),
            opaque: None,
        }
    }
}

/// The arguments that a model passes to a tool.
///
/// ```
/// use orchestra_agent::Arguments;
/// assert!(matches!(Arguments::parse(r#"{"path": "a.txt"}"#), Arguments::Object(_)));
/// assert!(matches!(Arguments::parse("{\"path\": "), Arguments::Malformed { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object.
    Object(serde_json::Map<String, Value>),
    /// Invalid arguments. The model receives the problem as an error and can call again.
    Malformed {
        /// The text that the model wrote.
        text: String,
        /// The reason why the text is invalid.
        problem: String,
    },
}

impl Arguments {
    /// Parses the text that a model wrote. An empty text means no arguments.
    pub fn parse(text: &str) -> Arguments {
        if text.trim().is_empty() {
            return Arguments::Object(serde_json::Map::new());
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Arguments::Object(fields),
            Ok(other) => Arguments::Malformed {
                text: text.to_owned(),
                problem: format!("expected a JSON object, found `{other}`"),
            },
            Err(error) => Arguments::Malformed {
                text: text.to_owned(),
                problem: error.to_string(),
            },
        }
    }
}

/// A tool call of a model.
///
/// ```
/// use orchestra_agent::{Arguments, ToolCall};
/// let call = ToolCall { id: "call_1".into(), name: "read_file".into(), arguments: Arguments::parse("{}") };
/// assert_eq!(call.name, "read_file");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call; unique in its message.
    pub id: String,
    /// The name of the tool, as in the [`ToolSpec`] that the model received.
    pub name: String,
    /// The arguments of the call.
    pub arguments: Arguments,
}

/// The result of a tool call, as the model receives it.
///
/// ```
/// use orchestra_agent::ToolResult;
/// let result = ToolResult { id: "call_1".into(), name: "read_file".into(), content: "fn main() {}".into(), is_error: false };
/// assert!(!result.is_error);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The text that the model reads.
    pub content: String,
    /// `true` if the tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// The number of tokens of one call, as the provider counts them.
///
/// ```
/// use orchestra_agent::TokenUsage;
/// let usage = TokenUsage { input: 1_000, output: 200, cached_input: 800, ..TokenUsage::default() };
/// assert_eq!(usage.total(), 1_200);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// All input tokens, including those read from or written to a cache.
    pub input: u64,
    /// All output tokens, including those of reasoning.
    pub output: u64,
    /// The number of input tokens that were read from a cache.
    #[serde(default)]
    pub cached_input: u64,
    /// The number of input tokens that were written to a cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl TokenUsage {
    /// Returns the sum of the input and output tokens.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// The reason why a model stopped.
///
/// ```
/// use orchestra_agent::StopReason;
/// assert_eq!(serde_json::to_string(&StopReason::MaxTokens).unwrap(), r#""max_tokens""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    End,
    /// The model waits for the results of tool calls.
    ToolCalls,
    /// The answer reached the maximum number of output tokens.
    MaxTokens,
    /// The model, or a filter of its provider, declined to answer.
    Refused,
    /// Any other reason, as the provider names it.
    Other(String),
}

impl StopReason {
    /// Returns the machine-readable name.
    pub fn word(&self) -> &str {
        match self {
            StopReason::End => "end",
            StopReason::ToolCalls => "tool_calls",
            StopReason::MaxTokens => "max_tokens",
            StopReason::Refused => "refused",
            StopReason::Other(reason) => reason,
        }
    }
}

/// A model's answer.
///
/// ```
/// use orchestra_agent::{ModelReply, StopReason};
/// let reply = ModelReply::text("Fine.");
/// assert_eq!((reply.stop, reply.usage), (StopReason::End, None));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelReply {
    /// The text; may be empty.
    pub text: String,
    /// The tools that the model calls.
    pub tool_calls: Vec<ToolCall>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// The tokens used; `None` if the provider did not report them.
    pub usage: Option<TokenUsage>,
    /// Data that the provider needs back with the next request.
    pub opaque: Option<Value>,
    /// The model that answered; `None` if the provider does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ModelReply {
    /// Creates a complete text answer without tool calls.
    pub fn text(text: impl Into<String>) -> ModelReply {
        ModelReply {
            text: text.into(),
            tool_calls: Vec::new(),
            stop: StopReason::End,
            usage: None,
            opaque: None,
            model: None,
        }
    }

    /// Returns the answer as a message of the conversation.
    pub fn message(&self) -> Message {
        Message::Assistant {
            text: self.text.clone(),
            tool_calls: self.tool_calls.clone(),
            opaque: self.opaque.clone(),
        }
    }
}

/// The kind of failure of a model call (Attractor appendix D, rule Y2).
///
/// ```
/// use orchestra_agent::ModelErrorKind;
/// use orchestra_engine::FailureCategory;
/// assert_eq!(ModelErrorKind::RateLimited.category(), FailureCategory::Retryable);
/// assert_eq!(ModelErrorKind::Authentication.code(), "model_authentication");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The provider has no key, or its key cannot be read.
    MissingKey,
    /// The provider rejects the key, or the key lacks the permission.
    Authentication,
    /// The account has no credit left, or its quota is used up permanently.
    Quota,
    /// The provider rejects the request as invalid.
    BadRequest,
    /// The provider does not have the model.
    UnknownModel,
    /// The conversation is longer than the context window of the model.
    ContextTooLong,
    /// The provider received too many requests.
    RateLimited,
    /// The provider is overloaded or temporarily broken.
    Unavailable,
    /// The provider could not be reached, or the connection broke.
    Network,
    /// No data arrived for too long.
    Timeout,
    /// The answer is invalid: broken JSON, a stream that was cut off, or an answer that is too large.
    Malformed,
    /// The provider redirects the request; credentials are not sent to the new address.
    Redirected,
    /// The configuration of the provider is invalid or incomplete.
    Configuration,
}

impl ModelErrorKind {
    /// Returns whether a retry may help.
    pub const fn category(self) -> FailureCategory {
        use ModelErrorKind as Kind;
        match self {
            Kind::RateLimited | Kind::Unavailable | Kind::Network | Kind::Timeout | Kind::Malformed => {
                FailureCategory::Retryable
            }
            _ => FailureCategory::Terminal,
        }
    }

    /// Returns the failure code of a stage that fails with this error.
    pub const fn code(self) -> &'static str {
        match self {
            ModelErrorKind::MissingKey => "model_missing_key",
            ModelErrorKind::Authentication => "model_authentication",
            ModelErrorKind::Quota => "model_quota",
            ModelErrorKind::BadRequest => "model_bad_request",
            ModelErrorKind::UnknownModel => "model_unknown",
            ModelErrorKind::ContextTooLong => "model_context_too_long",
            ModelErrorKind::RateLimited => "model_rate_limited",
            ModelErrorKind::Unavailable => "model_unavailable",
            ModelErrorKind::Network => "model_network",
            ModelErrorKind::Timeout => "model_timeout",
            ModelErrorKind::Malformed => "model_malformed_answer",
            ModelErrorKind::Redirected => "model_redirected",
            ModelErrorKind::Configuration => "model_configuration",
        }
    }
}

/// The error of a failed model call.
///
/// ```
/// use std::time::Duration;
/// use orchestra_agent::{ModelError, ModelErrorKind};
/// let error = ModelError::new(ModelErrorKind::RateLimited, "too many requests").retry_after(Duration::from_secs(2));
/// assert_eq!(error.to_string(), "too many requests");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// A message that names the provider and the model, and the fix if it is known. It contains no credentials.
    pub message: String,
    /// The HTTP status code, if there was a response.
    pub status: Option<u16>,
    /// The delay that the provider requests before a retry (rule Y4).
    pub retry_after: Option<Duration>,
    /// The tokens used, if the provider reported them before the call failed.
    pub usage: Option<TokenUsage>,
    /// The underlying error.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// Creates an error without further data.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> ModelError {
        ModelError {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            usage: None,
            source: None,
        }
    }

    /// Sets the HTTP status code.
    #[must_use]
    pub fn status(mut self, status: u16) -> ModelError {
        self.status = Some(status);
        self
    }

    /// Sets the delay that the provider requests before a retry.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> ModelError {
        self.retry_after = Some(delay);
        self
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ModelError {
        self.source = Some(source.into());
        self
    }
}

impl From<ModelError> for BackendError {
    fn from(error: ModelError) -> BackendError {
        let made = match error.kind.category() {
            FailureCategory::Retryable => BackendError::retryable(error.message),
            _ => BackendError::terminal(error.message),
        };
        let made = made.code(error.kind.code());
        let made = match error.retry_after {
            Some(delay) => made.retry_after(delay),
            None => made,
        };
        match error.source {
            Some(source) => made.caused_by(source),
            None => made,
        }
    }
}

/// The future of a model call. Dropping it closes the connection.
pub type ModelFuture<'a> = Pin<Box<dyn Future<Output = Result<ModelReply, ModelError>> + Send + 'a>>;

/// A callback that receives the text of an answer piece by piece.
pub type OnText<'a> = &'a mut (dyn FnMut(&str) + Send);

/// A client for models: the production implementation serves all configured providers, tests use a scripted one.
///
/// ```
/// use orchestra_agent::{Model, ModelFuture, ModelReply, ModelRequest, OnText};
/// struct Echo;
/// impl Model for Echo {
///     fn call<'a>(&'a self, request: &'a ModelRequest, _: Option<OnText<'a>>) -> ModelFuture<'a> {
///         Box::pin(async move { Ok(ModelReply::text(format!("{} messages", request.messages.len()))) })
///     }
/// }
/// ```
pub trait Model: Send + Sync + 'static {
    /// Makes one call, without retries; the caller retries. With `on_text` the answer is streamed; the reply still
    /// contains the complete answer.
    ///
    /// # Errors
    /// The future returns an error for everything but a complete answer.
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: Option<OnText<'a>>) -> ModelFuture<'a>;
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}
