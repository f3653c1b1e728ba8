//! Waits that another process can go on with.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Timestamp};

/// When a wait began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Began {
    pub(crate) wall: u64,
    pub(crate) real: u64,
    pub(crate) boot: Option<String>,
}

impl Began {
    pub(crate) fn now(clock: &dyn Clock) -> Began {
        Began {
            wall: clock.now().as_millis(),
            real: clock.elapsed().as_micros() as u64,
            boot: None,
        }
    }

    pub(crate) fn left(&self, clock: &dyn Clock, delay: Duration) -> Duration {
        let passed = clock.now().as_millis().saturating_sub(self.wall);
        delay.saturating_sub(Duration::from_millis(passed))
    }
}

pub(crate) async fn wait_until(clock: &Arc<dyn Clock>, began: Began, delay: Duration) {
    clock.sleep(began.left(&**clock, delay)).await;
}
