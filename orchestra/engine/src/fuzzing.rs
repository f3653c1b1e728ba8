//! What `tests/fuzz` calls: readers of what a run folder holds and of what stages write, without the files around them.

use std::path::Path;

use orchestra_core::{Answer, Outcome};
use serde_json::{Map, Value};

use crate::builtin::{output, status};
use crate::control;
use crate::store::{Checkpoint, Manifest, Position, StoreError, scan};

/// Reads the records of a journal, and how many bytes of a torn line are behind them.
///
/// # Errors
/// The journal is damaged.
pub fn journal(bytes: &[u8]) -> Result<(Vec<Vec<u8>>, u64), StoreError> {
    let found = scan(
        Path::new("journal.jsonl"),
        bytes.to_vec(),
        Position::default(),
        u64::MAX,
    )?;
    let torn = found.torn.map_or(0, |torn| torn.bytes);
    Ok((found.iter().map(<[u8]>::to_vec).collect(), torn))
}

/// Reads a checkpoint.
///
/// # Errors
/// It is damaged, or of an unknown form.
pub fn checkpoint(bytes: &[u8]) -> Result<Checkpoint, StoreError> {
    Checkpoint::read(Path::new("checkpoint.json"), bytes)
}

/// Reads a manifest.
///
/// # Errors
/// It is damaged, or of an unknown form.
pub fn manifest(bytes: &[u8]) -> Result<Manifest, StoreError> {
    Manifest::read(Path::new("manifest.json"), bytes)
}

/// Reads the `status.json` that a stage wrote.
///
/// # Errors
/// Says in one line why it cannot be used.
pub fn stage_status(bytes: &[u8]) -> Result<Outcome, String> {
    status::parse(bytes)
}

/// Reads the last JSON object of a response.
///
/// # Errors
/// Says in one line what was found instead.
pub fn output_object(response: &str) -> Result<Map<String, Value>, String> {
    output::last_object(response)
}

/// Reads a request to the owner of a run; returns it as it is written again, with the answer that it brings.
pub fn control_request(bytes: &[u8]) -> Option<(Vec<u8>, Option<Answer>)> {
    control::reread(bytes)
}
