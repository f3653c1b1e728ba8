//! The types of attribute values, and the conversion of values to them (rule L6).

use std::time::Duration;

use crate::condition::{self, parse_condition};
use crate::value::Value;

/// The type of the value of a known attribute (rule L6).
///
/// ```
/// use orchestra_graph::{AttributeType, Known, Value};
/// let ty = Known::Timeout.spec().ty;
/// assert_eq!(ty, AttributeType::Duration);
/// assert_eq!(ty.coerce(&Value::Integer(90)).expect("seconds").to_string(), "90s");
/// assert_eq!(ty.coerce(&Value::Boolean(true)), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeType {
    /// Any text. Other values are converted to text.
    String,
    /// A whole number of at least this size.
    Integer(i64),
    /// A decimal number in this range.
    Float(f64, f64),
    /// `true` or `false`.
    Boolean,
    /// `true`, `false` or the text of a condition.
    Condition,
    /// A length of time. A bare whole number means seconds.
    Duration,
    /// One of these words.
    Word(&'static [&'static str]),
    /// The id of a node.
    Node,
    /// ASCII letters, digits and `_`, or nothing.
    Name,
    /// Keys, or pairs of keys `new=old`, separated by commas; see [`key_pairs`](crate::key_pairs).
    Pairs,
    /// Names of environment variables, separated by commas.
    Variables,
}

impl AttributeType {
    /// Returns the description used in messages, such as "a whole number".
    pub fn describe(self) -> String {
        match self {
            AttributeType::String => "text".to_owned(),
            AttributeType::Integer(min) if min > i64::MIN => format!("a whole number of at least {min}"),
            AttributeType::Integer(_) => "a whole number".to_owned(),
            AttributeType::Float(min, max) if max < f64::MAX => format!("a number from {min} to {max}"),
            AttributeType::Float(min, _) => format!("a number of at least {min}"),
            AttributeType::Boolean => "`true` or `false`".to_owned(),
            AttributeType::Condition => "`true`, `false` or a condition such as `outcome=success`".to_owned(),
            AttributeType::Duration => {
                "a duration such as `250ms`, `900s`, `15m`, `2h` or `1d` (a bare whole number means seconds)"
                    .to_owned()
            }
            AttributeType::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", words.join(", "))
            }
            AttributeType::Node => "the id of a node".to_owned(),
            AttributeType::Name => "a name of ASCII letters, digits and `_`".to_owned(),
            AttributeType::Pairs => "keys or pairs of keys such as `a,b=c`, separated by commas".to_owned(),
            AttributeType::Variables => "names of environment variables, separated by commas".to_owned(),
        }
    }

    /// Converts a value to this type. Returns `None` if that would need guessing.
    pub fn coerce(self, value: &Value) -> Option<Value> {
        let text = value.as_str().map(str::trim);
        match (self, value) {
            (AttributeType::String | AttributeType::Node, Value::String(_)) => Some(value.clone()),
            (AttributeType::String | AttributeType::Node, other) => {
                Some(Value::String(other.to_string().into()))
            }
            (AttributeType::Name, _) => {
                let name = value.to_string();
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                name.bytes().all(is_name).then(|| Value::String(name.into()))
            }
            (AttributeType::Integer(min), Value::Integer(number)) => (*number >= min).then(|| value.clone()),
            (AttributeType::Integer(min), Value::Float(_) | Value::String(_)) => {
                let number = whole_number(value)?;
                (number >= min).then_some(Value::Integer(number))
            }
            (AttributeType::Float(min, max), Value::Integer(_) | Value::Float(_) | Value::String(_)) => {
                let number = match value {
                    Value::Integer(number) => *number as f64,
                    Value::Float(number) => *number,
                    _ => text?.parse::<f64>().ok()?,
                };
                (number >= min && number <= max).then_some(Value::Float(number))
            }
            (AttributeType::Boolean, Value::Boolean(_)) => Some(value.clone()),
            (AttributeType::Boolean, Value::String(_)) => text?.parse().ok().map(Value::Boolean),
            (AttributeType::Condition, Value::Boolean(_)) => Some(value.clone()),
            (AttributeType::Condition, Value::String(_)) => match text?.parse() {
                Ok(flag) => Some(Value::Boolean(flag)),
                Err(_) => is_condition(text?).then(|| value.clone()),
            },
            (AttributeType::Duration, Value::Duration(_)) => Some(value.clone()),
            (AttributeType::Duration, Value::Integer(seconds)) => u64::try_from(*seconds)
                .ok()
                .map(|seconds| Value::Duration(Duration::from_secs(seconds))),
            (AttributeType::Duration, Value::String(_)) => match Value::of_word(text?) {
                Value::String(_) => None,
                other => self.coerce(&other),
            },
            (AttributeType::Word(words), Value::String(_)) => {
                let text = text?;
                words.contains(&text).then(|| Value::String(text.into()))
            }
            (AttributeType::Pairs, Value::String(text)) => key_pairs(text).is_some().then(|| value.clone()),
            (AttributeType::Variables, Value::String(text)) => {
                let mut names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                let impossible = |character: char| character.is_whitespace() || "=\0".contains(character);
                names
                    .all(|name| !name.contains(impossible))
                    .then(|| value.clone())
            }
            (AttributeType::Word(words), Value::Boolean(_)) => {
                let text = value.to_string();
                words.contains(&text.as_str()).then(|| Value::String(text.into()))
            }
            _ => None,
        }
    }
}

