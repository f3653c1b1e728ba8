//! Keys of attributes: known ones, and any others.

use std::fmt;
use std::sync::Arc;

use super::table::Known;

/// The key of an attribute. Unknown keys are preserved (rule L7).
///
/// ```
/// use orchestra_graph::{Key, Known};
/// assert_eq!(Key::from_name("backoff_policy"), Key::Known(Known::RetryPolicy));
/// assert_eq!(Key::from_name("backoff_policy").name(), "retry_policy");
/// assert_eq!(Key::from_name("registry"), Key::Other("registry".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A key that the language defines.
    Known(Known),
    /// Any other key. Handlers may read it.
    Other(Arc<str>),
}

impl Key {
    /// Returns the key for a name or alias.
    pub fn from_name(name: &str) -> Key {
        Known::find(name).map_or_else(|| Key::Other(name.into()), Key::Known)
    }

    /// Returns the canonical name.
    pub fn name(&self) -> &str {
        match self {
            Key::Known(known) => known.name(),
            Key::Other(name) => name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
