//! Models of real providers, over their wire formats.
//!
//! What a provider is asked and how its answer is read is in one file a format: [`anthropic`], [`openai`],
//! [`responses`], [`gemini`].
//! How bytes come and go is in [`http`], what went wrong in [`fault`], what a model can in [`capability`].

mod anthropic;
mod capability;
mod events;
mod fault;
mod gemini;
mod http;
mod layout;
mod openai;
mod responses;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use orchestra_engine::is_placeholder_key;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use self::fault::Fault;
use self::http::{Asked, Reading, StreamReader};
use crate::model::{
    Arguments, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText, ToolResult,
};

pub use self::settings::{KeySource, ProviderKind, ProviderSettings};

/// The most tokens of an answer of Anthropic's models where nobody says how many: that provider insists on a number.
/// What a model is told to think comes on top.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u32 = 8_192;

/// The models of all providers that a configuration names.
///
/// Calls are made once, without retries; redirects are not followed; answers are bounded in size and time. An answer
/// is whole or an error: a stream that was cut is never taken for an answer. Dropping a call closes its connection.
///
/// What a request asks for and a model cannot is left out, so that a pipeline does not fail for it: an effort where the
/// model does not reason, a temperature where it does. What becomes of an effort:
///
/// | Provider | Low, medium, high |
/// |---|---|
/// | Anthropic, Claude 3.7 to 4.5 | thinking with a budget of 2,048, 8,192, 16,384 tokens, at most three quarters of the output; without a temperature |
/// | Anthropic, Claude 4.6 and later | adaptive thinking with that effort, without a temperature |
/// | OpenAI, GPT 5 and later, o1, o3, .. | `reasoning_effort`; in Responses `reasoning.effort` |
/// | Gemini 2.5 | thinking with a budget as above |
/// | Gemini 3 and later | `thinkingLevel`; Gemini 3 Pro has no medium and takes high for it |
/// | OpenRouter | `reasoning.effort`; OpenRouter leaves it out where a model cannot |
/// | Ollama and others | `reasoning_effort`, for models with the names of OpenAI's and for gpt-oss |
///
/// Models of OpenAI that reason with tools in Responses alone are asked there: GPT 5.2 and later, and those that are
/// called pro or codex. Everything else of OpenAI's, and all that is compatible, is asked in Chat Completions.
///
/// ```
/// use orchestra_agent::{ModelRequest, Models, ProviderKind, ProviderSettings};
/// let models = Models::new([
///     ProviderSettings::new("claude", ProviderKind::Anthropic),
///     ProviderSettings::new("local", ProviderKind::Ollama),
/// ])?;
/// assert_eq!(models.provider_of_model("claude-sonnet-4-5"), Some("claude"));
/// assert!(models.missing_keys(["local"]).is_empty());
/// let error = &models.missing_keys(["clade"])[0];
/// assert_eq!(error.to_string(), "there is no provider `clade`; did you mean `claude`?");
/// # Ok::<(), orchestra_agent::ModelError>(())
/// ```
pub struct Models {
    providers: BTreeMap<String, Provider>,
}

impl Models {
    /// The models of providers. Nothing is read or called yet.
    ///
    /// # Errors
    /// Gives an error of the kind [`Configuration`](ModelErrorKind::Configuration) for two providers of one name, for
    /// an address that is none, and for headers that cannot be sent.
    pub fn new(settings: impl IntoIterator<Item = ProviderSettings>) -> Result<Models, ModelError> {
        let mut providers = BTreeMap::new();
        for settings in settings {
            let name = settings.name.clone();
            if providers.insert(name.clone(), Provider::new(settings)?).is_some() {
                return Err(misconfigured(&name, "it is configured twice"));
            }
        }
        Ok(Models { providers })
    }

    /// The names of the providers, in order.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// The first provider of the kind that has a model, told by the model's name.
    pub fn provider_of_model(&self, model: &str) -> Option<&str> {
        let kind = ProviderKind::of_model(model)?;
        let mut providers = self.providers.values();
        let found = providers.find(|provider| provider.settings.kind == kind);
        found.map(|provider| provider.settings.name.as_str())
    }

