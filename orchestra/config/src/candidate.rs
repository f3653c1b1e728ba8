//! Candidate values of a setting, each with its source and location.

use orchestra_graph::Span;

use crate::located::Located;
use crate::resolved::Reason;
use crate::settings::Agent;
use crate::stage::AttributeValue;

/// The location of a setting.
#[derive(Clone, Copy)]
pub(crate) enum Location {
    /// The attribute that sets it.
    Pipeline(Span),
    /// The attribute that names the agent of the program that sets it.
    Agent(Span),
    Configuration(Span),
    Nowhere,
}

/// A value that may be chosen for a setting.
#[derive(Clone)]
pub(crate) struct Candidate<T> {
    pub(crate) value: T,
    pub(crate) reason: Reason,
    pub(crate) location: Location,
}

/// The agent of a stage.
pub(crate) struct AgentLayer<'r> {
    pub(crate) agent: &'r Agent,
    /// The location of its values if the program defines the agent: the attribute that names the agent.
    pub(crate) location: Option<Location>,
}

impl AgentLayer<'_> {
    pub(crate) fn candidate<T: Clone>(&self, value: &Option<Located<T>>) -> Option<Candidate<T>> {
        let value = value.as_ref()?;
        Some(Candidate {
            value: value.value.clone(),
            reason: Reason::Agent,
            location: self.location.unwrap_or(Location::Configuration(value.span)),
        })
    }
}

pub(crate) fn from_configuration<T: Clone>(
    value: Option<&Located<T>>,
    reason: Reason,
) -> Option<Candidate<T>> {
    value.map(|value| Candidate {
        value: value.value.clone(),
        reason,
        location: Location::Configuration(value.span),
    })
}

pub(crate) fn from_attribute(attribute: Option<AttributeValue<'_>>) -> Option<Candidate<String>> {
    let attribute = attribute.filter(AttributeValue::is_filled)?;
    Some(Candidate {
        value: attribute.text.trim().to_owned(),
        reason: attribute.reason,
        location: Location::Pipeline(attribute.span),
    })
}

/// Returns the candidate of an attribute that holds the name of a variant; the language has already checked the name.
pub(crate) fn from_word<T>(
    attribute: Option<AttributeValue<'_>>,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Candidate<T>> {
    let attribute = from_attribute(attribute)?;
    Some(Candidate {
        value: parse(&attribute.value)?,
        reason: attribute.reason,
        location: attribute.location,
    })
}
