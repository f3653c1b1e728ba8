//! Decoding of YAML trees into types. Values that cannot be decoded are reported as diagnostics.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_graph::{Diagnostic, Page, Source, Span, parse_duration};
use serde_json::Number;

use crate::located::Located;
use crate::suggestion::{Hint, in_yaml, suggestion};
use crate::tree::{Key, Node, Tree};

/// The rules for one kind of file.
#[derive(Clone, Copy)]
pub(crate) struct FileRules {
    pub(crate) syntax: &'static Page,
    pub(crate) unknown_key: &'static Page,
    pub(crate) duplicate_key: &'static Page,
    pub(crate) value: &'static Page,
}

/// The diagnostics of a file.
pub(crate) struct Diagnostics {
    pub(crate) source: Source,
    pub(crate) rules: FileRules,
    pub(crate) list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn new(source: Source, rules: FileRules) -> Diagnostics {
        Diagnostics {
            source,
            rules,
            list: Vec::new(),
        }
    }

    /// Reports a value that is not of the expected type.
    pub(crate) fn expected(&mut self, what: &str, tree: &Tree) {
        let kind = tree.node.describe();
        let found = match tree.node {
            Node::List(_) | Node::Map(_) | Node::Null => kind.to_owned(),
            _ => format!("`{}`", self.source.slice(tree.span)),
        };
        let message = format!("expected {what}, found {found}");
        let diagnostic = Diagnostic::from_rule(self.rules.value, message, tree.span);
        self.list.push(diagnostic.label(format!("this is {kind}")));
    }

    /// Reports a value of the right type that is not allowed.
    pub(crate) fn value(&mut self, message: impl Into<String>, span: Span, help: impl Into<String>) {
        let diagnostic = Diagnostic::from_rule(self.rules.value, message, span);
        self.list.push(diagnostic.help(help));
    }

    /// Reports a text that cannot be the name of an environment variable.
    pub(crate) fn variable_name(&mut self, name: &Located<String>) {
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let is_next = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !name.bytes().next().is_some_and(is_first) || !name.bytes().all(is_next) {
            self.value(
                format!("`{}` is not a valid environment variable name", name.value),
                name.span,
                "use letters, digits and `_`, and begin with a letter or `_`",
            );
        }
    }

    /// Reports a text that is not a JSON pointer (RFC 6901). The empty one points to the whole value.
    pub(crate) fn pointer(&mut self, pointer: &str, span: Span) {
        let mut escapes = pointer.split('~').skip(1);
        if (pointer.is_empty() || pointer.starts_with('/'))
            && escapes.all(|rest| rest.starts_with(['0', '1']))
        {
            return;
        }
        let help = if pointer.starts_with('/') {
            "write `~0` for `~`, and `~1` for `/` in a key".to_owned()
        } else {
            let dotted = pointer.trim_start_matches("$.").trim_start_matches('.');
            format!(
                "write `/{}`: each key or index follows a `/`",
                dotted.replace('.', "/")
            )
        };
        self.value(format!("`{pointer}` is not a JSON pointer"), span, help);
    }

    /// Reports a diagnostic at a name, with a hint on how to correct it.
    pub(crate) fn name(&mut self, diagnostic: Diagnostic, name: &str, hint: impl Into<Hint>) {
        self.list
            .push(in_yaml(&self.source, diagnostic, name, hint.into()));
    }

    /// Reports an unknown key, with a suggestion.
    pub(crate) fn unknown_key(&mut self, key: &Key, known: &[&str]) {
        let diagnostic = Diagnostic::from_rule(
            self.rules.unknown_key,
            format!("unknown key `{}`", key.text),
            key.span,
        );
        self.name(diagnostic, &key.text, suggestion(&key.text, known));
    }

    /// Returns the entries of a map, each key once; reports duplicate keys. Reports that `what` was expected and
    /// returns `None` if the tree is not a map.
    pub(crate) fn entries<'t>(&mut self, tree: &'t Tree, what: &str) -> Option<Vec<(&'t Key, &'t Tree)>> {
        let entries = match &tree.node {
            Node::Map(entries) => entries,
            // A section whose entries are all commented out is null in YAML.
            Node::Null => return Some(Vec::new()),
            _ => {
                self.expected(what, tree);
                return None;
            }
        };
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        let mut unique = Vec::new();
        for (key, value) in entries {
            match seen.get(key.text.as_str()) {
                Some(first) => {
                    let diagnostic = Diagnostic::from_rule(
                        self.rules.duplicate_key,
                        format!("duplicate key `{}`", key.text),
                        key.span,
                    );
                    let diagnostic = diagnostic.related(*first, "the first one");
                    self.list.push(diagnostic.help("take one of them away"));
                }
                None => {
                    seen.insert(&key.text, key.span);
                    unique.push((key, value));
                }
            }
        }
        Some(unique)
    }
}

/// Returns the key of a field: its name without the `r#` of a raw identifier.
pub(crate) const fn key_of(field: &str) -> &str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// A type that can be decoded from a tree.
pub(crate) trait Decode: Sized {
    /// Decodes the value. Returns `None` after it has reported a diagnostic.
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Self>;
}

