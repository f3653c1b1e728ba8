//! The context of a run: named values, cheap to copy (Attractor 5.1).

use std::sync::Arc;

use orchestra_graph::condition::Lookup;
use rpds::RedBlackTreeMapSync;
use serde::de::Deserialize;
use serde::{Deserializer, Serialize, Serializer};
use serde_json::Value;

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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    values: RedBlackTreeMapSync<Arc<str>, Value>,
}

impl Context {
    /// An empty context.
    pub fn new() -> Context {
        Context::default()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
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
        self.values.insert_mut(key.into(), value.into());
    }

    /// Removes a value; says whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        self.values.remove_mut(key)
    }

    /// The values with their keys, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (&**key, value))
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
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
