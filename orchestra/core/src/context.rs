//! The context of a run: named values, cheap to copy (Attractor 5.1).

use std::fmt;
use std::sync::Arc;

use orchestra_graph::condition::Lookup;
use rpds::RedBlackTreeMapSync;
use serde::de::Deserialize;
use serde::{Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The keys that the engine itself sets at every stage. They have slots of their own, so that setting them needs no
/// search.
const ENGINE_KEYS: [&str; 4] = ["current_node", "last_stage", "outcome", "preferred_label"];

/// The indices of the keys that the engine sets, in the order of [`ENGINE_KEYS`].
#[derive(Clone, Copy)]
pub(crate) enum EngineKey {
    CurrentNode,
    LastStage,
    Outcome,
    PreferredLabel,
}

/// The named values that stages share. A copy shares its structure with the original.
///
/// Keys are sorted, so that equal contexts have the same serialized form.
///
/// ```
/// use orchestra_core::Context;
/// let mut context = Context::new();
/// context.set("tries", 2);
/// assert_eq!(context.get("tries"), Some(&2.into()));
/// assert_eq!(context.text("missing"), "");
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Context {
    values: RedBlackTreeMapSync<Arc<str>, Value>,
    engine: Arc<[Option<Value>; ENGINE_KEYS.len()]>,
}

/// Returns the slot of a key that the engine sets; `None` for any other key.
fn slot_of(key: &str) -> Option<usize> {
    match key {
        "current_node" => Some(0),
        "last_stage" => Some(1),
        "outcome" => Some(2),
        "preferred_label" => Some(3),
        _ => None,
    }
}

impl Context {
    /// Creates an empty context.
    pub fn new() -> Context {
        Context::default()
    }

    /// Returns the value of a key; `None` if there is none.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match slot_of(key) {
            Some(slot) => self.engine[slot].as_ref(),
            None => self.values.get(key),
        }
    }

    /// Returns the value of a key as plain text; empty if there is none.
    pub fn text(&self, key: &str) -> String {
        match self.get(key) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// Sets a value.
    pub fn set(&mut self, key: impl Into<Arc<str>>, value: impl Into<Value>) {
        let key = key.into();
        match slot_of(&key) {
            Some(slot) => Arc::make_mut(&mut self.engine)[slot] = Some(value.into()),
            None => {
                self.values.insert_mut(key, value.into());
            }
        }
    }

    /// Sets a value on behalf of a stage. The keys of the engine are ignored, because stages must not set them. A key
    /// that exists is not copied.
    pub(crate) fn update(&mut self, key: &str, value: Value) {
        if slot_of(key).is_some() {
            return;
        }
        match self.values.get_mut(key) {
            Some(present) => *present = value,
            None => {
                self.values.insert_mut(key.into(), value);
            }
        }
    }

    /// Sets a key of the engine. Reuses the allocation of the previous text if possible.
    pub(crate) fn set_engine(&mut self, key: EngineKey, text: &str) {
        match &mut Arc::make_mut(&mut self.engine)[key as usize] {
            Some(Value::String(present)) => text.clone_into(present),
            other => *other = Some(Value::String(text.to_owned())),
        }
    }

    /// Removes a value. Returns `true` if there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        match slot_of(key) {
            Some(slot) => Arc::make_mut(&mut self.engine)[slot].take().is_some(),
            None => self.values.remove_mut(key),
        }
    }

    /// Iterates over the keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        let mut engine = ENGINE_KEYS
            .iter()
            .zip(self.engine.iter())
            .filter_map(|(key, value)| value.as_ref().map(|value| (*key, value)))
            .peekable();
        let mut values = self.values.iter().map(|(key, value)| (&**key, value)).peekable();
        std::iter::from_fn(move || match (engine.peek(), values.peek()) {
            (Some((engine_key, _)), Some((key, _))) if engine_key < key => engine.next(),
            (Some(_), None) => engine.next(),
            _ => values.next(),
        })
    }

    /// Appends a text to a list; a value that is not a list is replaced.
    pub(crate) fn append(&mut self, key: &str, text: String) {
        let mut list = match self.get(key) {
            Some(Value::Array(list)) => list.clone(),
            _ => Vec::new(),
        };
        list.push(Value::String(text));
        self.set(key, Value::Array(list));
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.size() + self.engine.iter().flatten().count()
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Print sorted entries: the shape of the tree depends on the order in which the values were inserted.
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Lookup for Context {
    fn lookup(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

impl<K: Into<Arc<str>>, V: Into<Value>> FromIterator<(K, V)> for Context {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Context {
        let mut context = Context::new();
        pairs.into_iter().for_each(|(key, value)| context.set(key, value));
        context
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Context, D::Error> {
        let map = std::collections::BTreeMap::<String, Value>::deserialize(deserializer)?;
        Ok(map.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_engine_and_of_stages_are_written_in_one_order() {
        let pairs = [
            ("zeta", "1"),
            ("outcome", "success"),
            ("alpha", "2"),
            ("current_node", "a"),
        ];
        let context: Context = pairs.into_iter().collect();
        let keys: Vec<&str> = context.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["alpha", "current_node", "outcome", "zeta"]);
        let text = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<Context>(&text).unwrap(), context);
    }

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut context: Context = [("a", 1), ("outcome", 2)].into_iter().collect();
        let copy = context.clone();
        context.set("a", 5);
        context.set("outcome", "fail");
        assert_eq!(
            (copy.get("a"), copy.get("outcome")),
            (Some(&1.into()), Some(&2.into()))
        );
    }
}
