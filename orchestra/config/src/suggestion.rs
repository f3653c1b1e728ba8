//! Hints on how to correct a name, with the change of exactly that name in its file.

use std::ops::Range;

use orchestra_graph::{
    Diagnostic, Source, Span, did_you_mean, parse_stylesheet, value_fix, value_range, value_text,
};

/// A hint on how to correct a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) help: String,
    /// The name that was probably meant.
    pub(crate) meant: Option<String>,
}

impl Hint {
    /// Returns a hint that suggests a name.
    pub(crate) fn meant(name: impl Into<String>) -> Hint {
        let name = name.into();
        Hint {
            help: format!("did you mean `{name}`?"),
            meant: Some(name),
        }
    }
}

impl<T: Into<String>> From<T> for Hint {
    fn from(help: T) -> Hint {
        Hint {
            help: help.into(),
            meant: None,
        }
    }
}

/// Returns a hint for an unknown name: the most similar known name, else the list of known names.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> Hint {
    match did_you_mean(word, known.iter().copied()) {
        Some(near) => Hint::meant(near),
        None => one_of(known).into(),
    }
}

/// Returns a help text that lists the known names.
pub(crate) fn one_of(known: &[&str]) -> String {
    const SHOWN: usize = 24;
    let mut words: Vec<String> = known.iter().take(SHOWN).map(|word| format!("`{word}`")).collect();
    if known.len() > SHOWN {
        words.push(format!("and {} more", known.len() - SHOWN));
    }
    match words.as_slice() {
        [] => "there are none".to_owned(),
        [one] => format!("write {one}"),
        _ => format!("write one of {}", words.join(", ")),
    }
}

/// Adds a hint to a diagnostic at a name of a YAML file. The diagnostic then underlines the name alone.
pub(crate) fn in_yaml(source: &Source, mut diagnostic: Diagnostic, name: &str, hint: Hint) -> Diagnostic {
    let place = yaml_place(source, diagnostic.span, name);
    diagnostic.span = place.unwrap_or(diagnostic.span);
    let diagnostic = match hint.help.is_empty() {
        true => diagnostic,
        false => diagnostic.help(hint.help),
    };
    match (hint.meant, place) {
        (Some(meant), Some(place)) => {
            let meant = yaml_text(source, place, &meant);
            diagnostic.fix(place, meant)
        }
        _ => diagnostic,
    }
}

/// Returns the span of a text within the span of its value, without quotes. Returns `None` if it is folded or escaped.
pub(crate) fn yaml_place(source: &Source, value: Span, text: &str) -> Option<Span> {
    let at = source.slice(value).find(text).filter(|_| !text.is_empty())?;
    let start = value.start + u32::try_from(at).ok()?;
    Some(Span::new(start, start + u32::try_from(text.len()).ok()?))
}

/// Returns a text as it is written in YAML in place of another one, which may be quoted.
fn yaml_text(source: &Source, place: Span, text: &str) -> String {
    let before = source.text().get(..place.start as usize).unwrap_or_default();
    let escaped = || text.replace('\\', "\\\\").replace('"', "\\\"");
    match before.chars().next_back() {
        Some('\'') => text.replace('\'', "''"),
        Some('"') => escaped(),
        _ if is_plain(text) => text.to_owned(),
        _ => format!("\"{}\"", escaped()),
    }
}

/// Returns whether a text is the same text for YAML if it is written without quotes.
fn is_plain(text: &str) -> bool {
    let others = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_other = others.contains(&text.to_lowercase().as_str()) || text.parse::<f64>().is_ok();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    let starts = text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    starts && !is_other && !text.ends_with(':') && text.chars().all(is_part)
}

/// Adds a hint to a diagnostic at the value of an attribute of a pipeline, about a range of the value's text. The
/// diagnostic then underlines this range alone.
pub(crate) fn in_value(
    source: &Source,
    mut diagnostic: Diagnostic,
    range: Option<Range<usize>>,
    hint: Hint,
) -> Diagnostic {
    let value = diagnostic.span;
    if let Some(range) = &range {
        diagnostic.span = value_range(source, value, range.clone());
    }
    let diagnostic = match hint.help.is_empty() {
        true => diagnostic,
        false => diagnostic.help(hint.help),
    };
    match (hint.meant, range) {
        (Some(meant), Some(range)) => {
            let fix = value_fix(source, value, range, &meant);
            diagnostic.fix(fix.span, fix.replacement)
        }
        _ => diagnostic,
    }
}

/// Returns the range of a name in the text of a value that consists of the name, or of a stylesheet that sets the name.
pub(crate) fn name_in_value(source: &Source, value: Span, name: &str) -> Option<Range<usize>> {
    let text = value_text(source, value);
    if text.trim() == name {
        let start = text.len() - text.trim_start().len();
        return Some(start..start + name.len());
    }
    let rules = parse_stylesheet(&text).0.into_iter();
    let mut declarations = rules.flat_map(|rule| rule.declarations);
    let found = declarations.find(|declaration| declaration.value == name);
    found.map(|declaration| declaration.range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_where_yaml_needs_it() {
        for (text, name, meant, expected) in [
            ("a: wirter", "wirter", "writer", "a: writer"),
            ("a: wirter", "wirter", "yes", "a: \"yes\""),
            ("a: wirter", "wirter", "the writer", "a: \"the writer\""),
            ("a: wirter", "wirter", "api:lint", "a: api:lint"),
            ("a: 'wirter'", "wirter", "it's", "a: 'it''s'"),
            ("a: \"wirter\"", "wirter", "say \"hi\"", "a: \"say \\\"hi\\\"\""),
            ("a: wirter", "wirter", "1.5", "a: \"1.5\""),
            ("a: wirter", "wirter", "-x", "a: \"-x\""),
        ] {
            let source = Source::new("a.yaml", text);
            let span = Span::new(3, text.len() as u32);
            let diagnostic = Diagnostic::error("unknown_agent", "x", span);
            let diagnostic = in_yaml(&source, diagnostic, name, Hint::meant(meant));
            assert_eq!(source.slice(diagnostic.span), name);
            let fix = diagnostic.fix.unwrap();
            let mut fixed = text.to_owned();
            fixed.replace_range(fix.span.start as usize..fix.span.end as usize, &fix.replacement);
            assert_eq!(fixed, expected);
        }
    }
}
