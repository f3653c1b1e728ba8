//! The runner of the shell commands of tool stages. It leaves no process of a command behind.
//!
//! The cases that it handles:
//!
//! | The tool | The runner |
//! |---|---|
//! | runs too long, or is cancelled | sends TERM to its process group, and KILL after the grace period |
//! | ignores TERM, forks, opens sessions, forks twice, empties its environment | finds it by its marks and kills it |
//! | ends and leaves child processes behind, perhaps with its output open | kills them without delaying the result |
//! | writes without end, or a line of a gigabyte | keeps memory and file within their limits; the byte count is exact |
//! | writes invalid UTF-8 | replaces the bytes and sets [`ToolOutput::lossy`] |
//! | reads its input | provides the [given](ShellCommand::input) bytes, then the end of the file |
//! | does not read its input, or ends before it has read all | is not blocked by it |
//! | still runs when the engine dies, even by signal 9 | a watcher process kills it |
//!
//! Each command has a thread that starts it, reads its output and ends it. Therefore the runner needs the async runtime
//! only to wait, a full disk does not stall other tasks, and the clean-up of a dropped future continues even while the
//! runtime shuts down.
//!
//! No other process is killed: on Linux the runner signals a process through a handle that was open when the process
//! was found to belong to the command, so a reused process id does no harm. Linux before 5.3 has no such handles.
//!
//! Not covered: a process that changes its user, and a process that has emptied its environment, restored its limits
//! and left its group and session on purpose, unless it still descends from the command or the program [adopts
//! orphans](run_as_subreaper). On Unix systems other than Linux only the process group is killed. On Windows a job
//! object ends all processes, without a grace period.
//!
//! Text of a model or a person must never become a part of the command. Pass it in a [`ShellCommand::variable`], which
//! the command reads as `"$NAME"`.

mod capture;
mod command;
mod contained;
#[cfg(unix)]
mod descendants;
#[cfg(unix)]
mod handle;
#[cfg(unix)]
mod mark;
mod output;
#[cfg(unix)]
mod peer;
#[cfg(target_os = "linux")]
mod procfs;
mod program;
#[cfg_attr(not(target_os = "linux"), path = "reaper_elsewhere.rs")]
mod reaper;
mod runner;
mod streams;
#[cfg(unix)]
mod supervise;
mod threads;
#[cfg(unix)]
mod unix;
mod variables;
#[cfg(unix)]
mod watcher;
#[cfg(windows)]
mod windows;

pub use command::ShellCommand;
pub use contained::ContainedProgram;
#[cfg(unix)]
pub(crate) use descendants::end_tools;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use descendants::is_own_process;
#[cfg(unix)]
pub(crate) use mark::{RunMark, run_number};
pub use output::{Exit, OutputStream, ProcessError, ToolOutput};
#[cfg(unix)]
pub(crate) use peer::{Peer, Relation};
pub use program::{Input, Pipes, Program};
pub use reaper::run_as_subreaper;
pub use runner::{ProcessFuture, ProcessRunner, SystemProcesses};
pub(crate) use threads::has_thread;
pub use variables::MARK_VARIABLE;
pub(crate) use variables::same_name;

/// Prevents other processes of the same user from reading the environment and the memory of this one, and from tracing
/// it.
///
/// Tools run as the same user and could otherwise read the keys of providers. On Linux the process becomes non-dumpable
/// (`PR_SET_DUMPABLE`): debuggers and `perf` cannot attach either, and it leaves no core dump. The processes that it
/// starts are not affected. The administrator can still read everything. On other systems this function does nothing.
///
/// ```
/// orchestra_engine::process::forbid_inspection();
/// ```
pub fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "other processes of the user can read the memory of this one");
        }
    }
}

/// Returns whether this process descends from another process.
pub(crate) fn descends_from(pid: u32) -> bool {
    #[cfg(unix)]
    return peer::descends_from(pid);
    #[cfg(not(unix))]
    {
        let _ = pid;
        false
    }
}

/// Records the time at which this process begins to run pipelines. All of its commands are younger.
pub(crate) fn begin() {
    #[cfg(unix)]
    mark::Engine::this();
}

/// Makes writes of this process beyond the limit on the size of files (`ulimit -f`) fail with an error instead of
/// ending the process by a signal. Call it once, in the main function of a program.
///
/// ```
/// orchestra_engine::process::survive_file_size_limit();
/// ```
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    unix::survive_file_size_limit();
}

/// Allows this process as many open files as the system permits. Call it once, in the main function of a program.
///
/// A tool that runs takes up to nine descriptors, and many systems allow a process 1,024 unless it raises this limit,
/// up to a second one (`ulimit -Hn`). Tools and git start with the limit from before. A program that a handler starts
/// itself inherits the raised one; programs that use `select` fail with descriptors from 1,024 on. On systems other
/// than Linux this function does nothing.
///
/// ```
/// orchestra_engine::process::raise_file_limit();
/// ```
pub fn raise_file_limit() {
    #[cfg(target_os = "linux")]
    unix::raise_file_limit();
}
