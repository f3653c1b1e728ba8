//! The types of declared context values.

use std::fmt;

use serde_json::Value;

/// Maximum number of characters of a value in a message.
const SHOWN: usize = 40;

/// The type of a declared context value.
///
/// ```
/// use orchestra_graph::ValueType;
/// let verdict = ValueType::Words(vec!["approve".to_owned(), "revise".to_owned()]);
/// assert_eq!(verdict.to_string(), "approve|revise");
/// assert!(verdict.accepts(&"approve".into()) && !verdict.accepts(&"reject".into()));
/// assert_eq!(ValueType::Integer.parse_text("42"), Some(42.into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueType {
    /// `any`: any value except null.
    Any,
    /// `text`: a string.
    Text,
    /// `int`: a whole number of 64 bits.
    Integer,
    /// `number`: any number.
    Number,
    /// `bool`: `true` or `false`.
    Boolean,
    /// `a|b`: one of some words.
    Words(Vec<String>),
    /// `list<T>`: a list whose items have a type. `list` is `list<any>`.
    List(Box<ValueType>),
    /// `object`: a JSON object.
    Object,
}

impl ValueType {
    /// The names of the types without parameters.
    ///
    /// ```
    /// assert!(orchestra_graph::ValueType::NAMES.contains(&"text"));
    /// ```
    pub const NAMES: &'static [&'static str] = &["any", "text", "int", "number", "bool", "list", "object"];

    /// Returns the type of a name.
    pub(crate) fn from_name(name: &str) -> Option<ValueType> {
        Some(match name {
            "any" => ValueType::Any,
            "text" => ValueType::Text,
            "int" => ValueType::Integer,
            "number" => ValueType::Number,
            "bool" => ValueType::Boolean,
            "list" => ValueType::List(Box::new(ValueType::Any)),
            "object" => ValueType::Object,
            _ => return None,
        })
    }

    /// Returns whether every value of this type is one of another type.
    pub(crate) fn fits(&self, wanted: &ValueType) -> bool {
        match (self, wanted) {
            (_, ValueType::Any)
            | (ValueType::Integer, ValueType::Number)
            | (ValueType::Words(_), ValueType::Text) => true,
            (ValueType::Words(own), ValueType::Words(wanted)) => own.iter().all(|word| wanted.contains(word)),
            (ValueType::List(own), ValueType::List(wanted)) => own.fits(wanted),
            (own, wanted) => own == wanted,
        }
    }

    /// Returns `true` if a value has this type.
    pub fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (ValueType::Any, value) => !value.is_null(),
            (ValueType::Text, Value::String(_))
            | (ValueType::Number, Value::Number(_))
            | (ValueType::Boolean, Value::Bool(_))
            | (ValueType::Object, Value::Object(_)) => true,
            (ValueType::Integer, Value::Number(number)) => number.is_i64() || number.is_u64(),
            (ValueType::Words(words), Value::String(text)) => words.contains(text),
            (ValueType::List(item), Value::Array(values)) => values.iter().all(|value| item.accepts(value)),
            _ => false,
        }
    }

    /// Parses the text of a value, as a person gives it on a command line. Returns `None` if the text is not of this
    /// type.
    ///
    /// ```
    /// use orchestra_graph::ValueType;
    /// assert_eq!(ValueType::Text.parse_text("1.10"), Some("1.10".into()));
    /// assert_eq!(ValueType::Number.parse_text("1.5"), Some(1.5.into()));
    /// assert_eq!(ValueType::Boolean.parse_text("yes"), None);
    /// ```
    pub fn parse_text(&self, text: &str) -> Option<Value> {
        let value = match self {
            ValueType::Text | ValueType::Words(_) => Value::String(text.to_owned()),
            ValueType::Any => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
            _ => serde_json::from_str(text.trim()).ok()?,
        };
        self.accepts(&value).then_some(value)
    }

    /// Returns a value of this type for a simulated run. `name` describes a text.
    ///
    /// ```
    /// use orchestra_graph::ValueType;
    /// assert_eq!(ValueType::Text.example("summary"), "[Simulated] summary");
    /// assert_eq!(ValueType::Integer.example("score"), 0);
    /// ```
    pub fn example(&self, name: &str) -> Value {
        match self {
            ValueType::Any | ValueType::Text => Value::String(format!("[Simulated] {name}")),
            ValueType::Integer | ValueType::Number => Value::from(0),
            ValueType::Boolean => Value::Bool(false),
            ValueType::Words(words) => words
                .first()
                .map_or(Value::Null, |word| Value::String(word.clone())),
            // With one item, the branch of a fan-out over the list runs once.
            ValueType::List(item) => Value::Array(vec![item.example(name)]),
            ValueType::Object => Value::Object(serde_json::Map::new()),
        }
    }

    /// Returns the JSON schema of the type.
    ///
    /// ```
    /// use orchestra_graph::ValueType;
    /// let flags = ValueType::List(Box::new(ValueType::Boolean));
    /// assert_eq!(flags.json_schema(), serde_json::json!({"type": "array", "items": {"type": "boolean"}}));
    /// ```
    pub fn json_schema(&self) -> Value {
        match self {
            ValueType::Any => serde_json::json!({}),
            ValueType::Text => serde_json::json!({"type": "string"}),
            ValueType::Integer => serde_json::json!({"type": "integer"}),
            ValueType::Number => serde_json::json!({"type": "number"}),
            ValueType::Boolean => serde_json::json!({"type": "boolean"}),
            ValueType::Words(words) => serde_json::json!({"type": "string", "enum": words}),
            ValueType::List(item) => serde_json::json!({"type": "array", "items": item.json_schema()}),
            ValueType::Object => serde_json::json!({"type": "object"}),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Any => f.write_str("any"),
            ValueType::Text => f.write_str("text"),
            ValueType::Integer => f.write_str("int"),
            ValueType::Number => f.write_str("number"),
            ValueType::Boolean => f.write_str("bool"),
            ValueType::Words(words) => f.write_str(&words.join("|")),
            ValueType::List(item) if **item == ValueType::Any => f.write_str("list"),
            ValueType::List(item) => write!(f, "list<{item}>"),
            ValueType::Object => f.write_str("object"),
        }
    }
}

/// Returns a value as a message shows it.
pub(crate) fn describe(value: &Value) -> String {
    let short = |text: String| {
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push_str("..");
        }
        shown
    };
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            let shown: String = text.chars().take(SHOWN).collect();
            let cut = if shown.len() < text.len() { ".." } else { "" };
            format!("the text {shown:?}{cut}")
        }
        Value::Array(_) => format!("the list {}", short(value.to_string())),
        Value::Object(_) => format!("the object {}", short(value.to_string())),
    }
}
