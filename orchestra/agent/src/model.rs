//! What is asked of a model and what it answers, in terms that no provider owns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestra_engine::{BackendError, FailureCategory};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::ToolSpec;

/// How long a model may think before it answers (Attractor 8.4).
///
/// ```
/// use orchestra_agent::ReasoningEffort;
/// assert_eq!("high".parse(), Ok(ReasoningEffort::High));
/// assert_eq!(ReasoningEffort::Low.word(), "low");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// As little as may be.
    Low,
    /// Some.
    Medium,
    /// As long as it takes.
    High,
}

impl ReasoningEffort {
    /// The word in pipelines and configurations.
    pub const fn word(self) -> &'static str {
        match self {
            ReasoningEffort::Low => "low",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::High => "high",
        }
    }
}

impl std::str::FromStr for ReasoningEffort {
    type Err = String;

    fn from_str(word: &str) -> Result<ReasoningEffort, String> {
        match word {
            "low" => Ok(ReasoningEffort::Low),
            "medium" => Ok(ReasoningEffort::Medium),
            "high" => Ok(ReasoningEffort::High),
            other => Err(format!("`{other}` is none of `low`, `medium`, `high`")),
        }
    }
}

/// One call of a model: a whole conversation up to here, and what the model may do.
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
    /// The model, by the provider's own name for it.
    pub model: String,
    /// What the model is told about itself; may be empty.
    pub system: String,
    /// The conversation so far, the last message not the model's.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The most tokens of an answer; `None` leaves it to the provider's configuration.
    pub max_output_tokens: Option<u32>,
    /// How long the model may think; `None` leaves it to the model.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// How much chance there is in an answer; `None` leaves it to the model.
    pub temperature: Option<f64>,
}

impl ModelRequest {
    /// A request without messages.
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
        }
    }

    /// Sets what the model is told about itself.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> ModelRequest {
        self.system = text.into();
        self
    }

    /// Adds a message of the user.
    #[must_use]
    pub fn user(mut self, text: impl Into<String>) -> ModelRequest {
        self.messages.push(Message::user(text));
        self
    }

    /// Sets the tools.
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
    /// What the model is asked, by the pipeline or by a person.
    User {
        /// The text.
        text: String,
    },
    /// What the model answered.
    Assistant {
        /// The text; may be empty where it called tools.
        text: String,
        /// The tools that it called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// What the provider wants back with the next request, such as signed reasoning; nobody else reads it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// What came of the tools that the model called, in the order of its calls.
    Tools {
        /// The results.
        results: Vec<ToolResult>,
    },
}

impl Message {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Message {
        Message::User { text: text.into() }
    }

    /// An answer of the model that called no tools.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::Assistant {
            text: text.into(),
            tool_calls: Vec::new(),
            opaque: None,
        }
    }
}

/// What a model passes to a tool.
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
    /// Something else; the model is told, and asked to call again.
    Malformed {
        /// What it wrote.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Arguments {
    /// Reads what a model wrote; nothing at all stands for no arguments.
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

/// A tool that a model calls.
///
/// ```
/// use orchestra_agent::{Arguments, ToolCall};
/// let call = ToolCall { id: "call_1".into(), name: "read_file".into(), arguments: Arguments::parse("{}") };
/// assert_eq!(call.name, "read_file");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's name for the call; unique in its message.
    pub id: String,
    /// The tool, by the name that the model was told.
    pub name: String,
    /// What is passed to it.
    pub arguments: Arguments,
}

/// What came of a tool call, as the model is told.
///
/// ```
/// use orchestra_agent::ToolResult;
/// let result = ToolResult { id: "call_1".into(), name: "read_file".into(), content: "fn main() {}".into(), is_error: false };
/// assert!(!result.is_error);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The text.
    pub content: String,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// The tokens of one call, as the provider counts them.
///
/// ```
/// use orchestra_agent::TokenUsage;
/// let usage = TokenUsage { input: 1_000, output: 200, cached_input: 800, ..TokenUsage::default() };
/// assert_eq!(usage.total(), 1_200);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// All tokens that went in, those from and to a cache included.
    pub input: u64,
    /// All tokens that came out, those of reasoning included.
    pub output: u64,
    /// How many of those that went in were read from a cache.
    #[serde(default)]
    pub cached_input: u64,
    /// How many of those that went in were written to a cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl TokenUsage {
    /// All tokens.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Why a model stopped.
