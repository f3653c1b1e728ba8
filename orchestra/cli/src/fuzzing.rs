//! Entry points for `tests/fuzz`: parsers of command line values.

use orchestra_graph::{Contract, Pipeline};
use serde_json::Value;

/// Parses the values of `--set`.
///
/// # Errors
///
/// Returns the reason if they cannot be parsed.
pub fn parameters(pairs: &[String]) -> Result<Vec<(String, Value)>, String> {
    let contract = Contract::default();
    crate::project::parameters::parameters(pairs, &contract).map_err(|error| error.to_string())
}

/// Checks the values of `--answer`.
///
/// # Errors
///
/// Returns the reason if they are not valid answers.
pub fn answers(pairs: &[String], pipeline: &Pipeline) -> Result<(), String> {
    let given = crate::questions::answers::parse_answers(pairs, pipeline, &Default::default());
    given.map(drop).map_err(|error| error.to_string())
}
