//! Questions to people: asking them, and their answers.

pub(crate) mod answers;
pub(crate) mod console;
