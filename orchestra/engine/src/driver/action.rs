//! The actions of the driver: the effects that require more than emitting an event.

use std::time::Duration;

use orchestra_core::{Context, EffectId, Question, RunFailure};

use crate::gates::deadline::Began;

/// An effect that requires more than emitting an event. It is small, because a waiting run holds capacity for a few.
pub(crate) enum Action {
    RunNode(EffectId, Context),
    StartTimer(EffectId, Duration, Box<Began>),
    AskHuman(EffectId, Box<Question>),
    Cancel(EffectId),
    Finish(Option<Box<RunFailure>>),
}
