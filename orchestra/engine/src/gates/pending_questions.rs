//! The questions of a run that wait for an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orchestra_core::{Answer, EffectId, Question, Reply};
use tokio::sync::{Notify, oneshot};

use crate::gates::answer_error::AnswerError;
use crate::gates::question_token::{QuestionRef, QuestionToken, TokenError, TokenSlot};

/// The questions of a run that wait for an answer: those of its gates, and those that its stages ask while they run.
///
/// The first answer removes a question; later ones fail with [`AnswerError::NoQuestion`].
#[derive(Default)]
pub(crate) struct PendingQuestions {
    inner: Mutex<Inner>,
    /// `true` if `Inner::answers` may hold an answer, so that the driver of a run without questions takes no lock.
    has_answers: AtomicBool,
    /// `true` if a stage has sent a request to the driver, which waits here.
    nudged: AtomicBool,
    notify: Notify,
}

#[derive(Default)]
struct Inner {
    /// Oldest first.
    open: Vec<PendingQuestion>,
    /// Answers to gates that the driver has yet to take.
    answers: Vec<(EffectId, Answer)>,
    /// The number of questions that stages have asked, for the ids of these questions.
    asked_by_stages: u64,
    /// The number of notes of the attempt before its questions, if the run consists of one hosted attempt. Its questions
    /// are counted from the last note, so that an attempt that is interrupted asks again under the same name.
    notes: Option<usize>,
}

struct PendingQuestion {
    question: Question,
    asker: Asker,
    token: TokenSlot,
}

/// The recipient of the answer.
enum Asker {
    /// A gate: the driver takes the answer and applies it to the machine.
    Gate(EffectId),
    /// A running stage.
    Stage(oneshot::Sender<Answer>),
}

impl PendingQuestion {
    fn is_of_gate(&self, id: &EffectId) -> bool {
        matches!(&self.asker, Asker::Gate(gate) if gate == id)
    }
}

impl PendingQuestions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the question of a gate.
    pub(crate) fn open(&self, id: EffectId, question: Question) {
        self.lock().open.push(PendingQuestion {
            question,
            asker: Asker::Gate(id),
            token: TokenSlot::default(),
        });
    }

    /// Opens the question of a running stage. A question without an id gets one. Returns a guard that closes the
    /// question, and the receiver of the answer.
    pub(crate) fn open_of_stage(
        &self,
        question: &mut Question,
        attempt_key: &str,
    ) -> (StageQuestion<'_>, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock();
        inner.asked_by_stages += 1;
        if question.id.is_empty() {
            let number = inner.asked_by_stages;
            question.id = match inner.notes {
                Some(notes) => format!("{attempt_key}?{notes}.{number}"),
                None => format!("{attempt_key}?{number}"),
            };
        }
        inner.open.push(PendingQuestion {
            question: question.clone(),
            asker: Asker::Stage(sender),
            token: TokenSlot::default(),
        });
        let guard = StageQuestion {
            questions: self,
            id: question.id.clone(),
        };
        (guard, receiver)
    }

    /// Counts questions from a note of a hosted attempt, which has this number of notes.
    pub(crate) fn count_from_note(&self, notes: usize) {
        let mut inner = self.lock();
        inner.notes = Some(notes);
        inner.asked_by_stages = 0;
    }

    /// Removes the question of a gate, so that nobody else can answer it. Returns whether it was open.
    pub(crate) fn claim(&self, id: &EffectId) -> bool {
        let mut inner = self.lock();
        let at = inner.open.iter().position(|pending| pending.is_of_gate(id));
        at.map(|at| inner.open.remove(at)).is_some()
    }

    /// Closes the question of a gate and drops an answer that the driver has not taken.
    pub(crate) fn close(&self, id: &EffectId) {
        let mut inner = self.lock();
        inner.open.retain(|pending| !pending.is_of_gate(id));
        inner.answers.retain(|(gate, _)| gate != id);
    }

    /// Closes the question of a gate whose time is up. Returns `false` if it was answered in time.
    pub(crate) fn expire(&self, id: &EffectId) -> bool {
        let mut inner = self.lock();
        if inner.answers.iter().any(|(gate, _)| gate == id) {
            return false;
        }
        inner.open.retain(|pending| !pending.is_of_gate(id));
        true
    }

    /// Returns whether a question is open or an answer has not been taken by the driver yet.
    pub(crate) fn are_open(&self) -> bool {
        let inner = self.lock();
        !inner.open.is_empty() || !inner.answers.is_empty()
    }

    /// Returns the open questions, oldest first.
    pub(crate) fn list(&self) -> Vec<Question> {
        let inner = self.lock();
        inner
            .open
            .iter()
            .map(|pending| pending.question.clone())
            .collect()
    }

    /// Returns the open questions with their tokens, oldest first.
    pub(crate) fn with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut inner = self.lock();
        let open = inner.open.iter_mut();
        open.map(|pending| Ok((pending.question.clone(), pending.token.token()?)))
            .collect()
    }

    /// Answers a question from outside the run.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut inner = self.lock();
        let is_named = |pending: &PendingQuestion| named.matches(&pending.question, &pending.token);
        let Some(at) = inner.open.iter().position(is_named) else {
            let open = inner.open.iter().map(|pending| pending.question.node.clone());
            return Err(AnswerError::NoQuestion {
                gate: named.name().to_owned(),
                open: open.collect(),
            });
        };
        let pending = &inner.open[at];
        // A gate may be skipped; a stage only receives an answer that its question accepts.
        if answer.reply != Reply::Skipped || matches!(pending.asker, Asker::Stage(_)) {
            pending.question.accept(&answer)?;
        }
        match inner.open.remove(at).asker {
            Asker::Gate(id) => {
                inner.answers.push((id, answer));
                drop(inner);
                self.has_answers.store(true, Ordering::Release);
                self.notify.notify_one();
            }
            Asker::Stage(sender) => {
                drop(inner);
                // The stage may have been dropped.
                let _ = sender.send(answer);
            }
        }
        Ok(())
    }

    /// Takes the oldest answer to a gate.
    pub(crate) fn take(&self) -> Option<(EffectId, Answer)> {
        if !self.has_answers.load(Ordering::Acquire) {
            return None;
        }
        let mut inner = self.lock();
        if inner.answers.is_empty() {
            self.has_answers.store(false, Ordering::Release);
            return None;
        }
        Some(inner.answers.remove(0))
    }

    /// Waits for an answer to a gate, or for a [nudge](Self::nudge). Only the driver calls this.
    pub(crate) async fn answered(&self) {
        while !self.has_answers.load(Ordering::Acquire) && !self.nudged.swap(false, Ordering::AcqRel) {
            self.notify.notified().await;
        }
    }

    /// Wakes the driver.
    pub(crate) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}

/// A guard that closes the question of a stage when it is dropped.
pub(crate) struct StageQuestion<'a> {
    questions: &'a PendingQuestions,
    id: String,
}

impl Drop for StageQuestion<'_> {
    fn drop(&mut self) {
        let is_other = |pending: &PendingQuestion| {
            matches!(pending.asker, Asker::Gate(_)) || pending.question.id != self.id
        };
        self.questions.lock().open.retain(is_other);
    }
}
