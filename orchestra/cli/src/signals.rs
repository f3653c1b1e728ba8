//! The wishes of the system and of the terminal that this program end.

/// Interrupts (Ctrl-C) and requests to end (`SIGTERM`), none of which is lost between two looks.
pub(crate) struct Signals {
    #[cfg(unix)]
    sources: Vec<tokio::signal::unix::Signal>,
    #[cfg(not(unix))]
    source: Option<tokio::signal::windows::CtrlC>,
}

#[cfg(unix)]
impl Signals {
    /// Listens from now on; a signal that cannot be listened to does what it always does.
    pub(crate) fn new() -> Signals {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        Signals {
            sources: kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect(),
        }
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        use std::task::Poll;
        std::future::poll_fn(|cx| {
            let come = |source: &mut tokio::signal::unix::Signal| {
                matches!(source.poll_recv(cx), Poll::Ready(Some(())))
            };
            // Each is asked, so that each wakes.
            match self.sources.iter_mut().map(come).filter(|come| *come).count() {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Listens from now on.
    pub(crate) fn new() -> Signals {
        Signals {
            source: tokio::signal::windows::ctrl_c().ok(),
        }
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        match &mut self.source {
            Some(source) => {
                source.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}
