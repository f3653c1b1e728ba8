//! A disk with a model of what survives a loss of power.
//!
//! What processes see at once is a folder of the system, best one in memory. Beside it the disk keeps what is durable: the
//! bytes of each file and the names in each folder up to their last sync, and every change since then. A loss of power
//! keeps any of those changes, or parts of them; nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_oracle_tests::random::Random;

/// A disk.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    nodes: BTreeMap<u64, Node>,
    /// The files of the system, by their numbers.
    numbers: BTreeMap<u64, u64>,
    next: u64,
    /// The number of the next change of names.
    operation: u64,
}

#[derive(Debug)]
enum Node {
    Folder(Folder),
    File(File),
}

#[derive(Debug, Default)]
struct Folder {
    durable: BTreeMap<String, u64>,
    visible: BTreeMap<String, u64>,
    pending: Vec<NameChange>,
}

/// A change of one name. The two of a rename have one operation: both survive, or none.
#[derive(Clone, Debug)]
struct NameChange {
    operation: u64,
    name: String,
    node: Option<u64>,
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    visible: Vec<u8>,
    /// The changes since the last sync.
    pending: Vec<DataChange>,
    /// It is written past this disk, so that all of it counts as durable.
    is_direct: bool,
}

#[derive(Debug)]
struct DataChange {
    what: Data,
    /// A sync failed: the change is not written to the device any more, whatever later syncs say, unless something else
    /// is written to the same sector.
    is_lost: bool,
}

#[derive(Debug)]
enum Data {
    Write(u64, Vec<u8>),
    /// The file has exactly this length.
    Length(u64),
    /// The file has at least this length.
    Reserve(u64),
}

/// What a device writes whole.
const SECTOR: usize = 512;

/// A folder or file as a loss of power left it.
#[derive(Debug)]
enum Left {
    Folder(BTreeMap<String, Left>),
    File(Vec<u8>),
}

/// What a loss of power left of a disk.
#[derive(Debug)]
pub struct Remains(BTreeMap<String, Left>);

const ROOT: u64 = 0;

impl Disk {
    /// Returns an empty disk in a folder that is there.
    pub fn new(root: &Path) -> Disk {
        Disk {
            root: root.to_owned(),
            state: Mutex::new(State::empty()),
        }
    }

