//! One exchange over HTTP: bounded in size and time, no retries, no redirects.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;

use super::events::{Event, EventFault, Events};
use super::fault::{self, Fault};
use crate::model::{ModelErrorKind, ModelReply, TokenUsage};

/// The largest answer that is read as a whole. What its JSON becomes in memory may be ten times as large.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;

/// The largest stream that is read. Each token comes with a few hundred bytes around it.
const LARGEST_STREAM: usize = 64 * 1024 * 1024;

/// The largest event of a stream.
const LARGEST_EVENT: usize = 4 * 1024 * 1024;

/// How much of the body of an error is read.
const LARGEST_ERROR: usize = 64 * 1024;

/// How long the body of an error is waited for: its status has said what happened.
const LONGEST_ERROR: Duration = Duration::from_secs(10);

/// How long a connection may take to be made.
const LONGEST_CONNECT: Duration = Duration::from_secs(30);

/// How long a stream that is complete may take to end, so that its connection can be used again.
const LONGEST_END: Duration = Duration::from_millis(100);

/// What an answer is read into; it keeps what it was told when the rest does not come.
pub(super) trait Reading: Send {
    /// Takes an answer that is not streamed.
    fn whole(&mut self, body: &Value) -> Result<(), Fault>;

    /// Takes an event of a stream; whether the answer is complete now.
    fn event(&mut self, event: &Event, on_text: &mut dyn FnMut(&str)) -> Result<bool, Fault>;

    /// Whether a stream that ends here is a whole answer.
    fn may_end(&self) -> bool;

    /// The tokens, as far as they were told.
    fn usage(&self) -> Option<TokenUsage>;

    /// The answer.
    fn reply(&self) -> Result<ModelReply, Fault>;
}

/// What is asked of a server.
pub(super) struct Asked {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) streamed: bool,
    pub(super) idle: Duration,
}

/// Makes a client for the server at a base.
pub(super) fn client(base: &Url) -> Result<Client, reqwest::Error> {
    // Another part of the program may have chosen a provider of cryptography; then that one holds.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(LONGEST_CONNECT)
        .user_agent(concat!("orchestra/", env!("CARGO_PKG_VERSION")));
    if base.scheme() == "http" {
        // Without encryption the certificates of the system are not needed; there may be none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Whether a server is on this machine.
pub(super) fn is_loopback(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// Asks and reads the answer.
pub(super) async fn exchange(
    client: &Client,
    asked: Asked,
    reading: &mut dyn Reading,
    on_text: &mut (dyn FnMut(&str) + Send),
) -> Result<(), Fault> {
    let idle = asked.idle;
    let request = client.post(asked.url).headers(asked.headers).body(asked.body);
    let mut response = in_time(idle, request.send()).await?;
    let status = response.status();
    if status.is_redirection() {
        return Err(redirected(&response));
    }
    if status != StatusCode::OK {
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = fault::retry_after(header, SystemTime::now());
        let body = beginning(&mut response, idle.min(LONGEST_ERROR)).await;
        return Err(fault::of_status(status.as_u16(), retry_after, &body));
    }
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    if asked.streamed && is_stream(&kind) {
        return stream(response, idle, reading, on_text).await;
    }
    // A server that does not stream although it is asked to answers as a whole; so do errors.
    let body = whole(&mut response, idle).await?;
    read_whole(&body, &kind, reading)?;
    if asked.streamed {
        on_text(&reading.reply()?.text);
    }
    Ok(())
}

/// Whether a body of a content type is a stream of events.
pub(super) fn is_stream(kind: &str) -> bool {
    kind.starts_with("text/event-stream")
}

/// Reads an answer that came as a whole.
pub(super) fn read_whole(body: &[u8], kind: &str, reading: &mut dyn Reading) -> Result<(), Fault> {
    let parsed: Value = match serde_json::from_slice(body) {
        Ok(parsed) => parsed,
        Err(error) => {
            let said = fault::excerpt(body);
            return Err(Fault::malformed(format!(
                "the answer is no JSON ({error}); its content type is `{kind}`, and it says {said}"
            )));
        }
    };
    if let Some(fault) = fault::error_inside(&parsed) {
        // What was used is told beside the error, if at all.
        drop(reading.whole(&parsed));
        return Err(fault);
    }
    reading.whole(&parsed)
}

/// Reads a stream until its answer is complete.
async fn stream(
    mut response: Response,
    idle: Duration,
    reading: &mut dyn Reading,
    on_text: &mut (dyn FnMut(&str) + Send),
) -> Result<(), Fault> {
    let mut stream = StreamReader::new(reading);
    while let Some(bytes) = in_time(idle, response.chunk()).await? {
        if stream.push(&bytes, on_text)? {
            // The end that follows frees the connection; an answer that is complete does not depend on it.
            drop(timeout(LONGEST_END, response.chunk()).await);
            return Ok(());
        }
    }
    stream.end()
}

/// Reads a stream of events, whose bytes come in pieces of any size.
pub(super) struct StreamReader<'r> {
    events: Events,
    size: usize,
    reading: &'r mut dyn Reading,
}

impl StreamReader<'_> {
    /// A stream of which nothing has come.
    pub(super) fn new(reading: &mut dyn Reading) -> StreamReader<'_> {
        StreamReader {
            events: Events::new(LARGEST_EVENT),
            size: 0,
            reading,
        }
    }

    /// Takes some bytes; returns whether the answer is complete.
    pub(super) fn push(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<bool, Fault> {
        self.size += bytes.len();
        if self.size > LARGEST_STREAM {
            return Err(too_large("the stream", LARGEST_STREAM));
        }
        let pushed = self.events.push(bytes);
        // What came before a fault counts however the bytes are cut.
        while let Some(event) = self.events.next() {
            if self.reading.event(&event, on_text)? {
                return Ok(true);
            }
        }
        pushed.map(|()| false).map_err(|fault| match fault {
            EventFault::TooLarge => too_large("an event of the stream", LARGEST_EVENT),
            EventFault::Encoding => Fault::malformed("the stream is not UTF-8"),
        })
    }

    /// Takes the end of a stream whose answer was not complete.
    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.reading.may_end() {
            Ok(())
        } else if self.size == 0 {
            Err(Fault::malformed("the answer is empty"))
        } else {
            Err(Fault::malformed(
                "the stream ended before the answer was complete",
            ))
        }
    }
}

