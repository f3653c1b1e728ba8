//! What the suite asks of every driver of runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{Answer, Question, RunId};
use orchestra_oracle_tests::Reaction;

use crate::case::Case;
use crate::ended::Ended;

/// A driver of runs.
pub trait Driver: Send + Sync + 'static {
    /// Starts a run of a case.
    fn start(&self, case: &Arc<Case>) -> impl Future<Output = RunId> + Send;

    /// Returns the open questions of a run; `None` once it has ended.
    fn questions(&self, run: &RunId) -> impl Future<Output = Option<Vec<Question>>> + Send;

    /// Answers a question.
    ///
    /// # Errors
    /// The code of the refusal.
    fn answer(
        &self,
        run: &RunId,
        question: &str,
        answer: Answer,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// Pauses a run.
    fn pause(&self, run: &RunId) -> impl Future<Output = ()> + Send;

    /// Resumes a run.
    fn resume(&self, run: &RunId) -> impl Future<Output = ()> + Send;

    /// Waits for the end of a run.
    fn ended(&self, run: &RunId) -> impl Future<Output = Ended> + Send;
}

/// Runs a case to its end, with its people.
pub async fn run<D: Driver>(driver: &D, case: &Arc<Case>) -> Ended {
    let run = driver.start(case).await;
    if case.script.reactions.is_empty() {
        return driver.ended(&run).await;
    }
    let (ended, ()) = tokio::join!(driver.ended(&run), answer_all(driver, case, &run));
    ended
}

/// Answers the questions of a run as its case says, until it ends.
pub async fn answer_all<D: Driver>(driver: &D, case: &Case, run: &RunId) {
    let mut delay = Duration::from_millis(2);
    while let Some(questions) = driver.questions(run).await {
        for question in &questions {
            let answer = match case.reaction(&question.id) {
                Reaction::Answer(text) => {
                    Some(Answer::choice(text)).filter(|answer| question.accept(answer).is_ok())
                }
                _ => None,
            };
            let answer = answer.unwrap_or_else(Answer::skipped);
            // Another answer may have come first, or the run has gone on without one.
            drop(driver.answer(run, &question.id, answer).await);
            delay = Duration::from_millis(2);
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(Duration::from_millis(100));
    }
}
