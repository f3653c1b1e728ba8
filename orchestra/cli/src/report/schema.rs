//! The JSON form of reports.

use serde::Serialize;

/// The JSON form of a report, with its schema.
#[derive(Serialize)]
pub(crate) struct WithSchema<'a, T> {
    pub(crate) schema: &'static str,
    #[serde(flatten)]
    pub(crate) content: &'a T,
}

impl<T: Serialize> WithSchema<'_, T> {
    /// Returns the report as one line of JSON.
    pub(crate) fn line(&self) -> String {
        // It contains only text and numbers, so serialization cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
