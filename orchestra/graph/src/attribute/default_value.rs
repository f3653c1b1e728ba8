//! The defaults of attributes, as typed constants.

use std::fmt;
use std::time::Duration;

use crate::value::format_duration;

/// The default of a known attribute: the value that applies if nothing sets it.
///
/// ```
/// use std::time::Duration;
/// use orchestra_graph::{AttributeDefault, Known};
/// let default = Known::PollInterval.spec().default.expect("it has one");
/// assert_eq!(default, AttributeDefault::Duration(Duration::from_secs(45)));
/// assert_eq!(default.to_string(), "45s");
/// assert_eq!(Known::Timeout.spec().default, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeDefault {
    /// Text.
    String(&'static str),
    /// A whole number.
    Integer(i64),
    /// A decimal number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A length of time.
    Duration(Duration),
}

impl fmt::Display for AttributeDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeDefault::String(text) => f.write_str(text),
            AttributeDefault::Integer(number) => write!(f, "{number}"),
            AttributeDefault::Float(number) => write!(f, "{number}"),
            AttributeDefault::Boolean(value) => write!(f, "{value}"),
            AttributeDefault::Duration(duration) => f.write_str(&format_duration(*duration)),
        }
    }
}
