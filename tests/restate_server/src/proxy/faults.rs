//! The faults of a proxy, and what it did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The faults that a proxy chooses from. The default has none.
///
/// The numbers of `delay`, `stall`, `half_close` and `cut` are weights: with 3 and 1, three of four faults are of the
/// first kind.
///
/// ```
/// use std::time::Duration;
/// use orchestra_restate_server_tests::Faults;
///
/// // Each direction of a connection is delayed about every 10 KiB.
/// let faults = Faults {
///     mean_bytes: 10 << 10,
///     delay: 1,
///     delay_limit: Duration::from_millis(50),
///     ..Faults::default()
/// };
/// assert_eq!(Faults::default().mean_bytes, 0);
/// # let _ = faults;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The mean number of bytes of one direction of a connection between two faults. 0 means no faults.
    pub mean_bytes: u64,
    /// Holds the following bytes back for a random time below `delay_limit`.
    pub delay: u32,
    /// The limit of delays.
    pub delay_limit: Duration,
    /// Holds the following bytes back for `stall_time`, like a network that loses everything.
    pub stall: u32,
    /// The time of a stall.
    pub stall_time: Duration,
    /// Ends one direction of the connection in order, and discards the rest of it. The other direction continues.
    pub half_close: u32,
    /// Ends the connection amid the bytes: with a reset, or in order, as after the death of a process.
    pub cut: u32,
    /// Resets new connections at once, like a worker that does not run.
    pub refuse: bool,
}

/// The number of faults of each kind.
///
/// ```
/// use orchestra_restate_server_tests::FaultProxy;
///
/// let proxy = FaultProxy::start("127.0.0.1:9".parse().unwrap(), 1)?;
/// assert_eq!(proxy.counts().faults(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted connections, including the refused ones.
    pub connections: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Delays.
    pub delays: u64,
    /// Stalls.
    pub stalls: u64,
    /// Directions that were ended.
    pub half_closes: u64,
    /// Connections that were cut.
    pub cuts: u64,
    /// Bytes that were forwarded, in both directions.
    pub bytes: u64,
}

impl Counts {
    /// Returns the number of all faults.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.refused + self.delays + self.stalls + self.half_closes + self.cuts
    }
}

/// The counts while the proxy runs.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) open: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) delays: AtomicU64,
    pub(super) stalls: AtomicU64,
    pub(super) half_closes: AtomicU64,
    pub(super) cuts: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            delays: self.delays.load(Ordering::Relaxed),
            stalls: self.stalls.load(Ordering::Relaxed),
            half_closes: self.half_closes.load(Ordering::Relaxed),
            cuts: self.cuts.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// A fault with its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Delay(Duration),
    Stall(Duration),
    HalfClose,
    Cut { resets: bool },
}

impl Faults {
    /// Draws the number of bytes before the next fault, at least 1.
    pub(super) fn draw_distance(&self, random: &mut Random) -> Option<u64> {
        let weights = self.delay + self.stall + self.half_close + self.cut;
        (self.mean_bytes > 0 && weights > 0).then(|| 1 + random.below(self.mean_bytes.saturating_mul(2)))
    }

    /// Draws a fault. Call it only after a distance.
    pub(super) fn draw(&self, random: &mut Random) -> Fault {
        let weights = self.delay + self.stall + self.half_close + self.cut;
        let choice = random.below(weights.into());
        let [delay, stall, half_close] = [
            self.delay,
            self.delay + self.stall,
            self.delay + self.stall + self.half_close,
        ]
        .map(u64::from);
        if choice < delay {
            let limit = u64::try_from(self.delay_limit.as_micros()).unwrap_or(u64::MAX);
            Fault::Delay(Duration::from_micros(random.below(limit)))
        } else if choice < stall {
            Fault::Stall(self.stall_time)
        } else if choice < half_close {
            Fault::HalfClose
        } else {
            Fault::Cut {
                resets: random.below(2) == 0,
            }
        }
    }
}

/// A sequence of numbers that its seed fixes (SplitMix64).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Returns the sequence of one direction of a connection.
    pub(super) fn new(seed: u64, direction: u64) -> Random {
        let mut random = Random(seed);
        random.0 = random.next().wrapping_add(direction);
        random.0 = random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below the limit, or 0 if that is 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.next().checked_rem(limit).unwrap_or(0)
    }
}
