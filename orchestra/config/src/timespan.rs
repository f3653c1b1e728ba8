//! Spans of time.

use std::time::Duration;

use crate::decode::{Decode, Diagnostics};
use crate::tree::Tree;

/// A span of time, written as in pipelines: `250ms`, `30s`, `15m`, `2h`, `1d`.
///
/// ```
/// use std::time::Duration;
/// use orchestra_config::Timespan;
/// assert_eq!(Timespan(Duration::from_secs(90)).as_secs(), 90);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timespan(pub Duration);

impl std::ops::Deref for Timespan {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl Decode for Timespan {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Timespan> {
        Duration::decode(tree, diagnostics).map(Timespan)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timespan {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timespan".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A span of time, such as `250ms`, `30s`, `15m`, `2h` or `1d`; a bare number means seconds.",
            "anyOf": [
                {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"},
                {"type": "integer", "minimum": 0},
            ],
        })
    }
}
