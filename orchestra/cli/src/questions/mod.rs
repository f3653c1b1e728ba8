//! Questions to people: asking them, their answers, and the questions that are open.

pub(crate) mod answers;
pub(crate) mod console;
pub(crate) mod pending;
