//! The marks by which all processes of a command are found.
//!
//! Killing the process group misses descendants with a session of their own. Therefore each command carries two marks
//! that its descendants inherit: the variable [`super::MARK_VARIABLE`], and on Linux a soft limit without effect, which
//! also marks a descendant that emptied its environment. Both identify the engine process, the run and the command. The
//! variable is a chain, so that the tools of an engine that is itself a tool of another engine stay visible to the
//! outer one.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::variables::MARK_VARIABLE;

/// The layout of the soft limit: 30 bits for the engine, 16 for the run, 18 for the command. If two runs of one engine
/// process have the same bits, a process that takes over one of them ends the tools of the other too.
const COMMAND_BITS: u32 = 18;
const RUN_BITS: u32 = 16;
/// The range of engine numbers avoids limits that a user might set, and the value for "no limit".
const LEAST_ENGINE: u64 = 1 << 26;
const MOST_ENGINE: u64 = (1 << 30) - 1;
/// Maximum length of a chain in bytes. A longer one was not set by an engine, or is useless.
const LONGEST_CHAIN: usize = 2048;

/// The marks of this engine process.
pub(super) struct Engine {
    name: String,
    number: u64,
    outer: String,
    next: AtomicU64,
    /// The time at which this process first ran a pipeline, in clock ticks since boot. All of its commands are younger.
    began: u64,
}

impl Engine {
    /// Returns the marks of this process.
    pub(super) fn this() -> &'static Self {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(|| {
            // A hasher of the standard library starts with random keys, which is random enough here.
            let random = || RandomState::new().build_hasher().finish();
            let outer = std::env::var(MARK_VARIABLE).unwrap_or_default();
            let valid = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
            Self {
                name: format!("{:016x}{:016x}", random(), random()),
                number: LEAST_ENGINE + random() % (MOST_ENGINE - LEAST_ENGINE),
                outer: if outer.len() <= LONGEST_CHAIN && outer.bytes().all(valid) {
                    outer
                } else {
                    String::new()
                },
                next: AtomicU64::new(1),
                began: ticks_since_boot(),
            }
        })
    }

    /// Returns the marks of a new command of a run.
    pub(super) fn mark(&self, run: u64) -> Mark {
        let command = self.next.fetch_add(1, Ordering::Relaxed);
        let own = format!(":{}.{run:x}.{command:x}:", self.name);
        let limit = limit(self.number, run, command);
        Mark {
            variable: format!("{}{own}", self.outer),
            limit,
            pattern: Pattern {
                part: own,
                limits: limit..=limit,
            },
        }
    }

    /// Returns the time at which this process first ran a pipeline, in clock ticks since boot.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// Returns the pattern of all commands of this engine process.
    pub(super) fn pattern(&self) -> Pattern {
        Pattern {
            part: format!(":{}.", self.name),
            limits: limit(self.number, 0, 0)..=limit(self.number, u64::MAX, u64::MAX),
        }
    }
}

/// The mark of the commands of one run in one engine process, stored for a process that takes over the run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RunMark {
    engine: String,
    number: u64,
    run: u64,
}

impl RunMark {
    /// Returns the mark of the commands of a run of this process, derived from the run folder.
    pub(crate) fn from_folder(folder: &Path) -> Self {
        let engine = Engine::this();
        Self {
            engine: engine.name.clone(),
            number: engine.number,
            run: run_number(folder),
        }
    }

    /// Returns whether this process created the mark.
    pub(crate) fn is_own(&self) -> bool {
        self.engine == Engine::this().name
    }

    #[cfg(target_os = "linux")]
    pub(super) fn pattern(&self) -> Option<Pattern> {
        let valid = self.engine.len() == 32 && self.engine.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Do not trust the file: a number outside of the range of engines would match unrelated processes.
        (valid && (LEAST_ENGINE..MOST_ENGINE).contains(&self.number)).then(|| Pattern {
            part: format!(":{}.{:x}.", self.engine, self.run),
            limits: limit(self.number, self.run, 0)..=limit(self.number, self.run, u64::MAX),
        })
    }
}

/// Returns the number of a run in the marks of its commands and of those of its child runs.
pub(crate) fn run_number(folder: &Path) -> u64 {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut hasher = std::hash::DefaultHasher::new();
    folder.hash(&mut hasher);
    hasher.finish()
}

/// Assembles a soft limit. Keeps the low bits of numbers that are too long.
fn limit(engine: u64, run: u64, command: u64) -> u64 {
    let low = |number: u64, bits: u32| number & ((1 << bits) - 1);
    engine << (RUN_BITS + COMMAND_BITS) | low(run, RUN_BITS) << COMMAND_BITS | low(command, COMMAND_BITS)
}

/// Returns the time since boot in the unit of `/proc`, rounded down.
#[cfg(target_os = "linux")]
pub(super) fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos =
        u128::from(now.tv_sec.unsigned_abs()) * 1_000_000_000 + u128::from(now.tv_nsec.unsigned_abs());
    let ticks = nanos * u128::from(rustix::param::clock_ticks_per_second()) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn ticks_since_boot() -> u64 {
    0
}

/// The marks of one command.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Mark {
    /// The value of the variable, including the marks of outer engines.
    pub(super) variable: String,
    /// The soft limit.
    pub(super) limit: u64,
    /// The pattern that matches the marked processes.
    pub(super) pattern: Pattern,
}

/// The common part of the marks of some commands.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Pattern {
    part: String,
    limits: RangeInclusive<u64>,
}

#[cfg(target_os = "linux")]
impl Pattern {
    /// Returns whether a process has a matching mark. Allocates nothing.
    pub(super) fn fits(&self, pid: i32) -> Result<bool, rustix::io::Errno> {
        use super::procfs;
        if procfs::lock_limit(pid)?.is_some_and(|limit| self.limits.contains(&limit)) {
            return Ok(true);
        }
        let part = self.part.as_bytes();
        procfs::has_variable(pid, MARK_VARIABLE.as_bytes(), |chain| {
            chain.windows(part.len()).any(|window| window == part)
        })
    }
}
