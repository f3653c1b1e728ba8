//! Checks that a schema is valid, and uses only what `validate` understands.

use std::collections::{HashMap, HashSet};

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::error::SchemaError;
use super::keywords::{ANNOTATIONS, COMBINED, COUNTS, DEFINITIONS, NUMBERS, TYPES, replacement, supported};
use crate::contract::key_error;
use crate::diagnostic::did_you_mean;

/// Checks a schema, and that it describes an object whose properties can be context keys.
pub(super) fn check(document: &Value) -> Result<(), SchemaError> {
    let Value::Object(fields) = document else {
        return Err(SchemaError::new(
            "",
            "the schema is not a JSON object",
            "write a schema such as `{\"type\": \"object\", \"properties\": {..}}`",
        ));
    };
    let mut checker = Checker::default();
    checker.schema(document, "")?;
    checker.references(document)?;
    if fields.get("type").and_then(Value::as_str) != Some("object") {
        return Err(SchemaError::new(
            "",
            "the schema does not describe an object",
            "write `\"type\": \"object\"` at its top level, with the values of the answer as `properties`",
        ));
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        return Err(SchemaError::new(
            "",
            "the schema names no properties",
            "write the values of the answer as `properties`; they become context values",
        ));
    };
    for key in properties.keys() {
        if let Some(error) = key_error(key) {
            let pointer = join("/properties", key);
            let message = format!("a property becomes a context value, but {}", error.message);
            return Err(SchemaError::new(pointer, message, error.help));
        }
    }
    Ok(())
}

/// Returns the pointer to a member.
pub(super) fn join(pointer: &str, member: &str) -> String {
    format!("{pointer}/{}", member.replace('~', "~0").replace('/', "~1"))
}

#[derive(Default)]
struct Checker<'s> {
    /// The addresses of all schemas: the top level and everything nested in it.
    schemas: HashSet<*const Value>,
    /// Each reference, with the pointer to it.
    references: Vec<(&'s str, String)>,
    /// The schemas that apply to the same value as a schema.
    in_place: HashMap<*const Value, Vec<&'s Value>>,
}

