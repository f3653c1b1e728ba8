//! What all services of a worker share.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blobs::Blobs;
use crate::hosts::Hosts;
use crate::ingress::Ingress;
use crate::reporter::Reporter;
use crate::served_pools::ServedPools;
use crate::workspaces::Workspaces;

/// What all services of a worker share.
pub(crate) struct Shared {
    pub(crate) hosts: Hosts,
    pub(crate) blobs: Blobs,
    pub(crate) ingress: Ingress,
    pub(crate) reporter: Reporter,
    pub(crate) pools: Arc<ServedPools>,
    pub(crate) workspaces: Workspaces,
    /// The kinds whose attempts are executed within turns.
    pub(crate) inline: BTreeSet<String>,
    pub(crate) slots: Semaphore,
    /// Cancelled when the worker stops: it begins no more attempts.
    pub(crate) draining: CancellationToken,
    /// The attempts that the worker executes.
    pub(crate) executing: TaskTracker,
}
