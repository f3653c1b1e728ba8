//! The pipelines of the examples, and the scripts that are to drive them down each of their edges.
//!
//! `examples/NAME/NAME.dot` is driven by the scripts in `examples/NAME/simulations`; another pipeline beside it, such as
//! a child, by those in the folder there that bears its name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// A pipeline of an example.
#[derive(Debug)]
pub struct ExamplePipeline {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// The scripts that drive it, in the order of their names.
    pub scripts: Vec<PathBuf>,
}

/// The folder of all examples.
///
/// # Panics
/// It is not there.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    folder.canonicalize().unwrap()
}

/// All pipelines of all examples, in the order of their names.
///
/// # Panics
/// The folder cannot be read.
pub fn pipelines() -> Vec<ExamplePipeline> {
    let examples = entries(&folder()).into_iter().filter(|path| path.is_dir());
    examples.flat_map(|example| of_example(&example)).collect()
}

fn of_example(example: &Path) -> Vec<ExamplePipeline> {
    let pipelines = with_ending(example, "dot").into_iter().map(|file| {
        let name = name(&file);
        let mut scripts = example.join("simulations");
        if name != self::name(example) {
            scripts.push(&name);
        }
        ExamplePipeline {
            name,
            scripts: with_ending(&scripts, "yaml"),
            file,
        }
    });
    pipelines.collect()
}

/// What a folder holds, in order; nothing where it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    if !folder.exists() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn with_ending(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let has_ending = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
    entries(folder).into_iter().filter(has_ending).collect()
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}
