//! Values that may be chosen, with who says so and where.

use orchestra_graph::Span;

use crate::located::Located;
use crate::resolved::Reason;
use crate::settings::Agent;
use crate::stage::Said;

/// Where something is said.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Pipeline(Span),
    Configuration(Span),
    Nowhere,
}

/// A value that may be chosen.
#[derive(Clone)]
pub(crate) struct Candidate<T> {
    pub(crate) value: T,
    pub(crate) reason: Reason,
    pub(crate) place: Place,
}

/// The agent of a stage.
pub(crate) struct Doer<'r> {
    pub(crate) agent: &'r Agent,
    /// Where the program defines it, its values have the place of its name.
    pub(crate) place: Option<Place>,
}

impl Doer<'_> {
    pub(crate) fn said<T: Clone>(&self, value: &Option<Located<T>>) -> Option<Candidate<T>> {
        let value = value.as_ref()?;
        Some(Candidate {
            value: value.value.clone(),
            reason: Reason::Agent,
            place: self.place.unwrap_or(Place::Configuration(value.span)),
        })
    }
}

pub(crate) fn of_configuration<T: Clone>(value: Option<&Located<T>>, reason: Reason) -> Option<Candidate<T>> {
    value.map(|value| Candidate {
        value: value.value.clone(),
        reason,
        place: Place::Configuration(value.span),
    })
}

pub(crate) fn of_attribute(said: Option<Said<'_>>) -> Option<Candidate<String>> {
    let said = said.filter(Said::is_filled)?;
    Some(Candidate {
        value: said.text.trim().to_owned(),
        reason: said.reason,
        place: Place::Pipeline(said.span),
    })
}

/// An attribute that is one of some words; the language has checked that it is.
pub(crate) fn of_word<T>(said: Option<Said<'_>>, of: impl Fn(&str) -> Option<T>) -> Option<Candidate<T>> {
    let said = of_attribute(said)?;
    Some(Candidate {
        value: of(&said.value)?,
        reason: said.reason,
        place: said.place,
    })
}