    /// What is missing before these providers can be called: an error for each that has no key or is not there. Nothing
    /// is sent; whether a key is good only a call can tell.
    pub fn missing_keys<'n>(&self, providers: impl IntoIterator<Item = &'n str>) -> Vec<ModelError> {
        let key = |name| self.provider(name).and_then(|provider| provider.key().map(drop));
        providers.into_iter().filter_map(|name| key(name).err()).collect()
    }

    /// Returns the names of the environment variables from which keys are read.
    pub fn key_variables(&self) -> impl Iterator<Item = &str> {
        let providers = self.providers.values();
        providers.filter_map(|provider| match &provider.settings.key {
            KeySource::Environment(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The keys that are there, and the values of configured headers that are secrets by their names: what must not be shown
    /// anywhere. Words such as `ollama` are none: they stand for keys that are not needed.
    pub fn secrets(&self) -> Vec<SecretString> {
        let providers = self.providers.values();
        let secrets = providers.flat_map(|provider| {
            let key = provider.key().ok().flatten();
            let key = key.map(|key| key.expose_secret().to_owned());
            let headers = provider.settings.headers.iter();
            let headers = headers
                .filter(|(name, _)| names_secret(name))
                .flat_map(|(_, value)| {
                    // A word such as `Bearer` says how, and what follows is the secret.
                    let bare = value.rsplit(' ').next().unwrap_or_default();
                    [value.clone(), bare.to_owned()]
                });
            key.into_iter().chain(headers)
        });
        let real = secrets.filter(|secret| !is_placeholder_key(secret));
        real.map(SecretString::from).collect()
    }

    /// The most tokens that an answer may have; `None` where only the provider knows. A budget is reserved by it.
    ///
    /// # Errors
    /// Gives an error when there is no such provider.
    pub fn output_limit(&self, request: &ModelRequest) -> Result<Option<u32>, ModelError> {
        let ask = self.provider(&request.provider)?.ask(request, false);
        Ok(match ask.kind {
            ProviderKind::Anthropic => Some(anthropic::output_limit(&ask)),
            _ => ask.max_output,
        })
    }

    fn provider(&self, name: &str) -> Result<&Provider, ModelError> {
        self.providers.get(name).ok_or_else(|| {
            let near = orchestra_graph::did_you_mean(name, self.providers());
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.providers.is_empty() => "none is configured".to_owned(),
                None => {
                    let names: Vec<&str> = self.providers().collect();
                    format!("configured are `{}`", names.join("`, `"))
                }
            };
            ModelError::new(
                ModelErrorKind::Configuration,
                format!("there is no provider `{name}`; {hint}"),
            )
        })
    }
}

impl Model for Models {
    fn call<'a>(&'a self, request: &'a ModelRequest, on_text: Option<OnText<'a>>) -> ModelFuture<'a> {
        Box::pin(async move { self.provider(&request.provider)?.call(request, on_text).await })
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.providers.values().map(|provider| &provider.settings);
        f.debug_list().entries(settings).finish()
    }
}

/// The format in which a model is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Messages,
    ChatCompletions,
    Responses,
    GenerateContent,
}

impl Wire {
    fn of(kind: ProviderKind, model: &str) -> Wire {
        match kind {
            ProviderKind::Anthropic => Wire::Messages,
            ProviderKind::Gemini => Wire::GenerateContent,
            ProviderKind::OpenAi if capability::Gpt::of(model).responses => Wire::Responses,
            _ => Wire::ChatCompletions,
        }
    }
}

/// Returns what reads the answers of a model.
fn reading(kind: ProviderKind, model: &str) -> Box<dyn Reading> {
    match Wire::of(kind, model) {
        Wire::Messages => Box::<anthropic::Answer>::default(),
        Wire::ChatCompletions => Box::new(openai::Answer::new(kind)),
        Wire::Responses => Box::<responses::Answer>::default(),
        Wire::GenerateContent => Box::<gemini::Answer>::default(),
    }
}

/// Reads the body of an answer, which comes in pieces, as a call does: for `tests/fuzz`, without a server.
///
/// # Errors
/// The body is no answer of such a model.
pub(crate) fn read_body(
    kind: ProviderKind,
    model: &str,
    content_type: &str,
    pieces: &[&[u8]],
    on_text: &mut dyn FnMut(&str),
) -> Result<ModelReply, ModelError> {
    let mut reading = reading(kind, model);
    let mut read = |reading: &mut dyn Reading| {
        if !http::is_stream(content_type) {
            return http::read_whole(&pieces.concat(), content_type, reading);
        }
        let mut stream = StreamReader::new(reading);
        for piece in pieces {
            if stream.push(piece, on_text)? {
                return Ok(());
            }
        }
        stream.end()
    };
    let reply = read(reading.as_mut()).and_then(|()| reading.reply());
    reply.map_err(|fault| {
        let fault = fault.with_usage(reading.usage());
        let mut error = ModelError::new(fault.kind, fault.text);
        error.usage = fault.usage;
        error
    })
}

