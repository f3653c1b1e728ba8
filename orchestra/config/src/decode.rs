//! From trees to types: what is understood is taken, what is not is told.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_graph::{Diagnostic, Source, Span, did_you_mean, parse_duration};
use serde_json::Number;

use crate::located::Located;
use crate::tree::{Key, Node, Tree};

/// The codes of the faults of a kind of file.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    pub(crate) syntax: &'static str,
    pub(crate) unknown_key: &'static str,
    pub(crate) duplicate_key: &'static str,
    pub(crate) value: &'static str,
}

/// What is wrong with a file.
pub(crate) struct Faults {
    pub(crate) source: Source,
    pub(crate) codes: Codes,
    pub(crate) list: Vec<Diagnostic>,
}

impl Faults {
    pub(crate) fn new(source: Source, codes: Codes) -> Faults {
        Faults {
            source,
            codes,
            list: Vec::new(),
        }
    }

    /// A value that is not what it should be.
    pub(crate) fn expected(&mut self, what: &str, tree: &Tree) {
        let kind = tree.node.describe();
        let found = match tree.node {
            Node::List(_) | Node::Map(_) | Node::Null => kind.to_owned(),
            _ => format!("`{}`", self.source.slice(tree.span)),
        };
        let message = format!("expected {what}, found {found}");
        let fault = Diagnostic::error(self.codes.value, message, tree.span);
        self.list.push(fault.label(format!("this is {kind}")));
    }

    /// A value of the right kind that cannot be.
    pub(crate) fn value(&mut self, message: impl Into<String>, span: Span, help: impl Into<String>) {
        let fault = Diagnostic::error(self.codes.value, message, span);
        self.list.push(fault.help(help));
    }

    /// A key that means nothing here.
    pub(crate) fn unknown_key(&mut self, key: &Key, known: &[&str]) {
        let fault = Diagnostic::error(
            self.codes.unknown_key,
            format!("unknown key `{}`", key.text),
            key.span,
        );
        self.list.push(fault.help(suggestion(&key.text, known)));
    }

    /// The entries of a map, each key once.
    pub(crate) fn entries<'t>(&mut self, tree: &'t Tree, what: &str) -> Option<Vec<(&'t Key, &'t Tree)>> {
        let entries = match &tree.node {
            Node::Map(entries) => entries,
            // A section whose entries are all commented out holds nothing.
            Node::Null => return Some(Vec::new()),
            _ => {
                self.expected(what, tree);
                return None;
            }
        };
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        let mut kept = Vec::new();
        for (key, value) in entries {
            match seen.get(key.text.as_str()) {
                Some(first) => {
                    let fault = Diagnostic::error(
                        self.codes.duplicate_key,
                        format!("the key `{}` stands here a second time", key.text),
                        key.span,
                    );
                    let fault = fault.related(*first, "the first one");
                    self.list.push(fault.help("take one of them away"));
                }
                None => {
                    seen.insert(&key.text, key.span);
                    kept.push((key, value));
                }
            }
        }
        Some(kept)
    }
}

/// Says which word may be meant, else which there are.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    match did_you_mean(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => one_of(known),
    }
}

/// The words that there are.
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

/// The key of a field, whose name may be a keyword of Rust.
pub(crate) const fn key_of(field: &str) -> &str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// What can be made of a tree.
pub(crate) trait Decode: Sized {
    /// The value; `None` where it cannot be understood, which has been told then.
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<Self>;
}

impl Decode for String {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<String> {
        match &tree.node {
            Node::Text(text) => Some(text.clone()),
            // A version or a model may look like a number; it is taken as it is written.
            Node::Integer(_) | Node::Float(_) | Node::Boolean(_) => {
                Some(faults.source.slice(tree.span).to_owned())
            }
            _ => {
                faults.expected("text", tree);
                None
            }
        }
    }
}

impl Decode for bool {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<bool> {
        match tree.node {
            Node::Boolean(value) => Some(value),
            _ => {
                faults.expected("`true` or `false`", tree);
                None
            }
        }
    }
}

impl Decode for u64 {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<u64> {
        match tree.node {
            Node::Integer(number) if number >= 1 => u64::try_from(number).ok(),
            _ => {
                faults.expected("a whole number of at least 1", tree);
                None
            }
        }
    }
}

