//! Where the sockets of runs are.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::sync::oneshot;

use crate::id::random;

/// How many names of a folder are looked at when sockets of dead processes are removed.
const SWEPT: usize = 256;

/// The user in whose name this process acts.
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The folders in which a user's processes may listen, the preferred one first. They are fixed, so that both sides find
/// each other whatever their environments say.
pub(super) fn folders(user: u32) -> [PathBuf; 2] {
    [
        PathBuf::from(format!("/run/user/{user}/orchestra")),
        PathBuf::from(format!("/tmp/orchestra-{user}")),
    ]
}

/// Returns the name of the socket of the run in a folder, however the folder is called.
fn name(run_dir: &Metadata) -> String {
    format!("{:x}-{:x}.sock", run_dir.dev(), run_dir.ino())
}

/// Looks at a folder: only its user may get into it.
fn check(folder: &Path, user: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let fault = if !found.is_dir() {
        "it is no folder"
    } else if found.uid() != user {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "other users may look into it"
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, fault))
}

/// Makes a folder that only its user may get into.
fn make(folder: &Path, user: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o777 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    check(folder, user)
}

/// The name of a socket at which this process listens.
#[derive(Clone)]
pub(super) struct SocketName {
    path: PathBuf,
    identity: Identity,
}

/// Which file something is. The number of a file that was removed is given to the next one, so it is not enough.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let found = fs::symlink_metadata(path)?;
        Ok(Identity {
            device: found.dev(),
            inode: found.ino(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl SocketName {
    /// Returns whether the name is still that of this socket.
    pub(super) fn is_there(&self) -> bool {
        Identity::of(&self.path).is_ok_and(|found| found == self.identity)
    }
}

/// What a run keeps of the socket at which it is reached. When it is dropped, the name is removed, unless it is another's
/// by then, and the listener is told to close.
pub(crate) struct SocketFile {
    name: SocketName,
    _open: oneshot::Sender<()>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.name.is_there() {
            // Nobody listens at it any more.
            let _ = fs::remove_file(&self.name.path);
        }
    }
}

/// Ends with the [`SocketFile`].
pub(super) type Closed = oneshot::Receiver<()>;

/// A socket at which this process listens for requests to one run.
pub(super) struct Listening {
    pub(super) listener: UnixListener,
    pub(super) name: SocketName,
    pub(super) closed: Closed,
}

/// Listens for requests to the run in a folder. A socket that is there is replaced in one step.
///
/// # Errors
/// There is no usable folder, or the system refuses.
pub(super) fn listen(run_dir: &Path) -> io::Result<(Listening, SocketFile)> {
    let file = name(&fs::metadata(run_dir)?);
    let user = user();
    let mut faults = Vec::new();
    for folder in folders(user) {
        match make(&folder, user).and_then(|()| bind(&folder, &file)) {
            Ok((listener, name)) => {
                let (open, closed) = oneshot::channel();
                let file = SocketFile {
                    name: name.clone(),
                    _open: open,
                };
                let listening = Listening {
                    listener,
                    name,
                    closed,
                };
                return Ok((listening, file));
            }
            Err(error) => faults.push(format!("`{}`: {error}", folder.display())),
        }
    }
    Err(io::Error::other(faults.join("; ")))
}

/// Binds a socket under a name of its own, and moves it to its place.
fn bind(folder: &Path, file: &str) -> io::Result<(UnixListener, SocketName)> {
    let draft = folder.join(format!(".{:016x}", random()));
    let listener = UnixListener::bind(&draft)?;
    let path = folder.join(file);
    let moved = fs::set_permissions(&draft, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&draft, &path))
        .and_then(|()| Identity::of(&path));
    match moved {
        Ok(identity) => Ok((listener, SocketName { path, identity })),
        Err(error) => {
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

/// Removes the sockets that processes left which died. One that is removed although somebody has just begun to listen
/// under its name is made anew by its owner.
pub(super) fn sweep() {
    for folder in folders(user()) {
        if check(&folder, user()).is_err() {
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.take(SWEPT).flatten() {
            let path = entry.path();
            let is_socket = path.extension().is_some_and(|ending| ending == "sock");
            if is_socket && connect_to(&path, Duration::from_millis(1)).is_err_and(is_refused) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn is_refused(error: io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
}

/// Connects to whoever listens for requests to the run in a folder, and says which users that may be.
///
/// # Errors
/// Nobody listens (`NotFound`), does not accept in time (`WouldBlock`), or the system refuses.
pub(super) fn connect(run_dir: &Path, limit: Duration) -> io::Result<UnixStream> {
    let found = fs::metadata(run_dir)?;
    let file = name(&found);
    let mut users = vec![found.uid(), user(), 0];
    users.dedup();
    let mut fault = io::Error::from(ErrorKind::NotFound);
    for user in users {
        for folder in folders(user) {
            if check(&folder, user).is_err() {
                continue;
            }
            match connect_to(&folder.join(&file), limit) {
                Ok(stream) => return Ok(stream),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
                Err(error) => fault = error,
            }
        }
    }
    Err(fault)
}

fn connect_to(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // It also bounds the wait for a listener whose queue is full.
    let limit = limit.max(Duration::from_millis(1));
    for kind in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, kind, Some(limit))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
