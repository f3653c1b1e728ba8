//! What the processes of one simulation share, and what befalls each of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orchestra_crash_tests::log::{Line, LogEvent};
use orchestra_engine::Durability;
use orchestra_oracle_tests::random::Random;
use tokio::sync::Notify;

use crate::clock::Time;
use crate::disk::{Disk, Remains};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine with its disk and its time, and what happened on it.
#[derive(Debug)]
pub struct World {
    /// The disk.
    pub disk: Disk,
    /// The time.
    pub time: Arc<Time>,
    trace: Mutex<Vec<String>>,
    log: Mutex<Vec<Line>>,
    counts: Mutex<Counts>,
    stages: Mutex<BTreeMap<String, String>>,
    restarts: AtomicU64,
    violations: Mutex<Vec<String>>,
    is_off_script: AtomicBool,
}

/// How often things happened, by their names.
pub type Counts = BTreeMap<&'static str, u64>;

impl World {
    /// Returns a machine whose files are in a folder that is there.
    pub fn new(root: &Path) -> Arc<World> {
        Arc::new(World {
            disk: Disk::new(root),
            time: Arc::default(),
            trace: Mutex::default(),
            log: Mutex::default(),
            counts: Mutex::default(),
            stages: Mutex::default(),
            restarts: AtomicU64::new(0),
            violations: Mutex::default(),
            is_off_script: AtomicBool::new(false),
        })
    }

    /// Adds a line to the trace.
    pub fn say(&self, line: fmt::Arguments<'_>) {
        let time = self.time.now();
        lock(&self.trace).push(format!("{:>12.6} {line}", time.as_secs_f64()));
    }

    /// Returns the trace so far.
    pub fn trace(&self) -> Vec<String> {
        lock(&self.trace).clone()
    }

    /// Counts something.
    pub fn count(&self, what: &'static str) {
        *lock(&self.counts).entry(what).or_default() += 1;
    }

    /// Returns what was counted.
    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// An attempt of a stage begins.
    pub fn stage_starts(&self, node: &str, branch: Option<&str>, visit: u32, attempt: u32) {
        let restart = match self.restarts.load(Ordering::SeqCst) {
            0 => String::new(),
            restart => format!("restart-{restart}/"),
        };
        let branch = branch.map_or_else(String::new, |branch| format!("{branch}/"));
        let key = format!("{restart}{branch}{node}#{visit}/{attempt}");
        lock(&self.stages).insert(node.to_owned(), key);
    }

    /// The run was restarted, the so manieth time.
    pub fn restarted(&self, count: u64) {
        self.restarts.store(count, Ordering::SeqCst);
    }

    /// Returns the attempt key of the attempt of a node that began last.
    pub fn stage_of(&self, node: &str) -> String {
        let stages = lock(&self.stages);
        stages.get(node).cloned().unwrap_or_else(|| format!("{node}#1/1"))
    }

    /// Something happened that no script says, such as an answer that came too late.
    pub fn leaves_script(&self) {
        self.is_off_script.store(true, Ordering::SeqCst);
    }

    /// Returns whether something happened that no script says.
    pub fn is_off_script(&self) -> bool {
        self.is_off_script.load(Ordering::SeqCst)
    }

    /// Something happened that must not.
    pub fn violated(&self, what: String) {
        self.say(format_args!("XX {what}"));
        lock(&self.violations).push(what);
    }

    /// Returns what happened and must not.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    /// Returns what stages and the engine said.
    pub fn log(&self) -> Vec<Line> {
        lock(&self.log).clone()
    }
}

/// How often what befalls a process: once in so many operations; 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// The process dies.
    pub death: usize,
    /// A call of the file system fails.
    pub failure: usize,
    /// A call takes long, or the clock jumps.
    pub delay: usize,
    /// Whether a death may be a loss of power.
    power: bool,
}

impl Rates {
    /// Rates of a process that is to be troubled.
    pub fn random(chance: &mut Random) -> Rates {
        let mut rate = |rates: &[usize]| *chance.pick(rates);
        Rates {
            death: rate(&[0, 30, 100, 100, 300, 600]),
            failure: rate(&[0, 0, 0, 40, 150, 500]),
            delay: rate(&[0, 0, 50, 200]),
            power: true,
        }
    }

