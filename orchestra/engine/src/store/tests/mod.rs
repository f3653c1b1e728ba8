//! Tests of the store when calls fail, bytes change and machines lose power.
#![allow(clippy::unwrap_used, clippy::panic)]

mod commit;
mod folder;
mod journal;
mod owner;
mod stages;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use orchestra_core::Context;

use super::files::{Access, FileSystem, OpenFile, SystemFiles};
use super::{
    Checkpoint, Commit, Durability, FolderStore, Manifest, OpenOptions, Opened, PROTOCOL, PinnedSource,
    Position, RunStore, SCHEMA, StoreError, StoreOptions, Synced, system,
};
use crate::clock::Timestamp;
use crate::event::{EventKind, RunEvent};
use crate::id::RunId;

pub(super) const ENOSPC: i32 = 28;
pub(super) const EIO: i32 = 5;
pub(super) const EROFS: i32 = 30;

pub(super) fn manifest(durability: Durability) -> Manifest {
    let mut params = Context::new();
    params.set("color".to_owned(), "red");
    Manifest {
        schema: SCHEMA.to_owned(),
        run: "one".to_owned(),
        name: "poem".to_owned(),
        goal: "A poem".to_owned(),
        file: "t.dot".to_owned(),
        started: Timestamp::from_millis(1_795_275_000_042),
        seed: 7,
        simulated: false,
        engine: "0.1.0".to_owned(),
        protocol: PROTOCOL,
        durability,
        max_time: Some(std::time::Duration::from_secs(90)),
        budget: Default::default(),
        workspace: Some(serde_json::json!({ "base": "c0ffee" })),
        replayed_from: None,
        exported_from: None,
        params,
        script: None,
        pipeline: PinnedSource {
            file: "t.dot".to_owned(),
            hash: "sha256:00".to_owned(),
            source: "digraph { start -> exit }".to_owned(),
        },
        children: Vec::new(),
    }
}

pub(super) fn checkpoint(state: &str, journal: Position) -> Checkpoint {
    Checkpoint {
        schema: "orchestra.checkpoint/1".to_owned(),
        run: "one".to_owned(),
        timestamp: Timestamp::from_millis(1_795_275_000_042),
        status: "running".to_owned(),
        failure: None,
        failed_at: None,
        current_node: "write".to_owned(),
        completed_nodes: serde_json::from_str(r#"["start","write"]"#).unwrap(),
        node_retries: BTreeMap::new(),
        node_visits: BTreeMap::from([("write".to_owned(), 1)]),
        node_outcomes: BTreeMap::new(),
        workspace_snapshot: None,
        restarts: 0,
        context: Context::new(),
        seed: 7,
        state: Some(serde_json::value::RawValue::from_string(state.to_owned()).unwrap()),
        journal,
        identity: Some(manifest(Durability::Full).belonging()),
    }
}

pub(super) fn event(seq: u64) -> RunEvent {
    RunEvent {
        seq,
        time: Timestamp::from_millis(1_795_275_000_042),
        run: RunId::new("one").unwrap(),
        kind: EventKind::PipelineStarted {
            name: "poem".to_owned(),
            goal: String::new(),
        },
    }
}

pub(super) fn record(number: u64) -> Vec<u8> {
    let text = "x".repeat((number * 37 % 90) as usize);
    format!(r#"{{"fencing_token":1,"event":{{"NodeFinished":{number}}},"text":"{text}"}}"#).into_bytes()
}

pub(super) fn options(durability: Durability) -> StoreOptions {
    StoreOptions {
        durability,
        ..StoreOptions::default()
    }
}

/// Creates a run that has begun.
pub(super) fn create(folder: &Path) -> FolderStore {
    let store = FolderStore::create(system(), folder, options(Durability::Full)).unwrap();
    store.manifest(&manifest(Durability::Full)).unwrap();
    store
}

pub(super) fn open(folder: &Path) -> Result<Opened, StoreError> {
    FolderStore::open(
        system(),
        folder,
        options(Durability::Full),
        OpenOptions::default(),
    )
}

/// Creates a folder in memory if the system supports it. These tests write a lot and do not simulate a loss of power.
pub(super) fn tempdir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
    made.unwrap()
}

/// Replaces a file. Truncating and rewriting it would flush it to disk immediately, and there are many files.
pub(super) fn put(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
}

/// Makes everything that is written durable.
pub(super) fn commit(store: &FolderStore) -> Result<(), StoreError> {
    match store.sync()? {
        Synced::Later(commit) => wait(commit),
        Synced::Done => Ok(()),
    }
}

pub(super) fn wait(commit: Commit) -> Result<(), StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(commit)
}

