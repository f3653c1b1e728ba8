//! The questions that stages ask while they run; others than the engine's interviewer may answer them too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::{Answer, Question};
use tokio::sync::oneshot;

use crate::error::AnswerError;

/// The open questions of a run's stages, oldest first.
#[derive(Default)]
pub(crate) struct Asked {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// How many were asked.
    count: u64,
    open: Vec<(Question, oneshot::Sender<Answer>)>,
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
        inner.open.push((question.clone(), sender));
        let open = Open {
            asked: self,
            id: question.id.clone(),
        };
        (open, receiver)
    }

    pub(crate) fn list(&self) -> Vec<Question> {
        let inner = self.lock();
        inner.open.iter().map(|(question, _)| question.clone()).collect()
    }

    /// Answers a question, named by its id or by its node.
    pub(crate) fn answer(&self, name: &str, answer: Answer) -> Result<(), AnswerError> {
        let mut inner = self.lock();
        let named = |(question, _): &(Question, _)| question.id == name || question.node == name;
        let Some(place) = inner.open.iter().position(named) else {
            let open = inner.open.iter().map(|(question, _)| question.node.clone());
            return Err(AnswerError::NoQuestion {
                gate: name.to_owned(),
                open: open.collect(),
            });
        };
        if let Some((question, _)) = inner.open.get(place) {
            question.accept(&answer)?;
        }
        let (_, sender) = inner.open.remove(place);
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
            .retain(|(question, _)| question.id != self.id);
    }
}
