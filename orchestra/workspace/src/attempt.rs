//! The ids of an attempt in its commits.

use orchestra_engine::StageContext;

use crate::message::Message;

/// The ids that identify an attempt in its commits.
#[derive(Clone)]
pub(crate) struct AttemptIds {
    run: String,
    node: String,
    attempt: String,
}

impl AttemptIds {
    pub(crate) fn from_stage(stage: &StageContext) -> AttemptIds {
        AttemptIds {
            run: stage.run_id().to_string(),
            node: stage.node().id().to_owned(),
            attempt: stage.attempt_key(),
        }
    }

    /// Returns the message of a commit of the attempt.
    pub(crate) fn message(&self, summary: &str) -> Message {
        let trailer = |name: &str, value: &str| (format!("Orchestra-{name}"), value.to_owned());
        Message {
            summary: format!("{}: {summary}", self.node),
            body: String::new(),
            trailers: vec![
                trailer("Run", &self.run),
                trailer("Node", &self.node),
                trailer("Attempt", &self.attempt),
                // The id from which the run can be replayed.
                trailer("Checkpoint", &self.attempt),
            ],
        }
    }
}
