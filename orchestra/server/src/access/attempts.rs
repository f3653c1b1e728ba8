//! Limits of attempts in a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(1);

/// Number of keys above which those of past windows are dropped.
const MAX_KEYS: usize = 1_024;

/// Counts attempts by key, in windows of a second.
pub(super) struct Attempts {
    most: u32,
    windows: Mutex<HashMap<Vec<u8>, (Instant, u32)>>,
}

impl Attempts {
    pub(super) fn new(most: u32) -> Attempts {
        Attempts {
            most,
            windows: Mutex::default(),
        }
    }

    /// Counts an attempt. Returns `false` if there were too many in this window.
    pub(super) fn count(&self, key: &[u8], now: Instant) -> bool {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= MAX_KEYS {
            windows.retain(|_, (began, _)| now.duration_since(*began) < WINDOW);
        }
        let (began, count) = windows.entry(key.to_vec()).or_insert((now, 0));
        if now.duration_since(*began) >= WINDOW {
            (*began, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_limited_for_each_key_and_second() {
        let (attempts, began) = (Attempts::new(2), Instant::now());
        let counted = [began, began, began].map(|now| attempts.count(b"a", now));
        assert_eq!(counted, [true, true, false]);
        assert!(attempts.count(b"b", began));
        assert!(attempts.count(b"a", began + WINDOW));
    }
}
