//! The attributes of the model: typed values with their places.

use std::collections::HashMap;
use std::time::Duration;

use crate::attribute::{Key, Known};
use crate::text::Span;
use crate::value::Value;

/// Where an attribute of the model comes from.
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
    /// It stands on its owner.
    Explicit,
    /// It comes from a block of defaults.
    Default,
    /// A stylesheet rule set it.
    Stylesheet,
    /// A transform set it.
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
    /// Where the key is written.
    pub key_span: Span,
    /// Where the value is written.
    pub value_span: Span,
    /// Where it comes from.
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
    /// Where each key stands in a list that is too long to be searched.
    #[expect(
        clippy::box_collection,
        reason = "most lists are short, and each node and edge has one"
    )]
    places: Option<Box<HashMap<Key, usize>>>,
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Attributes) -> bool {
        self.list == other.list
    }
}

/// How many attributes are searched one after the other.
const SEARCHED: usize = 32;

impl Attributes {
    /// No attributes.
    pub(crate) const fn new() -> Attributes {
        Attributes {
            list: Vec::new(),
            places: None,
        }
    }

    /// All attributes.
    pub fn iter(&self) -> std::slice::Iter<'_, Attribute> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The attribute of a known key.
    pub fn get(&self, known: Known) -> Option<&Attribute> {
        let place = match &self.places {
            Some(places) => places.get(&Key::Known(known)).copied(),
            None => {
                let is_known =
                    |attribute: &Attribute| matches!(attribute.key, Key::Known(key) if key == known);
                self.list.iter().position(is_known)
            }
        };
        self.list.get(place?)
    }

    /// The attribute of that name or alias.
    pub fn find(&self, name: &str) -> Option<&Attribute> {
        match Known::find(name) {
            Some(known) => self.get(known),
            None => self.list.get(self.other(name)?),
        }
    }

    /// Where the attribute of a name stands that the language does not know.
    fn other(&self, name: &str) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(&Key::Other(name.into())).copied(),
            None => {
                let is_other =
                    |attribute: &Attribute| matches!(&attribute.key, Key::Other(key) if **key == *name);
                self.list.iter().position(is_other)
            }
        }
    }

    /// Sets an attribute; an earlier one of the same key is replaced and given back.
    pub fn set(&mut self, attribute: Attribute) -> Option<Attribute> {
        let place = match &attribute.key {
            Key::Known(known) => {
                let known = *known;
                match &self.places {
                    Some(places) => places.get(&Key::Known(known)).copied(),
                    None => self
                        .list
                        .iter()
                        .position(|present| present.key == Key::Known(known)),
                }
            }
            Key::Other(name) => self.other(name),
        };
        match place.and_then(|place| self.list.get_mut(place)) {
            Some(present) => Some(std::mem::replace(present, attribute)),
            None => {
                self.push(attribute);
                None
            }
        }
    }

    /// Adds an attribute whose key is known to be absent.
    pub(crate) fn push(&mut self, attribute: Attribute) {
        if let Some(places) = &mut self.places {
            places.insert(attribute.key.clone(), self.list.len());
        }
        self.list.push(attribute);
        if self.list.len() > SEARCHED && self.places.is_none() {
            self.index();
        }
    }

    fn index(&mut self) {
        let keys = self.list.iter().enumerate();
        let places = keys.map(|(place, attribute)| (attribute.key.clone(), place));
        self.places = Some(Box::new(places.collect()));
    }

    /// The attribute of a name that the language does not know.
    pub(crate) fn find_other_mut(&mut self, name: &str) -> Option<&mut Attribute> {
        let place = self.other(name)?;
        self.list.get_mut(place)
    }

    /// Removes a known attribute.
    pub fn remove(&mut self, known: Known) -> Option<Attribute> {
        let at = self
            .list
            .iter()
            .position(|present| matches!(present.key, Key::Known(key) if key == known))?;
        let removed = self.list.remove(at);
        if self.places.is_some() {
            self.index();
        }
        Some(removed)
    }

    /// The text of a known attribute; `None` where it is absent.
    pub fn text(&self, known: Known) -> Option<&str> {
        self.get(known).and_then(|attribute| attribute.value.as_str())
    }

    /// The text of a known attribute, unless it is absent or blank.
    pub fn filled(&self, known: Known) -> Option<&str> {
        self.text(known).filter(|text| !text.trim().is_empty())
    }

    /// The number of a known attribute.
    pub fn integer(&self, known: Known) -> Option<i64> {
        match self.get(known)?.value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// The decimal number of a known attribute.
    pub fn float(&self, known: Known) -> Option<f64> {
        match self.get(known)?.value {
            Value::Float(number) => Some(number),
            _ => None,
        }
    }

    /// Whether a known attribute is `true`.
    pub fn flag(&self, known: Known) -> bool {
        matches!(
            self.get(known),
            Some(Attribute {
                value: Value::Boolean(true),
                ..
            })
        )
    }

    /// Whether the node is a goal gate, by `true` or by a condition of its own.
    pub(crate) fn is_goal_gate(&self) -> bool {
        self.flag(Known::GoalGate) || self.text(Known::GoalGate).is_some()
    }

    /// The duration of a known attribute.
    pub fn duration(&self, known: Known) -> Option<Duration> {
        match self.get(known)?.value {
            Value::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    /// The parts of a known attribute that lists words separated by commas.
    pub fn words(&self, known: Known) -> impl Iterator<Item = &str> {
        self.text(known)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
    }
}
