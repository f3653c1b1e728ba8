//! The store, and what becomes of it when calls fail, bytes are changed, and machines lose power.
#![allow(clippy::unwrap_used, clippy::panic)]

mod journal;

use std::io;
use std::path::Path;
use std::sync::Mutex;

use super::files::{Access, FileSystem, OpenFile, SystemFiles};

/// A number generator (SplitMix64).
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// How many random edits are tried; the longer command sets more.
pub(super) fn edits() -> u64 {
    let wanted = std::env::var("ORCHESTRA_EDITS").ok();
    wanted.map_or(10_000, |wanted| wanted.parse().unwrap())
}

/// Changes some bytes at random, as no disk should.
pub(super) fn edit(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let at = chance.below(bytes.len());
    let length = chance.below((bytes.len() - at).min(600)) + 1;
    let other = chance.below(bytes.len());
    match chance.below(9) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.drain(at..at + length)),
        3 => bytes[at..at + length].fill(0),
        4 => bytes[at..at + length]
            .iter_mut()
            .for_each(|byte| *byte = chance.next() as u8),
        5 => {
            let copy = bytes[at..at + length].to_vec();
            bytes.splice(other..other, copy);
        }
        6 => bytes.insert(at, chance.next() as u8),
        7 => {
            // A whole line is doubled, left out or moved.
            let mut lines: Vec<Vec<u8>> = bytes
                .split_inclusive(|byte| *byte == b'\n')
                .map(Vec::from)
                .collect();
            let line = lines.remove(chance.below(lines.len()));
            for _ in 0..chance.below(3) {
                lines.insert(chance.below(lines.len() + 1), line.clone());
            }
            *bytes = lines.concat();
        }
        _ => {
            for _ in 0..8 {
                let at = chance.below(bytes.len());
                bytes[at] = chance.next() as u8;
            }
        }
    }
}

/// A file system that counts the calls that change something, and fails one of them and all that follow.
#[derive(Default)]
pub(super) struct Failing {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    calls: Vec<&'static str>,
    fails_from: usize,
    fails_to: usize,
    error: i32,
}

impl Failing {
    /// Calls from one number to another, from 1, fail with an error of the system.
    pub(super) fn set(&self, from: usize, to: usize, error: i32) {
        let mut inner = self.inner.lock().unwrap();
        *inner = Inner {
            calls: Vec::new(),
            fails_from: from,
            fails_to: to,
            error,
        };
    }

    /// The calls so far.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.inner.lock().unwrap().calls.clone()
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.calls().iter().filter(|call| **call == name).count()
    }

    fn call(&self, name: &'static str) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        inner.calls.push(name);
        match (inner.fails_from..=inner.fails_to).contains(&inner.calls.len()) {
            true => Err(io::Error::from_raw_os_error(inner.error)),
            false => Ok(()),
        }
    }
}

impl FileSystem for Failing {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call("make_folder")?;
        SystemFiles.make_folder(path)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        if access == Access::New {
            self.call("make")?;
        }
        SystemFiles.open(path, access)
    }
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.call("write") {
            // A disk that is full takes what fits.
            SystemFiles.write_at(file, &bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        SystemFiles.write_at(file, bytes, offset)
    }
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        self.call("reserve")?;
        SystemFiles.reserve(file, offset, length)
    }
    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        self.call("set_length")?;
        SystemFiles.set_length(file, length)
    }
    fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
        self.call("sync_data")?;
        SystemFiles.sync_data(file)
    }
    fn sync_all(&self, file: &OpenFile) -> io::Result<()> {
        self.call("sync_all")?;
        SystemFiles.sync_all(file)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call("sync_folder")?;
        SystemFiles.sync_folder(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename")?;
        SystemFiles.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove")?;
        SystemFiles.remove(path)
    }
    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        SystemFiles.try_lock(file)
    }
    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        SystemFiles.links(file)
    }
}
