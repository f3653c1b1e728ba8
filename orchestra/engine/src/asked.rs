//! The questions that stages ask while they run; others than the engine's interviewer may answer them too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::{Answer, Question};
use tokio::sync::oneshot;

use crate::error::AnswerError;
use crate::question_token::{QuestionRef, QuestionToken, TokenError, TokenSlot};

/// The open questions of a run's stages, oldest first.
#[derive(Default)]
pub(crate) struct Asked {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// How many were asked.
    count: u64,
    open: Vec<(Question, oneshot::Sender<Answer>, TokenSlot)>,
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a question, which gets an id where it has none, and waits for its answer from outside.
    pub(crate) fn open(&self, question: &mut Question, stage: &str) -> (Open<'_>, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        inner.count += 1;
        if question.id.is_empty() {
            question.id = format!("{stage}?{}", inner.count);
        }
        inner.open.push((question.clone(), sender, TokenSlot::default()));
        let open = Open {
            asked: self,
            id: question.id.clone(),
        };
        (open, receiver)
    }

    pub(crate) fn list(&self) -> Vec<Question> {
        let inner = self.lock();
        inner.open.iter().map(|(question, ..)| question.clone()).collect()
    }

    /// The open questions with their tokens, oldest first.
    pub(crate) fn with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut inner = self.lock();
        let open = inner.open.iter_mut();
        open.map(|(question, _, slot)| Ok((question.clone(), slot.token()?)))
            .collect()
    }

    /// Answers a question from outside.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut inner = self.lock();
        let named_so = |(question, _, slot): &(Question, _, TokenSlot)| named.matches(question, slot);
        let Some(place) = inner.open.iter().position(named_so) else {
            let open = inner.open.iter().map(|(question, ..)| question.node.clone());
            return Err(AnswerError::NoQuestion {
                gate: named.name().to_owned(),
                open: open.collect(),
            });
        };
        if let Some((question, ..)) = inner.open.get(place) {
            question.accept(&answer)?;
        }
        let (_, sender, _) = inner.open.remove(place);
        drop(inner);
        // The stage may be gone.
        let _ = sender.send(answer);
        Ok(())
    }
}

/// An open question, until it is dropped.
pub(crate) struct Open<'a> {
    asked: &'a Asked,
    id: String,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.asked
            .lock()
            .open
            .retain(|(question, ..)| question.id != self.id);
    }
}
