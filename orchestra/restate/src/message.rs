//! The messages of a run, and what a turn sends.

use std::time::Duration;

use orchestra_core::{Answer, Budget, Context, EffectId, Outcome, Question, Usage};
use orchestra_engine::{RunEvent, Timestamp};
use serde::{Deserialize, Serialize};

/// A message with the time at which it was sent.
///
/// ```
/// use orchestra_engine::Timestamp;
/// use orchestra_restate::{Message, Sent};
/// let sent = Sent { at: Timestamp::from_millis(1_000), message: Message::Resume };
/// assert_eq!(serde_json::to_string(&sent)?, r#"{"at":"1970-01-01T00:00:01.000Z","message":"resume"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The time. A turn reads no clock, so a time before that of the last turn counts as that.
    pub at: Timestamp,
    /// The message.
    pub message: Message,
}

/// Something that happens to a run.
///
/// ```
/// use orchestra_restate::Message;
/// let pause = Message::Pause { reason: "lunch".to_owned() };
/// assert_eq!(serde_json::to_string(&pause)?, r#"{"pause":{"reason":"lunch"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// An attempt has ended.
    Finished {
        /// The effect.
        effect: EffectId,
        /// The end of the attempt.
        end: AttemptEnd,
        /// The usage since its last note.
        used: Usage,
    },
    /// An attempt has used models, as its notes say.
    Used {
        /// The effect.
        effect: EffectId,
        /// The usage.
        used: Usage,
    },
    /// A delay is over.
    Timer {
        /// The number of the delay.
        number: u64,
    },
    /// Somebody answers a question.
    Answer {
        /// The name of the question, such as `approve#1/1`.
        question: String,
        /// The answer.
        answer: Answer,
    },
    /// An attempt reserves the maximum usage of a call of a model.
    Reserve {
        /// The effect.
        effect: EffectId,
        /// The maximum usage.
        most: Usage,
    },
    /// An attempt releases a reservation.
    Release {
        /// The effect.
        effect: EffectId,
        /// The usage that was reserved.
        most: Usage,
    },
    /// Somebody ends the run.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// Somebody stops the run, so that it can be resumed.
    Pause {
        /// The reason.
        reason: String,
    },
    /// Somebody resumes the run.
    Resume,
}

/// The end of an attempt, as a worker reports it.
///
/// ```
/// use orchestra_engine::Outcome;
/// use orchestra_restate::AttemptEnd;
/// let end = AttemptEnd::Outcome(Outcome::success());
/// assert!(serde_json::to_string(&end)?.starts_with(r#"{"outcome":"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The attempt has an outcome.
    Outcome(Outcome),
    /// A person has to answer, and nobody can be asked.
    WaitsForHuman(String),
    /// The budget of the run is used up.
    OverBudget(String),
    /// The attempt cannot go on here for another reason.
    Stuck(String),
    /// The attempt was cancelled, and nothing of it runs any more.
    Cancelled,
}

/// What a turn sends.
///
/// ```
/// # use orchestra_core::{Context, SharedPipeline};
/// # use orchestra_engine::{RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// # let run = RunId::new("first").expect("valid");
/// # let begin = orchestra_restate::Start {
/// #     run, pipeline: "flow".to_owned(), hash: String::new(), context: Context::new(), seed: 7,
/// #     budget: Default::default(), at: Timestamp::from_millis(0),
/// # };
/// use orchestra_restate::Outgoing;
/// let (_, first) = orchestra_restate::start(&pipeline, begin);
/// let [Outgoing::Stage { effect, .. }] = &first.outgoing[..] else { panic!("a stage is to run") };
/// assert_eq!(effect.name(&pipeline), "build#1/1");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// An attempt for a worker.
    Stage {
        /// The effect.
        effect: EffectId,
        /// The context that the stage sees.
        context: Context,
        /// The budget of the run.
        budget: Budget,
    },
    /// A [`Message::Timer`] after a delay.
    Timer {
        /// The number of the delay.
        number: u64,
        /// The delay.
        delay: Duration,
    },
    /// The cancellation of an attempt.
    Cancel {
        /// The effect.
        effect: EffectId,
    },
}

/// What a turn has decided.
///
/// ```
/// # use orchestra_core::{Context, SharedPipeline};
/// # use orchestra_engine::{RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// # let run = RunId::new("first").expect("valid");
/// # let begin = orchestra_restate::Start {
/// #     run, pipeline: "flow".to_owned(), hash: String::new(), context: Context::new(), seed: 7,
/// #     budget: Default::default(), at: Timestamp::from_millis(0),
/// # };
/// let (_, first) = orchestra_restate::start(&pipeline, begin);
/// assert_eq!(first.events[0].kind.name(), "PipelineStarted");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The reply to the sender.
    pub reply: Reply,
    /// What is sent, in order.
    pub outgoing: Vec<Outgoing>,
    /// The events of the run.
    pub events: Vec<RunEvent>,
}

/// The reply to the sender of a message.
///
/// ```
/// use orchestra_restate::Reply;
/// assert_eq!(Reply::default(), Reply::Accepted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The message was accepted, or had been before.
    #[default]
    Accepted,
    /// A reservation does not fit now. It will once others are released.
    Later,
    /// The message was refused.
    Refused(Refused),
}

/// Why a message was refused.
///
/// ```
/// use orchestra_restate::Refused;
/// let refused = Refused::NoQuestion { question: "approve#1/1".to_owned(), open: Vec::new() };
/// assert_eq!(refused.to_string(), "question `approve#1/1` is not open");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refused {
    /// No such question is open.
    #[error("question `{question}` is not open")]
    NoQuestion {
        /// The name that was given.
        question: String,
        /// The open questions.
        open: Vec<Question>,
    },
    /// The question does not accept the answer.
    #[error("{message}")]
    WrongAnswer {
        /// What is wrong.
        message: String,
        /// The question.
        question: Box<Question>,
    },
    /// The run is not in a phase for the message.
    #[error("the run {0}")]
    Phase(String),
    /// A call would exceed the budget of the run, or that of the node.
    #[error("over the budget")]
    OverBudget {
        /// The node whose budget it is; `None` for that of the run.
        node: Option<String>,
        /// The budget.
        budget: Budget,
        /// The usage before the call.
        used: Usage,
    },
    /// The state does not fit the pipeline.
    #[error("{0}")]
    Unreadable(String),
}
