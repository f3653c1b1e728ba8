//! A single HTTP exchange: bounded in size and time, without retries or redirects.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;

use super::call_error::{self, CallError};
use super::events::{Event, Events, StreamError};
use crate::model::{ModelErrorKind, ModelReply, TokenUsage};

/// Maximum size of an answer that is not streamed, in bytes. Its JSON may take ten times as much memory.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of a stream, in bytes. Each token arrives with a few hundred bytes of overhead.
const MAX_STREAM_BYTES: usize = 64 * 1024 * 1024;

/// Maximum size of an event of a stream, in bytes.
const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of bytes read from the body of an error.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Maximum time to wait for the body of an error; the status already shows what happened.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time to wait for the end of a complete stream, so that its connection can be reused.
const STREAM_END_TIMEOUT: Duration = Duration::from_millis(100);

/// A parser that accumulates an answer. It keeps the parts received so far if the rest does not arrive.
pub(super) trait ReplyParser: Send {
    /// Parses an answer that is not streamed.
    fn parse_body(&mut self, body: &Value) -> Result<(), CallError>;

    /// Parses an event of a stream. Returns whether the answer is complete.
    fn parse_event(&mut self, event: &Event, on_text: &mut dyn FnMut(&str)) -> Result<bool, CallError>;

    /// Returns whether a stream that ends now is a complete answer.
    fn may_end(&self) -> bool;

    /// Returns the token usage received so far.
    fn usage(&self) -> Option<TokenUsage>;

    /// Returns the answer.
    fn reply(&self) -> Result<ModelReply, CallError>;
}

/// An HTTP request to a server.
pub(super) struct HttpRequest {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) streamed: bool,
    pub(super) idle: Duration,
}

/// Creates a client for the server at a base URL. It follows no redirect, sends nothing twice and no referrer, and uses no
/// proxy for a server of this machine, so that headers reach that server only.
///
/// # Errors
/// The certificates of the system cannot be read.
///
/// ```
/// let base = "http://127.0.0.1:8080/mcp".parse()?;
/// let request = orchestra_agent::http_client(&base)?.get(base).build()?;
/// assert_eq!(request.url().port(), Some(8080));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn http_client(base: &Url) -> Result<Client, reqwest::Error> {
    // If another part of the program has already installed a cryptography provider, that one is used.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("orchestra/", env!("CARGO_PKG_VERSION")));
    if base.scheme() == "http" {
        // Plain HTTP does not need the certificates of the system, which may be missing.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Returns whether a server runs on this machine.
pub(super) fn is_loopback(base: &Url) -> bool {
    base.host_str().is_some_and(orchestra_config::is_loopback_host)
}

/// Sends a request and reads its answer into `parser`.
pub(super) async fn exchange(
    client: &Client,
    request: HttpRequest,
    parser: &mut dyn ReplyParser,
    on_text: &mut (dyn FnMut(&str) + Send),
) -> Result<(), CallError> {
    let HttpRequest {
        url,
        headers,
        body,
        streamed,
        idle,
    } = request;
    let request = client.post(url).headers(headers).body(body);
    let mut response = with_idle_timeout(idle, request.send()).await?;
    let status = response.status();
    if status.is_redirection() {
        return Err(redirected(&response));
    }
    if status != StatusCode::OK {
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = call_error::retry_after(header, SystemTime::now());
        let body = beginning(&mut response, idle.min(ERROR_BODY_TIMEOUT)).await;
        return Err(call_error::from_status(status.as_u16(), retry_after, &body));
    }
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    if streamed && is_stream(&kind) {
        return stream(response, idle, parser, on_text).await;
    }
    // Some servers ignore the request to stream, and errors are never streamed.
    let body = read_to_end(&mut response, idle).await?;
    parse_body(&body, &kind, parser)?;
    if streamed {
        on_text(&parser.reply()?.text);
    }
    Ok(())
}

/// Returns whether a body with this content type is a stream of events.
pub(super) fn is_stream(kind: &str) -> bool {
    kind.starts_with("text/event-stream")
}

/// Parses an answer that is not streamed.
pub(super) fn parse_body(body: &[u8], kind: &str, parser: &mut dyn ReplyParser) -> Result<(), CallError> {
    let parsed: Value = match serde_json::from_slice(body) {
        Ok(parsed) => parsed,
        Err(error) => {
            let excerpt = call_error::excerpt(body);
            return Err(CallError::malformed(format!(
                "the answer is not JSON ({error}); its content type is `{kind}`, and it says {excerpt}"
            )));
        }
    };
    if let Some(error) = call_error::error_inside(&parsed) {
        // An error may come with a token usage, so read that too.
        drop(parser.parse_body(&parsed));
        return Err(error);
    }
    parser.parse_body(&parsed)
}

/// Reads a stream until its answer is complete.
async fn stream(
    mut response: Response,
    idle: Duration,
    parser: &mut dyn ReplyParser,
    on_text: &mut (dyn FnMut(&str) + Send),
) -> Result<(), CallError> {
    let mut stream = StreamReader::new(parser);
    while let Some(bytes) = with_idle_timeout(idle, response.chunk()).await? {
        if stream.push(&bytes, on_text)? {
            // Reading the end frees the connection for reuse; the answer is already complete.
            drop(timeout(STREAM_END_TIMEOUT, response.chunk()).await);
            return Ok(());
        }
    }
    stream.end()
}

/// A reader of a stream of events whose bytes arrive in pieces of any size.
pub(super) struct StreamReader<'r> {
    events: Events,
    size: usize,
    parser: &'r mut dyn ReplyParser,
}

