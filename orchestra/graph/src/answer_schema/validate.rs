//! Validates a value by a schema that `supported` has accepted.

use std::collections::HashSet;

use regex_lite::Regex;
use serde_json::{Map, Number, Value};

use super::supported::{join, target};
use crate::contract::describe;

/// Maximum number of violations in a message.
const MAX_VIOLATIONS: usize = 10;
/// Maximum number of schemas that are applied to one answer.
const MAX_STEPS: usize = 200_000;
/// Maximum nesting depth of schemas that are being applied.
const MAX_DEPTH: usize = 300;
/// Maximum number of words of an `enum` in a message.
const MAX_WORDS: usize = 12;

/// Validates an answer. Returns a message that names the violations.
pub(super) fn validate(document: &Value, answer: &Value) -> Result<(), String> {
    let mut validation = Validation {
        document,
        steps: 0,
        depth: 0,
    };
    let mut violations = Vec::new();
    validation.apply(document, answer, "", &mut violations);
    let more = violations.len().saturating_sub(MAX_VIOLATIONS);
    violations.truncate(MAX_VIOLATIONS);
    if more > 0 {
        violations.push(format!("{more} more violations"));
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(violations.join("; "))
    }
}

struct Validation<'s> {
    document: &'s Value,
    steps: usize,
    depth: usize,
}

/// Returns the name of a value in a message.
fn at(pointer: &str) -> String {
    match pointer {
        "" => "the answer".to_owned(),
        pointer => format!("`{pointer}`"),
    }
}

