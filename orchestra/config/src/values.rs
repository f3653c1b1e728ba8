//! The values that a template is rendered with. Long values are read only when the template uses them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, Serde, Value as Rendered};
use serde_json::{Map, Value};

use crate::variables::BUILT_IN_VARIABLES;

/// A value of a template.
///
/// ```
/// use std::sync::Arc;
/// use orchestra_config::{TaskTemplate, TemplateValue, TemplateValues};
/// let plan = TemplateValue::Lazy(Arc::new(|| "three steps".into()));
/// let stage = TemplateValue::Map([("response".to_owned(), plan)].into());
/// let mut values = TemplateValues::default();
/// values.set("stages", TemplateValue::Map([("plan".to_owned(), stage)].into()));
/// let task = TaskTemplate::new("do", "do.yaml", "Do {{ stages.plan.response }}.");
/// assert_eq!(task.render_with(&values)?, "Do three steps.");
/// # Ok::<(), orchestra_config::TemplateError>(())
/// ```
#[derive(Clone)]
pub enum TemplateValue {
    /// A value that is available at once.
    Plain(Value),
    /// A function that is called each time a template uses the value.
    Lazy(Arc<dyn Fn() -> Value + Send + Sync>),
    /// A map from names to values.
    Map(BTreeMap<String, TemplateValue>),
    /// A list of values.
    List(Vec<TemplateValue>),
}

impl fmt::Debug for TemplateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateValue::Plain(value) => value.fmt(f),
            TemplateValue::Lazy(_) => f.write_str("Lazy(..)"),
            TemplateValue::Map(values) => values.fmt(f),
            TemplateValue::List(values) => values.fmt(f),
        }
    }
}

impl<V: Into<Value>> From<V> for TemplateValue {
    fn from(value: V) -> TemplateValue {
        TemplateValue::Plain(value.into())
    }
}

/// The values of a template by key. A key with dots is a path of nested attributes: `human.gate.text`.
///
/// ```
/// use orchestra_config::{TaskTemplate, TemplateValues};
/// let mut values = TemplateValues::default();
/// values.set("human.gate.text", "Ship it.");
/// let task = TaskTemplate::new("a", "a.yaml", "{{ human.gate.text }}{{ last_response }}");
/// assert_eq!(task.render_with(&values)?, "Ship it.");
/// # Ok::<(), orchestra_config::TemplateError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TemplateValues {
    values: BTreeMap<String, TemplateValue>,
}

impl From<&Map<String, Value>> for TemplateValues {
    fn from(values: &Map<String, Value>) -> TemplateValues {
        let mut template_values = TemplateValues::default();
        for (key, value) in values {
            template_values.set(key, value.clone());
        }
        template_values
    }
}

impl TemplateValues {
    /// Sets a value. If one key is the beginning of another, such as `a` and `a.b`, the longer key wins.
    pub fn set(&mut self, key: &str, value: impl Into<TemplateValue>) {
        insert(&mut self.values, key, value.into());
    }

    /// Returns the text under a key without dots. Returns `None` if the key is not set or its value is not a plain
    /// text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key) {
            Some(TemplateValue::Plain(Value::String(text))) => Some(text),
            _ => None,
        }
    }

    /// Returns the value to pass to the template engine. Unset built-in variables are empty.
    pub(crate) fn rendered(&self) -> Rendered {
        let empty = BUILT_IN_VARIABLES.iter();
        let mut all: BTreeMap<String, TemplateValue> =
            empty.map(|key| ((*key).to_owned(), "".into())).collect();
        all.extend(self.values.clone());
        rendered(&TemplateValue::Map(all))
    }
}

fn insert(into: &mut BTreeMap<String, TemplateValue>, key: &str, value: TemplateValue) {
    if let Some((first, rest)) = key.split_once('.') {
        let inner = into.entry(first.to_owned()).or_insert(Value::Null.into());
        if let TemplateValue::Plain(Value::Object(fields)) = inner {
            let fields = std::mem::take(fields).into_iter();
            *inner = TemplateValue::Map(fields.map(|(key, value)| (key, value.into())).collect());
        }
        if !matches!(inner, TemplateValue::Map(_)) {
            *inner = TemplateValue::Map(BTreeMap::new());
        }
        if let TemplateValue::Map(inner) = inner {
            insert(inner, rest, value);
        }
        return;
    }
    match (into.get_mut(key), value) {
        (Some(TemplateValue::Map(present)), TemplateValue::Plain(Value::Object(value))) => {
            present.extend(value.into_iter().map(|(key, value)| (key, value.into())));
        }
        (Some(TemplateValue::Map(present)), TemplateValue::Map(value)) => present.extend(value),
        (Some(TemplateValue::Map(present)), _) if !present.is_empty() => {}
        (_, value) => {
            into.insert(key.to_owned(), value);
        }
    }
}

fn rendered(value: &TemplateValue) -> Rendered {
    match value {
        TemplateValue::Plain(value) => Rendered::from(Serde(value)),
        TemplateValue::Lazy(value) => Rendered::from(Serde(value())),
        TemplateValue::Map(values) => Rendered::from_object(LazyMap(values.clone())),
        TemplateValue::List(values) => values.iter().map(rendered).collect(),
    }
}

/// A map whose values are created on access.
struct LazyMap(BTreeMap<String, TemplateValue>);

impl fmt::Debug for LazyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Object for LazyMap {
    fn get_value(self: &Arc<LazyMap>, key: &Rendered) -> Option<Rendered> {
        self.0.get(key.as_str()?).map(rendered)
    }

    fn enumerate(self: &Arc<LazyMap>) -> Enumerator {
        Enumerator::Values(self.0.keys().map(|key| Rendered::from(key.as_str())).collect())
    }
}
