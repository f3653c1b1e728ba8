//! The watcher: a small process per engine process that outlives the engine and cleans up.
//!
//! An engine that is killed with signal 9 cannot end its tools. The parent-death signal ends the leader of each
//! command, but not the processes that the leader started. Therefore the engine forks a child before its first command,
//! in a session of its own. The child holds one end of a socket whose other end only the engine has. When the engine
//! ends for any reason, the system closes the socket. The child then kills the groups that are still running, and on
//! Linux everything with a mark of the engine, until nothing is left.
//!
//! The child is a fork that executes no other program, because it must never kill an unrelated process: a process id
//! may be reused between a check of `/proc` and a kill. Only process handles rule that out. A shell has none, and a
//! library cannot start its own program again. The code in the child only makes system calls and uses its own stack,
//! because the engine has other threads, and the locks that they held at the fork stay locked.

use std::collections::BTreeMap;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::handle::Handle;
use super::mark::{Engine, Pattern};
use super::unix;

/// Maximum number of groups that the child stores. It finds the processes of further groups by their marks.
const MOST_GROUPS: usize = 4096;
/// The number of passes that must find nothing. A process that keeps restarting itself can slip through one.
const CLEAN_PASSES: u32 = 5;
/// Maximum number of passes. Some processes cannot be killed.
const MOST_PASSES: u32 = 500;

static WATCHER: Mutex<Watcher> = Mutex::new(Watcher {
    process: None,
    groups: BTreeMap::new(),
});

struct Watcher {
    process: Option<Process>,
    groups: BTreeMap<i32, Arc<Handle>>,
}

/// The forked child, as the engine sees it.
struct Process {
    handle: Handle,
    socket: UnixStream,
}

fn watcher() -> MutexGuard<'static, Watcher> {
    WATCHER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the watcher unless it runs. Replaces one that was killed.
pub(super) fn ensure() -> io::Result<()> {
    let mut watcher = watcher();
    if watcher.is_alive() {
        return Ok(());
    }
    watcher.process = Some(start()?);
    for (group, leader) in watcher.groups.clone() {
        watcher.send(Change::Add, group, Some(&leader));
    }
    Ok(())
}

/// Returns the process id of the watcher.
#[cfg(target_os = "linux")]
pub(super) fn number() -> Option<i32> {
    watcher().process.as_ref().map(|process| process.handle.pid())
}

/// Registers a new group with the watcher, by the handle of its leader.
pub(super) fn add(leader: Arc<Handle>) {
    let mut watcher = watcher();
    watcher.send(Change::Add, leader.pid(), Some(&leader));
    watcher.groups.insert(leader.pid(), leader);
}

/// Unregisters a group that has ended. Call it before the group id can be reused.
pub(super) fn remove(group: i32) {
    let mut watcher = watcher();
    watcher.groups.remove(&group);
    watcher.send(Change::Remove, group, None);
}

impl Watcher {
    fn is_alive(&mut self) -> bool {
        let alive = self.process.as_ref().is_some_and(Process::is_alive);
        if !alive {
            self.process = None;
        }
        alive
    }

    fn send(&mut self, change: Change, group: i32, leader: Option<&Handle>) {
        // Check first: writing to a closed socket can raise a signal that ends the program.
        if self.is_alive()
            && let Some(process) = &self.process
            && let Err(error) = wire::send(&process.socket, change, group, leader.and_then(Handle::fd))
        {
            tracing::warn!(%error, "the watcher of tool processes cannot be reached");
        }
    }
}

impl Process {
    /// Returns whether the watcher runs. Reaps it if it has ended.
    fn is_alive(&self) -> bool {
        use rustix::process::{Pid, WaitOptions, waitpid};
        #[cfg(target_os = "linux")]
        if let Some(fd) = self.handle.fd() {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            // Use the handle: the child may have been reaped elsewhere, and its process id may belong to another child.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            return matches!(waitid(WaitId::PidFd(fd.as_fd()), options), Ok(None));
        }
        matches!(
            waitpid(Pid::from_raw(self.handle.pid()), WaitOptions::NOHANG),
            Ok(None)
        )
    }
}

