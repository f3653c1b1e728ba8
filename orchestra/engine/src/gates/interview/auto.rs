//! An interviewer that asks nobody and approves everything (Attractor 6.4).

use orchestra_core::{Answer, AnsweredBy, Question, QuestionKind};

use super::{InterviewError, Interviewer};

/// The answer to a question for a text.
const TEXT: &str = "auto-approved";

/// An interviewer that approves everything (Attractor 6.4, 11.8). It answers yes, chooses the first option, answers
/// `auto-approved` to a question for a text, and approves the result of a conversation with a model. Every answer is
/// recorded as automatic.
///
/// ```
/// use orchestra_engine::{AnsweredBy, AutoApprove, Interviewer, Question, QuestionOption, Reply};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let question = Question::select("Ship?", [QuestionOption::new("Y", "Yes"), QuestionOption::new("N", "No")]);
/// let answer = AutoApprove.ask(question).await?;
/// assert_eq!(answer.reply, Reply::Chosen(vec!["Y".to_owned()]));
/// assert_eq!(answer.by, AnsweredBy::Automatic);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AutoApprove;

impl Interviewer for AutoApprove {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        let answer = match question.kind {
            // Any other answer would continue the conversation forever.
            _ if question.is_chat() => Answer::choice("/approve"),
            QuestionKind::YesNo | QuestionKind::Confirm => Answer::yes(),
            QuestionKind::SingleSelect | QuestionKind::MultiSelect => match question.options.first() {
                Some(option) if !option.freeform => Answer::choice(&option.key),
                _ => Answer::choice(TEXT),
            },
            _ => Answer::choice(TEXT),
        };
        Ok(answer.by(AnsweredBy::Automatic))
    }
}
