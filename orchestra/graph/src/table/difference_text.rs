//! The human-readable text of a difference.

use std::fmt;

use super::difference::{AttributeChange, Change, Difference, Subject, What};
use crate::render::visible;
use crate::value::Value;

/// Maximum length of a value that is shown in full, in characters.
const WHOLE: usize = 72;
/// The number of characters that are shown before the first difference of a longer value.
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
                if says.is_empty() {
                    writeln!(f)?
                } else {
                    writeln!(f, " [{}]", says.join(", "))?
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

    /// Returns the values that identify an edge: all values of an added or removed edge, else the label and the
    /// condition as far as they are unchanged.
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

/// Returns the index of the first character to show of two values, chosen so that their first difference is visible.
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

/// Returns a value in one line, starting at a character index.
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

/// Returns a text for use within brackets, without quotes if none are needed.
fn bare(text: &str) -> String {
    let needs_quotes = |c: char| matches!(c, '"' | '\\' | ',' | '[' | ']') || visible(c).is_some();
    if text.contains(needs_quotes) || text.trim() != text || text.chars().nth(WHOLE).is_some() {
        shown(&Value::String(text.into()), 0)
    } else {
        text.to_owned()
    }
}

/// Returns a text in quotes and in one line.
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

/// Returns a name in one line.
fn printable(name: &str) -> String {
    name.chars()
        .map(|character| visible(character).unwrap_or(character))
        .collect()
}
