//! The reports of a worker to runs. Those of one run that come while another is on its way are sent together, so that a run
//! with many stages at once takes one turn for many of their ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::ingress::{Ingress, RequestError};
use crate::message::Reply;
use crate::packing::Packed;
use crate::wire::{Envelopes, RUN};

/// The maximum number of reports in one request.
const MOST: usize = 64;
/// The size in bytes at which a request is full.
const FULL: usize = 512 * 1024;

/// The reports of a worker; cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter {
    ingress: Ingress,
    /// The reports that wait, for each target to which a request is on its way.
    waiting: Arc<Mutex<HashMap<Target, Vec<Waiting>>>>,
}

/// A run with a secret of it. A run that was moved to a changed pipeline has several, and reads their reports differently.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Target {
    run: String,
    secret: String,
}

struct Waiting {
    sent: Packed,
    replied: oneshot::Sender<Result<Reply, NotReported>>,
}

/// The failure of a report.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct NotReported {
    message: String,
    /// `true` if it is to be sent again.
    pub(crate) is_temporary: bool,
}

impl NotReported {
    pub(crate) fn temporary(message: String) -> NotReported {
        NotReported {
            message,
            is_temporary: true,
        }
    }
}

impl Reporter {
    pub(crate) fn new(ingress: Ingress) -> Reporter {
        Reporter {
            ingress,
            waiting: Arc::default(),
        }
    }

    /// Sends a report, and returns the reply of the run.
    pub(crate) async fn send(&self, run: &str, secret: &str, sent: Packed) -> Result<Reply, NotReported> {
        let (replied, reply) = oneshot::channel();
        let target = Target {
            run: run.to_owned(),
            secret: secret.to_owned(),
        };
        let is_first = {
            let mut waiting = self.lock();
            let is_first = !waiting.contains_key(&target);
            let waiting = waiting.entry(target.clone()).or_default();
            waiting.push(Waiting { sent, replied });
            is_first
        };
        if is_first {
            // A task of its own: the attempt that reports first may be dropped.
            tokio::spawn(self.clone().send_all(target));
        }
        let stopped = || NotReported::temporary("the worker stops".to_owned());
        reply.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Sends the reports to a run until none waits.
    async fn send_all(self, target: Target) {
        while let Some(batch) = self.next(&target) {
            let (sent, senders): (Vec<Packed>, Vec<_>) = batch
                .into_iter()
                .map(|waiting| (waiting.sent, waiting.replied))
                .unzip();
            let count = sent.len();
            let secret = target.secret.clone();
            let request = Envelopes { secret, sent };
            let replied: Result<Vec<Reply>, RequestError> =
                self.ingress.call(RUN, &target.run, "reports", &request).await;
            let replies = match replied {
                Ok(replies) if replies.len() == count => replies.into_iter().map(Ok).collect(),
                Ok(_) => vec![Err(NotReported::temporary("not every report has a reply".to_owned())); count],
                Err(error) => {
                    let failed = NotReported {
                        message: error.to_string(),
                        is_temporary: error.is_temporary(),
                    };
                    vec![Err(failed); count]
                }
            };
            for (sender, reply) in std::iter::zip(senders, replies) {
                // The attempt may have been dropped.
                drop(sender.send(reply));
            }
        }
    }

    /// Takes the next reports to a run. Without any, the next one begins again.
    fn next(&self, target: &Target) -> Option<Vec<Waiting>> {
        let mut all = self.lock();
        let waiting = all.get_mut(target)?;
        let mut size = 0;
        let fits = |next: &&Waiting| {
            let has_room = size < FULL;
            size += next.sent.text().len();
            has_room
        };
        let count = waiting.iter().take(MOST).take_while(fits).count();
        if count == 0 {
            all.remove(target);
            return None;
        }
        Some(waiting.drain(..count).collect())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
