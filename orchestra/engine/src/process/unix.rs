//! The system calls of the runner that the standard library does not offer.
//!
//! The only unsafe code of the process runner; every function here is safe to call.
#![allow(unsafe_code)]

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::FromRawFd as _;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

pub(super) const TERM: i32 = libc::SIGTERM;
pub(super) const KILL: i32 = libc::SIGKILL;
pub(super) const CONT: i32 = libc::SIGCONT;

/// Sends a signal to one process. A process that is gone is no fault.
pub(super) fn kill(pid: i32, signal: i32) {
    // 0 and negative numbers would mean groups, among them our own.
    if pid > 1 {
        // SAFETY: `kill` takes two numbers and touches no memory of ours.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Sends a signal to a process group. A group that is gone is no fault.
pub(super) fn kill_group(group: i32, signal: i32) {
    if group > 1 {
        // SAFETY: `kill` takes two numbers and touches no memory of ours.
        unsafe { libc::kill(-group, signal) };
    }
}

/// Whether a child has ended. It is not reaped, so its number stays taken until `Child::wait`.
pub(super) fn has_exited(pid: i32) -> io::Result<bool> {
    let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: `siginfo_t` is plain data for which all zeroes is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is a live, writable `siginfo_t`, all that `waitid` writes to.
    if unsafe { libc::waitid(libc::P_PID, id, &raw mut info, flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `waitid` succeeded, so the child fields of `info` are set, or zero when none has ended.
    Ok(unsafe { info.si_pid() } != 0)
}

/// One descriptor to wait for.
pub(super) struct Wait(libc::pollfd);

impl Wait {
    /// Waits until `fd` is readable or closed; `None` is never ready.
    pub(super) fn readable(fd: Option<RawFd>) -> Self {
        Self(libc::pollfd {
            fd: fd.unwrap_or(-1),
            events: libc::POLLIN,
            revents: 0,
        })
    }

    /// Waits until `fd` takes bytes or nobody reads it any more; `None` is never ready.
    pub(super) fn writable(fd: Option<RawFd>) -> Self {
        Self(libc::pollfd {
            fd: fd.unwrap_or(-1),
            events: libc::POLLOUT,
            revents: 0,
        })
    }

    /// Whether there is something to do, an end included.
    pub(super) fn is_ready(&self) -> bool {
        self.0.revents != 0
    }
}

/// Waits until a descriptor is ready, a signal came or the time is over.
pub(super) fn poll(waits: &mut [Wait; 5], limit: Duration) -> io::Result<()> {
    // Rounded up: a wait rounded down to zero would spin until the deadline.
    let millis = i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let mut raw = [waits[0].0, waits[1].0, waits[2].0, waits[3].0, waits[4].0];
    // SAFETY: `raw` is an array of five `pollfd`, as the count says; negative descriptors are ignored.
    let ready = unsafe { libc::poll(raw.as_mut_ptr(), 5, millis) };
    let fault = io::Error::last_os_error();
    if ready < 0 && fault.kind() != io::ErrorKind::Interrupted {
        return Err(fault);
    }
    for (wait, raw) in waits.iter_mut().zip(raw) {
        wait.0.revents = if ready > 0 { raw.revents } else { 0 };
    }
    Ok(())
}

/// Lets writes to a descriptor fail rather than wait.
pub(super) fn never_block(fd: &OwnedFd) -> io::Result<()> {
    let number = fd.as_raw_fd();
    // SAFETY: the descriptor is open for as long as `fd` lives; both calls take and give numbers only.
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

/// Lets writes of this thread to pipes that nobody reads fail, even where the program dies of them elsewhere.
///
/// To be called behind the start of a command: the signals that a thread blocks pass to its children.
pub(super) fn ignore_closed_pipes() -> io::Result<()> {
    // SAFETY: `signals` is a live, writable `sigset_t`, for which all zeroes is a valid value.
    let fault = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut())
    };
    match fault {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// A handle of a process that can never mean another one; `None` where the system has none.
#[cfg(target_os = "linux")]
pub(super) fn handle_of(pid: i32) -> Option<OwnedFd> {
    // SAFETY: `pidfd_open` takes a number and flags and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the call has just made `fd` (close-on-exec), and nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A handle of a process that can never mean another one; `None` where the system has none.
#[cfg(not(target_os = "linux"))]
pub(super) fn handle_of(_pid: i32) -> Option<OwnedFd> {
    None
}

/// Sends a signal through a handle.
#[cfg(target_os = "linux")]
pub(super) fn kill_handle(handle: &OwnedFd, signal: i32) {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for as long as `handle` lives; a null `siginfo_t` is allowed.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            handle.as_raw_fd(),
            signal,
            no_info,
            0,
        )
    };
}

/// Arranges that the child dies with the thread that starts it and bears a mark in its limits.
///
/// The limit on file locks has had no effect since Linux 2.4.25, yet it passes to every descendant
/// and can be read by anybody. So it still marks a process whose environment was emptied.
#[cfg(target_os = "linux")]
pub(super) fn prepare_tool(command: &mut Command, mark: u64) {
    let engine = std::process::id();
    let prepare = move || {
        // SAFETY: plain system calls with numbers and a live `rlimit` on the stack; no allocation,
        // no lock, as needed between fork and exec.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            // The engine may have died before the line above took effect.
            if u32::try_from(libc::getppid()) != Ok(engine) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            let mut limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            if libc::getrlimit(libc::RLIMIT_LOCKS, &raw mut limit) == 0 {
                limit.rlim_cur = mark as libc::rlim_t;
                libc::setrlimit(libc::RLIMIT_LOCKS, &raw const limit);
            }
        }
        Ok(())
    };
    // SAFETY: `prepare` only makes async-signal-safe calls, see above.
    unsafe { command.pre_exec(prepare) };
}

/// Elsewhere there is neither a parent-death signal nor a way to read the limits of others.
#[cfg(not(target_os = "linux"))]
pub(super) fn prepare_tool(_command: &mut Command, _mark: u64) {}

/// Gives the child a session of its own and takes from it the mark of an engine around ours.
pub(super) fn prepare_watcher(command: &mut Command) {
    let prepare = || {
        // SAFETY: plain system calls with numbers and a live `rlimit` on the stack; no allocation,
        // no lock, as needed between fork and exec.
        unsafe {
            libc::setsid();
            #[cfg(target_os = "linux")]
            {
                let mut limit = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                if libc::getrlimit(libc::RLIMIT_LOCKS, &raw mut limit) == 0 {
                    limit.rlim_cur = limit.rlim_max;
                    libc::setrlimit(libc::RLIMIT_LOCKS, &raw const limit);
                }
            }
        }
        Ok(())
    };
    // SAFETY: `prepare` only makes async-signal-safe calls, see above.
    unsafe { command.pre_exec(prepare) };
}
