//! YAML: values of any kind in its several styles.

use serde_json::Value;

use super::json;
use crate::Random;

/// Words and signs of YAML.
pub const WORDS: &[&str] = &[
    "*a",
    "&a ",
    "<<: *a",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n",
    "\t",
    "  ",
    "|\n",
    ">-\n",
    "|2-\n",
    "'",
    "\"",
    "!!binary ",
    "!!str ",
    "!x ",
    "---\n",
    "...\n",
    "# ",
    "? ",
    "%YAML 1.2\n",
    "%TAG ! x\n",
    "1e999",
    ".nan",
    ".inf",
    "~",
    "null",
    "yes",
    "0o7",
    "0x1f",
    "12:30:45",
    "2026-01-01",
    "\\x41",
    "\u{feff}",
];

/// A value as YAML text, in block or flow style at random.
pub fn print(value: &Value, random: &mut Random) -> String {
    let mut text = String::new();
    block(value, random, 0, &mut text);
    text
}

/// Keys and values that are no use to anybody.
pub fn any(random: &mut Random) -> String {
    let value = json::value(random, 0);
    print(&value, random)
}

fn block(value: &Value, random: &mut Random, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) if !fields.is_empty() && random.chance(85) => {
            for (name, value) in fields {
                text.push_str(&pad);
                text.push_str(&scalar(name, random));
                text.push(':');
                below(value, random, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() && random.chance(70) => {
            for value in items {
                text.push_str(&pad);
                text.push('-');
                below(value, random, indent, text);
            }
        }
        other => {
            text.push_str(&pad);
            text.push_str(&flow(other, random));
            text.push('\n');
        }
    }
}

fn below(value: &Value, random: &mut Random, indent: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block && random.chance(80) {
        text.push('\n');
        block(value, random, indent + 2, text);
        return;
    }
    if let Value::String(said) = value
        && random.chance(15)
    {
        text.push_str(random.pick::<&str>(&[" |\n", " >-\n", " |+\n"]));
        for line in said.lines() {
            text.push_str(&" ".repeat(indent + 2));
            text.push_str(line);
            text.push('\n');
        }
        return;
    }
    text.push(' ');
    text.push_str(&flow(value, random));
    if random.chance(4) {
        text.push_str(" # a comment");
    }
    text.push('\n');
}

fn flow(value: &Value, random: &mut Random) -> String {
    match value {
        Value::String(text) => scalar(text, random),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(item, random)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", scalar(name, random), flow(value, random)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn scalar(text: &str, random: &mut Random) -> String {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_./".contains(c));
    match random.below(10) {
        0..8 if plain => text.to_owned(),
        8 if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
        _ => Value::String(text.to_owned()).to_string(),
    }
}
