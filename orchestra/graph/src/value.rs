//! Typed attribute values (Attractor 2.4, rule L4).

use std::fmt;
use std::time::Duration;

use smol_str::SmolStr;

/// A typed attribute value (Attractor 2.4, rule L4).
///
/// ```
/// use orchestra_graph::{Source, Value, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy, replicas=3, wait=90s] }";
/// let graph = load(Source::new("a.dot", text), &Default::default()).graph;
/// let ship = graph.node(graph.find("ship").expect("declared"));
/// let value = |name| ship.attributes.find(name).map(|attribute| &attribute.value);
/// assert_eq!(value("replicas"), Some(&Value::Integer(3)));
/// assert_eq!(value("wait").expect("set").type_name(), "duration");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text: quoted, or an unquoted word of no other type. Short texts, as most are, need no allocation.
    String(SmolStr),
    /// A whole number.
    Integer(i64),
    /// A decimal number.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A length of time, such as `900s`.
    Duration(Duration),
}

impl Value {
    /// Returns the value of an unquoted word: a number, boolean or duration if it has that form, else text.
    ///
    /// ```
    /// use orchestra_graph::Value;
    /// use std::time::Duration;
    /// assert_eq!(Value::of_word("15m"), Value::Duration(Duration::from_secs(900)));
    /// assert_eq!(Value::of_word("gpt-5.2"), Value::String("gpt-5.2".into()));
    /// ```
    pub fn of_word(word: &str) -> Value {
        match word.as_bytes().first() {
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => parse_number(word)
                .or_else(|| parse_duration(word).map(Value::Duration))
                .unwrap_or_else(|| Value::String(word.into())),
            _ => match word {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => Value::String(word.into()),
            },
        }
    }

    /// Returns the name of the value's type as shown in messages.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::Integer(_) => "integer",
            Value::Float(_) => "float",
            Value::Boolean(_) => "boolean",
            Value::Duration(_) => "duration",
        }
    }

    /// Returns the text of a string value, or `None` for any other type.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => f.write_str(text),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Duration(duration) => f.write_str(&format_duration(*duration)),
        }
    }
}

fn parse_number(word: &str) -> Option<Value> {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    let shaped = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1;
    if !shaped {
        return None;
    }
    if let Ok(number) = word.parse::<i64>() {
        return Some(Value::Integer(number));
    }
    let number = word.parse::<f64>().ok()?;
    (digits.contains('.') && number.is_finite()).then_some(Value::Float(number))
}

/// Parses a duration: a whole number followed by `ms`, `s`, `m`, `h` or `d` (rule L4).
///
/// Returns `None` for any other text, and if the number is too large.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(orchestra_graph::parse_duration("250ms"), Some(Duration::from_millis(250)));
/// assert_eq!(orchestra_graph::parse_duration("soon"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text.get(..digits)?.parse::<u64>().ok()?;
    match text.get(digits..)? {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3_600).map(Duration::from_secs),
        "d" => number.checked_mul(86_400).map(Duration::from_secs),
        _ => None,
    }
}

/// Formats a duration in the largest unit that divides it evenly. Fractions of a millisecond are dropped.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(orchestra_graph::format_duration(Duration::from_secs(900)), "15m");
/// ```
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if millis.is_multiple_of(length) {
            return format!("{}{unit}", millis / length);
        }
    }
    format!("{millis}ms")
}
