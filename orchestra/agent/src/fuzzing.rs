//! What `tests/fuzz` calls: readers of what models and programs write, without the server and the process around them.

use orchestra_engine::{BackendError, Usage};

use crate::cli_backend::{CliOutput, written};
use crate::model::{ModelError, ModelReply};
use crate::providers::{ProviderKind, read_body};

/// Reads the body of an answer of a model, which comes in pieces.
///
/// # Errors
/// The body is no answer of such a model.
pub fn model_answer(
    kind: ProviderKind,
    model: &str,
    content_type: &str,
    pieces: &[&[u8]],
    on_text: &mut dyn FnMut(&str),
) -> Result<ModelReply, ModelError> {
    read_body(kind, model, content_type, pieces, on_text)
}

/// Reads what a coding agent wrote to its two outputs: its answer, and what it used.
pub fn program_answer(
    form: &CliOutput,
    stdout: &str,
    stderr: &str,
) -> (Result<String, BackendError>, Option<Usage>) {
    written(form, stdout, stderr)
}