impl<'s> Validation<'s> {
    /// Applies a schema to a value, and adds the violations.
    fn apply(&mut self, schema: &'s Value, value: &Value, pointer: &str, violations: &mut Vec<String>) {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.depth > MAX_DEPTH {
            // A violation in any case: what was not validated is not accepted.
            return violations.push(format!("{} is too large to be validated", at(pointer)));
        }
        let fields = match schema {
            Value::Bool(false) => {
                return violations.push(format!("{} is not allowed", at(pointer)));
            }
            Value::Object(fields) => fields,
            _ => return,
        };
        self.depth += 1;
        if has_type(fields, value, pointer, violations) {
            self.combined(fields, value, pointer, violations);
            one_of_values(fields, value, pointer, violations);
            match value {
                Value::Number(number) => range(fields, number, pointer, violations),
                Value::String(text) => string(fields, text, pointer, violations),
                Value::Array(items) => self.array(fields, items, pointer, violations),
                Value::Object(members) => self.object(fields, members, pointer, violations),
                _ => {}
            }
        }
        self.depth -= 1;
    }

    /// Returns whether a value satisfies a schema.
    fn satisfies(&mut self, schema: &'s Value, value: &Value, pointer: &str) -> bool {
        let mut violations = Vec::new();
        self.apply(schema, value, pointer, &mut violations);
        violations.is_empty()
    }

    fn combined(
        &mut self,
        fields: &'s Map<String, Value>,
        value: &Value,
        pointer: &str,
        violations: &mut Vec<String>,
    ) {
        let reference = fields.get("$ref").and_then(Value::as_str);
        if let Some(schema) = reference.and_then(|reference| target(self.document, reference)) {
            self.apply(schema, value, pointer, violations);
        }
        let list = |keyword: &str| fields.get(keyword).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.apply(schema, value, pointer, violations);
        }
        if let Some(schemas) = list("anyOf") {
            self.any_of(schemas, value, pointer, violations);
        }
        if let Some(schemas) = list("oneOf") {
            let satisfied = schemas
                .iter()
                .filter(|schema| self.satisfies(schema, value, pointer))
                .count();
            match satisfied {
                1 => {}
                0 => self.any_of(schemas, value, pointer, violations),
                more => violations.push(format!(
                    "{} fits {more} schemas of `oneOf`, and must fit one",
                    at(pointer)
                )),
            }
        }
        if let Some(schema) = fields.get("not")
            && self.satisfies(schema, value, pointer)
        {
            violations.push(format!(
                "{} is a value that the schema excludes (`not`)",
                at(pointer)
            ));
        }
    }

    /// Applies alternatives. If none fits, the violations are those of the alternative with the fewest.
    fn any_of(&mut self, schemas: &'s [Value], value: &Value, pointer: &str, violations: &mut Vec<String>) {
        let mut nearest: Option<Vec<String>> = None;
        for schema in schemas {
            let mut found = Vec::new();
            self.apply(schema, value, pointer, &mut found);
            if found.is_empty() {
                return;
            }
            // A schema of the same type as the value is nearer than one of another type.
            let rank =
                |found: &[String]| (found.iter().any(|one| one.starts_with(&at(pointer))), found.len());
            if nearest.as_deref().is_none_or(|known| rank(&found) < rank(known)) {
                nearest = Some(found);
            }
        }
        let nearest = nearest.unwrap_or_default().join(", ");
        violations.push(format!(
            "{} fits none of {} schemas; the nearest: {nearest}",
            at(pointer),
            schemas.len()
        ));
    }

    fn array(
        &mut self,
        fields: &'s Map<String, Value>,
        items: &[Value],
        pointer: &str,
        violations: &mut Vec<String>,
    ) {
        count(
            fields,
            ("minItems", "maxItems"),
            items.len(),
            ("item", "items"),
            pointer,
            violations,
        );
        if fields.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut known = HashSet::new();
            if !items.iter().all(|item| known.insert(item.to_string())) {
                violations.push(format!("{} must not contain an item twice", at(pointer)));
            }
        }
        let first = fields.get("prefixItems").and_then(Value::as_array);
        let first = first.map_or(&[] as &[Value], Vec::as_slice);
        let rest = fields.get("items");
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or(rest) {
                self.apply(schema, item, &join(pointer, &index.to_string()), violations);
            }
        }
    }

    fn object(
        &mut self,
        fields: &'s Map<String, Value>,
        members: &Map<String, Value>,
        pointer: &str,
        violations: &mut Vec<String>,
    ) {
        let limits = ("minProperties", "maxProperties");
        count(
            fields,
            limits,
            members.len(),
            ("property", "properties"),
            pointer,
            violations,
        );
        let required = fields.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                violations.push(format!("`{}` is missing", join(pointer, name)));
            }
        }
        let properties = fields.get("properties").and_then(Value::as_object);
        let others = fields.get("additionalProperties");
        for (name, member) in members {
            let schema = properties.and_then(|properties| properties.get(name));
            let inner = join(pointer, name);
            match (schema, others) {
                (Some(schema), _) => self.apply(schema, member, &inner, violations),
                (None, Some(Value::Bool(false))) => {
                    violations.push(format!("`{inner}` is not a property of the schema"));
                }
                (None, Some(schema)) => self.apply(schema, member, &inner, violations),
                (None, None) => {}
            }
        }
    }
}

fn has_type(fields: &Map<String, Value>, value: &Value, pointer: &str, violations: &mut Vec<String>) -> bool {
    let names: Vec<&str> = match fields.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return true,
    };
    let fits = |name: &&str| match (*name, value) {
        ("string", Value::String(_))
        | ("number", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("null", Value::Null)
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        // As the type `int` of declared values.
        ("integer", Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    };
    if names.iter().any(fits) {
        return true;
    }
    let names: Vec<&str> = names
        .into_iter()
        .map(|name| match name {
            "string" => "a text",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "`true` or `false`",
            "null" => "null",
            "array" => "a list",
            _ => "an object",
        })
        .collect();
    let found = describe(value);
    violations.push(format!(
        "{} must be {}, but is {found}",
        at(pointer),
        names.join(" or ")
    ));
    false
}

fn one_of_values(fields: &Map<String, Value>, value: &Value, pointer: &str, violations: &mut Vec<String>) {
    if let Some(values) = fields.get("enum").and_then(Value::as_array)
        && !values.iter().any(|known| is_same(known, value))
    {
        let shown: Vec<String> = values
            .iter()
            .take(MAX_WORDS)
            .map(|value| format!("`{value}`"))
            .collect();
        let more = if values.len() > MAX_WORDS { ", .." } else { "" };
        violations.push(format!(
            "{} must be one of {}{more}, but is {}",
            at(pointer),
            shown.join(", "),
            describe(value)
        ));
    }
    if let Some(known) = fields.get("const")
        && !is_same(known, value)
    {
        violations.push(format!(
            "{} must be {}, but is {}",
            at(pointer),
            describe(known),
            describe(value)
        ));
    }
}

/// Returns whether two values are equal; `1` and `1.0` are.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other).is_eq(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && std::iter::zip(one, other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

/// Returns a whole number exactly.
fn whole(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn compare(one: &Number, other: &Number) -> std::cmp::Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        // Numbers of JSON are finite.
        _ => {
            // A negative zero is a zero.
            let float = |number: &Number| number.as_f64().unwrap_or_default() + 0.0;
            float(one).total_cmp(&float(other))
        }
    }
}

