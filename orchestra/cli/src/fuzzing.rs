//! What `tests/fuzz` calls: readers of what stands on the command line.

use orchestra_graph::Pipeline;
use serde_json::Value;

/// Reads the values of `--set`.
///
/// # Errors
/// Says why they cannot be read.
pub fn parameters(pairs: &[String]) -> Result<Vec<(String, Value)>, String> {
    crate::parameters::parameters(pairs).map_err(|error| error.to_string())
}

/// Checks the values of `--answer`.
///
/// # Errors
/// Says why they answer nothing.
pub fn answers(pairs: &[String], pipeline: &Pipeline) -> Result<(), String> {
    let given = crate::answers::given(pairs, pipeline, &[]);
    given.map(drop).map_err(|error| error.to_string())
}