impl StreamReader<'_> {
    /// Creates a reader at the beginning of a stream.
    pub(super) fn new(parser: &mut dyn ReplyParser) -> StreamReader<'_> {
        StreamReader {
            events: Events::new(MAX_EVENT_BYTES),
            size: 0,
            parser,
        }
    }

    /// Reads some bytes. Returns whether the answer is complete.
    pub(super) fn push(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<bool, CallError> {
        self.size += bytes.len();
        if self.size > MAX_STREAM_BYTES {
            return Err(too_large("the stream", MAX_STREAM_BYTES));
        }
        let pushed = self.events.push(bytes);
        // Apply the events before an error, no matter how the bytes are split.
        while let Some(event) = self.events.next() {
            if self.parser.parse_event(&event, on_text)? {
                return Ok(true);
            }
        }
        pushed.map(|()| false).map_err(|error| match error {
            StreamError::TooLarge => too_large("an event of the stream", MAX_EVENT_BYTES),
            StreamError::Encoding => CallError::malformed("the stream is not UTF-8"),
        })
    }

    /// Ends a stream whose answer was not complete. Returns an error unless the answer may end without a mark.
    pub(super) fn end(&self) -> Result<(), CallError> {
        if self.parser.may_end() {
            Ok(())
        } else if self.size == 0 {
            Err(CallError::malformed("the answer is empty"))
        } else {
            Err(CallError::malformed(
                "the stream ended before the answer was complete",
            ))
        }
    }
}

/// Waits for `work`. Returns an error if nothing arrives within the idle time.
async fn with_idle_timeout<T>(
    idle: Duration,
    work: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, CallError> {
    match timeout(idle, work).await {
        Ok(result) => result.map_err(connection_error),
        Err(_) => Err(CallError::new(
            ModelErrorKind::Timeout,
            format!("nothing came for {}", duration_text(idle)),
        )),
    }
}

/// Formats a duration for people.
pub(super) fn duration_text(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

/// Converts the error of a connection that broke or could not be made.
fn connection_error(error: reqwest::Error) -> CallError {
    // An address may contain confidential data.
    let error = error.without_url();
    let (kind, text) = if error.is_timeout() {
        (ModelErrorKind::Timeout, "the connection was not made in time")
    } else if error.is_connect() {
        (ModelErrorKind::Network, "the provider was not reached")
    } else if error.is_builder() {
        (ModelErrorKind::Configuration, "the request cannot be made")
    } else {
        (ModelErrorKind::Network, "the connection broke")
    };
    let cause = root_cause(&error);
    let mut call = CallError::new(kind, format!("{text}: {cause}"));
    call.source = Some(Box::new(error));
    call
}

/// Returns the message of the innermost cause, which is the most specific one.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    call_error::bounded(&cause.to_string())
}

fn redirected(response: &Response) -> CallError {
    let status = response.status().as_u16();
    let location = response
        .headers()
        .get(LOCATION)
        .and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    // The part after the host may contain confidential data.
    let target = target.map_or_else(
        || "elsewhere".to_owned(),
        |target| format!("to `{}`", target.origin().ascii_serialization()),
    );
    let mut error = CallError::new(
        ModelErrorKind::Redirected,
        format!(
            "it sends its callers {target} (HTTP {status}), and the key does not follow; set `api_base` to the address that is meant"
        ),
    );
    error.status = Some(status);
    error
}

fn too_large(what: &str, limit: usize) -> CallError {
    CallError::malformed(format!("{what} is larger than {} MiB", limit / 1024 / 1024))
}

/// Reads a whole body. Returns an error if it is too large or empty.
async fn read_to_end(response: &mut Response, idle: Duration) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(bytes) = with_idle_timeout(idle, response.chunk()).await? {
        if body.len() + bytes.len() > MAX_ANSWER_BYTES {
            return Err(too_large("the answer", MAX_ANSWER_BYTES));
        }
        body.extend_from_slice(&bytes);
    }
    if body.is_empty() {
        return Err(CallError::malformed("the answer is empty"));
    }
    Ok(body)
}

/// Reads the beginning of a body, as much as arrives in time.
async fn beginning(response: &mut Response, limit: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            let room = MAX_ERROR_BYTES - body.len();
            body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            if body.len() >= MAX_ERROR_BYTES {
                break;
            }
        }
    };
    drop(timeout(limit, read).await);
    body
}
