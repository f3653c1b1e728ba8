//! The system calls of the runner that the standard library does not offer.
//!
//! This is the only unsafe code of the process runner. Every function here is safe to call.
#![allow(unsafe_code)]

#[cfg_attr(not(target_os = "linux"), path = "spawn_elsewhere.rs")]
mod spawn;

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(super) use spawn::spawn;

pub(super) const TERM: i32 = libc::SIGTERM;
pub(super) const KILL: i32 = libc::SIGKILL;
pub(super) const CONT: i32 = libc::SIGCONT;

/// Sends a signal to a process. Does nothing if the process has ended.
pub(super) fn kill(pid: i32, signal: i32) {
    // 0 and negative numbers would mean groups, among them that of this process.
    if pid > 1 {
        // SAFETY: `kill` takes two numbers and accesses no memory of this process.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Sends a signal to a process group. Does nothing if the group has ended.
pub(super) fn kill_group(group: i32, signal: i32) {
    if group > 1 {
        // SAFETY: `kill` takes two numbers and accesses no memory of this process.
        unsafe { libc::kill(-group, signal) };
    }
}

/// Returns whether a child has ended. Does not reap it, so its process id is not reused until `Child::wait`.
pub(super) fn has_exited(pid: i32) -> io::Result<bool> {
    let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: `siginfo_t` is plain data for which all zeroes is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is a live, writable `siginfo_t`, the only memory that `waitid` writes to.
    if unsafe { libc::waitid(libc::P_PID, id, &raw mut info, flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `waitid` succeeded, so the child fields of `info` are set, or zero if no child has ended.
    Ok(unsafe { info.si_pid() } != 0)
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail with "file too large" instead of ending the
/// program by a signal. Does not change the limit for child processes.
pub(super) fn survive_file_size_limit() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: `action` is a live `sigaction`, for which all zeroes is a valid value, and the handler does nothing. A
    // handler is used because child processes would inherit an ignored signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
    }
}

/// A descriptor to wait for.
pub(super) struct Wait(libc::pollfd);

impl Wait {
    /// Waits until `fd` is readable or closed. `None` is never ready.
    pub(super) fn readable(fd: Option<RawFd>) -> Self {
        Self(libc::pollfd {
            fd: fd.unwrap_or(-1),
            events: libc::POLLIN,
            revents: 0,
        })
    }

    /// Waits until `fd` accepts bytes or has no reader any longer. `None` is never ready.
    pub(super) fn writable(fd: Option<RawFd>) -> Self {
        Self(libc::pollfd {
            fd: fd.unwrap_or(-1),
            events: libc::POLLOUT,
            revents: 0,
        })
    }

    /// Returns whether the descriptor is ready or closed.
    pub(super) fn is_ready(&self) -> bool {
        self.0.revents != 0
    }
}

/// Waits until a descriptor is ready, a signal arrives or the time limit is reached.
pub(super) fn poll(waits: &mut [Wait; 5], limit: Duration) -> io::Result<()> {
    // Round up: a wait rounded down to zero would spin until the deadline.
    let millis = i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let mut raw = [waits[0].0, waits[1].0, waits[2].0, waits[3].0, waits[4].0];
    // SAFETY: `raw` is an array of five `pollfd`, which matches the count; negative descriptors are ignored.
    let ready = unsafe { libc::poll(raw.as_mut_ptr(), 5, millis) };
    let error = io::Error::last_os_error();
    if ready < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    for (wait, raw) in waits.iter_mut().zip(raw) {
        wait.0.revents = if ready > 0 { raw.revents } else { 0 };
    }
    Ok(())
}

/// Makes writes to a descriptor fail instead of block.
pub(super) fn never_block(fd: &impl AsRawFd) -> io::Result<()> {
    let number = fd.as_raw_fd();
    // SAFETY: the descriptor is open as long as `fd` lives; both calls take and return only numbers.
    let done = unsafe {
        let flags = libc::fcntl(number, libc::F_GETFL);
        flags >= 0 && libc::fcntl(number, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes writes of this thread to pipes without a reader fail, even if SIGPIPE ends the program elsewhere.
///
/// Call it after the start of a command, because child processes inherit the blocked signals of a thread.
pub(super) fn ignore_closed_pipes() -> io::Result<()> {
    // SAFETY: `signals` is a live, writable `sigset_t`, for which all zeroes is a valid value.
    let error = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut())
    };
    match error {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Sends a signal through a process handle. Signal 0 only tests. Returns whether the process still exists, possibly
/// waiting to be reaped.
#[cfg(target_os = "linux")]
pub(super) fn signal_handle(handle: BorrowedFd<'_>, signal: i32) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open as long as `handle` lives; a null `siginfo_t` is allowed.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            handle.as_raw_fd(),
            signal,
            no_info,
            0,
        )
    };
    sent == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Kills the process group of the leader of a process handle, even if the leader has ended. Returns whether the system
/// supports this, which Linux does since 6.9.
#[cfg(target_os = "linux")]
pub(super) fn kill_group_of_handle(leader: BorrowedFd<'_>) -> bool {
    /// `PIDFD_SIGNAL_PROCESS_GROUP`.
    const GROUP: libc::c_uint = 1 << 2;
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open as long as `leader` lives; a null `siginfo_t` is allowed.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            leader.as_raw_fd(),
            KILL,
            no_info,
            GROUP,
        )
    };
    sent == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// The conditions under which a child runs.
///
/// The child first sets the mark and then checks the locks. A process that takes over a run first moves the lock away
/// and then kills all marked processes. So the child either sees that the lock is gone or is killed, even if the engine
/// or the child was suspended.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Conditions<'c> {
    /// The child's soft limit on file locks, on Linux. The limit has had no effect since Linux 2.4.25, but every
    /// descendant inherits it and any process can read it. So it still marks a process that emptied its environment.
    pub(super) mark: u64,
    /// The signal that the child receives when the thread that starts it ends, on Linux.
    pub(super) at_death: Signal,
    /// The child executes nothing if one of these files has lost its name, because then another process has taken over
    /// the run.
    pub(super) locks: &'c [RawFd],
}

/// Waits for the end of a child and returns its exit status.
pub(super) fn wait(pid: i32) -> io::Result<ExitStatus> {
    let child = Pid::from_raw(pid);
    match retry_on_intr(|| waitpid(child, WaitOptions::empty()))? {
        Some((_, status)) => Ok(ExitStatus::from_raw(status.as_raw())),
        None => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// The limit on open files before [`raise_file_limit`].
#[cfg(target_os = "linux")]
static ORIGINAL_FILE_LIMIT: OnceLock<u64> = OnceLock::new();

/// Allows this process as many open files as the system permits. [`spawn`] gives programs the limit from before.
#[cfg(target_os = "linux")]
pub(super) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let (Some(soft), Some(hard)) = (limit.current, limit.maximum)
        && soft < hard
        && ORIGINAL_FILE_LIMIT.set(soft).is_ok()
    {
        set_soft_limit(Resource::Nofile, hard);
    }
}

/// Sets a soft limit of this process. Does nothing if the system refuses it. Allocates nothing and takes no lock.
#[cfg(target_os = "linux")]
fn set_soft_limit(resource: Resource, soft: u64) {
    let limit = Rlimit {
        current: Some(soft),
        ..getrlimit(resource)
    };
    let _ = setrlimit(resource, limit);
}

/// Fails if one of these files has no name any longer. Allocates nothing and takes no lock, as required between fork
/// and exec.
fn have_names(files: &[RawFd]) -> io::Result<()> {
    for file in files {
        // SAFETY: all zeroes is a valid `stat`, which lives on the stack.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above; a number that is not an open file makes the call fail.
        if unsafe { libc::fstat(*file, &raw mut found) } == 0 && found.st_nlink == 0 {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
    }
    Ok(())
}

/// Forks a child that only runs a function, with a socket as its only descriptor. Returns its process id.
///
/// The child has a session of its own, no environment, no mark of an outer engine, and the title as its command line.
/// It blocks all signals that can be blocked. The program may have other threads, which do not exist in the child, so
/// the function must neither allocate nor take a lock: it may only make system calls and use its own stack.
pub(super) fn fork_child(socket: &OwnedFd, title: &str, body: impl FnOnce(OwnedFd)) -> io::Result<i32> {
    let areas = Areas::find();
    // SAFETY: the sets are live and writable, and all zeroes is a valid value. Between fork and exit the child makes
    // system calls, writes to its own copy of its arguments and environment, which nothing else reads there, and runs
    // `body`, see above. It never returns, and a panic ends it. Blocked signals keep handlers of the program from
    // running in it.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let pid = libc::fork();
        if pid == 0 {
            let _end = ExitOnDrop;
            libc::setsid();
            libc::chdir(c"/".as_ptr());
            // Close all descriptors early, so that the child does not hold any lock of this process for long.
            libc::dup2(socket.as_raw_fd(), 0);
            close_all_from(1);
            become_inconspicuous(&areas, title);
            body(OwnedFd::from_raw_fd(0));
            libc::_exit(0);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if pid < 0 { Err(error) } else { Ok(pid) }
    }
}

/// Ends the process if a panic would unwind into the frames of the parent.
struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        // SAFETY: ends the process.
        unsafe { libc::_exit(1) };
    }
}

/// Closes all descriptors from a number on.
fn close_all_from(first: libc::c_uint) {
    // SAFETY: only called in a forked child, whose descriptors have no other owner; plain system calls with numbers.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let last = libc::c_int::try_from(limit.rlim_cur)
            .unwrap_or(libc::c_int::MAX)
            .min(1 << 20);
        for number in libc::c_int::try_from(first).unwrap_or(0)..last {
            libc::close(number);
        }
    }
}

/// The memory areas of the arguments and the environment of this process: start addresses and lengths.
struct Areas(#[cfg(target_os = "linux")] [(usize, usize); 2]);

impl Areas {
    #[cfg(target_os = "linux")]
    fn find() -> Self {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = text.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let numbers: Vec<usize> = fields
            .split_ascii_whitespace()
            .skip(45)
            .filter_map(|number| number.parse().ok())
            .collect();
        Self(match numbers[..] {
            [arguments, arguments_end, environment, environment_end, ..] => [
                (arguments, arguments_end.saturating_sub(arguments)),
                (environment, environment_end.saturating_sub(environment)),
            ],
            _ => [(0, 0); 2],
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn find() -> Self {
        Self()
    }
}

/// Wipes the environment of a forked child, sets its name and removes the mark in its limits.
///
/// Otherwise the child would keep the mark of an outer engine and be killed with its tools, and would expose the
/// secrets in the environment of this process as long as it lives. A kill of this program by name would end the child
/// as well.
#[cfg(target_os = "linux")]
fn become_inconspicuous(areas: &Areas, title: &str) {
    let [arguments, environment] = areas.0;
    // SAFETY: the system reports these ranges as the arguments and the environment that this process was started with.
    // They are writable, and nothing in a forked child uses them any longer.
    unsafe {
        for (start, length) in [arguments, environment] {
            if start != 0 {
                std::ptr::write_bytes(std::ptr::with_exposed_provenance_mut::<u8>(start), 0, length);
            }
        }
        let length = title.len().min(arguments.1.saturating_sub(1));
        if arguments.0 != 0 {
            let target = std::ptr::with_exposed_provenance_mut::<u8>(arguments.0);
            std::ptr::copy_nonoverlapping(title.as_ptr(), target, length);
        }
        libc::prctl(libc::PR_SET_NAME, c"tool-watcher".as_ptr(), 0, 0, 0);
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_LOCKS, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_LOCKS, &raw const limit);
        }
    }
}

/// On other systems no process can read the environment of another in this way.
#[cfg(not(target_os = "linux"))]
fn become_inconspicuous(_areas: &Areas, _title: &str) {}

/// Waits for a moment. Allocates nothing.
pub(super) fn pause(millis: u16) {
    // SAFETY: no descriptors are passed, so none are accessed.
    unsafe { libc::poll(std::ptr::null_mut(), 0, libc::c_int::from(millis)) };
}

/// Returns the handle of the process that connected a Unix socket.
///
/// # Errors
/// Fails if the system does not support the option (`ENOPROTOOPT`, before Linux 6.5), or if the process has ended.
#[cfg(target_os = "linux")]
pub(super) fn peer_handle(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // The number in `asm-generic`. The few architectures with their own numbers are excluded below.
    const SO_PEERPIDFD: libc::c_int = 77;
    if cfg!(any(
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "sparc64"
    )) {
        return Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT));
    }
    let mut fd: RawFd = -1;
    let mut length = libc::socklen_t::try_from(size_of::<RawFd>()).map_err(io::Error::other)?;
    // SAFETY: `fd` and `length` are live and writable, and `length` is the size of `fd`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if done != 0 || fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created `fd` (close-on-exec), which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns whether the process of a handle has ended, reaped or not.
#[cfg(target_os = "linux")]
pub(super) fn has_ended(handle: &OwnedFd) -> bool {
    let mut wait = libc::pollfd {
        fd: handle.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `wait` is one live, writable `pollfd`, which matches the count.
    unsafe { libc::poll(&raw mut wait, 1, 0) != 0 }
}
