//! The attributes of the model: typed values with their spans.

use std::collections::HashMap;
use std::time::Duration;

use crate::attribute::{Key, Known};
use crate::text::{Span, is_blank};
use crate::value::Value;

/// The origin of an attribute of the model.
///
/// ```
/// use orchestra_graph::{Known, Origin, Source, load};
/// let text = "digraph { node [timeout=5m]; start -> work -> exit; work [max_retries=2] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let work = loaded.graph.node(loaded.graph.find("work").expect("declared"));
/// let origin = |known| work.attributes.get(known).map(|attribute| attribute.origin);
/// assert_eq!(origin(Known::Timeout), Some(Origin::Default));
/// assert_eq!(origin(Known::MaxRetries), Some(Origin::Explicit));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Written on its owner.
    Explicit,
    /// Inherited from a block of defaults.
    Default,
    /// Set by a stylesheet rule.
    Stylesheet,
    /// Set by a transform.
    Transform,
}

/// One attribute of the model, with its value in the right type.
///
/// ```
/// use orchestra_graph::{Known, Source, load};
/// let text = "digraph { goal=ship; start -> exit }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let goal = loaded.graph.attributes.get(Known::Goal).expect("it is set");
/// assert_eq!(loaded.source.slice(goal.value_span), "ship");
/// assert_eq!(goal.value.type_name(), "string");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// The span of the key.
    pub key_span: Span,
    /// The span of the value.
    pub value_span: Span,
    /// The origin.
    pub origin: Origin,
}

/// The attributes of one owner, in the order in which they were set.
///
/// ```
/// use orchestra_graph::{Known, Source, load};
/// let text = "digraph { start -> work -> exit; work [timeout=90, registry=internal, class=\"a, b\"] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let attributes = &loaded.graph.node(loaded.graph.find("work").expect("declared")).attributes;
/// assert_eq!(attributes.duration(Known::Timeout), Some(std::time::Duration::from_secs(90)));
/// assert!(attributes.words(Known::Class).eq(["a", "b"]));
/// assert_eq!(attributes.find("registry").expect("kept").value.as_str(), Some("internal"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    list: Vec<Attribute>,
    /// The index of each key in a list that is too long for a linear search.
    #[expect(
        clippy::box_collection,
        reason = "most lists are short, and each node and edge has one"
    )]
    slots: Option<Box<HashMap<Key, usize>>>,
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Attributes) -> bool {
        self.list == other.list
    }
}

/// The maximum length of a list that is searched linearly.
const SEARCHED: usize = 32;

impl Attributes {
    /// Creates an empty list.
    pub(crate) const fn new() -> Attributes {
        Attributes {
            list: Vec::new(),
            slots: None,
        }
    }

    /// Creates an empty list with room for some attributes.
    pub(crate) fn with_capacity(attributes: usize) -> Attributes {
        Attributes {
            list: Vec::with_capacity(attributes),
            slots: None,
        }
    }

    /// Returns an iterator over all attributes.
    pub fn iter(&self) -> std::slice::Iter<'_, Attribute> {
        self.list.iter()
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the attribute of a known key.
    pub fn get(&self, known: Known) -> Option<&Attribute> {
        let slot = match &self.slots {
            Some(slots) => slots.get(&Key::Known(known)).copied(),
            None => {
                let is_known =
                    |attribute: &Attribute| matches!(attribute.key, Key::Known(key) if key == known);
                self.list.iter().position(is_known)
            }
        };
        self.list.get(slot?)
    }

    /// Returns the attribute of a name or alias.
    pub fn find(&self, name: &str) -> Option<&Attribute> {
        match Known::find(name) {
            Some(known) => self.get(known),
            None => self.list.get(self.other(name)?),
        }
    }

