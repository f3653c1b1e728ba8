//! Entry points of `tests/fuzz`: parsers of the contents of run folders and of stage output, without the files.

use std::path::Path;

use orchestra_core::{Answer, Outcome};
use serde_json::{Map, Value};

use crate::builtin::{output, status};
use crate::control;
use crate::store::{CHECKPOINT, Checkpoint, JOURNAL, MANIFEST, Manifest, Position, StoreError, scan};

/// Parses the records of a journal. Returns them with the number of bytes of a torn line after them.
///
/// # Errors
/// The journal is damaged.
pub fn journal(bytes: &[u8]) -> Result<(Vec<Vec<u8>>, u64), StoreError> {
    let found = scan(Path::new(JOURNAL), bytes.to_vec(), Position::default(), u64::MAX)?;
    let torn = found.torn.map_or(0, |torn| torn.bytes);
    Ok((found.iter().map(<[u8]>::to_vec).collect(), torn))
}

/// Parses a checkpoint.
///
/// # Errors
/// The checkpoint is damaged or has an unknown format.
pub fn checkpoint(bytes: &[u8]) -> Result<Checkpoint, StoreError> {
    Checkpoint::read(Path::new(CHECKPOINT), bytes)
}

/// Parses a manifest.
///
/// # Errors
/// The manifest is damaged or has an unknown format.
pub fn manifest(bytes: &[u8]) -> Result<Manifest, StoreError> {
    Manifest::read(Path::new(MANIFEST), bytes)
}

/// Parses the `status.json` that a stage wrote.
///
/// # Errors
/// Returns a one-line message that says why it cannot be used.
pub fn stage_status(bytes: &[u8]) -> Result<Outcome, String> {
    status::parse(bytes)
}

/// Parses the last JSON object of a response.
///
/// # Errors
/// Returns a one-line message that says what was found instead.
pub fn output_object(response: &str) -> Result<Map<String, Value>, String> {
    output::last_object(response)
}

/// Parses a request to the owner of a run. Returns the request serialized again, with the answer that it contains.
pub fn control_request(bytes: &[u8]) -> Option<(Vec<u8>, Option<Answer>)> {
    control::reread(bytes)
}
