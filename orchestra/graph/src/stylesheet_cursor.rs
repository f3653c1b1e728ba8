//! The part of a model stylesheet that is being typed.

use crate::attribute::Known;
use crate::stylesheet::property;

/// The part of a stylesheet at the end of an incomplete text.
///
/// ```
/// use orchestra_graph::{Known, StylesheetCursor};
/// let at_end = StylesheetCursor::at_end;
/// assert_eq!(at_end("* { llm_model: a; } #rev"), StylesheetCursor::Selector { word: "#rev" });
/// assert_eq!(at_end("* { llm_"), StylesheetCursor::Property { set: Vec::new(), word: "llm_" });
/// let value = StylesheetCursor::Value { property: Known::LlmModel, word: "sm", quote: None };
/// assert_eq!(at_end("* { llm_model: sm"), value);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StylesheetCursor<'t> {
    /// The selector of a rule.
    Selector {
        /// The text of the selector so far, with its `#` or `.`.
        word: &'t str,
    },
    /// The property of a declaration.
    Property {
        /// The properties that the rule sets before the position.
        set: Vec<Known>,
        /// The text of the property so far.
        word: &'t str,
    },
    /// The value of a declaration.
    Value {
        /// The property.
        property: Known,
        /// The text of the value so far, without its quote.
        word: &'t str,
        /// The quote that the value begins with.
        quote: Option<char>,
    },
    /// A position at which nothing is named.
    Other,
}

impl<'t> StylesheetCursor<'t> {
    /// Finds the part at the end of a text, which is the part of a stylesheet before the cursor.
    pub fn at_end(text: &'t str) -> StylesheetCursor<'t> {
        // Braces in quotes do not end a rule.
        let mut quote = None;
        let mut is_rule = false;
        let mut begin = 0;
        let mut set = Vec::new();
        let mut comment = None;
        for (at, c) in text.char_indices() {
            if let Some(start) = comment {
                // A comment separates what is around it.
                if at > start + 2 && text.get(..=at).is_some_and(|text| text.ends_with("*/")) {
                    comment = None;
                    begin = at + 1;
                }
                continue;
            }
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') if is_rule => quote = Some(c),
                (None, '/') if text.get(at..).is_some_and(|rest| rest.starts_with("/*")) => {
                    comment = Some(at)
                }
                (None, '{' | '}') => {
                    is_rule = c == '{';
                    begin = at + 1;
                    set.clear();
                }
                (None, ';') => {
                    let written = text.get(begin..at).unwrap_or_default().split_once([':', '=']);
                    set.extend(written.and_then(|(name, _)| property(name.trim())));
                    begin = at + 1;
                }
                (None, _) => {}
            }
        }
        let written = text.get(begin..).unwrap_or_default();
        if comment.is_some() {
            return StylesheetCursor::Other;
        }
        if !is_rule {
            return selector(written);
        }
        match written.split_once([':', '=']) {
            Some((name, value)) => match property(name.trim()) {
                Some(property) => in_value(property, value.trim_start()),
                None => StylesheetCursor::Other,
            },
            None => {
                let word = written.trim_start();
                match word.contains(char::is_whitespace) {
                    true => StylesheetCursor::Other,
                    false => StylesheetCursor::Property { set, word },
                }
            }
        }
    }
}

fn selector(text: &str) -> StylesheetCursor<'_> {
    let word = text.trim_start();
    match word.contains(char::is_whitespace) || word == "*" {
        true => StylesheetCursor::Other,
        false => StylesheetCursor::Selector { word },
    }
}

fn in_value(property: Known, written: &str) -> StylesheetCursor<'_> {
    let quote = written.chars().next().filter(|c| matches!(c, '"' | '\''));
    let word = quote
        .and_then(|quote| written.strip_prefix(quote))
        .unwrap_or(written);
    if quote.is_some_and(|quote| word.contains(quote))
        || quote.is_none() && word.contains(char::is_whitespace)
    {
        return StylesheetCursor::Other;
    }
    StylesheetCursor::Value {
        property,
        word,
        quote,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_stylesheet_is_found() {
        use StylesheetCursor::{Other, Property, Selector, Value};
        let value = |property, word, quote| Value {
            property,
            word,
            quote,
        };
        for (text, expected) in [
            ("", Selector { word: "" }),
            (" .co", Selector { word: ".co" }),
            ("* { llm_model: a; }\n#", Selector { word: "#" }),
            ("*", Other),
            ("box ", Other),
            (
                "box {",
                Property {
                    set: vec![],
                    word: "",
                },
            ),
            (
                "box { model: a; llm_provider = b; rea",
                Property {
                    set: vec![Known::LlmModel, Known::LlmProvider],
                    word: "rea",
                },
            ),
            ("* { model ", Other),
            ("* { model:", value(Known::LlmModel, "", None)),
            (
                "* { reasoning_effort = hi",
                value(Known::ReasoningEffort, "hi", None),
            ),
            ("* { model: 'a}", value(Known::LlmModel, "a}", Some('\''))),
            ("* { model: 'a'", Other),
            ("* { model: a b", Other),
            ("* { other: a", Other),
            ("/* a: { */ #", Selector { word: "#" }),
            ("* { /* x", Other),
            (
                "* { /* x; */ mo",
                Property {
                    set: vec![],
                    word: "mo",
                },
            ),
        ] {
            assert_eq!(StylesheetCursor::at_end(text), expected, "{text}");
        }
    }
}
