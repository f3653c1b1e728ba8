//! The questions that a run has open, and the answers that come from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::{Answer, EffectId, Question, Reply};
use tokio::sync::Notify;

use crate::error::AnswerError;
use crate::question_token::{QuestionRef, QuestionToken, TokenError, TokenSlot};

/// The questions that wait for an answer. Whoever answers first takes the question; others are told that it is gone.
#[derive(Default)]
pub(crate) struct Questions {
    inner: Mutex<Inner>,
    /// Whether an answer is there, so that a run without questions needs no look at the list.
    waiting: AtomicBool,
    /// Whether a stage wants something of the driver, which waits here.
    nudged: AtomicBool,
    notify: Notify,
}

#[derive(Default)]
struct Inner {
    open: Vec<(EffectId, Question, TokenSlot)>,
    answers: Vec<(EffectId, Answer)>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self, id: EffectId, question: Question) {
        self.lock().open.push((id, question, TokenSlot::default()));
    }

    /// Takes a question away, if it is there: from now on nobody else can answer it.
    pub(crate) fn claim(&self, id: &EffectId) -> bool {
        let mut inner = self.lock();
        let place = inner.open.iter().position(|(open, ..)| open == id);
        place.map(|place| inner.open.remove(place)).is_some()
    }

    /// Forgets a question, and an answer to it that was not taken yet.
    pub(crate) fn close(&self, id: &EffectId) {
        let mut inner = self.lock();
        inner.open.retain(|(open, ..)| open != id);
        inner.answers.retain(|(of, _)| of != id);
    }

    /// The time of a question is up: nobody can answer it any more, unless an answer was taken already.
    pub(crate) fn expire(&self, id: &EffectId) -> bool {
        let mut inner = self.lock();
        if inner.answers.iter().any(|(of, _)| of == id) {
            return false;
        }
        inner.open.retain(|(open, ..)| open != id);
        true
    }

    pub(crate) fn are_open(&self) -> bool {
        let inner = self.lock();
        !inner.open.is_empty() || !inner.answers.is_empty()
    }

    /// The open questions, oldest first.
    pub(crate) fn list(&self) -> Vec<Question> {
        let inner = self.lock();
        inner
            .open
            .iter()
            .map(|(_, question, _)| question.clone())
            .collect()
    }

    /// The open questions with their tokens, oldest first.
    pub(crate) fn with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut inner = self.lock();
        let open = inner.open.iter_mut();
        open.map(|(_, question, slot)| Ok((question.clone(), slot.token()?)))
            .collect()
    }

    /// Answers a question from outside.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut inner = self.lock();
        let named_so = |(_, question, slot): &(_, Question, TokenSlot)| named.matches(question, slot);
        let Some(place) = inner.open.iter().position(named_so) else {
            let open = inner.open.iter().map(|(_, question, _)| question.node.clone());
            return Err(AnswerError::NoQuestion {
                gate: named.name().to_owned(),
                open: open.collect(),
            });
        };
        if answer.reply != Reply::Skipped {
            inner.open[place].1.accept(&answer)?;
        }
        let (id, ..) = inner.open.remove(place);
        inner.answers.push((id, answer));
        drop(inner);
        self.waiting.store(true, Ordering::Release);
        self.notify.notify_one();
        Ok(())
    }

    /// The next answer from outside.
    pub(crate) fn take(&self) -> Option<(EffectId, Answer)> {
        if !self.waiting.load(Ordering::Acquire) {
            return None;
        }
        let mut inner = self.lock();
        if inner.answers.is_empty() {
            self.waiting.store(false, Ordering::Release);
            return None;
        }
        Some(inner.answers.remove(0))
    }

    /// Waits for an answer from outside, or for a nudge; only the driver does.
    pub(crate) async fn answered(&self) {
        while !self.waiting.load(Ordering::Acquire) && !self.nudged.swap(false, Ordering::AcqRel) {
            self.notify.notified().await;
        }
    }

    /// Wakes the driver.
    pub(crate) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}
