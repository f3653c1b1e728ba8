//! Signals that ask the program to end.

/// Interrupts (Ctrl-C) and termination requests (`SIGTERM`). No signal is lost between two calls of `next`.
pub(crate) struct Signals {
    #[cfg(unix)]
    sources: Vec<tokio::signal::unix::Signal>,
    #[cfg(not(unix))]
    source: Option<tokio::signal::windows::CtrlC>,
}

#[cfg(unix)]
impl Signals {
    /// Starts listening. A signal that cannot be listened to keeps its default action.
    pub(crate) fn new() -> Signals {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        Signals {
            sources: kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect(),
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        use std::task::Poll;
        std::future::poll_fn(|cx| {
            let mut arrived = false;
            // Poll every source, so that each one registers its waker.
            for source in &mut self.sources {
                arrived |= matches!(source.poll_recv(cx), Poll::Ready(Some(())));
            }
            if arrived { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Starts listening.
    pub(crate) fn new() -> Signals {
        Signals {
            source: tokio::signal::windows::ctrl_c().ok(),
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        match &mut self.source {
            Some(source) => {
                source.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}
