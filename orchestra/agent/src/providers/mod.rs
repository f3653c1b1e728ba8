//! A [`Model`] for real providers, over their wire formats.
//!
//! Each wire format has a module that builds requests and parses answers: [`anthropic`], [`openai`], [`responses`],
//! [`gemini`]. [`http`] exchanges the bytes, [`call_error`] classifies errors, and [`capability`] knows the
//! capabilities of models. [`answer_schema`] converts the schema of an answer to what a model supports.

mod answer_schema;
mod anthropic;
mod call_error;
mod capability;
mod events;
mod fields;
mod gemini;
mod http;
mod layout;
mod openai;
mod request;
mod responses;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use orchestra_config::ProviderKind;
use orchestra_engine::is_placeholder_key;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};

use self::call_error::CallError;
use self::http::{HttpRequest, ReplyParser, StreamReader};
use self::request::{Wire, WireRequest};
use crate::model::{Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText};

pub use self::capability::DEFAULT_MAX_OUTPUT_TOKENS;
pub use self::http::http_client;
pub use self::settings::{KeySource, ProviderSettings};

/// The models of all configured providers.
///
/// Each call is made once, without retries. Redirects are not followed. Answers are bounded in size and time. A call
/// returns a complete answer or an error: a stream that was cut off is never returned as an answer. Dropping a call
/// closes its connection.
///
/// An option that the model does not support is left out of the request, so that a pipeline does not fail because of
/// it: an effort if the model does not reason, a temperature if it does. A reasoning effort is sent as follows:
///
/// | Provider | Low, medium, high |
/// |---|---|
/// | Anthropic, Claude 3.7 to 4.5 | thinking with a budget of 2,048, 8,192, 16,384 tokens, at most three quarters of the output; without a temperature |
/// | Anthropic, Claude 4.6 and later | adaptive thinking with that effort, without a temperature |
/// | OpenAI, GPT 5 and later, o1, o3, .. | `reasoning_effort`; in Responses `reasoning.effort` |
/// | Gemini 2.5 | thinking with a budget as above |
/// | Gemini 3 and later | `thinkingLevel`; Gemini 3 Pro has no medium level and uses high instead |
/// | OpenRouter | `reasoning.effort`; OpenRouter leaves it out if a model does not support it |
/// | Ollama and others | `reasoning_effort`, for models named like OpenAI's and for gpt-oss |
///
/// The schema of an answer is sent to models that are known to support it: Claude 4.5 and later, OpenAI models from GPT-4o
/// and o1 on, Gemini 2.5 and later, these at OpenRouter, and all at Ollama. Constraints that a provider does not support
/// are left out, or the whole schema if it needs one of them.
///
/// OpenAI models that can reason with tools only in the Responses API are called with it: GPT 5.2 and later, and those
/// with pro or codex in their names. All other OpenAI models and all compatible providers are called with Chat
/// Completions.
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
/// assert_eq!(error.to_string(), "unknown provider `clade`; did you mean `claude`?");
/// # Ok::<(), orchestra_agent::ModelError>(())
/// ```
pub struct Models {
    providers: BTreeMap<String, Provider>,
}

impl Models {
    /// Creates the models of providers. Reads no keys and sends nothing.
    ///
    /// # Errors
    /// Returns an error of the kind [`Configuration`](ModelErrorKind::Configuration) if two providers have the same
    /// name, an address is invalid, or a header cannot be sent.
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

    /// Returns the names of the providers, sorted.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// Returns the first provider of the kind that has the model, derived from the model's name.
    pub fn provider_of_model(&self, model: &str) -> Option<&str> {
        let kind = ProviderKind::of_model(model)?;
        let mut providers = self.providers.values();
        let found = providers.find(|provider| provider.settings.kind == kind);
        found.map(|provider| provider.settings.name.as_str())
    }

    /// Returns an error for each of these providers that has no key or does not exist. Sends nothing; only a call shows
    /// whether a key is valid.
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

