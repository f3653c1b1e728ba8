//! A difference as text for people.

use std::fmt;

use super::difference::{AttributeChange, Change, Difference, Subject, What};
use crate::render::visible;
use crate::value::Value;

/// The longest value that is shown whole, in characters.
const WHOLE: usize = 72;
/// How many characters are shown before the first difference of a longer one.
const LEAD: usize = 24;
const CUT: &str = "...";

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.children.iter().map(|child| (&*child.file, &child.changes));
        let mut left = f.precision().unwrap_or(usize::MAX);
        let mut hidden = 0;
        for (file, changes) in std::iter::once(("", &self.changes)).chain(children) {
            let (shown, rest) = changes.split_at(left.min(changes.len()));
            left -= shown.len();
            hidden += rest.len();
            let indent = if file.is_empty() { "" } else { "  " };
            if !file.is_empty() && !shown.is_empty() {
                writeln!(f, "  child {}", printable(file))?;
            }
            for change in shown {
                change.show(indent, f)?;
            }
        }
        match hidden {
            0 => Ok(()),
            1 => writeln!(f, "... and 1 more change"),
            _ => writeln!(f, "... and {hidden} more changes"),
        }
    }
}

impl Change {
    fn show(&self, indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.what {
            What::Added => '+',
            What::Removed => '-',
            What::Changed | What::Reshaped | What::Moved => '~',
        };
        let whole = matches!(self.what, What::Added | What::Removed);
        match &self.subject {
            Subject::Graph => writeln!(f, "{indent}  graph")?,
            Subject::Node { id, kind } => {
                write!(f, "{indent}{mark} node {} ({})", printable(id), printable(kind))?;
                match (&self.renamed, self.what) {
                    (Some(other), What::Added) => writeln!(f, ", renamed from {}?", printable(other))?,
                    (Some(other), _) => writeln!(f, ", renamed to {}?", printable(other))?,
                    (None, _) => writeln!(f)?,
                }
            }
            Subject::Edge { from, to, .. } => {
                write!(f, "{indent}{mark} edge {} -> {}", printable(from), printable(to))?;
                let says = self.of_edge();
                match says.is_empty() {
                    true => writeln!(f)?,
                    false => writeln!(f, " [{}]", says.join(", "))?,
                }
            }
        }
        if whole {
            return Ok(());
        }
        self.attributes
            .iter()
            .try_for_each(|attribute| attribute.show(indent, f))
    }

    /// What tells an edge from others: all that it says where it is added or removed, else what stayed of its label
    /// and its condition.
    fn of_edge(&self) -> Vec<String> {
        let said = |name: &str, text: &str| format!("{name}: {}", bare(text));
        match (&self.subject, self.what) {
            (Subject::Edge { .. }, What::Added | What::Removed) => {
                let all = self.attributes.iter();
                all.filter_map(|attribute| {
                    let value = attribute.new.as_ref().or(attribute.old.as_ref())?;
                    Some(match value {
                        Value::String(text) => said(&printable(&attribute.name), text),
                        other => format!("{}: {other}", printable(&attribute.name)),
                    })
                })
                .collect()
            }
            (Subject::Edge { label, condition, .. }, _) => {
                let stayed = |name: &str| self.attributes.iter().all(|attribute| attribute.name != name);
                [("label", label), ("condition", condition)]
                    .into_iter()
                    .filter(|(name, text)| !text.is_empty() && stayed(name))
                    .map(|(name, text)| said(name, text))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

impl AttributeChange {
    fn show(&self, indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = printable(&self.name);
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => {
                let start = first_difference(old, new);
                let [old, new] = [old, new].map(|value| shown(value, start));
                writeln!(f, "{indent}    {name}: {old} -> {new}")
            }
            (None, Some(new)) => writeln!(f, "{indent}    + {name}: {}", shown(new, 0)),
            (Some(old), None) => writeln!(f, "{indent}    - {name}: {}", shown(old, 0)),
            (None, None) => Ok(()),
        }
    }
}

/// From which character on two values are shown, so that their first difference is.
fn first_difference(old: &Value, new: &Value) -> usize {
    let (Some(old), Some(new)) = (old.as_str(), new.as_str()) else {
        return 0;
    };
    let is_short = |text: &str| text.chars().nth(WHOLE).is_none();
    if is_short(old) && is_short(new) {
        return 0;
    }
    let common = old.chars().zip(new.chars()).take_while(|(old, new)| old == new);
    common.count().saturating_sub(LEAD)
}

/// A value in one line, from some character on.
fn shown(value: &Value, start: usize) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    let mut rest = text.chars().skip(start);
    let part: String = rest.by_ref().take(WHOLE).collect();
    let before = if start > 0 { CUT } else { "" };
    let after = if rest.next().is_some() { CUT } else { "" };
    format!("{before}{}{after}", quoted(&part))
}

/// A text within brackets, without quotes where none are needed.
fn bare(text: &str) -> String {
    let needs_quotes = |c: char| matches!(c, '"' | '\\' | ',' | '[' | ']') || visible(c).is_some();
    match text.contains(needs_quotes) || text.trim() != text || text.chars().nth(WHOLE).is_some() {
        true => shown(&Value::String(text.into()), 0),
        false => text.to_owned(),
    }
}

/// A text in quotes and in one line.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ => out.push(visible(character).unwrap_or(character)),
        }
    }
    out.push('"');
    out
}

/// A name in one line.
fn printable(name: &str) -> String {
    name.chars()
        .map(|character| visible(character).unwrap_or(character))
        .collect()
}
