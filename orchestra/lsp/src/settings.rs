//! The settings that the client sends, as `initializationOptions` and in `workspace/didChangeConfiguration`.

use serde::Deserialize;

/// The settings of a client. Unknown keys are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// The codes of warnings and notes that are not reported.
    pub(crate) allow: Vec<String>,
    /// The codes of warnings and notes that are reported as errors; `warnings` means all warnings.
    pub(crate) deny: Vec<String>,
    /// Whether the client runs commands of the command line in a terminal.
    pub(crate) terminal: bool,
    /// The time in milliseconds without a change after which changed files are analysed.
    pub(crate) delay: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            allow: Vec::new(),
            deny: Vec::new(),
            terminal: false,
            delay: 50,
        }
    }
}

impl Settings {
    /// Reads the settings, which some clients send below the key `orchestra`.
    pub(crate) fn from_json(mut json: serde_json::Value) -> Option<Settings> {
        let value = json
            .get_mut("orchestra")
            .map(serde_json::Value::take)
            .unwrap_or(json);
        serde_json::from_value(value).ok()
    }
}
