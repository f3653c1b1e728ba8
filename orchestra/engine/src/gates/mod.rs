//! Human gates: the interface to people, the open questions of a run, and their deadlines.

pub(crate) mod answer_error;
pub(crate) mod deadline;
pub(crate) mod interview;
pub(crate) mod pending_questions;
pub(crate) mod question_token;
