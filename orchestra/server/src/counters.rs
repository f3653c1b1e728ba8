//! Counters that never decrease, although runs can be removed from the index.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The values of counters, by the text that identifies each one. They survive the removal of the runs that they count,
/// until the server ends.
#[derive(Default)]
pub(crate) struct Counters(Mutex<BTreeMap<String, Counter>>);

#[derive(Clone, Copy, Default)]
struct Counter {
    /// The number of counted things that exist.
    present: u64,
    /// The number of counted things that were removed.
    removed: u64,
}

impl Counters {
    /// Reads the present numbers, applies them and returns all counters. A counter whose number became smaller keeps its
    /// value. One that has no number any more keeps it too.
    ///
    /// The counters are locked while the numbers are read. Otherwise numbers that were read earlier could be applied
    /// later, as if something had been removed.
    pub(crate) fn update<E>(
        &self,
        read: impl FnOnce() -> Result<BTreeMap<String, u64>, E>,
    ) -> Result<BTreeMap<String, u64>, E> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = read()?;
        for (name, counter) in counters.iter_mut() {
            let now = present.get(name).copied().unwrap_or_default();
            counter.removed += counter.present.saturating_sub(now);
            counter.present = now;
        }
        for (name, now) in present {
            counters.entry(name).or_default().present = now;
        }
        let all = counters
            .iter()
            .map(|(name, counter)| (name.clone(), counter.present.saturating_add(counter.removed)));
        Ok(all.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn counters_do_not_decrease_when_what_they_count_is_removed() {
        let counters = Counters::default();
        let update = |numbers: &[(&str, u64)]| {
            let numbers = numbers.iter().map(|(name, number)| ((*name).to_owned(), *number));
            let all = counters.update(|| Ok::<_, Infallible>(numbers.collect()));
            let all = all.unwrap();
            (all.get("a").copied(), all.get("b").copied())
        };
        assert_eq!(update(&[("a", 5)]), (Some(5), None));
        assert_eq!(update(&[("a", 3), ("b", 1)]), (Some(5), Some(1)));
        assert_eq!(update(&[("a", 4)]), (Some(6), Some(1)));
        assert_eq!(update(&[("b", 2)]), (Some(6), Some(3)));
    }

    #[test]
    fn overlapping_updates_count_everything_once() {
        let (counters, number) = (Counters::default(), AtomicU64::new(0));
        let update = || {
            let read = || {
                let now = number.fetch_add(1, Ordering::SeqCst) + 1;
                thread::yield_now();
                Ok::<_, Infallible>(BTreeMap::from([("a".to_owned(), now)]))
            };
            counters.update(read).unwrap()
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..500).for_each(|_| drop(update())));
            }
        });
        assert_eq!(update()["a"], 4_001);
    }
}
