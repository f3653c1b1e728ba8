//! The interviewer of hosted attempts: it asks through the connection to the run.

use std::sync::Arc;

use orchestra_core::{Answer, Question};

use crate::gates::interview::{InterviewError, Interviewer};
use crate::run::port::AttemptPort;

pub(crate) struct PortInterviewer(pub(crate) Arc<dyn AttemptPort>);

impl Interviewer for PortInterviewer {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        self.0.ask(question).await
    }
}
