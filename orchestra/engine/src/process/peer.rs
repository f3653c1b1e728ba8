//! The relation of a process that connects to the engine.

use std::os::fd::{AsFd, OwnedFd};

#[cfg(target_os = "linux")]
use super::unix;

/// The relation of a process to this engine process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is this process.
    Engine,
    /// It is a descendant of this process, or has the marks of a command.
    Descendant,
    /// It is unrelated.
    Foreign,
    /// It has ended, or its process id was reused, so nothing is known about it.
    Gone,
}

/// The process at the other end of a socket at the time of the connection.
pub(crate) struct Peer {
    pid: i32,
    /// Detects a reused process id. Not available on every system.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    handle: Handle,
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
enum Handle {
    Process(OwnedFd),
    /// The system provides no handle.
    Unknown,
    /// The process has ended.
    Gone,
}

impl Peer {
    /// Returns the process at the other end of `socket`. `pid` is the process id that the system reported.
    pub(crate) fn new(socket: &impl AsFd, pid: i32) -> Peer {
        Peer {
            pid,
            handle: Handle::new(socket, pid),
        }
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the name of its program, which the process can choose freely.
    pub(crate) fn program(&self) -> Option<String> {
        #[cfg(target_os = "linux")]
        return {
            let name = std::fs::read(format!("/proc/{}/comm", self.pid)).ok()?;
            Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
        };
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Determines the relation of the process to this one.
    ///
    /// A process is a descendant if its ancestry leads to this process, or if it or one of its ancestors has the marks
    /// of a command. If this process adopts the orphans among its descendants, every descendant is recognised.
    /// Otherwise a descendant that has left the ancestry and removed its marks counts as foreign.
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
    fn new(socket: &impl AsFd, pid: i32) -> Handle {
        match unix::peer_handle(socket.as_fd()) {
            Ok(handle) => Handle::Process(handle),
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Handle::by_number(pid),
            Err(_) => Handle::Gone,
        }
    }

    /// Opens a handle by process id. Before Linux 6.5, this cannot detect an id that was reused since the connection.
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
    fn new(_socket: &impl AsFd, _pid: i32) -> Handle {
        Handle::Unknown
    }
}

#[cfg(target_os = "linux")]
impl Peer {
    fn look(&self) -> Relation {
        let own = u32::try_from(self.pid).ok().and_then(super::is_own_process);
        // Check this last: if the process still lives, its id was not reused while its state was read.
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

/// Returns whether this process descends from another process.
#[cfg(target_os = "linux")]
pub(super) fn descends_from(pid: u32) -> bool {
    use super::procfs::Stat;

    let Ok(ancestor) = i32::try_from(pid) else {
        return false;
    };
    let mut parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    // No ancestry is longer than the number of processes of a system.
    for _ in 0..1 << 22 {
        if parent == ancestor {
            return true;
        }
        if parent <= 1 {
            return false;
        }
        let Some(next) = Stat::read(parent).ok().flatten() else {
            return false;
        };
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

/// The ancestry of processes according to `ps`, for systems without `/proc`.
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

    /// Returns whether a process descends from another. Returns `None` if the process does not exist.
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
    fn this_process_its_children_and_its_parent_are_distinguished() {
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
        assert_eq!(Peer::new(&socket, me).relation(), Relation::Engine);
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
