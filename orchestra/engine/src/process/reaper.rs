//! The adoption of orphans: processes that a tool leaves behind become children of the program, not of process 1.

use std::fs;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, set_child_subreaper, wait};

use super::watcher;

/// The interval at which dead processes are collected while there may be some.
const TICK: Duration = Duration::from_millis(200);
/// The stack size of the program's thread in bytes: that of a main thread.
const STACK: usize = 8 << 20;

/// The number of running commands.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// `true` if this process adopts the orphans among its descendants.
static ADOPTS: AtomicBool = AtomicBool::new(false);
/// `true` if orphans without a mark can only come from commands.
static STRAYS: AtomicBool = AtomicBool::new(false);
/// `true` while the thread that collects dead processes waits for a command to start.
static RESTS: AtomicBool = AtomicBool::new(false);
/// The thread that collects dead processes.
static REAPER: OnceLock<Thread> = OnceLock::new();

/// Runs a program so that all orphans among its descendants become its own children, and collects those that end.
///
/// Call it on the main thread of a program, before the program has started anything. On Linux the program then runs on
/// a thread of its own. The system assigns orphans to the main thread, which collects those that end, so the program
/// may be process 1 of a container. The exit status of a process that the program itself has started stays available to
/// the thread that started it. If that thread ends first, the process counts as an orphan.
///
/// Set `strays` if the program starts no processes other than commands of the engine. Then an orphan that has removed
/// all marks is killed too, when no other command is left that may have started it.
///
/// On other systems, and if no thread can be started, the program simply runs.
///
/// ```
/// use orchestra_engine::process::run_as_subreaper;
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     run_as_subreaper(true, || ExitCode::SUCCESS)
/// }
/// ```
pub fn run_as_subreaper<P: FnOnce() -> ExitCode + Send>(strays: bool, program: P) -> ExitCode {
    let (hand_over, given) = mpsc::channel();
    let run = move || given.recv().map_or(ExitCode::FAILURE, |program: P| program());
    let over = AtomicBool::new(false);
    let wake = Wake {
        over: &over,
        main: thread::current(),
    };
    thread::scope(|scope| {
        // Panic messages contain this name.
        let thread = thread::Builder::new().name("main".to_owned()).stack_size(STACK);
        let spawned = thread.spawn_scoped(scope, move || {
            let _wake = wake;
            run()
        });
        let Ok(running) = spawned else {
            return program();
        };
        let adopts = set_child_subreaper(Pid::from_raw(1)).is_ok();
        ADOPTS.store(adopts, Ordering::SeqCst);
        STRAYS.store(strays && adopts, Ordering::SeqCst);
        REAPER.get_or_init(thread::current);
        if let Err(mpsc::SendError(program)) = hand_over.send(program) {
            return program();
        }
        while !over.load(Ordering::SeqCst) {
            let left = collect();
            if left || RUNNING.load(Ordering::SeqCst) > 0 || std::process::id() == 1 {
                thread::park_timeout(TICK);
            } else {
                RESTS.store(true, Ordering::SeqCst);
                // A command that started before the line above has not woken this thread.
                if RUNNING.load(Ordering::SeqCst) == 0 && !over.load(Ordering::SeqCst) {
                    thread::park();
                }
                RESTS.store(false, Ordering::SeqCst);
            }
        }
        collect();
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Notifies the main thread when the program has ended, even by a panic.
struct Wake<'p> {
    over: &'p AtomicBool,
    main: Thread,
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.main.unpark();
    }
}

/// Collects the dead children of this thread. Returns whether there are other children.
fn collect() -> bool {
    // Other threads wait for their own children.
    let options = WaitOptions::NOHANG | WaitOptions::from_bits_retain(libc::__WNOTHREAD.cast_unsigned());
    loop {
        match wait(options) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// A running command, which may leave orphans until this value is dropped.
pub(super) struct Running(());

impl Running {
    pub(super) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        if RESTS.load(Ordering::SeqCst)
            && let Some(reaper) = REAPER.get()
        {
            reaper.unpark();
        }
        Self(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns the adopted orphans, if only the one command that runs now, or an earlier one, can have left them.
pub(super) fn strays() -> Vec<i32> {
    let alone = || STRAYS.load(Ordering::SeqCst) && RUNNING.load(Ordering::SeqCst) == 1;
    if !alone() {
        return Vec::new();
    }
    let orphans = orphans();
    // A command that started in the meantime may have left some of them.
    if alone() {
        orphans.unwrap_or_default()
    } else {
        Vec::new()
    }
}

/// Returns whether a command has certainly left no process behind. Call it on the thread that started its leader, when
/// the leader has ended and is not reaped.
///
/// All processes that a dead leader left are orphans, which this process adopts, or descendants of orphans.
pub(super) fn has_no_orphans(leader: i32) -> bool {
    // A process can also give a new process its own parent as a parent: this thread.
    let only_leader = || Some(children("thread-self")?.iter().all(|child| *child == leader));
    // In this order, because a child of this thread may leave orphans.
    ADOPTS.load(Ordering::SeqCst)
        && only_leader() == Some(true)
        && orphans().is_some_and(|orphans| orphans.is_empty())
}

/// Returns the children of the main thread. Returns `None` if the system does not list them.
fn orphans() -> Option<Vec<i32>> {
    children(&format!("self/task/{}", std::process::id()))
}

/// Returns the children of a thread without the watcher.
fn children(thread: &str) -> Option<Vec<i32>> {
    let text = fs::read_to_string(format!("/proc/{thread}/children")).ok()?;
    let watcher = watcher::number();
    let numbers = text
        .split_ascii_whitespace()
        .filter_map(|number| number.parse().ok());
    Some(numbers.filter(|number| Some(*number) != watcher).collect())
}