fn range(fields: &Map<String, Value>, number: &Number, pointer: &str, violations: &mut Vec<String>) {
    let limit = |keyword: &str| match fields.get(keyword) {
        Some(Value::Number(limit)) => Some((limit, compare(number, limit))),
        _ => None,
    };
    let mut must = |what: String| violations.push(format!("{} must be {what}, but is {number}", at(pointer)));
    if let Some((limit, order)) = limit("minimum")
        && order.is_lt()
    {
        must(format!("at least {limit}"));
    }
    if let Some((limit, order)) = limit("maximum")
        && order.is_gt()
    {
        must(format!("at most {limit}"));
    }
    if let Some((limit, order)) = limit("exclusiveMinimum")
        && order.is_le()
    {
        must(format!("greater than {limit}"));
    }
    if let Some((limit, order)) = limit("exclusiveMaximum")
        && order.is_ge()
    {
        must(format!("less than {limit}"));
    }
    if let Some((unit, _)) = limit("multipleOf")
        && !is_multiple(number, unit)
    {
        must(format!("a multiple of {unit}"));
    }
}

fn is_multiple(number: &Number, unit: &Number) -> bool {
    /// The error of a quotient of two decimal fractions.
    const ERROR: f64 = 1e-9;
    match (whole(number), whole(unit)) {
        (Some(number), Some(unit)) if unit != 0 => number % unit == 0,
        _ => {
            let quotient = number.as_f64().unwrap_or_default() / unit.as_f64().unwrap_or(1.0);
            (quotient - quotient.round()).abs() <= ERROR * quotient.abs().max(1.0)
        }
    }
}

fn string(fields: &Map<String, Value>, text: &str, pointer: &str, violations: &mut Vec<String>) {
    let length = text.chars().count();
    count(
        fields,
        ("minLength", "maxLength"),
        length,
        ("character", "characters"),
        pointer,
        violations,
    );
    let pattern = fields.get("pattern").and_then(Value::as_str);
    if let Some(pattern) = pattern
        && !Regex::new(pattern).is_ok_and(|expression| expression.is_match(text))
    {
        violations.push(format!("{} must match `{pattern}`", at(pointer)));
    }
}

fn count(
    fields: &Map<String, Value>,
    (low, high): (&str, &str),
    found: usize,
    (one, many): (&str, &str),
    pointer: &str,
    violations: &mut Vec<String>,
) {
    let limit = |keyword: &str| fields.get(keyword).and_then(Value::as_u64);
    let unit = |number: u64| if number == 1 { one } else { many };
    let found = found as u64;
    if let Some(least) = limit(low)
        && found < least
    {
        violations.push(format!(
            "{} must have at least {least} {}, but has {found}",
            at(pointer),
            unit(least)
        ));
    }
    if let Some(most) = limit(high)
        && found > most
    {
        violations.push(format!(
            "{} must have at most {most} {}, but has {found}",
            at(pointer),
            unit(most)
        ));
    }
}