///
/// ```
/// use orchestra_agent::StopReason;
/// assert_eq!(serde_json::to_string(&StopReason::MaxTokens).unwrap(), r#""max_tokens""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It said all that it had to say.
    End,
    /// It waits for tools.
    ToolCalls,
    /// The answer would have been longer than it may be.
    MaxTokens,
    /// It declined to answer, or a filter of the provider did.
    Refused,
    /// Any other, in the provider's word.
    Other(String),
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
    /// The tools that it calls.
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used; `None` where the provider did not say.
    pub usage: Option<TokenUsage>,
    /// What the provider wants back with the next request.
    pub opaque: Option<Value>,
}

impl ModelReply {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> ModelReply {
        ModelReply {
            text: text.into(),
            tool_calls: Vec::new(),
            stop: StopReason::End,
            usage: None,
            opaque: None,
        }
    }

    /// The answer as a message of the conversation.
    pub fn message(&self) -> Message {
        Message::Assistant {
            text: self.text.clone(),
            tool_calls: self.tool_calls.clone(),
            opaque: self.opaque.clone(),
        }
    }
}

/// What went wrong with a call of a model (Attractor appendix D, rule Y2).
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
    /// There is no key for the provider, or none that can be read.
    MissingKey,
    /// The provider does not accept the key, or the key may not do this.
    Authentication,
    /// The account has no credit left, or its quota is used up for good.
    Quota,
    /// The provider does not understand the request.
    BadRequest,
    /// The provider does not have the model.
    UnknownModel,
    /// The conversation is longer than the model can take.
    ContextTooLong,
    /// The provider wants fewer requests.
    RateLimited,
    /// The provider has too much to do, or is broken for now.
    Unavailable,
    /// The provider was not reached, or the connection broke.
    Network,
    /// Nothing came for too long.
    Timeout,
    /// What came is no answer: broken JSON, a stream that was cut, an answer that is too large.
    Malformed,
    /// The provider sends its callers elsewhere; credentials do not follow.
    Redirected,
    /// The configuration does not say how to call the provider.
    Configuration,
}

impl ModelErrorKind {
    /// Whether asking again may help.
    pub const fn category(self) -> FailureCategory {
        use ModelErrorKind as Kind;
        match self {
            Kind::RateLimited | Kind::Unavailable | Kind::Network | Kind::Timeout | Kind::Malformed => {
                FailureCategory::Retryable
            }
            _ => FailureCategory::Terminal,
        }
    }

    /// The failure code of a stage that fails so.
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

/// A call of a model that gave no answer.
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
    /// What kind of fault it is.
    pub kind: ModelErrorKind,
    /// What happened, with provider and model, and how to mend it where that is known. It holds no credentials.
    pub message: String,
    /// The status of HTTP, where there was one.
    pub status: Option<u16>,
    /// How long the provider wants to be left alone (rule Y4).
    pub retry_after: Option<Duration>,
    /// What was used all the same, where the provider said so before it failed.
    pub usage: Option<TokenUsage>,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// An error without further data.
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

    /// Sets the status of HTTP.
    #[must_use]
    pub fn status(mut self, status: u16) -> ModelError {
        self.status = Some(status);
        self
    }

    /// Sets how long the provider wants to be left alone.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> ModelError {
        self.retry_after = Some(delay);
        self
    }

    /// Adds what caused it.
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

/// A call of a model under way. Dropping it closes the connection.
pub type ModelFuture<'a> = Pin<Box<dyn Future<Output = Result<ModelReply, ModelError>> + Send + 'a>>;

/// What takes the text of an answer as it comes.
pub type OnText<'a> = &'a mut (dyn FnMut(&str) + Send);

/// Models: those of all providers that a configuration names. Tests put a scripted one in its place.
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
    /// Makes one call, without retries: whoever leads the conversation makes those. With `on_text` the answer is streamed; the reply holds
    /// the whole of it all the same.
    ///
    /// # Errors
    /// The future gives an error for everything that is no whole answer.
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: Option<OnText<'a>>) -> ModelFuture<'a>;
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}
