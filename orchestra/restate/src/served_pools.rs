//! The pools for which workers are registered.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::ingress::Ingress;

/// The pools for which workers are registered at the server.
pub(crate) struct ServedPools {
    ingress: Ingress,
    /// The services that the server knew when it was asked.
    known: Mutex<BTreeSet<String>>,
}

impl ServedPools {
    pub(crate) fn new(ingress: Ingress) -> ServedPools {
        ServedPools {
            ingress,
            known: Mutex::default(),
        }
    }

    /// Returns whether the server knows the service of a pool. One that it knew once is not asked for again.
    pub(crate) async fn is_served(&self, service: &str) -> bool {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(service) {
            return true;
        }
        match self.ingress.knows(service, "execute").await {
            Ok(true) => {
                known().insert(service.to_owned());
                true
            }
            Ok(false) => false,
            // The attempt is sent to a server that cannot say.
            Err(error) => {
                tracing::warn!(
                    service,
                    "the server does not say whether it knows a pool: {error}"
                );
                true
            }
        }
    }
}
