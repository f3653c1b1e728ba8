//! Makes an input that fails smaller, as long as it fails at the same place.

use std::time::{Duration, Instant};

use crate::attempt::Failure;

/// The longest time that is spent on one input.
const PATIENCE: Duration = Duration::from_secs(5);

/// Removes parts of an input, large ones first, and keeps what is removed out where `fails` still gives a failure of
/// the same place.
pub fn minimise(input: &[u8], location: &str, fails: impl Fn(&[u8]) -> Option<Failure>) -> Vec<u8> {
    let begun = Instant::now();
    let mut smallest = input.to_vec();
    let mut size = smallest.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut removed = false;
        while at < smallest.len() {
            if begun.elapsed() > PATIENCE {
                return smallest;
            }
            let end = (at + size).min(smallest.len());
            let without = [&smallest[..at], &smallest[end..]].concat();
            if fails(&without).is_some_and(|failure| failure.location == location) {
                smallest = without;
                removed = true;
            } else {
                at = end;
            }
        }
        match (size, removed) {
            (1, false) => return smallest,
            (1, true) => {}
            _ => size = size.div_ceil(2),
        }
    }
}
