//! The pipeline of rows, as DOT in the form of the formatter.

use std::collections::HashSet;
use std::fmt::Write as _;

use orchestra_graph::{AttributeType, Key, Limits, Source, format, is_identifier, parse, parse_duration};
use serde_json::Value;

use crate::error::StationError;
use crate::rows::{AttributeValues, StationRow, TransitionRow, VersionText, WorkflowRows};

impl VersionText {
    /// Returns the text as DOT.
    ///
    /// # Errors
    ///
    /// Returns an error if a row cannot be printed: it has no id or an attribute name that DOT cannot have, a value of
    /// another type than text, number and boolean, or it names a station that does not exist.
    pub fn to_dot(&self) -> Result<String, StationError> {
        match self {
            VersionText::Dot(dot) => Ok(dot.clone()),
            VersionText::Rows(rows) => print(rows),
        }
    }
}

/// Prints rows as DOT.
pub(crate) fn print(rows: &WorkflowRows) -> Result<String, StationError> {
    let mut out = String::from("digraph ");
    if !rows.graph.is_empty() {
        let _ = write!(out, "{} ", quoted(&rows.graph));
    }
    out.push_str("{\n");
    let graph = Row("the graph".to_owned());
    let attributes = graph.list(&rows.attributes)?;
    if !attributes.is_empty() {
        let _ = writeln!(out, "graph [{}]", attributes.join(", "));
    }
    let mut known = HashSet::new();
    for station in &rows.stations {
        let row = Row(format!("station `{}`", station.node.escape_debug()));
        if !is_identifier(&station.node) {
            return Err(row.invalid("the id of a node consists of letters, digits and underscores, and does not begin with a digit"));
        }
        if !known.insert(station.node.as_str()) {
            return Err(row.invalid("there are two stations with this id"));
        }
        print_statement(&mut out, &quoted(&station.node), &row.station(station)?);
    }
    for transition in &rows.transitions {
        let TransitionRow { source, target, .. } = transition;
        let row = Row(format!(
            "transition `{} -> {}`",
            source.escape_debug(),
            target.escape_debug()
        ));
        for end in [source, target] {
            if !known.contains(end.as_str()) {
                return Err(row.invalid(&format!("there is no station `{}`", end.escape_debug())));
            }
        }
        let edge = format!("{} -> {}", quoted(source), quoted(target));
        print_statement(&mut out, &edge, &row.transition(transition)?);
    }
    out.push_str("}\n");
    let parsed = parse(&Source::new("rows.dot", out.as_str()), &Limits::default());
    Ok(format(&parsed).unwrap_or(out))
}

fn print_statement(out: &mut String, subject: &str, attributes: &[String]) {
    let _ = match attributes {
        [] => writeln!(out, "{subject}"),
        attributes => writeln!(out, "{subject} [{}]", attributes.join(", ")),
    };
}

/// Returns a text as a literal of DOT. The formatter removes the quotes of names that do not need them.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The name of a row in messages.
struct Row(String);

impl Row {
    fn invalid(&self, reason: &str) -> StationError {
        StationError::InvalidRow {
            row: self.0.clone(),
            reason: reason.to_owned(),
        }
    }

    fn station(&self, station: &StationRow) -> Result<Vec<String>, StationError> {
        let StationRow {
            name,
            kind,
            prompt,
            output_context_keys,
            attributes,
            ..
        } = station;
        let keys = (!output_context_keys.is_empty()).then(|| output_context_keys.join(", "));
        let mut list = Vec::new();
        for (key, value) in [
            ("label", name),
            ("type", kind),
            ("prompt", prompt),
            ("output_keys", &keys),
        ] {
            self.field(&mut list, key, value.as_deref(), attributes)?;
        }
        list.extend(self.list(attributes)?);
        Ok(list)
    }

    fn transition(&self, transition: &TransitionRow) -> Result<Vec<String>, StationError> {
        let TransitionRow {
            label,
            condition,
            condition_type,
            condition_value,
            allow_revisit,
            max_revisits,
            attributes,
            ..
        } = transition;
        let mut list = Vec::new();
        for (key, value) in [
            ("label", label),
            ("condition", condition),
            ("condition_type", condition_type),
            ("condition_value", condition_value),
        ] {
            self.field(&mut list, key, value.as_deref(), attributes)?;
        }
        if *allow_revisit {
            list.push("allow_revisit=true".to_owned());
        }
        list.extend(max_revisits.map(|limit| format!("max_revisits={limit}")));
        list.extend(self.list(attributes)?);
        Ok(list)
    }

    /// Adds the attribute of a field, which must not be among the other attributes too.
    fn field(
        &self,
        list: &mut Vec<String>,
        key: &str,
        value: Option<&str>,
        attributes: &AttributeValues,
    ) -> Result<(), StationError> {
        let Some(value) = value else {
            return Ok(());
        };
        if attributes.contains_key(key) {
            return Err(self.invalid(&format!("`{key}` is given twice: as a field and in `attributes`")));
        }
        list.push(format!("{key}={}", quoted(value)));
        Ok(())
    }

    fn list(&self, attributes: &AttributeValues) -> Result<Vec<String>, StationError> {
        let attributes = attributes.iter();
        attributes
            .map(|(key, value)| self.attribute(key, value))
            .collect()
    }

    fn attribute(&self, key: &str, value: &Value) -> Result<String, StationError> {
        if !key.split('.').all(is_identifier) {
            let key = key.escape_debug();
            return Err(self.invalid(&format!("`{key}` cannot be the name of an attribute")));
        }
        let is_time =
            matches!(Key::from_name(key), Key::Known(known) if known.spec().ty == AttributeType::Duration);
        let written = match value {
            Value::String(text) if is_time && parse_duration(text).is_some() => text.clone(),
            Value::String(text) => quoted(text),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => whole.to_string(),
                (None, Some(part)) => decimal(part),
                (None, None) => number.to_string(),
            },
            Value::Object(fields) => match fields.get("duration").and_then(Value::as_str) {
                Some(text) if fields.len() == 1 && parse_duration(text).is_some() => text.to_owned(),
                _ => {
                    return Err(self.invalid(&format!(
                        "the value of `{key}` is not `{{\"duration\": \"15m\"}}`"
                    )));
                }
            },
            Value::Null | Value::Array(_) => {
                return Err(self.invalid(&format!(
                    "the value of `{key}` is not a text, a number or a boolean"
                )));
            }
        };
        Ok(format!("{key}={written}"))
    }
}

/// Returns a decimal number with a point, as DOT writes it.
fn decimal(number: f64) -> String {
    let text = number.to_string();
    if text.contains('.') { text } else { text + ".0" }
}