    /// Returns the rates of a process whose records are to survive that much: a loss of power only where that is promised.
    #[must_use]
    pub fn at(self, level: Durability) -> Rates {
        Rates {
            power: level == Durability::Full,
            ..self
        }
    }
}

/// A simulated process.
#[derive(Debug)]
pub struct Process {
    /// Its machine.
    pub world: Arc<World>,
    /// Which of the processes of the machine it is, from 0.
    pub number: u32,
    rates: Rates,
    chance: Mutex<Random>,
    is_dead: AtomicBool,
    /// What the disk holds after the loss of power that ended the process.
    remains: Mutex<Option<Remains>>,
    ended: Notify,
    operations: AtomicU64,
    failures: AtomicU64,
    /// From here on the file system is read-only.
    read_only: AtomicBool,
}

/// How many operations a process may take before it counts as one that never ends.
const OPERATIONS: u64 = 200_000;

/// What is to become of a call of the file system.
#[derive(Debug)]
pub enum Fate {
    /// It is done.
    Done,
    /// It fails with this error; where the number is not 0, so many percent of what is to be written are.
    Fails(io::Error, usize),
    /// It is the last, and so many percent of it are done.
    Last(usize),
}

impl Process {
    /// Returns a process that is troubled at these rates.
    pub fn new(world: Arc<World>, number: u32, rates: Rates, chance: Random) -> Arc<Process> {
        Arc::new(Process {
            world,
            number,
            rates,
            chance: Mutex::new(chance),
            is_dead: AtomicBool::new(false),
            remains: Mutex::default(),
            ended: Notify::new(),
            operations: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            read_only: AtomicBool::new(false),
        })
    }

    /// Returns whether the process is dead: nothing that it does has any effect.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// Waits until the process is dead.
    pub async fn dies(&self) {
        while !self.is_dead() {
            self.ended.notified().await;
        }
    }

    /// Returns how many operations there were.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::SeqCst)
    }

    /// Returns how many calls failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    /// Returns what a loss of power left of the disk, where one ended the process.
    pub fn remains(&self) -> Option<Remains> {
        lock(&self.remains).take()
    }

    /// Draws from the chance of this process.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut lock(&self.chance))
    }

    /// Adds a line to the trace.
    pub fn say(&self, line: fmt::Arguments<'_>) {
        self.world.say(format_args!("p{} {line}", self.number));
    }

    /// A stage or the engine said something.
    pub fn said(&self, run: &str, said: LogEvent) {
        if self.is_dead() {
            return;
        }
        self.say(format_args!("{run}: {said:?}"));
        lock(&self.world.log).push(Line {
            process: self.number,
            run: run.to_owned(),
            said,
        });
    }

    fn befalls(&self, rate: usize) -> bool {
        rate > 0 && self.draw(|chance| chance.below(rate) == 0)
    }

    /// Ends the process here.
    pub fn die(&self) {
        let power = self.rates.power && self.draw(|chance| chance.chance(50));
        let what = if power { "loss of power" } else { "kill" };
        self.say(format_args!("== {what}"));
        self.world.count(what);
        if power {
            let left = self.draw(|chance| self.world.disk.lose_power(chance));
            *lock(&self.remains) = Some(left);
        }
        self.is_dead.store(true, Ordering::SeqCst);
        self.ended.notify_one();
    }

    /// An operation that is none of files: the process may die here, and time may jump.
    pub fn step(&self, what: fmt::Arguments<'_>) {
        if self.is_dead() {
            return;
        }
        self.operations.fetch_add(1, Ordering::SeqCst);
        self.say(what);
        self.trouble_time();
        if self.befalls(self.rates.death) {
            self.die();
        }
    }

    fn trouble_time(&self) {
        if !self.befalls(self.rates.delay) {
            return;
        }
        let (kind, amount) = self.draw(|chance| (chance.below(5), chance.between(1, 20_000)));
        let millis = Duration::from_millis(amount.unsigned_abs());
        let time = &self.world.time;
        match kind {
            0 => {
                self.world.count("time of day set back");
                time.set(-amount * 1_000);
            }
            1 => {
                self.world.count("time of day set forward");
                time.set(amount * 1_000);
            }
            2 => {
                self.world.count("machine asleep");
                time.suspend(millis * 100);
            }
            _ => {
                self.world.count("slow operation");
                time.pass(millis);
            }
        }
        self.say(format_args!("~~ time {kind} {amount}"));
    }

    /// Decides what becomes of a call of the file system; `changes` is whether it changes anything.
    pub(crate) fn fate(&self, call: Call, what: fmt::Arguments<'_>) -> Fate {
        if self.is_dead() {
            return Fate::Fails(gone(), 0);
        }
        let count = self.operations.fetch_add(1, Ordering::SeqCst);
        self.say(format_args!("{} {what}", call.name()));
        if count > OPERATIONS {
            return Fate::Fails(io::Error::other("the process does not end"), 0);
        }
        self.trouble_time();
        if self.befalls(self.rates.death) {
            let part = self.draw(|chance| *chance.pick(&[0, 0, 50, 100, 100]));
            return Fate::Last(part);
        }
        if call.changes() && self.read_only.load(Ordering::SeqCst) {
            return Fate::Fails(system_error(EROFS), 0);
        }
        if !self.befalls(self.rates.failure) {
            return Fate::Done;
        }
        let errors = call.errors();
        let (name, code) = self.draw(|chance| *chance.pick(errors));
        let part = self.draw(|chance| chance.below(100));
        self.say(format_args!("!! {name}"));
        self.world.count(name);
        self.failures.fetch_add(1, Ordering::SeqCst);
        if code == EROFS {
            self.read_only.store(true, Ordering::SeqCst);
        }
        let part = if call == Call::Write { part } else { 0 };
        Fate::Fails(system_error(code), part)
    }
}

