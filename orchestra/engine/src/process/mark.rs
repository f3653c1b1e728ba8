//! The marks by which everything that a command started is found again.
//!
//! A kill of the process group misses children in sessions of their own. So each command carries two
//! marks that its descendants inherit: the variable [`super::MARK_VARIABLE`], and on Linux a soft
//! limit without effect, which also marks a descendant that emptied its environment. Both name the
//! engine process and the command in it. The variable is a chain, so that an engine that runs as a
//! tool of another engine stays visible to the outer one, with all of its tools.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::MARK_VARIABLE;

/// How the soft limit is put together: an engine has nine digits, a command in it nine more.
const COMMANDS: u64 = 1_000_000_000;
/// A chain longer than this is not ours, or no use.
const LONGEST_CHAIN: usize = 2048;

/// The marks of this engine process.
pub(super) struct Engine {
    name: String,
    number: u64,
    outer: String,
    next: AtomicU64,
}

impl Engine {
    /// The engine process that we are.
    pub(super) fn this() -> &'static Self {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(|| {
            // A hasher of the standard library starts from random keys: that is all we need.
            let random = || RandomState::new().build_hasher().finish();
            let outer = std::env::var(MARK_VARIABLE).unwrap_or_default();
            let valid = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
            Self {
                name: format!("{:016x}{:016x}", random(), random()),
                number: COMMANDS / 10 + random() % (COMMANDS / 10 * 9),
                outer: if outer.len() <= LONGEST_CHAIN && outer.bytes().all(valid) {
                    outer
                } else {
                    String::new()
                },
                next: AtomicU64::new(1),
            }
        })
    }

    /// What the variable of every command of this engine contains.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The first nine of the eighteen digits of the limit of every command of this engine.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The marks for a new command.
    pub(super) fn mark(&self) -> Mark {
        let command = self.next.fetch_add(1, Ordering::Relaxed);
        let own = format!(":{}.{command}:", self.name);
        Mark {
            variable: format!("{}{own}", self.outer),
            own,
            limit: self.number * COMMANDS + command % COMMANDS,
        }
    }
}

/// The marks of one command.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Mark {
    /// The value of the variable, with the marks of the engines around this one.
    pub(super) variable: String,
    /// The part of it that is this command.
    pub(super) own: String,
    /// The soft limit.
    pub(super) limit: u64,
}

#[cfg(target_os = "linux")]
pub(super) use linux::Descendants;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::super::unix;
    use super::{MARK_VARIABLE, Mark};

    /// The state, group and start time of a process.
    struct Stat {
        ended: bool,
        group: i32,
        started: u64,
    }

    impl Stat {
        fn of(pid: i32) -> Option<Self> {
            let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
            // The program's name, in brackets, may hold anything; the fields start behind the last one.
            let end = bytes.iter().rposition(|byte| *byte == b')')?;
            let text = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
            let mut fields = text.split_ascii_whitespace();
            let state = fields.next()?;
            let group = fields.nth(1)?.parse().ok()?;
            let started = fields.nth(16)?.parse().ok()?;
            Some(Self {
                ended: matches!(state, "Z" | "X" | "x"),
                group,
                started,
            })
        }
    }

    /// The live processes that descend from one command, wherever they went.
    pub(in super::super) struct Descendants {
        mark: Mark,
        /// The group, while its leader is not reaped and the number cannot be another's.
        group: Option<i32>,
        /// Older processes cannot be descendants; in clock ticks since boot.
        since: u64,
    }

    impl Descendants {
        pub(in super::super) fn of(mark: Mark, leader: i32) -> Self {
            let since = Stat::of(leader).map_or(0, |stat| stat.started);
            Self {
                mark,
                group: Some(leader),
                since,
            }
        }

        /// From now on the number of the group may be another's.
        pub(in super::super) fn forget_group(&mut self) {
            self.group = None;
        }

        /// Whether none is left.
        pub(in super::super) fn are_gone(&self) -> bool {
            self.find().is_empty()
        }

        /// Sends a signal once to those that have left the group.
        pub(in super::super) fn signal_escaped(&self, signal: i32) {
            for pid in self.find() {
                if Stat::of(pid).is_some_and(|stat| Some(stat.group) != self.group) {
                    self.signal_one(pid, signal);
                }
            }
        }

        /// Kills until none is left or the time is over; says whether none is left.
        pub(in super::super) fn kill_all(&self, limit: Duration) -> bool {
            let end = Instant::now() + limit;
            let mut pause = Duration::from_micros(250);
            let mut clean = 0;
            let mut found_some = false;
            loop {
                let found = self.find();
                clean = if found.is_empty() { clean + 1 } else { 0 };
                found_some |= !found.is_empty();
                // A process that forks and ends can slip through one pass, hardly through two.
                if clean > usize::from(found_some) {
                    return true;
                }
                if Instant::now() >= end {
                    return false;
                }
                for pid in found {
                    self.signal_one(pid, unix::KILL);
                }
                // A killed process needs a moment to let go of what it holds.
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(8));
            }
        }

        fn signal_one(&self, pid: i32, signal: i32) {
            let handle = unix::handle_of(pid);
            // Asked again with the handle in hand: now the number cannot be another's.
            if self.contains(pid) {
                match handle {
                    Some(handle) => unix::kill_handle(&handle, signal),
                    None => unix::kill(pid, signal),
                }
            }
        }

        fn find(&self) -> Vec<i32> {
            let Ok(entries) = fs::read_dir("/proc") else {
                return Vec::new();
            };
            let pids = entries
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.filter(|pid| self.contains(*pid)).collect()
        }

        fn contains(&self, pid: i32) -> bool {
            let Some(stat) = Stat::of(pid) else { return false };
            let possible = !stat.ended && stat.started >= self.since;
            possible && (Some(stat.group) == self.group || self.has_variable(pid) || self.has_limit(pid))
        }

        fn has_variable(&self, pid: i32) -> bool {
            let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
                return false;
            };
            let own = self.mark.own.as_bytes();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| {
                let value = variable.strip_prefix(MARK_VARIABLE.as_bytes());
                let chain = value.and_then(|value| value.strip_prefix(b"="));
                chain.is_some_and(|chain| chain.windows(own.len()).any(|part| part == own))
            })
        }

        fn has_limit(&self, pid: i32) -> bool {
            let Ok(limits) = fs::read_to_string(format!("/proc/{pid}/limits")) else {
                return false;
            };
            let line = limits
                .lines()
                .find_map(|line| line.strip_prefix("Max file locks"));
            let soft = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
            soft == Some(self.mark.limit)
        }
    }
}

/// Where processes cannot be looked at, the group is all there is.
#[cfg(all(unix, not(target_os = "linux")))]
pub(super) struct Descendants;

#[cfg(all(unix, not(target_os = "linux")))]
impl Descendants {
    pub(super) fn of(_mark: Mark, _leader: i32) -> Self {
        Self
    }

    pub(super) fn forget_group(&mut self) {}

    pub(super) fn are_gone(&self) -> bool {
        true
    }

    pub(super) fn signal_escaped(&self, _signal: i32) {}

    pub(super) fn kill_all(&self, _limit: std::time::Duration) -> bool {
        true
    }
}
