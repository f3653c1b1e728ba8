//! YAML as a tree in which every node has a span. All checks work on this tree, so that one error does not hide others.

use std::fmt;

use orchestra_graph::{Diagnostic, Page, Source, Span};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Location, Spanned};

/// Maximum size of a configuration file or prompt layer in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// A value with its span.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) node: Node,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(Key, Tree)>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Node {
    /// Returns the name of the type for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Node::Null => "nothing",
            Node::Boolean(_) => "a truth value",
            Node::Integer(_) => "a whole number",
            Node::Float(_) => "a decimal number",
            Node::Text(_) => "text",
            Node::List(_) => "a list",
            Node::Map(_) => "a map",
        }
    }
}

/// Parses the bytes of a file. Returns its text, and either the tree or the diagnostic of the error, which breaks the
/// given rule.
pub(crate) fn read(name: &str, bytes: &[u8], rule: &Page) -> (Source, Result<Tree, Diagnostic>) {
    if bytes.len() as u64 > MAX_BYTES {
        let diagnostic = Diagnostic::from_rule(
            rule,
            format!("the file is longer than {MAX_BYTES} bytes"),
            Span::default(),
        );
        return (
            Source::new(name, ""),
            Err(diagnostic.help("split it, or take parts out")),
        );
    }
    let text = match std::str::from_utf8(bytes) {
        // A byte order mark has no meaning in UTF-8.
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let sound = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let text = String::from_utf8_lossy(sound).into_owned();
            let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
            let diagnostic = Diagnostic::from_rule(rule, "the file is not UTF-8", Span::new(end, end));
            return (Source::new(name, text), Err(diagnostic.help("save it as UTF-8")));
        }
    };
    let source = Source::new(name, text);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 200_000,
            max_nodes: 100_000,
            max_documents: 1,
            // Each level takes 40 KiB of stack in a debug build, as used for a procedural macro.
            max_depth: 24,
        },
        // Pass repeated keys on to the tree, so that each one is reported.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 16,
        },
        // A name such as `on` or `no` is not a boolean.
        strict_booleans: true,
        with_snippet: false,
    };
    let positions = Positions { source: &source };
    let tree = match serde_saphyr::from_str_with_options::<Spanned<Raw>>(source.text(), options) {
        Ok(raw) => Ok(positions.tree(raw)),
        Err(error) => Err(positions.diagnostic(&error, rule)),
    };
    (source, tree)
}

/// A value from the deserializer, with the locations that the deserializer uses.
enum Raw {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Word>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(ReadRaw)
    }
}

struct ReadRaw;

impl<'de> Visitor<'de> for ReadRaw {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(i64::try_from(value).map_or(Raw::Float(value as f64), Raw::Integer))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Float(value as f64))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Float(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Raw, D::Error> {
        Raw::deserialize(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Raw, D::Error> {
        Raw::deserialize(inner)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Raw, S::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Raw, M::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Raw::Map(entries))
    }
}

/// A key of any scalar type, as text.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        match Raw::deserialize(deserializer)? {
            Raw::Text(text) => Ok(Word(text)),
            Raw::Boolean(value) => Ok(Word(value.to_string())),
            Raw::Integer(value) => Ok(Word(value.to_string())),
            Raw::Float(value) => Ok(Word(value.to_string())),
            Raw::Null => Ok(Word(String::new())),
            Raw::List(_) | Raw::Map(_) => Err(D::Error::custom("a key is a word")),
        }
    }
}

/// The conversion from the locations of the deserializer to spans.
struct Positions<'s> {
    source: &'s Source,
}

impl Positions<'_> {
    fn tree(&self, raw: Spanned<Raw>) -> Tree {
        let span = self.span(raw.referenced);
        let node = match raw.value {
            Raw::Null => Node::Null,
            Raw::Boolean(value) => Node::Boolean(value),
            Raw::Integer(value) => Node::Integer(value),
            Raw::Float(value) => Node::Float(value),
            Raw::Text(text) => Node::Text(text),
            Raw::List(items) => Node::List(items.into_iter().map(|item| self.tree(item)).collect()),
            Raw::Map(entries) => Node::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let span = self.span(key.referenced);
                        let key = Key {
                            text: key.value.0,
                            span,
                        };
                        (key, self.tree(value))
                    })
                    .collect(),
            ),
        };
        Tree { node, span }
    }

    fn diagnostic(&self, error: &serde_saphyr::Error, rule: &Page) -> Diagnostic {
        let error = error.without_snippet();
        let span = error.location().map_or(Span::default(), |at| self.span(at));
        let message = error.to_string();
        // The diagnostic shows the position already.
        let message = message.split(" at line ").next().unwrap_or_default().trim();
        let line = message
            .lines()
            .next()
            .unwrap_or_default()
            .trim_end_matches([':', ',']);
        Diagnostic::from_rule(rule, format!("invalid YAML: {line}"), span)
    }

    /// Returns the span of a location, cut at the end of its first line.
    fn span(&self, location: Location) -> Span {
        let text = self.source.text();
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let span = location.span();
        let start = match span.byte_offset().and_then(|at| u32::try_from(at).ok()) {
            Some(start) => start.min(end),
            None => self.offset(location),
        };
        let length = span.byte_len().and_then(|length| usize::try_from(length).ok());
        let mut stop = (start as usize)
            .saturating_add(length.unwrap_or(0))
            .min(text.len());
        while !text.is_char_boundary(stop) {
            stop -= 1;
        }
        let whole = text.get(start as usize..stop).unwrap_or_default();
        let length = whole.lines().next().unwrap_or_default().trim_end().len();
        Span::new(start, start.saturating_add(u32::try_from(length).unwrap_or(0)))
    }

    /// Returns the byte offset of a line and column.
    fn offset(&self, location: Location) -> u32 {
        let line = usize::try_from(location.line()).unwrap_or(0).saturating_sub(1);
        let column = usize::try_from(location.column()).unwrap_or(0).saturating_sub(1);
        let text = self.source.text();
        let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let rest = text.get(before..).unwrap_or_default();
        let inside: usize = rest.chars().take(column).map(char::len_utf8).sum();
        u32::try_from(before + inside).unwrap_or(u32::MAX)
    }
}