impl<'s> Checker<'s> {
    fn schema(&mut self, schema: &'s Value, pointer: &str) -> Result<(), SchemaError> {
        self.schemas.insert(std::ptr::from_ref(schema));
        let fields = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(fields) => fields,
            _ => {
                return Err(SchemaError::new(
                    pointer,
                    "expected a schema",
                    "write a JSON object, `true` or `false`",
                ));
            }
        };
        fields
            .iter()
            .try_for_each(|(keyword, value)| self.keyword(schema, keyword, value, &join(pointer, keyword)))?;
        ranges(fields, pointer)
    }

    fn keyword(
        &mut self,
        schema: &'s Value,
        keyword: &str,
        value: &'s Value,
        pointer: &str,
    ) -> Result<(), SchemaError> {
        let expected = |what: &str| {
            Err(SchemaError::new(
                pointer,
                format!("expected {what}"),
                format!("write {what} as the value of `{keyword}`"),
            ))
        };
        match keyword {
            "type" => types(value, pointer)?,
            "enum" => match value.as_array() {
                Some(values) if !values.is_empty() => {}
                _ => return expected("a list of values"),
            },
            "const" => {}
            "pattern" => {
                let Some(pattern) = value.as_str() else {
                    return expected("a regular expression");
                };
                if let Err(error) = Regex::new(pattern) {
                    return Err(SchemaError::new(
                        pointer,
                        format!("unsupported regular expression: {error}"),
                        "write a regular expression without look-around and backreferences",
                    ));
                }
            }
            "required" => {
                let names = value.as_array();
                if !names.is_some_and(|names| names.iter().all(Value::is_string)) {
                    return expected("a list of names");
                }
                self.required(schema, value, pointer)?;
            }
            "uniqueItems" if value.is_boolean() => {}
            "uniqueItems" => return expected("`true` or `false`"),
            "$ref" => match value.as_str() {
                Some(reference) => self.references.push((reference, pointer.to_owned())),
                None => return expected("a reference such as `#/$defs/item`"),
            },
            "items" | "additionalProperties" => {
                if value.is_array() {
                    return Err(SchemaError::new(
                        pointer,
                        "expected a schema, found a list",
                        "write the list as `prefixItems`",
                    ));
                }
                self.schema(value, pointer)?;
            }
            "not" => {
                self.same_value(schema, value);
                self.schema(value, pointer)?;
            }
            "properties" => self.map(value, pointer)?,
            keyword if DEFINITIONS.contains(&keyword) => self.map(value, pointer)?,
            keyword if COMBINED.contains(&keyword) || keyword == "prefixItems" => {
                let Some(schemas) = value.as_array().filter(|schemas| !schemas.is_empty()) else {
                    return expected("a list of schemas");
                };
                for (index, inner) in schemas.iter().enumerate() {
                    if keyword != "prefixItems" {
                        self.same_value(schema, inner);
                    }
                    self.schema(inner, &join(pointer, &index.to_string()))?;
                }
            }
            keyword if COUNTS.contains(&keyword) && value.as_u64().is_none() => {
                return expected("a whole number of at least 0");
            }
            "multipleOf" if value.as_f64().is_none_or(|number| number <= 0.0) => {
                return expected("a number greater than 0");
            }
            keyword if NUMBERS.contains(&keyword) && !value.is_number() => return expected("a number"),
            "$schema" if !value.is_string() => return expected("the address of a version of JSON Schema"),
            keyword
                if COUNTS.contains(&keyword)
                    || NUMBERS.contains(&keyword)
                    || ANNOTATIONS.contains(&keyword)
                    || keyword.starts_with("x-") => {}
            unknown => return Err(unsupported(unknown, pointer)),
        }
        Ok(())
    }

    fn same_value(&mut self, schema: &'s Value, inner: &'s Value) {
        let schemas = self.in_place.entry(std::ptr::from_ref(schema)).or_default();
        schemas.push(inner);
    }

    fn map(&mut self, value: &'s Value, pointer: &str) -> Result<(), SchemaError> {
        let Some(schemas) = value.as_object() else {
            return Err(SchemaError::new(
                pointer,
                "expected an object",
                "write an object with a schema for each name",
            ));
        };
        schemas
            .iter()
            .try_for_each(|(name, schema)| self.schema(schema, &join(pointer, name)))
    }

    /// Reports a required property that the schema forbids, which no answer can satisfy.
    fn required(&self, schema: &Value, names: &Value, pointer: &str) -> Result<(), SchemaError> {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Ok(());
        }
        let known = schema.get("properties").and_then(Value::as_object);
        let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
        let mut names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(name) = names.find(|name| !is_known(name)) {
            let known = known.into_iter().flat_map(Map::keys).map(String::as_str);
            let help = match did_you_mean(name, known) {
                Some(near) => format!("write `{near}`"),
                None => "add it to `properties`, or remove it from `required`".to_owned(),
            };
            let message = format!("the required property `{name}` is not in `properties`");
            return Err(SchemaError::new(pointer, message, help));
        }
        Ok(())
    }

    /// Checks that references lead to schemas, and that no schema applies to a value because it applies to it.
    fn references(&mut self, document: &'s Value) -> Result<(), SchemaError> {
        let mut owners: Vec<(*const Value, &str)> = Vec::new();
        for (reference, pointer) in &self.references {
            let target = target(document, reference);
            let target = target.filter(|target| self.schemas.contains(&std::ptr::from_ref(*target)));
            let Some(target) = target else {
                let help = if reference.starts_with('#') {
                    "refer to a schema of this file, such as `#/$defs/item`"
                } else {
                    "copy the schema into `$defs` of this file, and refer to it there"
                };
                return Err(SchemaError::new(
                    pointer,
                    format!("no schema `{reference}`"),
                    help,
                ));
            };
            let owner = pointer.strip_suffix("/$ref").unwrap_or_default();
            if let Some(owner) = document.pointer(owner) {
                owners.push((std::ptr::from_ref(owner), pointer));
                let schemas = self.in_place.entry(std::ptr::from_ref(owner)).or_default();
                schemas.push(target);
            }
        }
        match self.cycle(owners.iter().map(|(owner, _)| *owner)) {
            Some(cycle) => {
                let first = owners.iter().find(|(owner, _)| cycle.contains(owner));
                let pointer = first.map_or("", |(_, pointer)| pointer);
                Err(SchemaError::new(
                    pointer,
                    "the schema refers to itself for the same value",
                    "let it refer to itself only for the items or properties of the value",
                ))
            }
            None => Ok(()),
        }
    }

    /// Returns the schemas on a cycle of schemas that apply to the same value. Each cycle contains one of the schemas that
    /// refer to others, so the search begins at these.
    fn cycle(&self, referring: impl Iterator<Item = *const Value>) -> Option<Vec<*const Value>> {
        let mut done: HashSet<*const Value> = HashSet::new();
        for first in referring {
            let mut open: Vec<(*const Value, usize)> = vec![(first, 0)];
            while let Some((schema, next)) = open.pop() {
                if done.contains(&schema) {
                    continue;
                }
                let inner = self.in_place.get(&schema).and_then(|inner| inner.get(next));
                let Some(inner) = inner else {
                    done.insert(schema);
                    continue;
                };
                open.push((schema, next + 1));
                let inner = std::ptr::from_ref(*inner);
                if let Some(at) = open.iter().position(|(open, _)| *open == inner) {
                    let cycle = open.split_off(at).into_iter();
                    return Some(cycle.map(|(schema, _)| schema).collect());
                }
                open.push((inner, 0));
            }
        }
        None
    }
}

