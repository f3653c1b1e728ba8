//! Numbered keys of the state of an object.

use std::sync::{Mutex, PoisonError};

/// Keys with a prefix and a number. The SDK borrows keys for the whole invocation, so each name is made once per process.
pub(crate) struct Names {
    prefix: &'static str,
    made: Mutex<Vec<&'static str>>,
}

impl Names {
    pub(crate) const fn new(prefix: &'static str) -> Names {
        Names {
            prefix,
            made: Mutex::new(Vec::new()),
        }
    }

    /// Returns the key with a number.
    pub(crate) fn get(&self, number: u64) -> &'static str {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        while made.len() as u64 <= number {
            let name = format!("{}{}", self.prefix, made.len());
            made.push(name.leak());
        }
        made[number as usize]
    }
}