/// Returns the names and contents of all files below a folder.
pub(super) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                walk(root, &path, found);
            } else {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

/// A random number generator (SplitMix64).
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

/// Returns the number of random edits, which the long test run raises.
pub(super) fn edits() -> u64 {
    let wanted = std::env::var("ORCHESTRA_EDITS").ok();
    wanted.map_or(10_000, |wanted| wanted.parse().unwrap())
}

/// Changes some bytes at random.
pub(super) fn edit(bytes: &mut Vec<u8>, chance: &mut Chance) {
    if bytes.is_empty() {
        return bytes.push(chance.next() as u8);
    }
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
            // Duplicate, remove or move a whole line.
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

/// A file system that counts modifying calls and makes some of them fail. It never syncs, because no test simulates a
/// loss of power.
#[derive(Default)]
pub(crate) struct Failing {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    calls: Vec<&'static str>,
    fails_from: usize,
    fails_to: usize,
    error: i32,
    /// Only calls for paths that contain this text are counted and fail.
    only: &'static str,
    /// A function that runs right before the call with this number.
    before: Option<(usize, Box<dyn FnOnce() + Send>)>,
}

impl Failing {
    /// Makes the calls from one number to another, from 1, fail with a system error.
    pub(crate) fn set(&self, from: usize, to: usize, error: i32) {
        let mut inner = self.inner.lock().unwrap();
        *inner = Inner {
            calls: Vec::new(),
            fails_from: from,
            fails_to: to,
            error,
            ..Inner::default()
        };
    }

    /// Like [`set`](Failing::set), but only for paths that contain some text.
    pub(super) fn set_only(&self, only: &'static str, from: usize, to: usize, error: i32) {
        self.set(from, to, error);
        self.inner.lock().unwrap().only = only;
    }

    /// Runs a function right before a call.
    pub(super) fn before(&self, call: usize, what: impl FnOnce() + Send + 'static) {
        self.set(0, 0, 0);
        self.inner.lock().unwrap().before = Some((call, Box::new(what)));
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.inner.lock().unwrap().calls.clone()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.calls().iter().filter(|call| **call == name).count()
    }

    fn call(&self, name: &'static str, path: &Path) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        if !path.to_string_lossy().contains(inner.only) {
            return Ok(());
        }
        inner.calls.push(name);
        let now = inner.calls.len();
        if let Some((_, what)) = inner.before.take_if(|(call, _)| *call == now) {
            drop(inner);
            what();
            return Ok(());
        }
        if (inner.fails_from..=inner.fails_to).contains(&inner.calls.len()) {
            Err(io::Error::from_raw_os_error(inner.error))
        } else {
            Ok(())
        }
    }
}

impl FileSystem for Failing {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.call("make_folder", path)?;
        SystemFiles.make_folder(path)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<OpenFile> {
        if access == Access::New {
            self.call("make", path)?;
        }
        SystemFiles.open(path, access)
    }
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.call("write", file.path()) {
            // A full disk accepts a part of the bytes.
            SystemFiles.write_at(file, &bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        SystemFiles.write_at(file, bytes, offset)
    }
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        self.call("reserve", file.path())?;
        SystemFiles.reserve(file, offset, length)
    }
    fn set_length(&self, file: &OpenFile, length: u64) -> io::Result<()> {
        self.call("set_length", file.path())?;
        SystemFiles.set_length(file, length)
    }
    fn sync_data(&self, file: &OpenFile) -> io::Result<()> {
        self.call("sync_data", file.path())
    }
    fn sync_all(&self, file: &OpenFile) -> io::Result<()> {
        self.call("sync_all", file.path())
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.call("sync_folder", path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", from)?;
        SystemFiles.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", path)?;
        SystemFiles.remove(path)
    }
    fn try_lock(&self, file: &OpenFile) -> io::Result<bool> {
        SystemFiles.try_lock(file)
    }
    fn links(&self, file: &OpenFile) -> io::Result<u64> {
        SystemFiles.links(file)
    }
}
