//! Entry points for `tests/fuzz`: parsers of the output of models and programs, without server and process.

use orchestra_config::ProviderKind;
use orchestra_engine::{BackendError, Usage};

use crate::cli_backend::{CliOutput, parse_output};
use crate::model::{ModelError, ModelReply};
use crate::providers::read_body;

/// Parses the body of an answer of a model, which arrives in pieces.
///
/// # Errors
/// Returns an error if the body is not a valid answer of such a model.
pub fn model_answer(
    kind: ProviderKind,
    model: &str,
    content_type: &str,
    pieces: &[&[u8]],
    on_text: &mut dyn FnMut(&str),
) -> Result<ModelReply, ModelError> {
    read_body(kind, model, content_type, pieces, on_text)
}

/// Parses the standard output and error of a coding agent. Returns its answer and its usage.
pub fn program_answer(
    form: &CliOutput,
    stdout: &str,
    stderr: &str,
) -> (Result<String, BackendError>, Option<Usage>) {
    parse_output(form, stdout, stderr)
}