    /// Returns the existing keys, and the values of configured headers whose names denote secrets. They must not be
    /// shown anywhere. Placeholder keys such as `ollama` are not included.
    pub fn secrets(&self) -> Vec<SecretString> {
        let providers = self.providers.values();
        let secrets = providers.flat_map(|provider| {
            let key = provider.key().ok().flatten();
            let key = key.map(|key| key.expose_secret().to_owned());
            let headers = provider.settings.headers.iter();
            let headers = headers
                .filter(|(name, _)| names_secret(name))
                .flat_map(|(_, value)| {
                    // A scheme such as `Bearer` may precede the secret.
                    let bare = value.rsplit(' ').next().unwrap_or_default();
                    [value.clone(), bare.to_owned()]
                });
            key.into_iter().chain(headers)
        });
        let real = secrets.filter(|secret| !is_placeholder_key(secret));
        real.map(SecretString::from).collect()
    }

    /// Returns the maximum number of output tokens of an answer, which is reserved from a budget. Returns `None` if
    /// only the provider knows it.
    ///
    /// # Errors
    /// Returns an error if the provider does not exist.
    pub fn output_limit(&self, request: &ModelRequest) -> Result<Option<u32>, ModelError> {
        let request = self.provider(&request.provider)?.wire_request(request, false);
        Ok(match request.kind {
            ProviderKind::Anthropic => Some(anthropic::output_limit(&request)),
            _ => request.max_output,
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
                format!("unknown provider `{name}`; {hint}"),
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

/// Returns a parser of the answers of a model.
fn reply_parser(kind: ProviderKind, model: &str) -> Box<dyn ReplyParser> {
    match Wire::for_model(kind, model) {
        Wire::Messages => Box::<anthropic::Answer>::default(),
        Wire::ChatCompletions => Box::new(openai::Answer::new(kind)),
        Wire::Responses => Box::<responses::Answer>::default(),
        Wire::GenerateContent => Box::<gemini::Answer>::default(),
    }
}

/// Parses the body of an answer that arrives in pieces, as a call does. `tests/fuzz` uses it without a server.
///
/// # Errors
/// Returns an error if the body is not a valid answer of such a model.
pub(crate) fn read_body(
    kind: ProviderKind,
    model: &str,
    content_type: &str,
    pieces: &[&[u8]],
    on_text: &mut dyn FnMut(&str),
) -> Result<ModelReply, ModelError> {
    let mut parser = reply_parser(kind, model);
    let mut read = |parser: &mut dyn ReplyParser| {
        if !http::is_stream(content_type) {
            return http::parse_body(&pieces.concat(), content_type, parser);
        }
        let mut stream = StreamReader::new(parser);
        for piece in pieces {
            if stream.push(piece, on_text)? {
                return Ok(());
            }
        }
        stream.end()
    };
    let reply = read(parser.as_mut()).and_then(|()| parser.reply());
    reply.map_err(|error| {
        let call = error.with_usage(parser.usage());
        let mut error = ModelError::new(call.kind, call.text);
        error.usage = call.usage;
        error
    })
}

/// Returns whether the value of a header is a secret, judged by the header's name.
fn names_secret(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["authorization", "cookie", "key", "token", "secret", "password"]
        .iter()
        .any(|ending| name.ends_with(ending))
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
        let Some(base) = settings.api_base.as_deref().or(kind.api_base()) else {
            return Err(wrong(&format!(
                "a provider of the kind `{kind}` needs an `api_base`"
            )));
        };
        let base: Url = base
            .parse()
            .map_err(|error| wrong(&format!("its `api_base` is not a valid address: {error}")))?;
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
                .map_err(|_| wrong(&format!("`{name}` is not a valid header name")))?;
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

    fn wire_request<'r>(&self, request: &'r ModelRequest, streamed: bool) -> WireRequest<'r> {
        WireRequest {
            request,
            kind: self.settings.kind,
            wire: Wire::for_model(self.settings.kind, &request.model),
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
        let mut parser = reply_parser(self.settings.kind, &request.model);
        let timeout = self.settings.timeout;
        let exchange = self.exchange(request, key, parser.as_mut(), on_text);
        let error = match tokio::time::timeout(timeout, exchange).await {
            Ok(Ok(())) => match parser.reply() {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            },
            Ok(Err(error)) => error,
            Err(_) => {
                let limit = http::duration_text(timeout);
                CallError::new(
                    ModelErrorKind::Timeout,
                    format!("no whole answer came within {limit}"),
                )
            }
        };
        Err(self.error(request, error.with_usage(parser.usage())))
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        key: Option<&SecretString>,
        parser: &mut dyn ReplyParser,
        on_text: Option<OnText<'_>>,
    ) -> Result<(), CallError> {
        let request = self.wire_request(request, on_text.is_some());
        let body = match request.wire {
            Wire::Messages => anthropic::body(&request),
            Wire::ChatCompletions => openai::body(&request),
            Wire::Responses => responses::body(&request),
            Wire::GenerateContent => gemini::body(&request),
        };
        let http_request = HttpRequest {
            url: self.url(&request)?,
            headers: self.headers(key, request.streamed)?,
            body: body.to_string().into_bytes(),
            streamed: request.streamed,
            idle: self.settings.idle_timeout,
        };
        let client = self.client()?;
        let mut nobody = |_: &str| {};
        let on_text: OnText<'_> = on_text.unwrap_or(&mut nobody);
        http::exchange(client, http_request, parser, on_text).await
    }

    fn key(&self) -> Result<Option<&SecretString>, ModelError> {
        if let Some(key) = self.key.get() {
            return Ok(key.as_ref());
        }
        // Do not cache a missing key; it may exist at the next call.
        let read = self.settings.key.read().map_err(|problem| {
            let name = &self.settings.name;
            ModelError::new(
                ModelErrorKind::MissingKey,
                format!("the provider `{name}` has no key: {problem}"),
            )
        })?;
        Ok(self.key.get_or_init(|| read).as_ref())
    }

    fn client(&self) -> Result<&Client, CallError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = http::http_client(&self.base).map_err(|error| {
            let text = format!("encrypted connections cannot be made: {error}");
            let mut call = CallError::new(ModelErrorKind::Configuration, text);
            call.source = Some(Box::new(error));
            call
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    fn url(&self, request: &WireRequest<'_>) -> Result<Url, CallError> {
        let mut url = self.base.clone();
        let versioned = url.path().trim_end_matches('/').ends_with("/v1");
        {
            let mut path = url
                .path_segments_mut()
                .map_err(|()| CallError::new(ModelErrorKind::Configuration, "the `api_base` has no path"))?;
            path.pop_if_empty();
            match request.wire {
                Wire::Messages if versioned => path.push("messages"),
                Wire::Messages => path.extend(["v1", "messages"]),
                Wire::Responses => path.push("responses"),
                Wire::GenerateContent => {
                    let model = &request.request.model;
                    let model = model.strip_prefix("models/").unwrap_or(model);
                    let method = if request.streamed {
                        "streamGenerateContent"
                    } else {
                        "generateContent"
                    };
                    path.extend(["models", &format!("{model}:{method}")])
                }
                Wire::ChatCompletions => path.extend(["chat", "completions"]),
            };
        }
        if request.wire == Wire::GenerateContent && request.streamed {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        Ok(url)
    }

    fn headers(&self, key: Option<&SecretString>, streamed: bool) -> Result<HeaderMap, CallError> {
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
                .map_err(|_| CallError::new(ModelErrorKind::MissingKey, "the key cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.extend(self.headers.clone());
        Ok(headers)
    }

    /// Returns the error of a call, with provider and model, and without secrets.
    fn error(&self, request: &ModelRequest, call: CallError) -> ModelError {
        let (provider, model) = (&self.settings.name, &request.model);
        let mut message = format!("provider `{provider}`, model `{model}`: {}", call.text);
        let key = self
            .key
            .get()
            .into_iter()
            .flatten()
            .map(ExposeSecret::expose_secret);
        let headers = self.settings.headers.values().map(String::as_str);
        // Shorter values are hardly secret and may be part of other words.
        for secret in key.chain(headers).filter(|secret| secret.len() >= 6) {
            message = message.replace(secret, "[secret]");
        }
        let mut error = ModelError::new(call.kind, message);
        error.status = call.status;
        error.retry_after = call.retry_after;
        error.usage = call.usage;
        error.source = call.source;
        error
    }
}

fn misconfigured(provider: &str, problem: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Configuration,
        format!("the provider `{provider}` cannot be used: {problem}"),
    )
}
