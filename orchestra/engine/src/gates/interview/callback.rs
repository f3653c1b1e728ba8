//! An interviewer that calls a function (Attractor 6.4).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use orchestra_core::{Answer, Question};

use super::{Boxed, InterviewError, Interviewer};
use crate::blocking::blocking;

type Callback = dyn Fn(Question) -> Boxed<'static, Result<Answer, InterviewError>> + Send + Sync;

/// An interviewer that calls a function, for example one that posts the question to a chat (Attractor 6.4). It is cheap
/// to clone.
///
/// ```
/// use orchestra_engine::{Answer, CallbackInterviewer, Engine, InterviewError};
/// let asynchronous = CallbackInterviewer::new(async |question| match question.node.as_str() {
///     "approve" => Ok(Answer::choice("Y")),
///     node => Err(InterviewError::unavailable(format!("nobody is there for `{node}`"))),
/// });
/// let plain = CallbackInterviewer::blocking(|question| Ok(Answer::choice(&question.options[0].key)));
/// let engine = Engine::builder().interviewer(plain).build()?;
/// # let _ = asynchronous;
/// # Ok::<(), orchestra_engine::BuildError>(())
/// ```
#[derive(Clone)]
pub struct CallbackInterviewer {
    callback: Arc<Callback>,
}

impl CallbackInterviewer {
    /// Creates an interviewer from an asynchronous function. Its future is dropped when the question is withdrawn.
    pub fn new<F, A>(callback: F) -> CallbackInterviewer
    where
        F: Fn(Question) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Answer, InterviewError>> + Send + 'static,
    {
        CallbackInterviewer {
            callback: Arc::new(move |question| Box::pin(callback(question))),
        }
    }

    /// Creates an interviewer from a blocking function, which runs outside the engine's threads. It runs to its end
    /// even if the question is withdrawn.
    pub fn blocking<F>(callback: F) -> CallbackInterviewer
    where
        F: Fn(Question) -> Result<Answer, InterviewError> + Send + Sync + 'static,
    {
        let callback = Arc::new(callback);
        CallbackInterviewer::new(move |question| {
            let callback = callback.clone();
            blocking(move || callback(question))
        })
    }
}

impl Interviewer for CallbackInterviewer {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        (self.callback)(question).await
    }
}

impl fmt::Debug for CallbackInterviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackInterviewer").finish_non_exhaustive()
    }
}
