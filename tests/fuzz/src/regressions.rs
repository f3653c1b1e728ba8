//! Inputs that failed once: `regressions/TARGET/*`.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::PathBuf;

use crate::inputs::{folder, named_files};
use crate::targets::Target;

/// The inputs of a target that failed once, with their paths.
pub fn regressions(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    named_files(&folder("regressions").join(target.name))
}

/// Keeps an input that failed.
///
/// # Errors
/// The file cannot be written.
pub fn keep(target: &Target, input: &[u8]) -> io::Result<PathBuf> {
    let folder = folder("regressions").join(target.name);
    fs::create_dir_all(&folder)?;
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder.join(format!("{:016x}", hasher.finish()));
    fs::write(&path, input)?;
    Ok(path)
}
