//! An interviewer with prepared answers (Attractor 6.4).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orchestra_core::{Answer, AnsweredBy, Question};

use super::{InterviewError, Interviewer};

/// An interviewer that returns prepared answers in order (Attractor 6.4, 11.8). Its clones share the queue.
///
/// Answers for a node are only used for the questions of that node, and are used before the answers for any node. Every
/// answer is recorded as prepared. When no answer is left, the question is skipped.
///
/// ```
/// use orchestra_engine::{Answer, Interviewer, Question, QuestionKind, QueueInterviewer, Reply};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = QueueInterviewer::new().answers(["yes", "no"]).answers_for("approve", ["Y"]);
/// let question = Question::new(QuestionKind::YesNo, "Ready?");
/// assert_eq!(queue.ask(question.clone()).await?.reply, Reply::Chosen(vec!["yes".to_owned()]));
/// assert_eq!(queue.nodes(), ["approve"]);
/// assert_eq!(queue.take_for("approve").map(|answer| answer.reply), Some(Reply::Chosen(vec!["Y".to_owned()])));
/// assert_eq!(queue.ask(question.clone()).await?.reply, Reply::Chosen(vec!["no".to_owned()]));
/// assert_eq!(queue.ask(question).await?.reply, Reply::Skipped);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct QueueInterviewer {
    queues: Arc<Mutex<Queues>>,
}

#[derive(Debug, Default)]
struct Queues {
    any: VecDeque<Answer>,
    nodes: BTreeMap<String, VecDeque<Answer>>,
}

impl QueueInterviewer {
    /// Creates an empty queue.
    pub fn new() -> QueueInterviewer {
        QueueInterviewer::default()
    }

    /// Appends answers for the questions of any node.
    #[must_use]
    pub fn answers(self, answers: impl IntoIterator<Item = impl Into<Answer>>) -> QueueInterviewer {
        self.lock().any.extend(answers.into_iter().map(prepared));
        self
    }

    /// Appends answers for the questions of one node.
    #[must_use]
    pub fn answers_for(
        self,
        node: impl Into<String>,
        answers: impl IntoIterator<Item = impl Into<Answer>>,
    ) -> QueueInterviewer {
        let answers = answers.into_iter().map(prepared);
        self.lock().nodes.entry(node.into()).or_default().extend(answers);
        self
    }

    /// Takes the next answer for a question of this node. Returns `None` if no answer is left.
    pub fn take_for(&self, node: &str) -> Option<Answer> {
        let mut queues = self.lock();
        let own = queues.nodes.get_mut(node).and_then(VecDeque::pop_front);
        own.or_else(|| queues.any.pop_front())
    }

    /// Returns the nodes for whose questions answers are left.
    pub fn nodes(&self) -> Vec<String> {
        let queues = self.lock();
        let left = queues.nodes.iter().filter(|(_, answers)| !answers.is_empty());
        left.map(|(node, _)| node.clone()).collect()
    }

    /// Returns the number of answers left.
    pub fn len(&self) -> usize {
        let queues = self.lock();
        queues.any.len() + queues.nodes.values().map(VecDeque::len).sum::<usize>()
    }

    /// Returns `true` if no answer is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn prepared(answer: impl Into<Answer>) -> Answer {
    answer.into().by(AnsweredBy::Prepared)
}

impl Interviewer for QueueInterviewer {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        let next = self.take_for(&question.node);
        Ok(next.unwrap_or_else(|| prepared(Answer::skipped())))
    }
}
