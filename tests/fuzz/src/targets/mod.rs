//! What is fuzzed: one row for each kind of text or bytes that Orchestra reads.
//!
//! Whoever adds a reader adds a row: requests of HTTP and messages of the language server get theirs with the server
//! and the language server.

mod configuration;
mod language;
mod models;
mod people;
mod rendering;
mod repositories;
mod run_folder;

use crate::Random;

/// Something that reads bytes.
pub struct Target {
    /// The name: of the option `--target`, and of the folders of corpus and regressions.
    pub name: &'static str,
    /// Feeds an input to what reads it, and panics where a property does not hold.
    pub run: fn(&[u8]),
    /// Makes an input that is sound, or nearly.
    pub generate: fn(&mut Random) -> Vec<u8>,
    /// The inputs that mutations begin from, beside the files in `corpus/TARGET`.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// What mutations insert.
    pub words: &'static [&'static str],
    /// How many inputs the suite runs.
    pub suite: u64,
    /// The longer command divides its number of inputs by this: where an input takes a millisecond and more.
    pub share: u64,
}

/// All targets.
pub static TARGETS: &[Target] = &[
    language::DOT,
    language::FORMAT,
    language::CODEGEN,
    language::CONDITION,
    language::STYLESHEET,
    language::VALUES,
    configuration::CONFIGURATION,
    configuration::LAYERS,
    configuration::SCRIPT,
    configuration::TEMPLATE,
    models::MODEL_STREAM,
    models::MODEL_BODY,
    models::PROGRAM_OUTPUT,
    run_folder::JOURNAL,
    run_folder::CHECKPOINT,
    run_folder::MANIFEST,
    run_folder::STAGE_STATUS,
    run_folder::RECOVERY,
    run_folder::EVENTS,
    people::CONTROL,
    people::ARGUMENTS,
    people::REDACTION,
    repositories::GIT_OUTPUT,
    rendering::DIAGNOSTICS,
    rendering::PICTURES,
];

impl Target {
    /// The target of a name.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// No inputs beside those of the folder.
fn no_corpus() -> Vec<Vec<u8>> {
    Vec::new()
}

/// Chance that depends on the input alone.
fn chance_of(input: &[u8]) -> Random {
    let mixed = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Random::new(mixed)
}