/// Returns the part of a schema that a reference means.
pub(super) fn target<'s>(document: &'s Value, reference: &str) -> Option<&'s Value> {
    document.pointer(reference.strip_prefix('#')?)
}

fn types(value: &Value, pointer: &str) -> Result<(), SchemaError> {
    let names: Vec<&Value> = match value {
        Value::Array(names) if !names.is_empty() => names.iter().collect(),
        Value::String(_) => vec![value],
        _ => {
            return Err(SchemaError::new(
                pointer,
                "expected a type",
                format!("write one of `{}`, or a list of them", TYPES.join("`, `")),
            ));
        }
    };
    for name in names {
        let name = name.as_str().unwrap_or_default();
        if !TYPES.contains(&name) {
            let meant = meant_type(name).or_else(|| did_you_mean(name, TYPES.iter().copied()));
            let help = match meant {
                Some(near) => format!("write `{near}`"),
                None => format!("the types are `{}`", TYPES.join("`, `")),
            };
            return Err(SchemaError::new(pointer, format!("unknown type `{name}`"), help));
        }
    }
    Ok(())
}

/// Returns the type that a name of another language means.
fn meant_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "text" | "str" => "string",
        "int" | "long" => "integer",
        "float" | "double" => "number",
        "bool" => "boolean",
        "list" => "array",
        "map" | "dict" => "object",
        "none" | "nil" => "null",
        _ => return None,
    })
}

/// Reports a minimum above the maximum.
fn ranges(fields: &Map<String, Value>, pointer: &str) -> Result<(), SchemaError> {
    for (low, high) in [
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
        ("minimum", "maximum"),
    ] {
        let number = |keyword: &str| fields.get(keyword).and_then(Value::as_f64);
        if let (Some(least), Some(most)) = (number(low), number(high))
            && least > most
        {
            return Err(SchemaError::new(
                join(pointer, low),
                format!("`{low}` is greater than `{high}`"),
                "no value satisfies both; correct one of them",
            ));
        }
    }
    Ok(())
}

fn unsupported(keyword: &str, pointer: &str) -> SchemaError {
    if let Some(help) = replacement(keyword) {
        return SchemaError::new(pointer, format!("the keyword `{keyword}` is not supported"), help);
    }
    let help = match did_you_mean(keyword, supported()) {
        Some(near) => format!("write `{near}`"),
        None => "remove it, or let it begin with `x-` if it is an annotation".to_owned(),
    };
    SchemaError::new(pointer, format!("unknown keyword `{keyword}`"), help)
}