/// Waits for something that must come before the line has been silent for too long.
async fn in_time<T>(
    idle: Duration,
    work: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, Fault> {
    match timeout(idle, work).await {
        Ok(result) => result.map_err(broken),
        Err(_) => Err(Fault::new(
            ModelErrorKind::Timeout,
            format!("nothing came for {}", in_words(idle)),
        )),
    }
}

/// A duration as people write it.
pub(super) fn in_words(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

/// The fault of a connection that broke or was not made.
fn broken(error: reqwest::Error) -> Fault {
    // An address may hold what is nobody's business.
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
    let cause = innermost(&error);
    let mut fault = Fault::new(kind, format!("{text}: {cause}"));
    fault.source = Some(Box::new(error));
    fault
}

/// The cause behind all causes, which says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    fault::bounded(&cause.to_string())
}

fn redirected(response: &Response) -> Fault {
    let status = response.status().as_u16();
    let location = response
        .headers()
        .get(LOCATION)
        .and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    // What follows the host may hold what is nobody's business.
    let target = target.map_or_else(
        || "elsewhere".to_owned(),
        |target| format!("to `{}`", target.origin().ascii_serialization()),
    );
    let mut fault = Fault::new(
        ModelErrorKind::Redirected,
        format!(
            "it sends its callers {target} (HTTP {status}), and the key does not follow; set `api_base` to the address that is meant"
        ),
    );
    fault.status = Some(status);
    fault
}

fn too_large(what: &str, limit: usize) -> Fault {
    Fault::malformed(format!("{what} is larger than {} MiB", limit / 1024 / 1024))
}

/// Reads a whole body, if it is not too large.
async fn whole(response: &mut Response, idle: Duration) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(bytes) = in_time(idle, response.chunk()).await? {
        if body.len() + bytes.len() > LARGEST_ANSWER {
            return Err(too_large("the answer", LARGEST_ANSWER));
        }
        body.extend_from_slice(&bytes);
    }
    if body.is_empty() {
        return Err(Fault::malformed("the answer is empty"));
    }
    Ok(body)
}

/// Reads the beginning of a body, as much as comes in time.
async fn beginning(response: &mut Response, limit: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            let room = LARGEST_ERROR - body.len();
            body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            if body.len() >= LARGEST_ERROR {
                break;
            }
        }
    };
    drop(timeout(limit, reading).await);
    body
}