fn start() -> io::Result<Process> {
    let (ours, theirs) = UnixStream::pair()?;
    // A stopped watcher must not block the engine.
    ours.set_nonblocking(true)?;
    let pattern = Engine::this().pattern();
    let title = format!("tool-watcher {}", std::process::id());
    let pid = unix::fork_child(&OwnedFd::from(theirs), &title, |socket| watch(&socket, &pattern))?;
    // The child is not reaped, so its process id is not reused.
    let handle = Handle::open(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(Process { handle, socket: ours })
}

/// Runs in the child: stores groups while the engine lives, then kills them.
fn watch(socket: &OwnedFd, pattern: &Pattern) {
    let mut groups = [const { None }; MOST_GROUPS];
    while let Some((change, number, leader)) = wire::receive(socket) {
        match change {
            Change::Add => {
                if let Some(free) = groups.iter_mut().find(|group| group.is_none()) {
                    *free = Some(Group { number, leader });
                }
            }
            Change::Remove => {
                let known =
                    |group: &&mut Option<Group>| matches!(group, Some(group) if group.number == number);
                if let Some(group) = groups.iter_mut().find(known) {
                    *group = None;
                }
            }
        }
    }
    for group in groups.iter().flatten() {
        group.kill();
    }
    drop(groups);
    sweep(pattern);
}

/// A running group.
struct Group {
    number: i32,
    /// The handle of its leader.
    leader: Option<OwnedFd>,
}

impl Group {
    #[cfg(target_os = "linux")]
    fn kill(&self) {
        // Without a handle, the group id may have been reused. The sweep still finds the marked processes.
        let Some(leader) = &self.leader else { return };
        // On older systems, the group id is valid until the leader is reaped. The leader has just died with the engine,
        // so check and kill at once.
        if !unix::kill_group_of_handle(leader.as_fd()) && unix::signal_handle(leader.as_fd(), 0) {
            unix::kill_group(self.number, unix::KILL);
        }
    }

    /// On other systems nothing ends the leader, so the group id is still valid.
    #[cfg(not(target_os = "linux"))]
    fn kill(&self) {
        let _ = &self.leader;
        unix::kill_group(self.number, unix::KILL);
    }
}

/// Kills all processes with a mark.
#[cfg(target_os = "linux")]
fn sweep(pattern: &Pattern) {
    let (mut clean, mut passes) = (0, 0_u32);
    while clean < CLEAN_PASSES && passes < MOST_PASSES {
        clean += 1;
        passes += 1;
        let listed = super::procfs::each_process(|pid| {
            if !matches!(strike(pid, pattern), Ok(false)) {
                clean = 0;
            }
        });
        if listed.is_err() {
            clean = 0;
        }
        unix::pause(if passes < MOST_PASSES / 10 { 1 } else { 20 });
    }
}

#[cfg(not(target_os = "linux"))]
fn sweep(_pattern: &Pattern) {
    let _ = (CLEAN_PASSES, MOST_PASSES, unix::pause);
}

/// Kills a process if it is alive and has a mark. Returns whether it was.
#[cfg(target_os = "linux")]
fn strike(pid: i32, pattern: &Pattern) -> Result<bool, rustix::io::Errno> {
    let found = Handle::verified(pid, || {
        let alive = super::procfs::Stat::read(pid)?.is_some_and(|stat| !stat.ended);
        Ok((alive && pattern.fits(pid)?).then_some(()))
    })?;
    if let Some((handle, ())) = &found {
        handle.signal(unix::KILL);
    }
    Ok(found.is_some())
}

/// The change of a group.
#[derive(Clone, Copy)]
enum Change {
    Add,
    Remove,
}

/// The messages of the engine: a byte for the change, four bytes for the group id, and the handle of its leader.
mod wire {
    use std::io::{IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;

    use rustix::io::{Errno, retry_on_intr};
    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    };

    use super::Change;

    const LENGTH: usize = 5;

    #[cfg(target_os = "linux")]
    const SEND: SendFlags = SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    const SEND: SendFlags = SendFlags::empty();

    pub(super) fn send(
        socket: &UnixStream,
        change: Change,
        group: i32,
        leader: Option<&OwnedFd>,
    ) -> Result<(), Errno> {
        let mut message = [b'-'; LENGTH];
        if matches!(change, Change::Add) {
            message[0] = b'+';
        }
        message[1..].copy_from_slice(&group.to_ne_bytes());
        let handles = leader.map(|leader| [leader.as_fd()]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(handles) = &handles {
            control.push(SendAncillaryMessage::ScmRights(handles));
        }
        let sent = retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&message)], &mut control, SEND))?;
        // So few bytes are sent completely or not at all.
        if sent == LENGTH { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// Waits for a message. Returns `None` when the socket is closed. Allocates nothing.
    pub(super) fn receive(socket: &OwnedFd) -> Option<(Change, i32, Option<OwnedFd>)> {
        let mut message = [0; LENGTH];
        let (mut length, mut leader) = (0, None);
        while let Some(rest) = message.get_mut(length..).filter(|rest| !rest.is_empty()) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = recvmsg(
                socket,
                &mut [IoSliceMut::new(rest)],
                &mut control,
                RecvFlags::empty(),
            );
            match received {
                Ok(received) if received.bytes > 0 => length += received.bytes,
                Err(Errno::INTR) => continue,
                _ => return None,
            }
            for part in control.drain() {
                if let RecvAncillaryMessage::ScmRights(mut handles) = part {
                    leader = handles.next().or(leader.take());
                }
            }
        }
        let [change, group @ ..] = message;
        let change = if change == b'+' {
            Change::Add
        } else {
            Change::Remove
        };
        Some((change, i32::from_ne_bytes(group), leader))
    }
}
