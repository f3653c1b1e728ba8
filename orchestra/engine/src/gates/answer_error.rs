//! The errors of answering a question.

use orchestra_core::AnswerRefused;

use crate::id::RunId;

/// An error that occurs when a question is answered.
///
/// ```
/// # use orchestra_engine::{Answer, AnswerError, Engine};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Yes] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// let refused = run.answer("ask", Answer::choice("No")).unwrap_err();
/// assert!(matches!(refused, AnswerError::Refused(_)));
/// assert_eq!(refused.to_string(), "`No` is not one of the answers: [Y] Yes");
/// run.answer("ask", Answer::choice("yes"))?;
/// assert!(run.answer("ask", Answer::choice("yes")).is_err(), "it was answered");
/// assert!(run.wait().await?.is_success());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No such question is open; somebody else may have answered it.
    #[error("no question of `{gate}` is open{}", others(.open))]
    NoQuestion {
        /// The id or gate that the caller named.
        gate: String,
        /// The gates whose questions are open.
        open: Vec<String>,
    },
    /// The question belongs to a child run, and nobody executes the run. It can be answered once the run is resumed.
    #[error("the question of `{gate}` belongs to the child run `{child}`: resume the run, then answer it")]
    OfChild {
        /// The id or gate that the caller named.
        gate: String,
        /// The run that asks.
        child: RunId,
    },
    /// The question does not offer this answer; it stays open.
    #[error(transparent)]
    Refused(#[from] AnswerRefused),
}

impl AnswerError {
    /// Returns the code of the error, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            AnswerError::NoQuestion { .. } => "no_question",
            AnswerError::OfChild { .. } => "resume_first",
            AnswerError::Refused(_) => "answer_refused",
        }
    }
}

fn others(open: &[String]) -> String {
    match open {
        [] => String::new(),
        open => format!("; open are those of {}", open.join(", ")),
    }
}
