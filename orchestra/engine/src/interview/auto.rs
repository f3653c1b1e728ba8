//! Nobody is asked, everything is approved (Attractor 6.4).

use orchestra_core::{Answer, AnsweredBy, Question, QuestionKind};

use super::{InterviewError, Interviewer};

/// What is said where a text is wanted.
const TEXT: &str = "auto-approved";

/// Says yes, takes the first option, writes `auto-approved` where a text is wanted (Attractor 6.4, 11.8), and approves
/// what a model says in a conversation. Every answer
/// is recorded as an automatic one.
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
            // Anything else would go on for ever.
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