/// Returns the value as a whole number. Also accepts `2.0` and numbers in quotes.
fn whole_number(value: &Value) -> Option<i64> {
    /// The largest magnitude up to which a float represents every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = match value {
        Value::Float(number) => *number,
        other => {
            let text = other.as_str()?.trim();
            if let Ok(number) = text.parse() {
                return Some(number);
            }
            condition::number(text)?
        }
    };
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// Returns whether a text is meant as a condition: either a valid one, or an invalid one that `condition_syntax`
/// reports.
fn is_condition(text: &str) -> bool {
    let is_sound = !text.is_empty() && parse_condition(text).is_ok();
    is_sound || text.contains(['=', '<', '>', '!', '&', '|', '(', ' '])
}

/// Parses the pairs of a `subpipeline.inputs` or `subpipeline.outputs` into new key and old key. A key alone keeps its
/// name. Returns `None` if the text is not such a list.
///
/// ```
/// use orchestra_graph::key_pairs;
/// assert_eq!(key_pairs("release, version=tag"), Some(vec![("release", "release"), ("version", "tag")]));
/// assert_eq!(key_pairs(""), Some(Vec::new()));
/// assert_eq!(key_pairs("version="), None);
/// ```
pub fn key_pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let key = |text: &str| !text.is_empty() && !text.contains(|c: char| c == '=' || c.is_whitespace());
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (new, old) = part.split_once('=').unwrap_or((part, part));
            let (new, old) = (new.trim(), old.trim());
            (key(new) && key(old)).then_some((new, old))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::AttributeType::{Boolean, Condition, Duration as Time, Integer, Name, Pairs, Variables};
    use super::*;

    #[test]
    fn coercion_accepts_quoted_scalars_and_refuses_nonsense() {
        assert_eq!(
            Boolean.coerce(&Value::String("true".into())),
            Some(Value::Boolean(true))
        );
        assert_eq!(
            Integer(0).coerce(&Value::String("3".into())),
            Some(Value::Integer(3))
        );
        assert_eq!(Integer(0).coerce(&Value::Integer(-3)), None);
        let whole = |value: Value| Integer(i64::MIN).coerce(&value);
        assert_eq!(whole(Value::Float(2.0)), Some(Value::Integer(2)));
        assert_eq!(whole(Value::String("-2.0".into())), Some(Value::Integer(-2)));
        assert_eq!(whole(Value::Float(2.5)), None);
        assert_eq!(whole(Value::Float(1e300)), None);
        assert_eq!(whole(Value::String("inf".into())), None);
        assert_eq!(Integer(0).coerce(&Value::Float(-2.0)), None);
        let gate = |text: &str| Condition.coerce(&Value::String(text.into()));
        assert_eq!(gate(" true "), Some(Value::Boolean(true)));
        assert_eq!(
            gate("outcome = success"),
            Some(Value::String("outcome = success".into()))
        );
        assert!(gate("outcme=success").is_some(), "`condition_syntax` reports it");
        assert_eq!(gate("yes"), None);
        assert_eq!(gate(""), None);
        assert_eq!(
            Time.coerce(&Value::Integer(5)),
            Some(Value::Duration(Duration::from_secs(5)))
        );
        assert_eq!(Time.coerce(&Value::String("soon".into())), None);
        let pairs = |text: &str| Pairs.coerce(&Value::String(text.into())).is_some();
        assert!(pairs("release, child.version=version") && pairs(""));
        let name = |text: &str| Name.coerce(&Value::String(text.into())).is_some();
        assert!(name("gpu_2") && name("") && !name("gpu-2") && !name("two words") && !name("größe"));
        let variables = |text: &str| Variables.coerce(&Value::String(text.into())).is_some();
        assert!(variables("CI, GITHUB_TOKEN,") && variables(""));
        assert!(!variables("CI=true") && !variables("CI GITHUB_TOKEN"));
        assert!(!pairs("a=") && !pairs("=b") && !pairs("a=b=c") && !pairs("two words"));
    }
}
