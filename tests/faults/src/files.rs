//! The file system of a simulated process.

use std::io;
use std::path::Path;
use std::sync::Arc;

use orchestra_engine::{Access, FileSystem, OpenFile, SystemFiles};

use crate::disk::number;
use crate::world::{Call, Fate, Process, gone};

/// A file system that fails and dies as its process is to.
#[derive(Debug)]
pub struct SimulatedFiles {
    process: Arc<Process>,
}

impl SimulatedFiles {
    /// Returns the file system of a process.
    pub fn new(process: Arc<Process>) -> SimulatedFiles {
        SimulatedFiles { process }
    }

    /// The path of a file on the disk, without what differs from one machine and one process to the next.
    fn reported(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.process.world.disk.root());
        let text = below.unwrap_or(Path::new("..")).display().to_string();
        match text.strip_prefix(".commits/") {
            Some(_) => ".commits/LOG".to_owned(),
            None => text,
        }
    }

    /// Does a call that is done whole or not at all.
    fn act<T>(&self, call: Call, path: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.process.fate(call, format_args!("{}", self.reported(path))) {
            Fate::Done => act(),
            Fate::Fails(error, _) => Err(error),
            Fate::Last(part) => {
                if part > 0 {
                    let _ = act();
                }
                self.process.die();
                Err(gone())
            }
        }
    }

    fn number(file: &OpenFile) -> u64 {
        file.metadata().map_or(0, |metadata| number(&metadata))
    }
}

impl FileSystem for SimulatedFiles {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.act(Call::MakeFolder, path, || {
            SystemFiles.make_folder(path)?;
            self.process.world.disk.made_folder(path);
            Ok(())
        })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        let call = match access {
            Access::New => Call::Make,
            Access::Folder => Call::OpenFolder,
            _ => Call::Open,
        };
        self.act(call, path, || {
            let file = SystemFiles.open(path, access)?;
            if access == Access::New {
                self.process
                    .world
                    .disk
                    .made_file(path, SimulatedFiles::number(&file));
            }
            Ok(file)
        })
    }

    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        let reported = self.reported(file.path());
        let write = |part: usize| {
            let length = bytes.len() * part / 100;
            let bytes = bytes.get(..length).unwrap_or(bytes);
            SystemFiles.write_at(file, bytes, offset)?;
            let number = SimulatedFiles::number(file);
            self.process.world.disk.wrote(number, file.path(), offset, bytes);
            Ok(())
        };
        // The lock names what belongs to this machine, such as numbers of files: its length is another each time.
        let length = if reported.contains("owner.lock") {
            String::new()
        } else {
            format!(" +{}", bytes.len())
        };
        match self
            .process
            .fate(Call::Write, format_args!("{reported} @{offset}{length}"))
        {
            Fate::Done => write(100),
            Fate::Fails(error, part) => {
                if part > 0 {
                    write(part)?;
                }
                Err(error)
            }
            Fate::Last(part) => {
                if part > 0 {
                    let _ = write(part);
                }
                self.process.die();
                Err(gone())
            }
        }
    }

    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        self.act(Call::Reserve, file.path(), || {
            SystemFiles.reserve(file, offset, length)?;
            let number = SimulatedFiles::number(file);
            self.process
                .world
                .disk
                .reserved(number, file.path(), offset + length);
            Ok(())
        })
    }

    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        self.act(Call::SetLength, file.path(), || {
            SystemFiles.set_length(file, length)?;
            let number = SimulatedFiles::number(file);
            self.process.world.disk.set_length(number, file.path(), length);
            Ok(())
        })
    }

    fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
        self.sync(file)
    }

    fn sync_all(&self, file: &OpenFile) -> io::Result<()> {
        self.sync(file)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.act(Call::SyncFolder, path, || {
            self.process.world.disk.synced_folder(path);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act(Call::Rename, to, || {
            SystemFiles.rename(from, to)?;
            self.process.world.disk.renamed(from, to);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.act(Call::Remove, path, || {
            SystemFiles.remove(path)?;
            self.process.world.disk.removed(path);
            Ok(())
        })
    }

    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        self.act(Call::Lock, file.path(), || SystemFiles.try_lock(file))
    }

    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        self.act(Call::Links, file.path(), || SystemFiles.links(file))
    }

    fn in_process(&self) -> bool {
        true
    }
}

impl SimulatedFiles {
    fn sync(&self, file: &OpenFile) -> io::Result<()> {
        let (world, path) = (&self.process.world, file.path());
        let number = SimulatedFiles::number(file);
        match self
            .process
            .fate(Call::Sync, format_args!("{}", self.reported(path)))
        {
            Fate::Done => world.disk.synced(number, path),
            Fate::Fails(error, _) => {
                if !self.process.is_dead() {
                    self.process
                        .draw(|chance| world.disk.sync_failed(number, path, chance));
                }
                return Err(error);
            }
            Fate::Last(part) => {
                if part == 100 {
                    world.disk.synced(number, path);
                }
                self.process.die();
                return Err(gone());
            }
        }
        Ok(())
    }
}
