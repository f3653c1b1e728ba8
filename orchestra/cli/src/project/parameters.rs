//! The values of `--set`: literals, files and standard input.

use std::io::{self, Read};

use orchestra_engine::Disk;
use orchestra_graph::Contract;
use serde_json::Value;

use crate::error::CliError;

/// Maximum size of a file that is used as a value, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The name of standard input after the `@`.
const STANDARD_INPUT: &str = "-";

/// Parses the values of `--set KEY=VALUE`, in order.
///
/// The value of a key that the pipeline declares has its declared type. Any other value is JSON if it parses, otherwise
/// text; that of a file is text. `@FILE` is replaced by the exact text of a file, and `@-` by that of
/// standard input. `@@` is a literal `@` at the beginning of a text.
///
/// # Errors
///
/// Returns an error if a pair has no key, if a value is not of its declared type, or if a file cannot be read, is not
/// UTF-8, or is larger than 16 MiB.
pub(crate) fn parameters(pairs: &[String], contract: &Contract) -> Result<Vec<(String, Value)>, CliError> {
    let mut values = Vec::with_capacity(pairs.len());
    // The key that used standard input, which can be read only once.
    let mut drained: Option<&str> = None;
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| CliError::usage("set_form", format!("`{pair}` is not of the form KEY=VALUE")))?;
        let value = match value.strip_prefix('@') {
            None if contract.type_of(key).is_none() => {
                serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()))
            }
            None => Value::String(value.to_owned()),
            Some(literal) if literal.starts_with('@') => Value::String(literal.to_owned()),
            Some(STANDARD_INPUT) => {
                if let Some(first) = drained.replace(key) {
                    let message = format!(
                        "`--set {pair}`: standard input was read for `{first}` already, and can be read only once"
                    );
                    return Err(CliError::usage("set_file", message).help("pass one of the values in a file"));
                }
                text(pair, "standard input", Ok(io::stdin().lock()))?
            }
            Some("") => {
                let message = format!("`--set {pair}` names no file behind the `@`");
                return Err(CliError::usage("set_file", message).help(literal_at(key, "")));
            }
            Some(path) => {
                let read = text(pair, &format!("`{path}`"), Disk::open(path));
                read.map_err(|error| error.help(literal_at(key, path)))?
            }
        };
        let value = match (contract.type_of(key), value) {
            (Some(value_type), Value::String(text)) => value_type.parse_text(&text).ok_or_else(|| {
                let message = format!("`--set {pair}`: `{key}` is declared as `{value_type}`");
                CliError::usage("set_type", message).help("give it a value of this type")
            })?,
            (_, value) => value,
        };
        values.push((key.to_owned(), value));
    }
    Ok(values)
}

/// Returns the text after `KEY=` with which `--set` gives a key this value.
pub(crate) fn parameter(key: &str, value: &Value, contract: &Contract) -> String {
    let declared = contract.type_of(key);
    match (declared, value) {
        (Some(value_type), Value::String(text)) if value_type.parse_text(text).as_ref() == Some(value) => {
            let escape = if text.starts_with('@') { "@" } else { "" };
            format!("{escape}{text}")
        }
        _ => value.to_string(),
    }
}

/// Returns the hint on a value that begins with a literal `@`.
fn literal_at(key: &str, rest: &str) -> String {
    format!("a value that begins with `@` is written `{key}=@@{rest}`")
}

/// Reads an input as text.
fn text(pair: &str, name: &str, input: io::Result<impl Read>) -> Result<Value, CliError> {
    let failed = |message: String| CliError::usage("set_file", format!("`--set {pair}`: {message}"));
    let mut bytes = Vec::new();
    let read = input.and_then(|input| input.take(MAX_FILE + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_FILE {
        let message = format!("{name} is larger than {} MiB", MAX_FILE >> 20);
        return Err(failed(message + "; pass its path, and let a tool read it"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let lines = error.as_bytes().get(..valid).unwrap_or_default();
        let line = lines.iter().filter(|byte| **byte == b'\n').count() + 1;
        failed(format!("{name} is not UTF-8 text (line {line}, byte {valid})"))
    })?;
    Ok(Value::String(text))
}
