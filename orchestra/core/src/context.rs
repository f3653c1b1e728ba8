//! The context of a run: named values, cheap to copy (Attractor 5.1).

use std::fmt;
use std::sync::Arc;

use orchestra_graph::condition::Lookup;
use rpds::RedBlackTreeMapSync;
use serde::de::Deserialize;
use serde::{Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The keys that the engine itself sets at every stage; they have places of their own, so that setting them
/// costs no search.
const ENGINE_KEYS: [&str; 4] = ["current_node", "last_stage", "outcome", "preferred_label"];

/// The places of the keys that the engine sets, in the order of [`ENGINE_KEYS`].
#[derive(Clone, Copy)]
pub(crate) enum EngineKey {
    CurrentNode,
    LastStage,
    Outcome,
    PreferredLabel,
}

/// The named values that stages share; a copy shares its structure with the original.
///
/// Keys are in order, so that two equal contexts are written alike.
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

/// The place of a key that the engine sets.
fn place(key: &str) -> Option<usize> {
    match key {
        "current_node" => Some(0),
        "last_stage" => Some(1),
        "outcome" => Some(2),
        "preferred_label" => Some(3),
        _ => None,
    }
}

impl Context {
    /// An empty context.
    pub fn new() -> Context {
        Context::default()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match place(key) {
            Some(place) => self.engine[place].as_ref(),
            None => self.values.get(key),
        }
    }

    /// The plain text of a key; empty where it is absent.
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
        match place(&key) {
            Some(place) => Arc::make_mut(&mut self.engine)[place] = Some(value.into()),
            None => {
                self.values.insert_mut(key, value.into());
            }
        }
    }

    /// Takes a value from a stage; the engine's own keys are not for stages to set. A key that is there already is
    /// not copied.
    pub(crate) fn update(&mut self, key: &str, value: Value) {
        if place(key).is_some() {
            return;
        }
        match self.values.get_mut(key) {
            Some(present) => *present = value,
            None => {
                self.values.insert_mut(key.into(), value);
            }
        }
    }

    /// Sets a key of the engine's own; a text that fits where the last one stood costs no allocation.
    pub(crate) fn set_engine(&mut self, key: EngineKey, text: &str) {
        match &mut Arc::make_mut(&mut self.engine)[key as usize] {
            Some(Value::String(present)) => text.clone_into(present),
            other => *other = Some(Value::String(text.to_owned())),
        }
    }

    /// Removes a value; says whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        match place(key) {
            Some(place) => Arc::make_mut(&mut self.engine)[place].take().is_some(),
            None => self.values.remove_mut(key),
        }
    }

    /// The values with their keys, in the order of the keys.
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

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.size() + self.engine.iter().flatten().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The shape of the tree depends on the order in which the values came.
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
