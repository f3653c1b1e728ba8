//! The context values that an answer sets, derived from its schema.

use serde_json::{Map, Value};

use super::supported::target;
use crate::contract::{Field, ValueType, parse_declarations};

/// Maximum number of references, alternatives and lists that are followed to find the type of a value.
const MAX_DEPTH: usize = 32;

/// Returns a field for each property of the top level, sorted by key.
pub(super) fn fields(document: &Value) -> Vec<Field> {
    let properties = document.get("properties").and_then(Value::as_object);
    let required = document.get("required").and_then(Value::as_array);
    let is_required = |key: &str| {
        let mut required = required.into_iter().flatten();
        required.any(|name| name.as_str() == Some(key))
    };
    let properties = properties.into_iter().flatten();
    properties
        .map(|(key, schema)| {
            let derived = derive(document, schema, MAX_DEPTH);
            Field {
                // Null stands for a missing value (rule T2).
                optional: derived.is_nullable || !is_required(key),
                value_type: writable(key, derived.value_type()),
                key: key.clone(),
            }
        })
        .collect()
}

/// The type of the values that a schema accepts.
struct Derived {
    /// `None` if it accepts only null.
    value_type: Option<ValueType>,
    is_nullable: bool,
}

impl Derived {
    fn plain(value_type: ValueType) -> Derived {
        Derived {
            value_type: Some(value_type),
            is_nullable: false,
        }
    }

    fn null() -> Derived {
        Derived {
            value_type: None,
            is_nullable: true,
        }
    }

    fn anything() -> Derived {
        Derived {
            value_type: Some(ValueType::Any),
            is_nullable: true,
        }
    }

    fn value_type(self) -> ValueType {
        self.value_type.unwrap_or(ValueType::Any)
    }
}

fn derive(document: &Value, schema: &Value, depth: usize) -> Derived {
    let (Value::Object(fields), Some(depth)) = (schema, depth.checked_sub(1)) else {
        return Derived::anything();
    };
    if let Some(values) = fields.get("enum").and_then(Value::as_array) {
        return of_values(values);
    }
    if let Some(value) = fields.get("const") {
        return of_values(std::slice::from_ref(value));
    }
    if let Some(derived) = of_type(document, fields, depth) {
        return derived;
    }
    let reference = fields.get("$ref").and_then(Value::as_str);
    if let Some(schema) = reference.and_then(|reference| target(document, reference)) {
        return derive(document, schema, depth);
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(schemas) = fields.get(keyword).and_then(Value::as_array) {
            return alternatives(schemas.iter().map(|schema| derive(document, schema, depth)));
        }
    }
    let all = fields
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut all = all.map(|schema| derive(document, schema, depth));
    let known = all.find(|derived| derived.value_type != Some(ValueType::Any));
    known.unwrap_or_else(Derived::anything)
}

/// Returns the type that `type` names; `None` if there is none.
fn of_type(document: &Value, fields: &Map<String, Value>, depth: usize) -> Option<Derived> {
    let names: Vec<&str> = match fields.get("type")? {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let derived = names.into_iter().map(|name| match name {
        "null" => Derived::null(),
        "string" => Derived::plain(ValueType::Text),
        "integer" => Derived::plain(ValueType::Integer),
        "number" => Derived::plain(ValueType::Number),
        "boolean" => Derived::plain(ValueType::Boolean),
        "object" => Derived::plain(ValueType::Object),
        "array" => {
            let items = fields
                .get("items")
                .filter(|_| !fields.contains_key("prefixItems"));
            let item = items.map(|items| derive(document, items, depth));
            let item = item.filter(|item| !item.is_nullable);
            let item = item.map_or(ValueType::Any, Derived::value_type);
            Derived::plain(ValueType::List(Box::new(item)))
        }
        _ => Derived::anything(),
    });
    Some(alternatives(derived))
}

fn of_values(values: &[Value]) -> Derived {
    let derived = values.iter().map(|value| match value {
        Value::Null => Derived::null(),
        Value::String(word) => Derived::plain(ValueType::Words(vec![word.clone()])),
        Value::Bool(_) => Derived::plain(ValueType::Boolean),
        Value::Number(number) if number.is_i64() || number.is_u64() => Derived::plain(ValueType::Integer),
        Value::Number(_) => Derived::plain(ValueType::Number),
        Value::Array(_) => Derived::plain(ValueType::List(Box::new(ValueType::Any))),
        Value::Object(_) => Derived::plain(ValueType::Object),
    });
    alternatives(derived)
}

/// Returns the type of values that have one of several types. Null is not a type of its own.
fn alternatives(all: impl Iterator<Item = Derived>) -> Derived {
    let mut is_nullable = false;
    let mut common: Option<ValueType> = None;
    for derived in all {
        is_nullable |= derived.is_nullable;
        common = match (common, derived.value_type) {
            (Some(known), Some(value_type)) => Some(union(known, value_type)),
            (known, value_type) => known.or(value_type),
        };
    }
    Derived {
        value_type: common,
        is_nullable,
    }
}

fn union(one: ValueType, other: ValueType) -> ValueType {
    match (one, other) {
        (ValueType::Words(mut one), ValueType::Words(other)) => {
            for word in other {
                if !one.contains(&word) {
                    one.push(word);
                }
            }
            ValueType::Words(one)
        }
        (one, other) if one.fits(&other) => other,
        (one, other) if other.fits(&one) => one,
        (ValueType::List(_), ValueType::List(_)) => ValueType::List(Box::new(ValueType::Any)),
        _ => ValueType::Any,
    }
}

/// Returns the type, or a wider one if it cannot be written as a declaration: words may hold any characters in a schema.
fn writable(key: &str, value_type: ValueType) -> ValueType {
    let is_writable = |value_type: &ValueType| {
        let parsed = parse_declarations(&format!("{key}: {value_type}"));
        let [Ok(entry)] = parsed.as_slice() else {
            return false;
        };
        entry
            .declared
            .as_ref()
            .is_some_and(|(parsed, _)| parsed == value_type)
    };
    if is_writable(&value_type) {
        return value_type;
    }
    let wider = match value_type {
        ValueType::Words(_) => ValueType::Text,
        ValueType::List(_) => ValueType::List(Box::new(ValueType::Any)),
        _ => ValueType::Any,
    };
    if is_writable(&wider) {
        wider
    } else {
        ValueType::Any
    }
}