/// The error of every call of a process that is dead.
pub(crate) fn gone() -> io::Error {
    io::Error::other("the process is dead")
}

fn system_error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

/// The calls of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    MakeFolder,
    Make,
    Open,
    OpenFolder,
    Write,
    Reserve,
    SetLength,
    Sync,
    SyncFolder,
    Rename,
    Remove,
    Lock,
    Links,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::MakeFolder => "make folder",
            Call::Make => "make",
            Call::Open => "open",
            Call::OpenFolder => "open folder",
            Call::Write => "write",
            Call::Reserve => "reserve",
            Call::SetLength => "set length",
            Call::Sync => "sync",
            Call::SyncFolder => "sync folder",
            Call::Rename => "rename",
            Call::Remove => "remove",
            Call::Lock => "lock",
            Call::Links => "links",
        }
    }

    /// Whether it needs a file system that can be written.
    fn changes(self) -> bool {
        !matches!(self, Call::Open | Call::OpenFolder | Call::Lock | Call::Links)
    }

    /// The errors by which it may fail.
    fn errors(self) -> &'static [(&'static str, i32)] {
        match self {
            Call::Write => &[
                ("write: no space", ENOSPC),
                ("write: no space", ENOSPC),
                ("write: I/O error", EIO),
                ("write: quota", EDQUOT),
                ("write: interrupted", EINTR),
                ("write: read-only", EROFS),
            ],
            Call::MakeFolder | Call::Make => &[
                ("make: no space", ENOSPC),
                ("make: I/O error", EIO),
                ("make: quota", EDQUOT),
                ("make: read-only", EROFS),
                ("make: too many open files", EMFILE),
            ],
            Call::Reserve => &[("reserve: no space", ENOSPC), ("reserve: interrupted", EINTR)],
            Call::SetLength => &[("set length: I/O error", EIO), ("set length: interrupted", EINTR)],
            Call::Sync => &[
                ("sync: I/O error", EIO),
                ("sync: I/O error", EIO),
                ("sync: no space", ENOSPC),
                ("sync: quota", EDQUOT),
            ],
            Call::SyncFolder => &[("sync folder: I/O error", EIO)],
            Call::Rename => &[("rename: I/O error", EIO), ("rename: no space", ENOSPC)],
            Call::Remove => &[("remove: I/O error", EIO)],
            Call::Open | Call::OpenFolder => &[
                ("open: I/O error", EIO),
                ("open: too many open files", EMFILE),
                ("open: interrupted", EINTR),
            ],
            Call::Lock => &[("lock: I/O error", EIO), ("lock: interrupted", EINTR)],
            Call::Links => &[("links: I/O error", EIO)],
        }
    }
}
