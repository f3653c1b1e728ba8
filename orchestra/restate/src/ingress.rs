//! The HTTP client of the durable engine.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The characters of a key that a path may contain as they are.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The limit of one request. A turn waits for those before it, and takes milliseconds.
const TIME_OUT: Duration = Duration::from_secs(60);

/// A client of handlers at an ingress; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Ingress {
    url: String,
    http: reqwest::Client,
}

/// The failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The handler refused the request. Its message begins with a code, a colon and a space.
    #[error("{message}")]
    Refused { status: u16, message: String },
    /// No server answered.
    #[error("no answer from `{url}`: {source}")]
    Unreachable { url: String, source: reqwest::Error },
    /// The server failed, and another try may succeed.
    #[error("`{url}` answered {status}: {message}")]
    Failed {
        url: String,
        status: u16,
        message: String,
    },
    /// The answer is none to the request.
    #[error("an answer from `{url}` cannot be understood: {message}")]
    Unreadable { url: String, message: String },
}

impl RequestError {
    /// Returns whether the request may succeed if it is sent again.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(
            self,
            RequestError::Unreachable { .. } | RequestError::Failed { .. }
        )
    }
}

impl Ingress {
    pub(crate) fn new(url: &str) -> Result<Ingress, reqwest::Error> {
        Ok(Ingress {
            url: url.trim_end_matches('/').to_owned(),
            http: http_client()?,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Calls a handler of an object, and returns its reply.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        object: &str,
        key: &str,
        handler: &str,
        request: &impl Serialize,
    ) -> Result<R, RequestError> {
        let key = utf8_percent_encode(key, KEY);
        let url = format!("{}/{object}/{key}/{handler}", self.url);
        let body = serde_json::to_vec(request).unwrap_or_default();
        let request = self.http.post(&url).header("content-type", "application/json");
        let answered = answer(&url, request.body(body)).await?;
        // A handler without a result answers nothing.
        let answered: &[u8] = if answered.is_empty() { b"null" } else { &answered };
        serde_json::from_slice(answered).map_err(|error| RequestError::Unreadable {
            url,
            message: error.to_string(),
        })
    }
}

impl Ingress {
    /// Calls a handler of a service that takes and returns nothing.
    pub(crate) async fn call_service(&self, service: &str, handler: &str) -> Result<(), RequestError> {
        let url = format!("{}/{service}/{handler}", self.url);
        answer(&url, self.http.post(&url)).await.map(drop)
    }

    /// Returns whether the server knows a handler of a service. Nothing is executed: handlers cannot be called by this
    /// method, and the server looks for the service first.
    pub(crate) async fn knows(&self, service: &str, handler: &str) -> Result<bool, RequestError> {
        let url = format!("{}/{service}/{handler}", self.url);
        match answer(&url, self.http.put(&url)).await {
            Err(RequestError::Refused { status: 404, .. }) => Ok(false),
            Ok(_) | Err(RequestError::Refused { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Creates a client for plain and encrypted connections.
pub(crate) fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    // The first caller of a process decides about the cryptography, and all of this project decide alike.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        // The servers are in the same network; variables for the way to the internet do not concern them.
        .no_proxy()
        .timeout(TIME_OUT)
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .build()
}

/// Sends a request, and returns the body of the answer.
pub(crate) async fn answer(url: &str, request: reqwest::RequestBuilder) -> Result<Vec<u8>, RequestError> {
    let unreachable = |source| RequestError::Unreachable {
        url: url.to_owned(),
        source,
    };
    let answered = request.send().await.map_err(unreachable)?;
    let status = answered.status();
    let body = answered.bytes().await.map_err(unreachable)?.to_vec();
    if status.is_success() {
        return Ok(body);
    }
    let message = serde_json::from_slice::<Value>(&body)
        .ok()
        .and_then(|body| body.get("message")?.as_str().map(str::to_owned));
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    let status = status.as_u16();
    let is_temporary = status >= 500
        || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT]
            .iter()
            .any(|temporary| temporary.as_u16() == status);
    Err(match is_temporary {
        true => RequestError::Failed {
            url: url.to_owned(),
            status,
            message,
        },
        false => RequestError::Refused { status, message },
    })
}

/// The delays between tries, which grow to a few seconds.
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff(Duration::from_millis(20))
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_secs(3));
    }
}
