//! What clients receive while runs go on.

pub(crate) mod changes;
pub(crate) mod events;
pub(crate) mod feeds;
pub(crate) mod stream;
pub(crate) mod watcher;
pub(crate) mod watchers;

use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::watch;

/// Interval of the comments that keep a connection open.
const PING_INTERVAL: Duration = Duration::from_secs(15);

/// A comment, which clients ignore.
const PING: &[u8] = b": ping\n\n";

/// Returns the reply of an event stream.
fn event_stream(
    stream: impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (StatusCode::OK, headers, Body::from_stream(stream)).into_response()
}

/// Waits until the server stops.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the server.
    let _ = stop.wait_for(|stop| *stop).await;
}
