//! Whether a process that connects to the engine is one of those that the engine started.

use std::os::fd::{AsFd, OwnedFd};

#[cfg(target_os = "linux")]
use super::unix;

/// How a process is related to this engine process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is this process.
    Engine,
    /// This process started it, or what this process started did; or it bears the marks of a command.
    Descendant,
    /// It is none of them.
    Foreign,
    /// It is gone, or another process bears its number by now, so nothing is known of it.
    Gone,
}

/// The process at the other end of a socket, as it was when it connected.
pub(crate) struct Peer {
    pid: i32,
    /// What tells whether the number is still that of this process; not every system has it.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    handle: Handle,
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
enum Handle {
    Process(OwnedFd),
    /// The system cannot give one.
    Unknown,
    /// The process is gone.
    Gone,
}

impl Peer {
    /// The process at the other end of `socket`, whose number the system says is `pid`.
    pub(crate) fn of(socket: &impl AsFd, pid: i32) -> Peer {
        Peer {
            pid,
            handle: Handle::of(socket, pid),
        }
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The name of its program, which the process may choose freely.
    pub(crate) fn program(&self) -> Option<String> {
        #[cfg(target_os = "linux")]
        return {
            let name = std::fs::read(format!("/proc/{}/comm", self.pid)).ok()?;
            Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
        };
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Finds out how the process is related to this one.
    ///
    /// A process is a descendant if the chain of its parents leads to this process, or if it or one of its parents bears
    /// the marks of a command. Where this process adopts the orphans among its descendants, no descendant can leave
    /// the chain; else one that has also removed its marks is foreign.
    pub(crate) fn relation(&self) -> Relation {
        if u32::try_from(self.pid) == Ok(std::process::id()) {
            return Relation::Engine;
        }
        if self.pid <= 0 {
            return Relation::Gone;
        }
        self.look()
    }
}

#[cfg(target_os = "linux")]
impl Handle {
    fn of(socket: &impl AsFd, pid: i32) -> Handle {
        match unix::peer_handle(socket.as_fd()) {
            Ok(handle) => Handle::Process(handle),
            Err(fault) if fault.raw_os_error() == Some(libc::ENOPROTOOPT) => Handle::by_number(pid),
            Err(_) => Handle::Gone,
        }
    }

    /// Before Linux 6.5 a number that was reused since the process connected is not told.
    fn by_number(pid: i32) -> Handle {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};

        let Some(pid) = Pid::from_raw(pid) else {
            return Handle::Gone;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Handle::Process(handle),
            Err(rustix::io::Errno::SRCH) => Handle::Gone,
            Err(_) => Handle::Unknown,
        }
    }

    /// Returns whether the process has ended.
    fn is_over(&self) -> bool {
        match self {
            Handle::Process(handle) => unix::has_ended(handle),
            Handle::Unknown => false,
            Handle::Gone => true,
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Handle {
    fn of(_socket: &impl AsFd, _pid: i32) -> Handle {
        Handle::Unknown
    }
}

#[cfg(target_os = "linux")]
impl Peer {
    fn look(&self) -> Relation {
        let own = u32::try_from(self.pid).ok().and_then(super::is_own_process);
        // Asked last: as long as the process lives, what was read under its number was its own.
        if self.handle.is_over() {
            return Relation::Gone;
        }
        match own {
            Some(true) => Relation::Descendant,
            Some(false) => Relation::Foreign,
            None => Relation::Gone,
        }
    }
}

/// Returns whether the chain of this process's parents leads to another process.
#[cfg(target_os = "linux")]
pub(super) fn descends_from(pid: u32) -> bool {
    use super::procfs::Stat;

    let Ok(ancestor) = i32::try_from(pid) else {
        return false;
    };
    let mut parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    // No chain is longer than all processes of a system.
    for _ in 0..1 << 22 {
        if parent == ancestor {
            return true;
        }
        let next = Stat::read(parent).ok().flatten().filter(|_| parent > 1);
        let Some(next) = next else { return false };
        parent = next.parent;
    }
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn descends_from(pid: u32) -> bool {
    let number = |pid: u32| i32::try_from(pid).unwrap_or_default();
    let parents = by_ps::parents().unwrap_or_default();
    by_ps::descends(&parents, number(std::process::id()), number(pid)) == Some(true)
}

/// Where there is no `/proc`, the program `ps` tells who is whose parent.
#[cfg(any(test, not(target_os = "linux")))]
mod by_ps {
    use std::collections::HashMap;
    use std::io;
    use std::process::{Command, Stdio};

    /// Returns the parent of each process.
    pub(super) fn parents() -> io::Result<HashMap<i32, i32>> {
        let output = Command::new("ps")
            .args(["-A", "-o", "pid=", "-o", "ppid="])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let pair = |line: &str| {
            let mut fields = line.split_ascii_whitespace().map(str::parse);
            Some((fields.next()?.ok()?, fields.next()?.ok()?))
        };
        Ok(text.lines().filter_map(pair).collect())
    }

    /// Returns whether the chain of parents of a process leads to another; `None` if the process is not there.
    pub(super) fn descends(parents: &HashMap<i32, i32>, pid: i32, from: i32) -> Option<bool> {
        let mut parent = *parents.get(&pid)?;
        for _ in 0..parents.len() {
            if parent == from {
                return Some(true);
            }
            let Some(next) = parents.get(&parent) else { break };
            parent = *next;
        }
        Some(false)
    }
}

#[cfg(not(target_os = "linux"))]
impl Peer {
    fn look(&self) -> Relation {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let parents = by_ps::parents().unwrap_or_default();
        match by_ps::descends(&parents, self.pid, own) {
            Some(true) => Relation::Descendant,
            Some(false) => Relation::Foreign,
            None => Relation::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::net::UnixStream;
    use std::os::unix::process::parent_id;
    use std::process::{Command, Stdio};

    use super::{Peer, Relation, by_ps};

    fn number(pid: u32) -> i32 {
        i32::try_from(pid).unwrap()
    }

    #[test]
    fn this_process_its_children_and_its_parent_are_told_apart() {
        super::super::begin();
        let (socket, _other) = UnixStream::pair().unwrap();
        let relation = |pid| {
            Peer {
                pid,
                handle: super::Handle::Unknown,
            }
            .relation()
        };
        let me = number(std::process::id());
        assert_eq!(Peer::of(&socket, me).relation(), Relation::Engine);
        assert_eq!(relation(number(parent_id())), Relation::Foreign);
        assert_eq!(relation(0), Relation::Gone);
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(relation(number(child.id())), Relation::Descendant);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(relation(number(child.id())), Relation::Gone);
    }

    #[test]
    fn ps_tells_who_descends_from_whom() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let parents = by_ps::parents().unwrap();
        let (me, pid) = (number(std::process::id()), number(child.id()));
        assert_eq!(by_ps::descends(&parents, pid, me), Some(true));
        assert_eq!(by_ps::descends(&parents, me, pid), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(by_ps::descends(&by_ps::parents().unwrap(), pid, me), None);
    }
}
