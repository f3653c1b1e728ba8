//! The connections of the server: accepting them, their limits, and their end.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Sleep, sleep};

use crate::error::ApiError;

/// Maximum number of connections. Further ones wait until another one ends.
const MAX_CONNECTIONS: usize = 1_100;

/// Maximum number of connections on which no request has shown a token yet. A further one closes the oldest of them, so
/// that strangers cannot take all places.
const MAX_STRANGERS: usize = 100;

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Maximum number of headers.
const MAX_HEADERS: usize = 64;

/// Maximum time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time in which a client reads nothing of a reply.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Wait after the operating system could not accept a connection, such as for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connections on which no request has shown a token yet, the oldest first.
#[derive(Clone, Default)]
struct Strangers(Arc<Mutex<VecDeque<Arc<Notify>>>>);

impl Strangers {
    /// Adds a connection; closes the oldest one if there are too many.
    fn enter(&self) -> Stranger {
        let close = Arc::new(Notify::new());
        let mut list = self.list();
        list.push_back(close.clone());
        if list.len() > MAX_STRANGERS
            && let Some(oldest) = list.pop_front()
        {
            oldest.notify_one();
        }
        drop(list);
        Stranger {
            close,
            strangers: self.clone(),
        }
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts as a stranger's until a request on it shows a token.
#[derive(Clone)]
pub(crate) struct Stranger {
    close: Arc<Notify>,
    strangers: Strangers,
}

impl Stranger {
    /// Notes that the client has shown a token, or has gone.
    pub(crate) fn leave(&self) {
        self.strangers
            .list()
            .retain(|close| !Arc::ptr_eq(close, &self.close));
    }
}

/// Accepts connections until `stop` becomes `true`. Returns when all of them have ended, or `end` has become `true`.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    mut stop: watch::Receiver<bool>,
    mut end: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let strangers = Strangers::default();
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &places) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, place)) = accepted else {
            continue;
        };
        // A small event must not wait for the next one.
        let _ = stream.set_nodelay(true);
        let (router, mut stop, mut end) = (router.clone(), stop.clone(), end.clone());
        let stranger = strangers.enter();
        tokio::spawn(async move {
            tokio::select! {
                () = serve(stream, router, &stranger, &mut stop) => {}
                () = stranger.close.notified() => {}
                _ = end.wait_for(|end| *end) => {}
            }
            stranger.leave();
            drop(place);
        });
    }
    tokio::select! {
        _ = places.acquire_many(MAX_CONNECTIONS as u32) => {}
        _ = end.wait_for(|end| *end) => {}
    }
}

async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(_) => {
            sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn serve(stream: TcpStream, router: Router, stranger: &Stranger, stop: &mut watch::Receiver<bool>) {
    let stranger = stranger.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        use tower_service::Service as _;
        request.extensions_mut().insert(stranger.clone());
        let handled = router.clone().call(request.map(axum::body::Body::new));
        // A client that goes away must not cut a start or an answer short.
        let handled = tokio::spawn(handled);
        async move {
            match handled.await {
                Ok(response) => response,
                Err(error) => Ok(ApiError::internal("internal", error.to_string()).into_response()),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(StallLimit::new(stream)), service);
    let mut connection = pin!(connection);
    // The client learns of its errors by the end of the connection.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A stream that fails if the other side reads nothing for too long.
struct StallLimit {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl StallLimit {
    fn new(stream: TcpStream) -> StallLimit {
        StallLimit {
            stream,
            stalled: None,
        }
    }

    /// Passes on the result of a write. Fails if writes have been pending for too long.
    fn limit<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_TIMEOUT)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for StallLimit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for StallLimit {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.limit(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
