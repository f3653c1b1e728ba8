//! The questions that stages ask people while they run.

use orchestra_core::{Answer, Question, Reply};

use crate::event::EventKind;
use crate::gates::interview::{AskError, ask_until_accepted};
use crate::run::stage::StageContext;

impl StageContext {
    /// Asks a person a question, independent of the gates of the pipeline (Attractor 6.1). The interviewer of the
    /// engine can answer it, and anybody who [sees the questions of the run](crate::RunHandle::questions) from outside.
    /// The first answer wins. If the question does not accept the answer, it is asked again. The handler must enforce
    /// the time-out of the question, if it has one. An answer that was given while no process executed the run
    /// ([`PausedRun::answer`](crate::PausedRun::answer)) is returned at once.
    ///
    /// # Errors
    /// The engine has no interviewer or nobody can be asked, which suspends the run; or the question could not be
    /// asked.
    pub async fn ask(&self, mut question: Question) -> Result<Answer, AskError> {
        if let Some(redactor) = &self.run().settings.redactor {
            redactor.question(&mut question);
        }
        if let Some(answer) = self.given_answer(&question) {
            return Ok(answer);
        }
        let Some(interviewer) = &self.run().settings.interviewer else {
            return Err(AskError::waits("the engine has no interviewer"));
        };
        if question.node.is_empty() {
            self.node().id().clone_into(&mut question.node);
        }
        let run = self.run();
        let (_open, outside) = run.questions.open_of_stage(&mut question, &self.attempt_key());
        if run.sink.wanted() {
            run.emit(EventKind::InterviewStarted {
                node: run.name(self.id().node),
                branch: self.branch(),
                question: Box::new(question.clone()),
            });
        }
        let began = run.settings.clock.elapsed();
        let answer = tokio::select! {
            biased;
            Ok(answer) = outside => answer,
            answer = ask_until_accepted(interviewer, &question) => answer.map_err(AskError::of_interviewer)?,
        };
        if run.sink.wanted() {
            run.emit(EventKind::InterviewCompleted {
                node: run.name(self.id().node),
                branch: self.branch(),
                question_id: question.id.clone(),
                question: question.text.clone(),
                answer: run.redacted(&answer_text(&answer)).into_owned(),
                answered_by: answer.by,
                duration: run.settings.clock.elapsed().saturating_sub(began),
            });
        }
        Ok(answer)
    }

    /// Asks a person like [`ask`](StageContext::ask), but requires an answer: if the question is skipped or times out,
    /// the run is suspended until somebody answers it.
    ///
    /// # Errors
    /// The same as those of [`ask`](StageContext::ask).
    pub async fn require_answer(&self, question: Question) -> Result<Answer, AskError> {
        let answer = self.ask(question).await?;
        match answer.reply {
            Reply::Skipped | Reply::TimedOut => Err(AskError::waits("the question was not answered")),
            _ => Ok(answer),
        }
    }
}

/// Returns an answer as text.
pub(crate) fn answer_text(answer: &Answer) -> String {
    match &answer.reply {
        Reply::Chosen(choices) => choices.join(", "),
        Reply::TimedOut => "timed out".to_owned(),
        _ => "skipped".to_owned(),
    }
}
