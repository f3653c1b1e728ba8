//! The questions of a run and of its child runs.

use std::sync::{Arc, Weak};

use orchestra_core::{Answer, Question};

use crate::gates::answer_error::AnswerError;
use crate::gates::question_token::{QuestionRef, QuestionToken, TokenError};
use crate::lock::lock;
use crate::run::state::Run;

impl Run {
    /// Registers a child run, so that its questions can be answered through this run.
    pub(crate) fn adopt(&self, child: &Arc<Run>) {
        let mut children = lock(&self.children);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(child));
    }

    fn live_children(&self) -> Vec<Arc<Run>> {
        lock(&self.children).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the open questions of this run and of its child runs.
    pub(crate) fn open_questions(&self) -> Vec<Question> {
        let mut open = self.questions.list();
        let children = self.live_children();
        open.extend(children.iter().flat_map(|child| child.open_questions()));
        open
    }

    /// Returns the open questions with the tokens by which other processes answer them.
    pub(crate) fn questions_with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut open = self.questions.with_tokens()?;
        for child in self.live_children() {
            open.extend(child.questions_with_tokens()?);
        }
        Ok(open)
    }

    /// Answers a question of this run, or of a child run if this run has no question of that name.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut answered = self.questions.answer(named, answer.clone());
        for child in self.live_children() {
            let Err(AnswerError::NoQuestion { open, .. }) = &mut answered else {
                break;
            };
            match child.answer(named, answer.clone()) {
                Err(AnswerError::NoQuestion { open: others, .. }) => open.extend(others),
                other => return other,
            }
        }
        answered
    }
}
