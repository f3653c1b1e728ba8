//! The parser of declarations such as `score: int, notes: text?`.

use std::ops::Range;

use super::value_type::ValueType;
use crate::diagnostic::did_you_mean;
use crate::reserved::KeyOwner;
use crate::syntax::shorten;
use crate::text::trimmed;

/// Maximum nesting depth of `list<..>`.
const MAX_DEPTH: usize = 8;

/// A declaration: a key, with its type if it has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The type, and whether the value may be missing.
    pub(crate) declared: Option<(ValueType, bool)>,
    /// The range of the key in the text.
    pub(crate) range: Range<usize>,
}

/// The reason why a text is not a declaration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclarationError {
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) range: Range<usize>,
    /// A replacement for the text in the range.
    pub(crate) fix: Option<String>,
    /// The range of the key, if it is valid.
    pub(crate) key: Option<Range<usize>>,
}

impl DeclarationError {
    fn new(message: String, help: impl Into<String>, range: Range<usize>) -> DeclarationError {
        DeclarationError {
            message,
            help: help.into(),
            range,
            fix: None,
            key: None,
        }
    }
}

/// Parses declarations, separated by commas. Returns each with its own error, so that one mistake does not hide another.
pub(crate) fn parse_declarations(text: &str) -> Vec<Result<Entry, DeclarationError>> {
    let mut entries: Vec<Result<Entry, DeclarationError>> = Vec::new();
    let mut start = 0;
    for part in text.split(',') {
        let range = trimmed(text, start..start + part.len());
        start += part.len() + 1;
        if range.is_empty() {
            continue;
        }
        let entry = parse(text, range).and_then(|entry| {
            let earlier = entries.iter().flatten();
            if earlier.map(|earlier| &earlier.key).any(|key| *key == entry.key) {
                let message = format!("duplicate key `{}`", entry.key);
                return Err(DeclarationError {
                    key: Some(entry.range.clone()),
                    ..DeclarationError::new(message, "declare each key once", entry.range)
                });
            }
            Ok(entry)
        });
        entries.push(entry);
    }
    entries
}

fn parse(text: &str, range: Range<usize>) -> Result<Entry, DeclarationError> {
    let written = text.get(range.clone()).unwrap_or_default();
    let (key, value_type) = match written.split_once(':') {
        Some((key, value_type)) => (key.trim_end(), Some(value_type)),
        None => (written, None),
    };
    let key_range = range.start..range.start + key.len();
    let Some(value_type) = value_type else {
        return Ok(Entry {
            key: key.to_owned(),
            declared: None,
            range: key_range,
        });
    };
    check_key(key, &key_range)?;
    let at = range.end - value_type.len();
    let type_range = trimmed(text, at..range.end);
    let value_type = value_type.trim();
    let (plain, optional) = match value_type.strip_suffix('?') {
        Some(plain) => (plain.trim_end(), true),
        None => (value_type, false),
    };
    let type_range = type_range.start..type_range.start + plain.len();
    match parse_type(plain, &type_range, 0) {
        Ok(value_type) => Ok(Entry {
            key: key.to_owned(),
            declared: Some((value_type, optional)),
            range: key_range,
        }),
        Err(error) => Err(DeclarationError {
            key: Some(key_range),
            ..error
        }),
    }
}

/// Returns why a text is not a key that can be declared; `None` if it is one.
pub(crate) fn key_error(key: &str) -> Option<DeclarationError> {
    check_key(key, &(0..key.len())).err()
}

fn check_key(key: &str, range: &Range<usize>) -> Result<(), DeclarationError> {
    let error = |message: String, help: &str| Err(DeclarationError::new(message, help, range.clone()));
    let shown = shorten(key);
    if key.is_empty() {
        return error(
            "a declaration has no key".to_owned(),
            "a declaration has the form `KEY: TYPE`, such as `score: int`",
        );
    }
    if let Some(plain) = key.strip_prefix("context.") {
        let mut error = DeclarationError::new(
            format!("the key `{shown}` begins with `context.`"),
            "the prefix is only written where a condition reads a key",
            range.clone(),
        );
        error.fix = Some(plain.to_owned());
        return Err(error);
    }
    let is_part = |part: &str| {
        let mut characters = part.chars();
        let first = characters.next();
        first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && characters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    if !key.split('.').all(is_part) {
        return error(
            format!("`{shown}` is not a valid key"),
            "use letters, digits, `_` and `-`, with `.` between the parts, and begin with a letter",
        );
    }
    if KeyOwner::of_key(key).is_some() {
        return error(
            format!("`{shown}` is a key of the engine"),
            "choose another key; the reserved ones are listed under `Reserved keys` in the reference",
        );
    }
    Ok(())
}

fn parse_type(text: &str, range: &Range<usize>, depth: usize) -> Result<ValueType, DeclarationError> {
    if let Some(found) = ValueType::from_name(text) {
        return Ok(found);
    }
    let shown = shorten(text);
    let known = || {
        format!(
            "a type is one of `{}`, or words such as `approve|revise`; a `?` after it makes the value optional",
            ValueType::NAMES.join("`, `")
        )
    };
    if text.is_empty() {
        return Err(DeclarationError::new(
            "the type is missing".to_owned(),
            known(),
            range.clone(),
        ));
    }
    if let Some(item) = text.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
        if depth == MAX_DEPTH {
            return Err(DeclarationError::new(
                format!("lists are nested more than {MAX_DEPTH} deep"),
                "declare an `object`, or `any`",
                range.clone(),
            ));
        }
        let start = range.start + "list<".len();
        let inner = start..start + item.len();
        let (item, inner) = (item.trim(), trim_range(item, inner));
        return Ok(ValueType::List(Box::new(parse_type(item, &inner, depth + 1)?)));
    }
    if text.contains('|') {
        return parse_words(text, range);
    }
    let mut error = DeclarationError::new(format!("unknown type `{shown}`"), known(), range.clone());
    let near = meant(text);
    if let Some(near) = near {
        error.help = format!("did you mean `{near}`?");
        error.fix = Some(near.to_owned());
    }
    Err(error)
}

