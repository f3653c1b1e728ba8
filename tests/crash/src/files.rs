//! A file system that counts what the store changes, and ends the process, or fails, at a given change.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use orchestra_engine::{Access, FileSystem, OpenFile, SystemFiles};
use serde::{Deserialize, Serialize};

/// What happens at a change of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blow {
    /// The process is killed before it.
    Before,
    /// The process is killed when half of what is to be written is there; where nothing is written, behind it.
    Half,
    /// The process is killed behind it.
    Behind,
    /// The process stops before it, until somebody lets it go on.
    Stops,
    /// It fails, and so does every later one of its kind.
    Fails,
    /// It fails when half of what is to be written is there; later ones succeed.
    FailsOnce,
}

/// A blow, and at which change, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strike {
    /// Which change.
    pub at: u64,
    /// What happens there.
    pub blow: Blow,
}

/// A file system that counts the changes.
#[derive(Debug, Default)]
pub struct StruckFiles {
    changes: AtomicU64,
    strike: Option<Strike>,
    /// Whether each change is reported on standard output by a byte.
    tells: bool,
}

impl StruckFiles {
    /// A file system that works until the strike.
    pub fn new(strike: Option<Strike>, tells: bool) -> StruckFiles {
        StruckFiles {
            changes: AtomicU64::new(0),
            strike,
            tells,
        }
    }

    /// How many changes there were.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    fn change<T>(
        &self,
        half: Option<&dyn Fn() -> io::Result<()>>,
        whole: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let number = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.tells {
            // Whoever counts them may be gone.
            let _ = io::stdout().write_all(b".").and_then(|()| io::stdout().flush());
        }
        let Some(Strike { at, blow }) = self.strike.filter(|strike| strike.at <= number) else {
            return whole();
        };
        let here = at == number;
        match blow {
            Blow::Before if here => die(),
            Blow::Half if here => {
                let _ = half.map_or_else(|| whole().map(drop), |half| half());
                die()
            }
            Blow::Behind if here => {
                let _ = whole();
                die()
            }
            Blow::Stops if here => {
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
                whole()
            }
            Blow::Fails => Err(broken()),
            Blow::FailsOnce if here => {
                half.map_or(Ok(()), |half| half())?;
                Err(broken())
            }
            _ => whole(),
        }
    }

    fn plain<T>(&self, whole: impl Fn() -> io::Result<T>) -> io::Result<T> {
        self.change(None, whole)
    }
}

/// The process ends here, as by a loss of power to it alone: nothing is handed over, nothing is cleaned up.
pub fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

/// What a broken disk says.
fn broken() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

impl FileSystem for StruckFiles {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.plain(|| SystemFiles.make_folder(path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        match access {
            Access::New => self.plain(|| SystemFiles.open(path, access)),
            _ => SystemFiles.open(path, access),
        }
    }

    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let first = &bytes[..bytes.len() / 2];
        self.change(Some(&|| SystemFiles.write_at(file, first, offset)), || {
            SystemFiles.write_at(file, bytes, offset)
        })
    }

    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        self.plain(|| SystemFiles.reserve(file, offset, length))
    }

    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        self.plain(|| SystemFiles.set_length(file, length))
    }

    fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
        self.plain(|| SystemFiles.sync_data(file))
    }

    fn sync_all(&self, file: &OpenFile) -> io::Result<()> {
        self.plain(|| SystemFiles.sync_all(file))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.plain(|| SystemFiles.sync_folder(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plain(|| SystemFiles.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plain(|| SystemFiles.remove(path))
    }

    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        SystemFiles.try_lock(file)
    }

    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        SystemFiles.links(file)
    }
}
