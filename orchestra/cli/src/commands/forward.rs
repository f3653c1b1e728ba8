//! Forwards the questions of a run that another process executes to a person.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Answer, EventKind, InterviewError, Interviewer, Question, RunEvent, UnansweredQuestions,
};
use tokio::time::Instant;

use crate::report::progress::SharedProgress;
use crate::terminal::format::{now, one_line};

/// Interval between requests for open questions, if there is somebody to answer them.
const QUESTION_INTERVAL: Duration = Duration::from_secs(1);

/// A pending response of whoever executes the run. An error is a message for the person.
pub(super) type Response<T> = Pin<Box<dyn Future<Output = Result<T, String>>>>;

/// The way to whoever executes the run.
pub(super) trait QuestionChannel {
    /// An open question.
    type Asked: Deref<Target = Question> + Clone + 'static;

    /// Requests the open questions, oldest first.
    fn questions(&self) -> Response<Vec<Self::Asked>>;

    /// Answers a question.
    fn answer(&self, question: Self::Asked, answer: Answer) -> Response<()>;
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, InterviewError>>>>;

/// Forwards the questions of the run to an interviewer, one after the other.
pub(super) struct QuestionForwarder<C: QuestionChannel, I> {
    channel: C,
    interviewer: Arc<I>,
    shown: Arc<SharedProgress>,
    state: ForwardState<C::Asked>,
    unanswered: Option<Unanswered>,
}

/// A question that the interviewer could not answer.
pub(super) struct Unanswered {
    pub(super) question: Question,
    pub(super) reason: String,
}

/// The state of the question loop.
enum ForwardState<Q> {
    /// There is no person to ask.
    Nobody,
    /// Idle; the owner is queried again at this time.
    Idle(Instant),
    /// Waiting for the owner to return its open questions.
    Owner(Response<Vec<Q>>),
    /// Waiting for the person to answer.
    Person(Box<Q>, Answering),
    /// Waiting for the owner to accept an answer.
    Answer(Response<()>),
}

impl<C: QuestionChannel, I: Interviewer> QuestionForwarder<C, I> {
    /// Creates the forwarder. It asks nobody if there is no interviewer who can be asked.
    pub(super) fn new(
        channel: C,
        interviewer: I,
        attended: bool,
        shown: Arc<SharedProgress>,
    ) -> QuestionForwarder<C, I> {
        QuestionForwarder {
            channel,
            interviewer: Arc::new(interviewer),
            shown,
            state: if attended {
                ForwardState::Idle(Instant::now())
            } else {
                ForwardState::Nobody
            },
            unanswered: None,
        }
    }

    /// Returns the question that the interviewer could not answer. Nothing is asked after it.
    pub(super) fn unanswered(&mut self) -> Option<Unanswered> {
        self.unanswered.take()
    }

    /// Performs the next step. Cancel safe: the future may be dropped and the method called again at any time.
    pub(super) async fn step(&mut self, waiting: &UnansweredQuestions) {
        self.state = match &mut self.state {
            ForwardState::Nobody => std::future::pending().await,
            ForwardState::Idle(until) => {
                tokio::time::sleep_until(*until).await;
                ForwardState::Owner(self.channel.questions())
            }
            ForwardState::Owner(asked) => match asked.await {
                Ok(questions) => match questions.into_iter().next() {
                    Some(question) => self.ask_person(question, waiting),
                    None => idle(),
                },
                // The owner may be about to end, which the events will show.
                Err(_) => idle(),
            },
            ForwardState::Person(question, answering) => match answering.await {
                Ok(answer) => ForwardState::Answer(self.channel.answer(C::Asked::clone(question), answer)),
                Err(error) => {
                    self.unanswered = Some(Unanswered {
                        question: Question::clone(question),
                        reason: error.to_string(),
                    });
                    ForwardState::Nobody
                }
            },
            ForwardState::Answer(asked) => match asked.await {
                Ok(()) => ForwardState::Idle(Instant::now()),
                Err(error) => {
                    self.show(&error);
                    // A prepared answer may be refused again and again.
                    idle()
                }
            },
        };
    }

    /// Asks the person a question.
    fn ask_person(&self, question: C::Asked, waiting: &UnansweredQuestions) -> ForwardState<C::Asked> {
        let (interviewer, mut asked) = (self.interviewer.clone(), Question::clone(&question));
        let open = waiting.iter().find(|open| open.question.id == asked.id);
        if let Some(left) = open.and_then(|open| open.remaining(now())) {
            asked.timeout = Some(left);
        }
        ForwardState::Person(
            Box::new(question),
            Box::pin(async move { interviewer.ask(asked).await }),
        )
    }

    /// Withdraws a question that was answered elsewhere, or is no longer needed. Requests a new one at once.
    pub(super) fn event(&mut self, event: &RunEvent) {
        let is_over = match (&self.state, &event.kind) {
            (ForwardState::Idle(_), EventKind::InterviewStarted { .. }) => true,
            (
                ForwardState::Person(question, _),
                EventKind::InterviewCompleted { question_id, .. }
                | EventKind::InterviewTimeout { question_id, .. },
            ) => *question_id == question.id,
            (ForwardState::Person(question, _), EventKind::StageCancelled { stage, .. }) => {
                *stage.node == *question.node
            }
            _ => false,
        };
        if is_over {
            self.state = ForwardState::Idle(Instant::now());
        }
    }

    pub(super) fn show(&self, text: &str) {
        self.shown
            .progress()
            .interject(&format!("    {}", one_line(text)));
    }
}

fn idle<Q>() -> ForwardState<Q> {
    ForwardState::Idle(Instant::now() + QUESTION_INTERVAL)
}
