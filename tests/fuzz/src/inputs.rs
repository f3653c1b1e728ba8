//! The inputs of a target, each a function of seed and number.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Random;
use crate::mutate::{mutate, raw};
use crate::targets::Target;

/// The inputs of a target.
pub struct Inputs<'t> {
    target: &'t Target,
    corpus: Vec<Vec<u8>>,
}

impl<'t> Inputs<'t> {
    /// Reads the corpus of a target.
    ///
    /// # Panics
    /// A file of the corpus cannot be read.
    pub fn new(target: &'t Target) -> Inputs<'t> {
        let mut corpus = (target.corpus)();
        corpus.extend(files(&folder("corpus").join(target.name)));
        Inputs { target, corpus }
    }

    /// The files that mutations begin from.
    pub fn corpus(&self) -> &[Vec<u8>] {
        &self.corpus
    }

    /// Input number `number` of a seed. The first are the files of the corpus as they are.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        if let Some(file) = usize::try_from(number).ok().and_then(|at| self.corpus.get(at)) {
            return file.clone();
        }
        let own = self.target.name.bytes().fold(seed, |mixed, byte| {
            mixed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(byte)
        });
        let mut random = Random::new(own.wrapping_add(number));
        match random.weighted(&[35, 30, 25, 10]) {
            0 if !self.corpus.is_empty() => {
                let file = random.pick(&self.corpus).clone();
                mutate(file, &mut random, self.target.words, &self.corpus)
            }
            0 | 1 => (self.target.generate)(&mut random),
            2 => {
                let text = (self.target.generate)(&mut random);
                mutate(text, &mut random, self.target.words, &self.corpus)
            }
            _ => raw(&mut random, self.target.words),
        }
    }
}

/// A folder of this crate.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The contents of the files in a folder, in the order of their names; none where there is no folder.
pub(crate) fn files(folder: &Path) -> Vec<Vec<u8>> {
    named_files(folder).into_iter().map(|(_, bytes)| bytes).collect()
}

/// As [`files`], with their paths.
pub(crate) fn named_files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.retain(|path| path.is_file());
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}
