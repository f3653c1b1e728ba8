//! How commands last ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::root;

/// How one run of a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Whether it succeeded and, where it runs tests, all that it names ran.
    pub passed: bool,
    /// Its last telling line.
    pub summary: String,
    /// How long it took, in whole seconds.
    pub seconds: u64,
}

/// The last outcome of each command, by its line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Results(pub BTreeMap<String, Outcome>);

impl Results {
    /// Reads `results.json`; a missing file holds no results.
    ///
    /// # Errors
    /// The file is there, but cannot be read.
    pub fn read() -> Result<Results, String> {
        let path = root().join("tests/reliability/results.json");
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Writes `results.json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> Result<(), String> {
        let path = root().join("tests/reliability/results.json");
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Describes the last outcome of a command for the table.
    pub fn reported(&self, line: &str) -> String {
        match self.0.get(line) {
            None => "not run yet".to_owned(),
            Some(outcome) => {
                let word = if outcome.passed { "passed" } else { "**FAILED**" };
                format!("{word} in {} s, {}", outcome.seconds, outcome.summary)
            }
        }
    }
}