impl Decode for String {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<String> {
        match &tree.node {
            Node::Text(text) => Some(text.clone()),
            // A version or a model may look like a number; take it as it is written.
            Node::Integer(_) | Node::Float(_) | Node::Boolean(_) => {
                Some(diagnostics.source.slice(tree.span).to_owned())
            }
            _ => {
                diagnostics.expected("text", tree);
                None
            }
        }
    }
}

impl Decode for bool {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<bool> {
        match tree.node {
            Node::Boolean(value) => Some(value),
            _ => {
                diagnostics.expected("`true` or `false`", tree);
                None
            }
        }
    }
}

impl Decode for u64 {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<u64> {
        match tree.node {
            Node::Integer(number) if number >= 1 => u64::try_from(number).ok(),
            _ => {
                diagnostics.expected("a whole number of at least 1", tree);
                None
            }
        }
    }
}

impl Decode for f64 {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<f64> {
        let number = match tree.node {
            Node::Integer(number) => Some(number as f64),
            Node::Float(number) => Some(number),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            diagnostics.expected("a number of at least 0", tree);
        }
        number
    }
}

impl Decode for Duration {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Duration> {
        let duration = match &tree.node {
            Node::Text(text) => parse_duration(text),
            // As in the pipeline language, a bare whole number means seconds.
            Node::Integer(number) => u64::try_from(*number).ok().map(Duration::from_secs),
            _ => None,
        };
        if duration.is_none() {
            diagnostics.expected("a duration such as `250ms`, `30s`, `15m`, `2h` or `1d`", tree);
        }
        duration
    }
}

impl Decode for serde_json::Value {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<serde_json::Value> {
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
                    .filter_map(|item| Value::decode(item, diagnostics))
                    .collect(),
            ),
            Node::Map(_) => {
                let entries = diagnostics.entries(tree, "a map")?;
                let fields = entries.into_iter().filter_map(|(key, value)| {
                    let value = Value::decode(value, diagnostics)?;
                    Some((key.text.clone(), value))
                });
                Value::Object(fields.collect())
            }
        })
    }
}

impl<T: Decode> Decode for Located<T> {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Located<T>> {
        T::decode(tree, diagnostics).map(|value| Located::new(value, tree.span))
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Option<T>> {
        match tree.node {
            Node::Null => Some(None),
            _ => T::decode(tree, diagnostics).map(Some),
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Vec<T>> {
        match &tree.node {
            Node::List(items) => Some(
                items
                    .iter()
                    .filter_map(|item| T::decode(item, diagnostics))
                    .collect(),
            ),
            Node::Null => Some(Vec::new()),
            _ => {
                diagnostics.expected("a list", tree);
                None
            }
        }
    }
}

impl<T: Decode> Decode for BTreeMap<String, Located<T>> {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<BTreeMap<String, Located<T>>> {
        let mut values = BTreeMap::new();
        for (key, value) in diagnostics.entries(tree, "a map")? {
            if let Some(value) = T::decode(value, diagnostics) {
                values.insert(key.text.clone(), Located::new(value, key.span));
            }
        }
        Some(values)
    }
}

/// Defines a section of the file: a struct whose fields are its keys, all of them optional.
macro_rules! section {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[cfg_attr(feature = "schema", schemars(default, deny_unknown_fields))]
        $vis struct $name { $($(#[$field_meta])* pub $field: $ty,)* }

        impl $crate::decode::Decode for $name {
            fn decode(tree: &$crate::tree::Tree, diagnostics: &mut $crate::decode::Diagnostics) -> Option<$name> {
                const KEYS: &[&str] = &[$($crate::decode::key_of(stringify!($field))),*];
                let mut section = $name::default();
                for (key, value) in diagnostics.entries(tree, "a map")? {
                    $(if key.text == $crate::decode::key_of(stringify!($field)) {
                        if let Some(value) = $crate::decode::Decode::decode(value, diagnostics) {
                            section.$field = value;
                        }
                        continue;
                    })*
                    diagnostics.unknown_key(key, KEYS);
                }
                Some(section)
            }
        }
    };
}

/// Defines an enum whose variants have names in files.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $vis enum $name { $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// The names of all variants.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// Returns the name of the variant in files.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// Parses the name of a variant. Returns `None` for other names.
            pub fn from_name(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::decode::Decode for $name {
            fn decode(tree: &$crate::tree::Tree, diagnostics: &mut $crate::decode::Diagnostics) -> Option<$name> {
                let word = String::decode(tree, diagnostics)?;
                let found = $name::from_name(&word);
                if found.is_none() {
                    let hint = $crate::suggestion::suggestion(&word, $name::WORDS);
                    let message = format!("`{word}` is not known here");
                    let rule = diagnostics.rules.value;
                    let diagnostic = orchestra_graph::Diagnostic::from_rule(rule, message, tree.span);
                    diagnostics.name(diagnostic, &word, hint);
                }
                found
            }
        }
    };
}

pub(crate) use {section, words};