    /// Returns the folder in which the files are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts<'p>(&self, path: &'p Path) -> Option<Vec<&'p str>> {
        let below = path.strip_prefix(&self.root).ok()?;
        below.iter().map(|part| part.to_str()).collect()
    }

    /// A folder was made.
    pub fn made_folder(&self, path: &Path) {
        let Some(parts) = self.parts(path) else { return };
        let mut state = self.lock();
        let node = state.add(Node::Folder(Folder::default()));
        state.name(&parts, Some(node));
    }

    /// A file was made, which has this number.
    pub fn made_file(&self, path: &Path, number: u64) {
        let Some(parts) = self.parts(path) else { return };
        let mut state = self.lock();
        let node = state.add(Node::File(File::default()));
        state.numbers.insert(number, node);
        state.name(&parts, Some(node));
    }

    /// A file was removed.
    pub fn removed(&self, path: &Path) {
        let Some(parts) = self.parts(path) else { return };
        self.lock().name(&parts, None);
    }

    /// A folder was removed past this disk, with all that was in it.
    pub fn forget(&self, path: &Path) {
        let Some(parts) = self.parts(path) else { return };
        let mut state = self.lock();
        let Some((name, parent)) = parts.split_last() else {
            return;
        };
        let Some(parent) = state.find(parent) else { return };
        if let Some(Node::Folder(folder)) = state.nodes.get_mut(&parent) {
            folder.visible.remove(*name);
            folder.durable.remove(*name);
            folder.pending.retain(|change| change.name != *name);
        }
    }

    /// A file or folder was renamed.
    pub fn renamed(&self, from: &Path, to: &Path) {
        let (Some(old), Some(new)) = (self.parts(from), self.parts(to)) else {
            return;
        };
        let mut state = self.lock();
        if state.find(&old).is_none() {
            // It was made past this disk.
            state.import(to, &new);
            return;
        }
        let node = state.find(&old);
        let operation = state.operation;
        state.name(&old, None);
        state.operation = operation;
        state.name(&new, node);
    }

    /// Bytes of a file were written.
    pub fn wrote(&self, number: u64, path: &Path, offset: u64, bytes: &[u8]) {
        self.changed(number, path, Data::Write(offset, bytes.to_vec()));
    }

    /// The length of a file was set.
    pub fn set_length(&self, number: u64, path: &Path, length: u64) {
        self.changed(number, path, Data::Length(length));
    }

    /// Space of a file was reserved.
    pub fn reserved(&self, number: u64, path: &Path, end: u64) {
        self.changed(number, path, Data::Reserve(end));
    }

    fn changed(&self, number: u64, path: &Path, what: Data) {
        let mut state = self.lock();
        if let Some(file) = self.file(&mut state, number, path)
            && !file.is_direct
        {
            what.apply(&mut file.visible);
            file.pending.push(DataChange { what, is_lost: false });
        }
    }

    fn file<'s>(&self, state: &'s mut State, number: u64, path: &Path) -> Option<&'s mut File> {
        if !state.numbers.contains_key(&number) {
            let parts = self.parts(path)?;
            state.import(path, &parts);
            let node = state.find(&parts)?;
            state.numbers.insert(number, node);
        }
        let node = state.numbers.get(&number)?;
        match state.nodes.get_mut(node)? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    /// A file was synced.
    pub fn synced(&self, number: u64, path: &Path) {
        let mut state = self.lock();
        if let Some(file) = self.file(&mut state, number, path) {
            file.sync();
        }
    }

    /// The sync of a file failed. What was written before may be lost, although it is still read, and no later sync
    /// makes it durable.
    pub fn sync_failed(&self, number: u64, path: &Path, chance: &mut Random) {
        let mut state = self.lock();
        if let Some(file) = self.file(&mut state, number, path) {
            for change in &mut file.pending {
                change.is_lost |= chance.chance(60);
            }
        }
    }

    /// The names in a folder were synced.
    pub fn synced_folder(&self, path: &Path) {
        let Some(parts) = self.parts(path) else { return };
        let mut state = self.lock();
        let Some(node) = state.find(&parts) else { return };
        let Some(Node::Folder(folder)) = state.nodes.get(&node) else {
            return;
        };
        let done: BTreeSet<u64> = folder.pending.iter().map(|change| change.operation).collect();
        for node in state.nodes.values_mut() {
            let Node::Folder(folder) = node else { continue };
            for change in std::mem::take(&mut folder.pending) {
                if done.contains(&change.operation) {
                    change.apply(&mut folder.durable)
                } else {
                    folder.pending.push(change)
                }
            }
        }
    }

    /// Returns what a loss of power leaves now.
    pub fn lose_power(&self, chance: &mut Random) -> Remains {
        let mut state = self.lock();
        state.adopt(ROOT, &self.root);
        let survivors = state.surviving_names(chance);
        Remains(state.left(ROOT, &survivors, chance))
    }

    /// Puts the disk in the state in which a loss of power left it.
    ///
    /// # Errors
    /// The folder of the disk cannot be written.
    pub fn restore(&self, remains: Remains) -> io::Result<()> {
        self.clear()?;
        let mut state = self.lock();
        let made = state.restored(&self.root, remains.0)?;
        state.nodes.insert(ROOT, Node::Folder(made));
        Ok(())
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The folder of the disk cannot be written.
    pub fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?
            } else {
                fs::remove_file(path)?
            }
        }
        *self.lock() = State::empty();
        Ok(())
    }
}

impl State {
    fn empty() -> State {
        State {
            nodes: BTreeMap::from([(ROOT, Node::Folder(Folder::default()))]),
            numbers: BTreeMap::new(),
            next: ROOT + 1,
            operation: 0,
        }
    }