fn trim_range(text: &str, range: Range<usize>) -> Range<usize> {
    let start = range.start + (text.len() - text.trim_start().len());
    start..start + text.trim().len()
}

/// Returns the type that a name of another language means.
fn meant(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    Some(match lower.as_str() {
        "string" | "str" => "text",
        "integer" | "i64" | "u64" | "i32" | "u32" | "long" => "int",
        "float" | "double" | "f64" | "f32" | "decimal" => "number",
        "boolean" => "bool",
        "array" | "vec" => "list",
        "map" | "dict" | "json" => "object",
        lower => {
            let names = ValueType::NAMES;
            let near = did_you_mean(lower, names.iter().copied())?;
            return names.iter().copied().find(|name| *name == near);
        }
    })
}

/// Returns a hint if a word is probably meant as a type, or as a value that is not a text.
fn meant_by_word(word: &str) -> Option<&'static str> {
    if ValueType::NAMES.contains(&word) {
        Some("words are texts, and a value has one type; declare `any` for values of several types")
    } else if matches!(word, "true" | "false") {
        Some("words are texts; declare `bool` for `true` and `false`")
    } else if word.parse::<f64>().is_ok() {
        Some("words are texts; declare `int` or `number`")
    } else {
        None
    }
}

fn parse_words(text: &str, range: &Range<usize>) -> Result<ValueType, DeclarationError> {
    let mut words: Vec<String> = Vec::new();
    let mut start = range.start;
    for part in text.split('|') {
        let at = trim_range(part, start..start + part.len());
        start += part.len() + 1;
        let word = part.trim();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if word.is_empty() || !word.chars().all(is_word) {
            return Err(DeclarationError::new(
                format!("`{}` is not a word", shorten(word)),
                "words consist of letters, digits, `_`, `-` and `.`, and are separated by `|`",
                at,
            ));
        }
        if let Some(meant) = meant_by_word(word) {
            return Err(DeclarationError::new(
                format!("`{}` is not a word here", shorten(word)),
                meant,
                at,
            ));
        }
        if words.iter().any(|known| known == word) {
            let message = format!("duplicate word `{}`", shorten(word));
            return Err(DeclarationError::new(message, "write each word once", at));
        }
        words.push(word.to_owned());
    }
    Ok(ValueType::Words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let entries = parse_declarations(text).into_iter();
        entries
            .map(|entry| match entry {
                Ok(Entry {
                    key,
                    declared: Some((value_type, optional)),
                    range,
                }) => {
                    assert_eq!(text[range], key);
                    format!("{key}: {value_type}{}", if optional { "?" } else { "" })
                }
                Ok(Entry { key, .. }) => key,
                Err(error) => format!("`{}` {}", &text[error.range], error.message),
            })
            .collect()
    }

    #[test]
    fn declarations_are_read_with_their_types() {
        let text = "pr: text, dry_run :bool ? , a.b: approve | revise,\n list: list< list<int> >, any: any, plan, o:object?,";
        assert_eq!(
            shown(text),
            [
                "pr: text",
                "dry_run: bool?",
                "a.b: approve|revise",
                "list: list<list<int>>",
                "any: any",
                "plan",
                "o: object?"
            ]
        );
        assert_eq!(shown(" , "), Vec::<String>::new());
    }

    #[test]
    fn mistakes_are_found_where_they_are() {
        for (text, error) in [
            ("a: integer", "`integer` unknown type `integer`"),
            ("a: int, b: list<strng>", "`strng` unknown type `strng`"),
            ("a: ", "`` the type is missing"),
            ("a: ?", "`` the type is missing"),
            (": int", "`` a declaration has no key"),
            ("a b: int", "`a b` `a b` is not a valid key"),
            ("1a: int", "`1a` `1a` is not a valid key"),
            ("a..b: int", "`a..b` `a..b` is not a valid key"),
            (
                "context.a: int",
                "`context.a` the key `context.a` begins with `context.`",
            ),
            (
                "human.gate.text: text",
                "`human.gate.text` `human.gate.text` is a key of the engine",
            ),
            ("outcome: text", "`outcome` `outcome` is a key of the engine"),
            ("a: int, a: int", "`a` duplicate key `a`"),
            ("a: x|", "`` `` is not a word"),
            ("a: x|y z", "`y z` `y z` is not a word"),
            ("a: x|y|x", "`x` duplicate word `x`"),
            ("a: x|int", "`int` `int` is not a word here"),
            ("a: true|false", "`true` `true` is not a word here"),
            ("a: 1|2", "`1` `1` is not a word here"),
        ] {
            assert!(
                shown(text).contains(&error.to_owned()),
                "{text}: {:?}",
                shown(text)
            );
        }
        let deep = format!("a: {}int{}", "list<".repeat(9), ">".repeat(9));
        assert!(shown(&deep)[0].ends_with("lists are nested more than 8 deep"));
    }
}
