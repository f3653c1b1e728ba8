//! The watcher: one small process per engine process that outlives it and cleans up.
//!
//! An engine that is killed with signal 9 cannot end its tools. The parent-death signal ends the
//! leader of each command, but not what the leader started. So with the first command the engine also forks a child,
//! in a session of its own, that holds one end of a socket whose other end only the engine has. However the engine
//! ends, the system closes the socket, the child reads the end and kills the groups that were still
//! running, and then on Linux everything that bears the engine's marks, until nothing is left.
//!
//! It is a fork that executes no program, since it must not kill anybody else: between a look at `/proc` and a kill, the
//! number of a process may have come to mean another. Only handles of processes rule that out, and no shell has them; nor
//! can a library start the program that it is a part of anew. What runs in the child makes system calls and uses its
//! own stack, nothing else: the engine has other threads, and the locks that they held at the fork stay locked.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::handle::Handle;
use super::mark::{Engine, Pattern};
use super::unix;

/// How many groups the child knows of at once; of more, it finds the processes by their marks.
const MOST_GROUPS: usize = 4096;
/// How many passes must find nothing: a process that keeps starting itself anew can slip through one.
const CLEAN_PASSES: u32 = 5;
/// How many passes there are at most; some processes cannot be killed.
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

/// Makes sure that the watcher runs; one that somebody killed is replaced.
pub(super) fn ensure() -> io::Result<()> {
    let mut watcher = watcher();
    if watcher.is_alive() {
        return Ok(());
    }
    watcher.process = Some(start()?);
    for (group, leader) in watcher.groups.clone() {
        watcher.tell(Change::Add, group, Some(&leader));
    }
    Ok(())
}

/// The number of the watcher's process.
#[cfg(target_os = "linux")]
pub(super) fn number() -> Option<i32> {
    watcher().process.as_ref().map(|process| process.handle.pid())
}

/// Tells the watcher of a new group, by the handle of its leader.
pub(super) fn add(leader: Arc<Handle>) {
    let mut watcher = watcher();
    watcher.tell(Change::Add, leader.pid(), Some(&leader));
    watcher.groups.insert(leader.pid(), leader);
}

/// Tells the watcher that a group has ended; to be called while its number is still taken.
pub(super) fn remove(group: i32) {
    let mut watcher = watcher();
    watcher.groups.remove(&group);
    watcher.tell(Change::Remove, group, None);
}

impl Watcher {
    fn is_alive(&mut self) -> bool {
        let alive = self.process.as_ref().is_some_and(Process::is_alive);
        if !alive {
            self.process = None;
        }
        alive
    }

    fn tell(&mut self, change: Change, group: i32, leader: Option<&Handle>) {
        // Asked first: a write to a closed socket can raise a signal that ends the program.
        if self.is_alive()
            && let Some(process) = &self.process
            && let Err(fault) = wire::send(&process.socket, change, group, leader.and_then(Handle::fd))
        {
            tracing::warn!(%fault, "the watcher of tool processes cannot be reached");
        }
    }
}

impl Process {
    /// Reports whether it runs; one that has ended is reaped.
    fn is_alive(&self) -> bool {
        use rustix::process::{Pid, WaitOptions, waitpid};
        #[cfg(target_os = "linux")]
        if let Some(fd) = self.handle.fd() {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            // By the handle: somebody else may have reaped it, and the number may be that of another child.
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
    // A watcher that somebody stopped must not stop the engine.
    ours.set_nonblocking(true)?;
    let pattern = Engine::this().pattern();
    let title = format!("tool-watcher {}", std::process::id());
    let pid = unix::fork_child(&OwnedFd::from(theirs), &title, |socket| watch(&socket, &pattern))?;
    // Our own child, which is not reaped: the number is its own.
    let handle = Handle::open(pid)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(Process { handle, socket: ours })
}

/// What the child does: learns of groups for as long as the engine lives, then kills.
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

/// A group that runs.
struct Group {
    number: i32,
    /// The handle of its leader.
    leader: Option<OwnedFd>,
}

impl Group {
    #[cfg(target_os = "linux")]
    fn kill(&self) {
        // Without a handle there is no telling whose the number is by now; the marks are left.
        let Some(leader) = &self.leader else { return };
        // An older system: the number is the leader's as long as that one is not reaped, which has just died with the
        // engine; so this is asked and done at once.
        if !unix::kill_group_of_handle(leader.as_fd()) && unix::signal_handle(leader.as_fd(), 0) {
            unix::kill_group(self.number, unix::KILL);
        }
    }

    /// Elsewhere nothing ends the leader, so the number is still its own.
    #[cfg(not(target_os = "linux"))]
    fn kill(&self) {
        let _ = &self.leader;
        unix::kill_group(self.number, unix::KILL);
    }
}

/// Kills all that bears a mark.
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

/// Kills a process if it is alive and bears a mark. Reports whether it does.
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

/// What the engine says of a group.
#[derive(Clone, Copy)]
enum Change {
    Add,
    Remove,
}

/// The messages of the engine: a byte for the change, four for the group, and the handle of its leader.
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
        // So few bytes are taken whole or not at all.
        if sent == LENGTH { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// Waits for a message; `None` at the end. Allocates nothing.
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
