//! Process handles, which never refer to another process than the one they were opened for.

#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;

#[cfg(target_os = "linux")]
use super::procfs::Reading;
#[cfg(target_os = "linux")]
use super::unix;

/// A handle of a process.
///
/// The system reuses process ids. Code that finds a process by `/proc` therefore opens a handle first, checks the
/// process, and then signals it through the handle. Either the checked process is that of the handle, or the process
/// has ended and the signal has no effect.
///
/// On a system without handles (Linux before 5.3, or a sandbox that denies them) only the process id is used.
pub(super) struct Handle {
    pid: i32,
    fd: Option<OwnedFd>,
}

impl Handle {
    /// Opens a handle. Returns `None` if there is no such process. Allocates nothing.
    ///
    /// # Errors
    /// Fails if there are too many open files or not enough memory.
    #[cfg(target_os = "linux")]
    pub(super) fn open(pid: i32) -> Result<Option<Self>, Errno> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        // 0 would mean this process group, and 1 is never a tool.
        if pid <= 1 {
            return Ok(None);
        }
        let Some(raw) = Pid::from_raw(pid) else {
            return Ok(None);
        };
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(fd) => Ok(Some(Self { pid, fd: Some(fd) })),
            Err(Errno::SRCH | Errno::INVAL) => Ok(None),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error),
            Err(_) => Ok(Some(Self { pid, fd: None })),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn open(pid: i32) -> Result<Option<Self>, Errno> {
        Ok((pid > 1).then_some(Self { pid, fd: None }))
    }

    /// Opens a handle of a process that passes a check before and after the handle was opened. Allocates nothing,
    /// unless the check does.
    #[cfg(target_os = "linux")]
    pub(super) fn verified<T>(pid: i32, mut look: impl FnMut() -> Reading<T>) -> Reading<(Self, T)> {
        if look()?.is_none() {
            return Ok(None);
        }
        let Some(handle) = Self::open(pid)? else {
            return Ok(None);
        };
        Ok(look()?.map(|seen| (handle, seen)))
    }

    /// Returns the handle of a child that is not reaped. It has no descriptor if the system provides none.
    pub(super) fn of_child(pid: i32) -> Self {
        Self::open(pid).ok().flatten().unwrap_or(Self { pid, fd: None })
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the descriptor, which becomes readable when the process has ended.
    pub(super) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// Returns the raw descriptor, to poll.
    pub(super) fn raw_fd(&self) -> Option<RawFd> {
        self.fd.as_ref().map(std::os::fd::AsRawFd::as_raw_fd)
    }

    /// Sends a signal. Does nothing if the process has ended.
    #[cfg(target_os = "linux")]
    pub(super) fn signal(&self, signal: i32) {
        match &self.fd {
            Some(fd) => {
                unix::signal_handle(fd.as_fd(), signal);
            }
            _ => unix::kill(self.pid, signal),
        }
    }

    /// Returns whether the process id still belongs to the process of the handle, which may be waiting to be reaped.
    #[cfg(target_os = "linux")]
    pub(super) fn is_current(&self) -> bool {
        match &self.fd {
            Some(fd) => unix::signal_handle(fd.as_fd(), 0),
            _ => true,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    // Which process is reaped depends on the iteration.
    #![allow(clippy::unwrap_used, clippy::print_stderr, clippy::zombie_processes)]

    use std::fs;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};

    use super::*;

    const HELPER: &str = "process::handle::tests::helper_namespace";
    const INSIDE: &str = "HELPER_NAMESPACE";

    #[test]
    fn the_next_process_of_a_number_is_never_meant() {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        let inside = ["sh", "-c", "\"$0\" --ignored --exact \"$1\"; exit $?"];
        command.args(inside).arg(program).arg(HELPER).env(INSIDE, "1");
        let Ok(output) = command.output() else {
            eprintln!("skipped: there is no program `unshare`");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if said.starts_with("unshare:") && said.contains("Operation not permitted") {
            eprintln!("skipped: this process may not make a process namespace");
            return;
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && stdout.contains("1 passed"),
            "{stdout}\n{said}"
        );
    }

    /// Starts a process, with this process id if one is given. Retries if another program took it.
    fn start(number: Option<i32>) -> Child {
        loop {
            if let Some(number) = number {
                fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
            }
            let mut child = Command::new("sleep").arg("1800").spawn().unwrap();
            if number.is_none_or(|number| child.id() == number.cast_unsigned()) {
                return child;
            }
            end(&mut child);
        }
    }

    fn end(child: &mut Child) {
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(unix::KILL));
    }

    /// The part of the test above that runs in a process namespace.
    #[test]
    #[ignore = "a part of another test"]
    fn helper_namespace() {
        if std::env::var_os(INSIDE).is_none() {
            return;
        }
        // The process id is reused after the first check, after the second check, and after the handle was returned.
        for recycled_at in 1..=3 {
            let mut tool = start(None);
            let pid = i32::try_from(tool.id()).unwrap();
            let (mut looks, mut innocent) = (0, None);
            let is_tool = |innocent: &Option<Child>| Ok(innocent.is_none().then_some(()));
            let recycle = |tool: &mut Child, innocent: &mut Option<Child>| {
                end(tool);
                *innocent = Some(start(Some(pid)));
            };
            let found = Handle::verified(pid, || {
                looks += 1;
                let seen = is_tool(&innocent);
                if looks == recycled_at {
                    recycle(&mut tool, &mut innocent);
                }
                seen
            })
            .unwrap();
            assert_eq!(found.is_some(), recycled_at > 1);
            if recycled_at == 3 {
                recycle(&mut tool, &mut innocent);
            }
            if let Some((handle, ())) = found {
                assert!(!handle.is_current());
                handle.signal(unix::KILL);
            }
            let mut innocent = innocent.unwrap();
            assert_eq!(
                innocent.try_wait().unwrap(),
                None,
                "killed for another, {recycled_at}"
            );
            end(&mut innocent);
        }
    }
}
