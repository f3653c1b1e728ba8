//! The context keys reserved for the engine, and who else may write them (rule K1).

use std::borrow::Cow;

use crate::kind;

/// The owner of a reserved context key, which is who may write it.
///
/// ```
/// use orchestra_graph::KeyOwner;
/// assert_eq!(KeyOwner::of_key("human.gate.selected"), Some(KeyOwner::Engine));
/// assert_eq!(KeyOwner::of_key("tool.output"), Some(KeyOwner::ToolStage));
/// assert_eq!(KeyOwner::of_key("tests_passed"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    /// The engine alone.
    Engine,
    /// The engine, and stages that run a tool.
    ToolStage,
    /// The engine, and the workspace of the run.
    Workspace,
}

/// The reserved namespaces. Each covers all keys below it.
const NAMESPACES: &[(&str, KeyOwner)] = &[
    ("graph", KeyOwner::Engine),
    ("human", KeyOwner::Engine),
    ("internal", KeyOwner::Engine),
    ("parallel", KeyOwner::Engine),
    ("stack", KeyOwner::Engine),
    ("stages", KeyOwner::Engine),
    ("tool", KeyOwner::ToolStage),
    ("visits", KeyOwner::Engine),
    ("workspace", KeyOwner::Workspace),
];

/// The reserved keys without a namespace. The engine writes them.
const KEYS: &[&str] = &[
    "current_node",
    "error_history",
    "failure_reason",
    "last_response",
    "last_stage",
    "outcome",
    "preferred_label",
];

impl KeyOwner {
    /// Returns the owner of a context key, or `None` for a key that every stage may write.
    ///
    /// A key is reserved in every spelling that a condition, a template or a person could mistake for it: below
    /// `context.`, in another case, with white space, and as the bare name of its namespace.
    ///
    /// ```
    /// use orchestra_graph::KeyOwner;
    /// for key in ["context.human.gate.selected", " Human.Gate.Selected", "human"] {
    ///     assert_eq!(KeyOwner::of_key(key), Some(KeyOwner::Engine), "{key}");
    /// }
    /// assert_eq!(KeyOwner::of_key("humans.count"), None);
    /// ```
    pub fn of_key(key: &str) -> Option<KeyOwner> {
        let plain = plain(key);
        let mut key = &*plain;
        while let Some(rest) = key.strip_prefix("context.") {
            key = rest;
        }
        if KEYS.contains(&key) {
            return Some(KeyOwner::Engine);
        }
        let first = key.split('.').next().unwrap_or_default();
        let found = NAMESPACES.iter().find(|(namespace, _)| *namespace == first);
        found.map(|(_, owner)| *owner)
    }

    /// Returns whether a script of a simulated run may provide a value that is recorded in a real run by the engine's
    /// handler of a kind, or by the workspace.
    ///
    /// ```
    /// use orchestra_graph::{KeyOwner, kind};
    /// assert!(KeyOwner::is_recorded_by(kind::TOOL, "tool.output"));
    /// assert!(!KeyOwner::is_recorded_by(kind::TOOL, "last_response"));
    /// ```
    pub fn is_recorded_by(kind: &str, key: &str) -> bool {
        match kind {
            _ if KeyOwner::of_key(key) == Some(KeyOwner::Workspace) => true,
            kind::CODERGEN => key == "last_response",
            kind::FAN_IN => key.starts_with("parallel.fan_in."),
            kind::MANAGER_LOOP => key.starts_with("stack.child."),
            kind::TOOL => key.starts_with("tool."),
            _ => false,
        }
    }

    /// Returns the reserved names as shown to the user, sorted: `current_node`, `error_history`, `graph.*` and so on.
    ///
    /// ```
    /// let names: Vec<String> = orchestra_graph::KeyOwner::names().collect();
    /// assert!(names.contains(&"human.*".to_owned()) && names.contains(&"outcome".to_owned()));
    /// ```
    pub fn names() -> impl Iterator<Item = String> {
        let namespaces = NAMESPACES.iter().map(|(namespace, _)| format!("{namespace}.*"));
        let mut names: Vec<String> = KEYS
            .iter()
            .map(|key| (*key).to_owned())
            .chain(namespaces)
            .collect();
        names.sort();
        names.into_iter()
    }
}

/// Returns the key in lower case, without white space and invisible characters.
fn plain(key: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase();
    if key.chars().all(is_plain) {
        return Cow::Borrowed(key);
    }
    let visible = key.chars().filter(|c| !c.is_whitespace() && !is_invisible(*c));
    Cow::Owned(visible.flat_map(char::to_lowercase).collect())
}

/// Returns whether a character is a control character or has no width.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reserved_name_is_reserved_in_every_spelling() {
        for name in KeyOwner::names() {
            let key = name.replace(".*", ".x");
            let spellings = [
                key.clone(),
                key.to_uppercase(),
                format!(" {key}\t"),
                format!("context.{key}"),
                format!("Context.context. {key}"),
                key.replacen('a', "a\u{200b}", 1),
            ];
            for spelling in spellings {
                assert!(KeyOwner::of_key(&spelling).is_some(), "{spelling:?}");
            }
            assert!(KeyOwner::of_key(&format!("my_{key}")).is_none());
            assert!(KeyOwner::of_key(&format!("my.{key}")).is_none());
        }
    }

    #[test]
    fn keys_of_stages_are_free() {
        for key in [
            "",
            ".",
            "context",
            "tests_passed",
            "work.count",
            "outcomes",
            "tools",
            "stage.a",
        ] {
            assert_eq!(KeyOwner::of_key(key), None, "{key:?}");
        }
    }
}