    /// Returns the index of an attribute with a name that the language does not define.
    fn other(&self, name: &str) -> Option<usize> {
        match &self.slots {
            Some(slots) => slots.get(&Key::Other(name.into())).copied(),
            None => {
                let is_other =
                    |attribute: &Attribute| matches!(&attribute.key, Key::Other(key) if **key == *name);
                self.list.iter().position(is_other)
            }
        }
    }

    /// Sets an attribute. Returns the attribute of the same key that it replaced, if any.
    pub fn set(&mut self, attribute: Attribute) -> Option<Attribute> {
        let slot = match &attribute.key {
            Key::Known(known) => {
                let known = *known;
                match &self.slots {
                    Some(slots) => slots.get(&Key::Known(known)).copied(),
                    None => self
                        .list
                        .iter()
                        .position(|present| present.key == Key::Known(known)),
                }
            }
            Key::Other(name) => self.other(name),
        };
        match slot.and_then(|slot| self.list.get_mut(slot)) {
            Some(present) => Some(std::mem::replace(present, attribute)),
            None => {
                self.push(attribute);
                None
            }
        }
    }

    /// Adds an attribute whose key must be absent.
    pub(crate) fn push(&mut self, attribute: Attribute) {
        if let Some(slots) = &mut self.slots {
            slots.insert(attribute.key.clone(), self.list.len());
        }
        self.list.push(attribute);
        if self.list.len() > SEARCHED && self.slots.is_none() {
            self.index();
        }
    }

    fn index(&mut self) {
        let keys = self.list.iter().enumerate();
        let slots = keys.map(|(slot, attribute)| (attribute.key.clone(), slot));
        self.slots = Some(Box::new(slots.collect()));
    }

    /// Returns the attribute of a name that the language does not define.
    pub(crate) fn find_other_mut(&mut self, name: &str) -> Option<&mut Attribute> {
        let slot = self.other(name)?;
        self.list.get_mut(slot)
    }

    /// Removes the attribute of a known key and returns it.
    pub fn remove(&mut self, known: Known) -> Option<Attribute> {
        let at = self
            .list
            .iter()
            .position(|present| matches!(present.key, Key::Known(key) if key == known))?;
        let removed = self.list.remove(at);
        if self.slots.is_some() {
            self.index();
        }
        Some(removed)
    }

    /// Returns the text of a known attribute, or `None` if it is absent or not text.
    pub fn text(&self, known: Known) -> Option<&str> {
        self.get(known).and_then(|attribute| attribute.value.as_str())
    }

    /// Returns the text of a known attribute, or its default if it is absent or not text.
    pub(crate) fn text_or_default(&self, known: Known) -> &str {
        self.text(known).unwrap_or_else(|| known.default_text())
    }

    /// Returns the text of a known attribute, unless it is absent or blank.
    pub fn filled(&self, known: Known) -> Option<&str> {
        self.text(known).filter(|text| !is_blank(text))
    }

    /// Returns the whole number of a known attribute.
    pub fn integer(&self, known: Known) -> Option<i64> {
        match self.get(known)?.value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the decimal number of a known attribute.
    pub fn float(&self, known: Known) -> Option<f64> {
        match self.get(known)?.value {
            Value::Float(number) => Some(number),
            _ => None,
        }
    }

    /// Returns whether a known attribute is `true`; its default if it is absent.
    pub fn flag(&self, known: Known) -> bool {
        match self.get(known) {
            Some(attribute) => attribute.value == Value::Boolean(true),
            None => known.default_flag(),
        }
    }

    /// Returns whether the node is a goal gate, either by `true` or by a condition.
    pub(crate) fn is_goal_gate(&self) -> bool {
        self.flag(Known::GoalGate) || self.text(Known::GoalGate).is_some()
    }

    /// Returns the duration of a known attribute.
    pub fn duration(&self, known: Known) -> Option<Duration> {
        match self.get(known)?.value {
            Value::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    /// Returns the items of a known attribute that is a comma-separated list of words.
    pub fn words(&self, known: Known) -> impl Iterator<Item = &str> {
        self.text(known)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
    }
}