    fn add(&mut self, node: Node) -> u64 {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    fn find(&self, parts: &[&str]) -> Option<u64> {
        parts
            .iter()
            .try_fold(ROOT, |at, part| match self.nodes.get(&at)? {
                Node::Folder(folder) => folder.visible.get(*part).copied(),
                Node::File(_) => None,
            })
    }

    /// Gives a name to a node, or takes it away.
    fn name(&mut self, parts: &[&str], node: Option<u64>) {
        let operation = self.operation;
        self.operation += 1;
        let Some((name, parent)) = parts.split_last() else {
            return;
        };
        let Some(parent) = self.find(parent) else { return };
        let Some(Node::Folder(folder)) = self.nodes.get_mut(&parent) else {
            return;
        };
        let change = NameChange {
            operation,
            name: (*name).to_owned(),
            node,
        };
        change.clone().apply(&mut folder.visible);
        folder.pending.push(change);
    }

    /// Takes up a file or folder that was made past this disk; all of it counts as durable.
    fn import(&mut self, path: &Path, parts: &[&str]) {
        let Some((name, parent)) = parts.split_last() else {
            return;
        };
        let Some(parent) = self.find(parent) else { return };
        let Some(node) = self.read(path) else { return };
        if let Some(Node::Folder(folder)) = self.nodes.get_mut(&parent) {
            folder.visible.insert((*name).to_owned(), node);
            folder.durable.insert((*name).to_owned(), node);
        }
    }

    fn read(&mut self, path: &Path) -> Option<u64> {
        if path.is_dir() {
            let node = self.add(Node::Folder(Folder::default()));
            self.adopt(node, path);
            return Some(node);
        }
        let durable = fs::read(path).ok()?;
        Some(self.add(Node::File(File::new(durable, true))))
    }

    /// Takes up what was changed past this disk in a folder and below.
    fn adopt(&mut self, node: u64, path: &Path) {
        let Ok(entries) = fs::read_dir(path) else { return };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        let Some(Node::Folder(folder)) = self.nodes.get_mut(&node) else {
            return;
        };
        let gone = |name: &String| names.binary_search(name).is_err();
        let lost: Vec<String> = folder.visible.keys().filter(|name| gone(name)).cloned().collect();
        for name in lost {
            folder.visible.remove(&name);
            folder.durable.remove(&name);
            folder.pending.retain(|change| change.name != name);
        }
        let known = folder.visible.clone();
        for name in names {
            let path = path.join(&name);
            match known.get(&name).map(|known| (*known, self.nodes.get_mut(known))) {
                Some((known, Some(Node::Folder(_)))) => self.adopt(known, &path),
                Some((_, Some(Node::File(file)))) if file.is_direct => {
                    file.durable = fs::read(&path).unwrap_or_default();
                }
                Some(_) => {}
                None => {
                    let Some(made) = self.read(&path) else { continue };
                    if let Some(Node::Folder(folder)) = self.nodes.get_mut(&node) {
                        folder.visible.insert(name.clone(), made);
                        folder.durable.insert(name, made);
                    }
                }
            }
        }
    }

    /// Chooses the changes of names that survive: none, all, the first, or any.
    fn surviving_names(&self, chance: &mut Random) -> BTreeSet<u64> {
        let folders = self.nodes.values().filter_map(|node| match node {
            Node::Folder(folder) => Some(&folder.pending),
            Node::File(_) => None,
        });
        let all: BTreeSet<u64> = folders.flatten().map(|change| change.operation).collect();
        match chance.below(4) {
            0 => BTreeSet::new(),
            1 => all,
            2 => {
                let first = chance.below(all.len() + 1);
                all.into_iter().take(first).collect()
            }
            _ => all.into_iter().filter(|_| chance.chance(50)).collect(),
        }
    }

    fn left(&self, folder: u64, survivors: &BTreeSet<u64>, chance: &mut Random) -> BTreeMap<String, Left> {
        let Some(Node::Folder(folder)) = self.nodes.get(&folder) else {
            return BTreeMap::new();
        };
        let mut names = folder.durable.clone();
        for change in &folder.pending {
            if survivors.contains(&change.operation) {
                change.clone().apply(&mut names);
            }
        }
        let left = names.into_iter().filter_map(|(name, node)| {
            let left = match self.nodes.get(&node)? {
                Node::Folder(_) => Left::Folder(self.left(node, survivors, chance)),
                Node::File(file) => Left::File(file.left(chance)),
            };
            Some((name, left))
        });
        left.collect()
    }

    fn restored(&mut self, path: &Path, left: BTreeMap<String, Left>) -> io::Result<Folder> {
        let mut folder = Folder::default();
        for (name, left) in left {
            let path = path.join(&name);
            let node = match left {
                Left::Folder(below) => {
                    fs::create_dir(&path)?;
                    let made = self.restored(&path, below)?;
                    self.add(Node::Folder(made))
                }
                Left::File(durable) => {
                    fs::write(&path, &durable)?;
                    let number = number(&fs::metadata(&path)?);
                    let node = self.add(Node::File(File::new(durable, false)));
                    self.numbers.insert(number, node);
                    node
                }
            };
            folder.visible.insert(name.clone(), node);
            folder.durable.insert(name, node);
        }
        Ok(folder)
    }
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, u64>) {
        match self.node {
            Some(node) => names.insert(self.name, node),
            None => names.remove(&self.name),
        };
    }
}