impl Decode for f64 {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<f64> {
        let number = match tree.node {
            Node::Integer(number) => Some(number as f64),
            Node::Float(number) => Some(number),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            faults.expected("a number of at least 0", tree);
        }
        number
    }
}

impl Decode for Duration {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<Duration> {
        let duration = match &tree.node {
            Node::Text(text) => parse_duration(text),
            // As in the pipeline language, a bare whole number means seconds.
            Node::Integer(number) => u64::try_from(*number).ok().map(Duration::from_secs),
            _ => None,
        };
        if duration.is_none() {
            faults.expected("a duration such as `250ms`, `30s`, `15m`, `2h` or `1d`", tree);
        }
        duration
    }
}

impl Decode for serde_json::Value {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<serde_json::Value> {
        use serde_json::Value;
        Some(match &tree.node {
            Node::Null => Value::Null,
            Node::Boolean(value) => Value::Bool(*value),
            Node::Integer(number) => Value::Number((*number).into()),
            Node::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Node::Text(text) => Value::String(text.clone()),
            Node::List(items) => Value::Array(
                items
                    .iter()
                    .filter_map(|item| Value::decode(item, faults))
                    .collect(),
            ),
            Node::Map(_) => {
                let entries = faults.entries(tree, "a map")?;
                let made = entries.into_iter().filter_map(|(key, value)| {
                    let value = Value::decode(value, faults)?;
                    Some((key.text.clone(), value))
                });
                Value::Object(made.collect())
            }
        })
    }
}

impl<T: Decode> Decode for Located<T> {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<Located<T>> {
        T::decode(tree, faults).map(|value| Located::new(value, tree.span))
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<Option<T>> {
        match tree.node {
            Node::Null => Some(None),
            _ => T::decode(tree, faults).map(Some),
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<Vec<T>> {
        match &tree.node {
            Node::List(items) => Some(items.iter().filter_map(|item| T::decode(item, faults)).collect()),
            Node::Null => Some(Vec::new()),
            _ => {
                faults.expected("a list", tree);
                None
            }
        }
    }
}

impl<T: Decode> Decode for BTreeMap<String, Located<T>> {
    fn decode(tree: &Tree, faults: &mut Faults) -> Option<BTreeMap<String, Located<T>>> {
        let mut made = BTreeMap::new();
        for (key, value) in faults.entries(tree, "a map")? {
            if let Some(value) = T::decode(value, faults) {
                made.insert(key.text.clone(), Located::new(value, key.span));
            }
        }
        Some(made)
    }
}

/// A section of the file: a struct whose fields are its keys, none of which must be there.
macro_rules! section {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[cfg_attr(feature = "schema", schemars(default, deny_unknown_fields))]
        $vis struct $name { $($(#[$field_meta])* pub $field: $ty,)* }

        impl $crate::decode::Decode for $name {
            fn decode(tree: &$crate::tree::Tree, faults: &mut $crate::decode::Faults) -> Option<$name> {
                const KEYS: &[&str] = &[$($crate::decode::key_of(stringify!($field))),*];
                let mut made = $name::default();
                for (key, value) in faults.entries(tree, "a map")? {
                    $(if key.text == $crate::decode::key_of(stringify!($field)) {
                        if let Some(value) = $crate::decode::Decode::decode(value, faults) {
                            made.$field = value;
                        }
                        continue;
                    })*
                    faults.unknown_key(key, KEYS);
                }
                Some(made)
            }
        }
    };
}

/// An enum of words.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $vis enum $name { $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// The words that there are.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The word in files.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// What a word means; `None` for other words.
            pub fn of(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::decode::Decode for $name {
            fn decode(tree: &$crate::tree::Tree, faults: &mut $crate::decode::Faults) -> Option<$name> {
                let word = String::decode(tree, faults)?;
                let found = $name::of(&word);
                if found.is_none() {
                    let help = $crate::decode::suggestion(&word, $name::WORDS);
                    faults.value(format!("`{word}` is not known here"), tree.span, help);
                }
                found
            }
        }
    };
}

pub(crate) use {section, words};
