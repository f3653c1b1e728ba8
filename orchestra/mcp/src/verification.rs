//! The changes that a server reports, and the comparisons of its tools with the lock file.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// The changes that a server has reported, and those that were compared with the lock file.
pub(crate) struct Verification {
    reported: AtomicU64,
    /// The value of `reported` before the last comparison that found no difference. Written by the owner of `turn` only.
    verified: AtomicU64,
    turn: Mutex<()>,
}

impl Default for Verification {
    fn default() -> Verification {
        Verification {
            // The start of the server is its first change.
            reported: AtomicU64::new(1),
            verified: AtomicU64::new(0),
            turn: Mutex::default(),
        }
    }
}

impl Verification {
    /// Records that the server has reported a change of its tools.
    pub(crate) fn report(&self) {
        self.reported.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits for a running comparison, and compares the tools if the server has reported a change since the last
    /// successful comparison began. A change that is reported during the comparison counts for the next one.
    ///
    /// # Errors
    /// The error of `compare`. The next call compares the tools again.
    pub(crate) async fn verify<E>(&self, compare: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        let _turn = self.turn.lock().await;
        let reported = self.reported.load(Ordering::SeqCst);
        if self.verified.load(Ordering::SeqCst) == reported {
            return Ok(());
        }
        compare.await?;
        self.verified.store(reported, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{poll_fn, ready};
    use std::pin::pin;
    use std::task::Poll;

    use tokio::sync::oneshot;

    use super::*;

    /// Polls a future once. Returns whether it waits.
    async fn waits(mut future: std::pin::Pin<&mut impl Future>) -> bool {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn nobody_passes_while_the_tools_are_compared() {
        let verification = Verification::default();
        for difference in [Err("changed"), Ok(())] {
            let (send, receive) = oneshot::channel();
            let mut first = pin!(verification.verify(async { receive.await.expect("a result") }));
            assert!(waits(first.as_mut()).await);
            let mut second = pin!(verification.verify(async { Err("compared again") }));
            assert!(waits(second.as_mut()).await, "the comparison has not ended");
            send.send(difference).expect("a receiver");
            assert_eq!(first.await, difference);
            let again = difference.map_err(|_| "compared again");
            assert_eq!(second.await, again, "only a success saves the comparison");
        }
    }

    #[tokio::test]
    async fn an_abandoned_comparison_does_not_count() {
        let verification = Verification::default();
        {
            let mut abandoned = pin!(verification.verify(std::future::pending::<Result<(), ()>>()));
            assert!(waits(abandoned.as_mut()).await);
        }
        assert_eq!(verification.verify(ready(Err("compared"))).await, Err("compared"));
    }

    #[tokio::test]
    async fn a_change_that_is_reported_during_a_comparison_counts() {
        let verification = Verification::default();
        let changes = async {
            verification.report();
            Ok::<_, &str>(())
        };
        assert_eq!(verification.verify(changes).await, Ok(()));
        assert_eq!(verification.verify(ready(Err("compared"))).await, Err("compared"));
        assert_eq!(verification.verify(ready(Ok::<_, &str>(()))).await, Ok(()));
        assert_eq!(verification.verify(ready(Err("compared"))).await, Ok(()));
    }
}
