//! The sockets of runs: their folders, names and lifetimes.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use tokio::sync::oneshot;

use crate::id::random;

/// Maximum number of names in a folder that are checked when the sockets of dead processes are removed.
const SWEPT: usize = 256;

/// Returns the effective user id of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the folders in which the processes of a user may listen, the preferred one first. They are fixed, so that
/// both sides find each other whatever their environments contain.
fn folders(user: u32) -> [PathBuf; 2] {
    [
        PathBuf::from(format!("/run/user/{user}/orchestra")),
        PathBuf::from(format!("/tmp/orchestra-{user}")),
    ]
}

/// Returns the folders that may contain the sockets of runs.
pub(crate) fn control_folders() -> Vec<PathBuf> {
    folders(user()).into()
}

/// Returns the name of the socket of the run in a folder. It does not depend on the path of the folder.
fn name(run_dir: &Metadata) -> String {
    format!("{:x}-{:x}.sock", run_dir.dev(), run_dir.ino())
}

/// Checks that only its user can access a folder.
fn check(folder: &Path, user: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let error = if !found.is_dir() {
        "it is not a folder"
    } else if found.uid() != user {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "other users may look into it"
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, error))
}

/// Creates a folder that only its user can access.
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

/// The name of a socket on which this process listens.
#[derive(Clone)]
pub(crate) struct SocketName {
    path: PathBuf,
    identity: Identity,
}

/// The identity of a file. The inode alone is not enough, because the system reuses that of a removed file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Identity {
    fn from_path(path: &Path) -> io::Result<Identity> {
        let found = fs::symlink_metadata(path)?;
        Ok(Identity {
            device: found.dev(),
            inode: found.ino(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl SocketName {
    /// Returns whether the name still belongs to this socket.
    pub(crate) fn is_there(&self) -> bool {
        Identity::from_path(&self.path).is_ok_and(|found| found == self.identity)
    }
}

/// The socket of a run. Dropping it closes the listener and removes the name, unless the name belongs to another socket
/// by then.
pub(crate) struct SocketFile {
    name: SocketName,
    _open: oneshot::Sender<()>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.name.is_there() {
            // Nobody listens on it any longer.
            let _ = fs::remove_file(&self.name.path);
        }
    }
}

/// Resolves when the [`SocketFile`] is dropped.
pub(crate) type Closed = oneshot::Receiver<()>;

/// A socket on which this process listens for requests to one run.
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    pub(crate) name: SocketName,
    pub(crate) closed: Closed,
}

/// Listens for requests to the run in a folder. Atomically replaces an existing socket.
///
/// # Errors
/// Fails if no folder is usable, or with the errors of the system.
pub(crate) fn listen(run_dir: &Path) -> io::Result<(Listening, SocketFile)> {
    let file = name(&fs::metadata(run_dir)?);
    let user = user();
    let mut errors = Vec::new();
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
            Err(error) => errors.push(format!("`{}`: {error}", folder.display())),
        }
    }
    Err(io::Error::other(errors.join("; ")))
}

/// Binds a socket under a temporary name and renames it.
fn bind(folder: &Path, file: &str) -> io::Result<(UnixListener, SocketName)> {
    let draft = folder.join(format!(".{:016x}", random()));
    let listener = UnixListener::bind(&draft)?;
    let path = folder.join(file);
    let moved = fs::set_permissions(&draft, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&draft, &path))
        .and_then(|()| Identity::from_path(&path));
    match moved {
        Ok(identity) => Ok((listener, SocketName { path, identity })),
        Err(error) => {
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

/// Removes the sockets of dead processes. If this removes a socket on which a process has just begun to listen, its
/// owner creates it again.
pub(crate) fn sweep() {
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

/// Connects to the socket of the run in a folder. The socket may belong to the owner of the folder, to this user, or to
/// the administrator.
///
/// # Errors
/// Fails with `NotFound` if nobody listens, with `WouldBlock` if nobody accepts in time, or with another error of the
/// system.
pub(crate) fn connect(run_dir: &Path, limit: Duration) -> io::Result<UnixStream> {
    let found = fs::metadata(run_dir)?;
    let file = name(&found);
    let mut users = vec![found.uid(), user(), 0];
    users.dedup();
    let mut latest = io::Error::from(ErrorKind::NotFound);
    for user in users {
        for folder in folders(user) {
            if check(&folder, user).is_err() {
                continue;
            }
            match connect_to(&folder.join(&file), limit) {
                Ok(stream) => return Ok(stream),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
                Err(error) => latest = error,
            }
        }
    }
    Err(latest)
}

/// Returns a socket that the programs which this process starts do not inherit.
fn new_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    #[cfg(not(target_vendor = "apple"))]
    let socket = rustix::net::socket_with(family, kind, rustix::net::SocketFlags::CLOEXEC, None)?;
    // These systems have no flag for it.
    #[cfg(target_vendor = "apple")]
    let socket = rustix::net::socket(family, kind, None)?;
    #[cfg(target_vendor = "apple")]
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

fn connect_to(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = new_socket()?;
    // The limit also bounds the wait for a listener with a full queue.
    let limit = limit.max(Duration::from_millis(1));
    for kind in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, kind, Some(limit))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
