//! The messages of a run, and what a turn sends.

use std::time::Duration;

use orchestra_core::{Answer, Budget, Context, EffectId, Question, Snapshot, Usage};
use orchestra_engine::{EventKind, HostedEnd, RunEvent, Timestamp};
use serde::{Deserialize, Serialize};

/// A message with the time at which it was sent.
///
/// ```
/// use orchestra_engine::Timestamp;
/// use orchestra_restate::{Message, Sent};
/// let sent = Sent { at: Timestamp::from_millis(1_000), message: Message::Pause { reason: "lunch".to_owned() } };
/// assert_eq!(serde_json::to_string(&sent)?, r#"{"at":"1970-01-01T00:00:01.000Z","message":{"pause":{"reason":"lunch"}}}"#);
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
    /// A worker reports about an attempt.
    Attempt {
        /// The effect.
        effect: EffectId,
        /// The fencing token of the execution: 1 for the first one, and what a [claim](Report::Claimed) returned for
        /// later ones. An execution with an older token is refused.
        token: u64,
        /// The report.
        report: Report,
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
    Resume {
        /// The attempts whose executions no longer exist, because an operator ended them. They are sent again.
        lost: Vec<EffectId>,
    },
}

/// A report about an attempt.
///
/// ```
/// use orchestra_core::Outcome;
/// use orchestra_engine::HostedEnd;
/// use orchestra_restate::{Finished, Report};
/// let finished = Report::from(Finished::new(HostedEnd::Outcome(Outcome::success())));
/// assert!(serde_json::to_string(&finished)?.starts_with(r#"{"finished":{"end":{"outcome":"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Report {
    /// Another execution of the attempt begins, because the last one was interrupted.
    Claimed {
        /// A name of the execution. A claim that arrives twice gets the same token.
        execution: String,
    },
    /// The attempt has ended.
    Finished(Box<Finished>),
    /// The attempt has used models, as one of its notes says.
    Used(Usage),
    /// The attempt reserves the maximum usage of a call of a model.
    Reserved {
        /// The number of the reservation in the execution.
        number: u64,
        /// The maximum usage.
        most: Usage,
    },
    /// The attempt releases a reservation.
    Released {
        /// The number of the reservation.
        number: u64,
    },
    /// The attempt asks a person a question.
    Asked(Box<Question>),
    /// The attempt emits events.
    Emitted {
        /// The number of the message in the execution, from 1.
        number: u64,
        /// The events.
        events: Vec<EventKind>,
    },
}

/// The end of an attempt.
///
/// ```
/// use orchestra_core::Outcome;
/// use orchestra_engine::HostedEnd;
/// use orchestra_restate::Finished;
/// let finished = Finished::new(HostedEnd::Outcome(Outcome::success()));
/// assert!(finished.events.is_empty() && finished.used.is_zero());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The end.
    pub end: HostedEnd,
    /// The usage since the last note of the attempt.
    #[serde(default, skip_serializing_if = "is_unused")]
    pub used: Usage,
    /// The events of the attempt that were not reported yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventKind>,
    /// `true` if the attempt has stored notes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noted: bool,
    /// The state of the files that the attempt left; `None` if it is the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// Returns whether a usage need not be stored.
fn is_unused(used: &Usage) -> bool {
    used.is_zero()
}

impl Finished {
    /// Creates the end of an attempt without usage, events and notes.
    pub fn new(end: HostedEnd) -> Finished {
        Finished {
            end,
            used: Usage::default(),
            events: Vec::new(),
            noted: false,
            snapshot: None,
        }
    }
}

impl From<Finished> for Report {
    fn from(finished: Finished) -> Report {
        Report::Finished(Box::new(finished))
    }
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
        /// The fencing token. Above 1, the attempt was executed before, and may have stored notes.
        token: u64,
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
        /// The invocation that executes it, if it is known.
        invocation: Option<String>,
    },
    /// The removal of the notes of an attempt that has ended.
    Forget {
        /// The effect.
        effect: EffectId,
    },
    /// The answer to a question of an attempt.
    Answer {
        /// The invocation that executes the attempt.
        invocation: String,
        /// The number of the answer in the invocation, from 1.
        number: u64,
        /// The name of the question.
        question: String,
        /// The answer.
        answer: Answer,
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
#[non_exhaustive]
pub enum Reply {
    /// The message was accepted, or had been before.
    #[default]
    Accepted,
    /// A reservation does not fit now. It will once others are released.
    Later,
    /// The execution may begin, with this fencing token.
    Claimed(u64),
    /// The question of the attempt was answered before.
    Answered(Answer),
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
    /// The attempt is not executed any more, or by another worker.
    #[error("the run does not wait for this execution of the attempt")]
    NotAwaited,
    /// No turn of the run can be taken now, for this reason.
    #[error("no turn of the run can be taken: {0}")]
    Parked(String),
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