/// Whether the value of a header is a secret, by its name.
fn names_secret(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["authorization", "cookie", "key", "token", "secret", "password"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

/// A request with what the provider's configuration adds.
struct Ask<'r> {
    request: &'r ModelRequest,
    kind: ProviderKind,
    wire: Wire,
    max_output: Option<u32>,
    streamed: bool,
}

struct Provider {
    settings: ProviderSettings,
    base: Url,
    headers: HeaderMap,
    key: OnceLock<Option<SecretString>>,
    client: OnceLock<Client>,
}

impl Provider {
    fn new(settings: ProviderSettings) -> Result<Provider, ModelError> {
        let wrong = |problem: &str| misconfigured(&settings.name, problem);
        let kind = settings.kind;
        let Some(base) = settings.api_base.as_deref().or(kind.default_base()) else {
            return Err(wrong(&format!(
                "a provider of the kind `{kind}` needs an `api_base`"
            )));
        };
        let base: Url = base
            .parse()
            .map_err(|error| wrong(&format!("its `api_base` is no address: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(wrong("its `api_base` must begin with `https://` or `http://`"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong(
                "its `api_base` holds a password: put credentials into the key or a header",
            ));
        }
        if base.scheme() == "http" && !http::is_loopback(&base) && !matches!(settings.key, KeySource::None) {
            tracing::warn!(
                provider = settings.name,
                "the key goes over a connection that is not encrypted"
            );
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let known: HeaderName = name
                .parse()
                .map_err(|_| wrong(&format!("`{name}` is no name of a header")))?;
            let mut value: HeaderValue = value
                .parse()
                .map_err(|_| wrong(&format!("the value of the header `{name}` cannot be sent")))?;
            value.set_sensitive(true);
            headers.insert(known, value);
        }
        Ok(Provider {
            settings,
            base,
            headers,
            key: OnceLock::new(),
            client: OnceLock::new(),
        })
    }

    fn ask<'r>(&self, request: &'r ModelRequest, streamed: bool) -> Ask<'r> {
        Ask {
            request,
            kind: self.settings.kind,
            wire: Wire::of(self.settings.kind, &request.model),
            max_output: request.max_output_tokens.or(self.settings.max_output_tokens),
            streamed,
        }
    }

    async fn call(
        &self,
        request: &ModelRequest,
        on_text: Option<OnText<'_>>,
    ) -> Result<ModelReply, ModelError> {
        let key = self.key()?;
        let mut reading = reading(self.settings.kind, &request.model);
        let whole = self.settings.timeout;
        let exchange = self.exchange(request, key, reading.as_mut(), on_text);
        let fault = match tokio::time::timeout(whole, exchange).await {
            Ok(Ok(())) => match reading.reply() {
                Ok(reply) => return Ok(reply),
                Err(fault) => fault,
            },
            Ok(Err(fault)) => fault,
            Err(_) => {
                let limit = http::in_words(whole);
                Fault::new(
                    ModelErrorKind::Timeout,
                    format!("no whole answer came within {limit}"),
                )
            }
        };
        Err(self.error(request, fault.with_usage(reading.usage())))
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        key: Option<&SecretString>,
        reading: &mut dyn Reading,
        on_text: Option<OnText<'_>>,
    ) -> Result<(), Fault> {
        let ask = self.ask(request, on_text.is_some());
        let body = match ask.wire {
            Wire::Messages => anthropic::body(&ask),
            Wire::ChatCompletions => openai::body(&ask),
            Wire::Responses => responses::body(&ask),
            Wire::GenerateContent => gemini::body(&ask),
        };
        let asked = Asked {
            url: self.url(&ask)?,
            headers: self.headers(key, ask.streamed)?,
            body: body.to_string().into_bytes(),
            streamed: ask.streamed,
            idle: self.settings.idle_timeout,
        };
        let client = self.client()?;
        let mut nobody = |_: &str| {};
        let on_text: OnText<'_> = on_text.unwrap_or(&mut nobody);
        http::exchange(client, asked, reading, on_text).await
    }

    fn key(&self) -> Result<Option<&SecretString>, ModelError> {
        if let Some(key) = self.key.get() {
            return Ok(key.as_ref());
        }
        // What is missing may be there the next time.
        let read = self.settings.key.read().map_err(|problem| {
            let name = &self.settings.name;
            ModelError::new(
                ModelErrorKind::MissingKey,
                format!("the provider `{name}` has no key: {problem}"),
            )
        })?;
        Ok(self.key.get_or_init(|| read).as_ref())
    }

    fn client(&self) -> Result<&Client, Fault> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = http::client(&self.base).map_err(|error| {
            let text = format!("encrypted connections cannot be made: {error}");
            let mut fault = Fault::new(ModelErrorKind::Configuration, text);
            fault.source = Some(Box::new(error));
            fault
        })?;
        Ok(self.client.get_or_init(|| made))
    }

    fn url(&self, ask: &Ask<'_>) -> Result<Url, Fault> {
        let mut url = self.base.clone();
        let versioned = url.path().trim_end_matches('/').ends_with("/v1");
        {
            let mut path = url
                .path_segments_mut()
                .map_err(|()| Fault::new(ModelErrorKind::Configuration, "the `api_base` has no path"))?;
            path.pop_if_empty();
            match ask.wire {
                Wire::Messages if versioned => path.push("messages"),
                Wire::Messages => path.extend(["v1", "messages"]),
                Wire::Responses => path.push("responses"),
                Wire::GenerateContent => {
                    let model = &ask.request.model;
                    let model = model.strip_prefix("models/").unwrap_or(model);
                    let method = if ask.streamed {
                        "streamGenerateContent"
                    } else {
                        "generateContent"
                    };
                    path.extend(["models", &format!("{model}:{method}")])
                }
                Wire::ChatCompletions => path.extend(["chat", "completions"]),
            };
        }
        if ask.wire == Wire::GenerateContent && ask.streamed {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        Ok(url)
    }

    fn headers(&self, key: Option<&SecretString>, streamed: bool) -> Result<HeaderMap, Fault> {
        let accept = if streamed {
            "text/event-stream"
        } else {
            "application/json"
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let (name, prefix) = match self.settings.kind {
            ProviderKind::Anthropic => {
                headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
                (HeaderName::from_static("x-api-key"), "")
            }
            ProviderKind::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            _ => (AUTHORIZATION, "Bearer "),
        };
        if let Some(key) = key {
            let value = format!("{prefix}{}", key.expose_secret());
            let mut value: HeaderValue = value
                .parse()
                .map_err(|_| Fault::new(ModelErrorKind::MissingKey, "the key cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.extend(self.headers.clone());
        Ok(headers)
    }

    /// The error of a call, with provider and model, and without anything that is secret.
    fn error(&self, request: &ModelRequest, fault: Fault) -> ModelError {
        let (provider, model) = (&self.settings.name, &request.model);
        let mut message = format!("provider `{provider}`, model `{model}`: {}", fault.text);
        let key = self
            .key
            .get()
            .into_iter()
            .flatten()
            .map(ExposeSecret::expose_secret);
        let headers = self.settings.headers.values().map(String::as_str);
        // What is shorter is hardly secret, and stands in other words.
        for secret in key.chain(headers).filter(|secret| secret.len() >= 6) {
            message = message.replace(secret, "[secret]");
        }
        let mut error = ModelError::new(fault.kind, message);
        error.status = fault.status;
        error.retry_after = fault.retry_after;
        error.usage = fault.usage;
        error.source = fault.source;
        error
    }
}

fn misconfigured(provider: &str, problem: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Configuration,
        format!("the provider `{provider}` cannot be used: {problem}"),
    )
}

/// Arguments as a provider takes them back: an object, whatever the model wrote.
fn arguments_out(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object(fields) => Value::Object(fields.clone()),
        Arguments::Malformed { text, .. } => json!({"malformed_arguments": text}),
    }
}

/// What a tool gave, where a format has no other way to say that it failed.
fn tool_text(result: &ToolResult) -> String {
    match result.is_error {
        true => format!("The tool failed: {}", result.content),
        false => result.content.clone(),
    }
}

/// A count in an object; nothing where there is none.
fn count_of(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or(0)
}

/// A text in an object; empty where there is none.
fn text_of<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The JSON of an event.
fn parsed(data: &str) -> Result<Value, Fault> {
    serde_json::from_str(data).map_err(|error| {
        let said = fault::excerpt(data.as_bytes());
        Fault::malformed(format!("an event of the stream is no JSON ({error}): {said}"))
    })
}