impl File {
    fn new(bytes: Vec<u8>, is_direct: bool) -> File {
        File {
            visible: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
            is_direct,
        }
    }

    /// Copies a sector of what is read to another version of the file.
    fn copy_sector(&self, sector: usize, to: &mut [u8]) {
        let range = |length: usize| (sector * SECTOR).min(length)..((sector + 1) * SECTOR).min(length);
        let length = self.visible.len().min(to.len());
        if let (Some(from), Some(to)) = (self.visible.get(range(length)), to.get_mut(range(length))) {
            to.copy_from_slice(from);
        }
    }

    fn sync(&mut self) {
        let mut durable = std::mem::take(&mut self.durable);
        if self.pending.iter().any(|change| !change.is_lost) {
            durable.resize(self.visible.len(), 0);
        }
        for change in self.pending.iter().filter(|change| !change.is_lost) {
            for sector in change.what.sectors() {
                self.copy_sector(sector, &mut durable);
            }
        }
        self.durable = durable;
        self.pending.retain(|change| change.is_lost);
    }

    /// The bytes that survive: without the changes since the last sync, with all of them, with the first and some
    /// sectors of the next, with any sectors, or with the length alone.
    fn left(&self, chance: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match chance.below(5) {
            0 => {}
            1 => bytes.clone_from(&self.visible),
            2 => {
                let kept: Vec<&Data> = self.kept().collect();
                let whole = chance.below(kept.len() + 1);
                for change in kept.iter().take(whole) {
                    change.apply(&mut bytes);
                }
                if let Some(Data::Write(offset, part)) = kept.get(whole) {
                    let start = *offset as usize;
                    // A sector is written whole, so a torn write ends where one does.
                    let end = (start + chance.below(part.len() + 1)) / SECTOR * SECTOR;
                    let part = part.get(..end.saturating_sub(start)).unwrap_or_default();
                    Data::Write(*offset, part.to_vec()).apply(&mut bytes);
                }
            }
            3 => {
                bytes.resize(self.visible.len(), 0);
                for change in self.kept() {
                    for sector in change.sectors() {
                        if chance.chance(50) {
                            self.copy_sector(sector, &mut bytes);
                        }
                    }
                }
            }
            _ => bytes.resize(self.visible.len(), 0),
        }
        bytes
    }

    fn kept(&self) -> impl Iterator<Item = &Data> {
        let kept = self.pending.iter().filter(|change| !change.is_lost);
        kept.map(|change| &change.what)
    }
}

impl Data {
    /// The sectors that it writes.
    fn sectors(&self) -> std::ops::Range<usize> {
        match self {
            Data::Write(offset, part) => {
                let start = *offset as usize;
                start / SECTOR..(start + part.len()).div_ceil(SECTOR)
            }
            // The device has the length beside the bytes.
            Data::Length(_) | Data::Reserve(_) => 0..0,
        }
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Data::Write(offset, part) => {
                let start = *offset as usize;
                let end = start + part.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                if let Some(slot) = bytes.get_mut(start..end) {
                    slot.copy_from_slice(part);
                }
            }
            Data::Length(length) => bytes.resize(*length as usize, 0),
            Data::Reserve(end) => bytes.resize(bytes.len().max(*end as usize), 0),
        }
    }
}

/// The number by which the system knows a file.
#[cfg(unix)]
pub fn number(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// The number by which the system knows a file.
#[cfg(not(unix))]
pub fn number(_: &fs::Metadata) -> u64 {
    0
}
