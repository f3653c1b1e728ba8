//! The answers to questions (Attractor 6.3).

use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// The origin of an answer. It is always recorded, so that an automatic approval is never mistaken for a person's.
///
/// ```
/// use orchestra_core::AnsweredBy;
/// assert_eq!(AnsweredBy::Automatic.word(), "automatic");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnsweredBy {
    /// A person.
    #[default]
    Person,
    /// Nobody: the engine is configured to approve everything.
    Automatic,
    /// Nobody: the answer was given before the run, such as by a script or on the command line.
    Prepared,
    /// Nobody: the time was up, and the default was used.
    Default,
}

impl AnsweredBy {
    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            AnsweredBy::Person => "person",
            AnsweredBy::Automatic => "automatic",
            AnsweredBy::Prepared => "prepared",
            AnsweredBy::Default => "default",
        }
    }

    /// Returns a human-readable description.
    pub const fn describe(self) -> &'static str {
        match self {
            AnsweredBy::Person => "answered by a person",
            AnsweredBy::Automatic => "approved automatically",
            AnsweredBy::Prepared => "answered beforehand",
            AnsweredBy::Default => "default, nobody answered in time",
        }
    }
}

/// The content of an answer.
///
/// ```
/// use orchestra_core::{Answer, Reply};
/// assert_eq!(Answer::choice("Y").reply, Reply::Chosen(vec!["Y".to_owned()]));
/// assert_eq!(Answer::skipped().reply, Reply::Skipped);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reply {
    /// A choice by key, label or target, several choices, or a free text.
    Chosen(Vec<String>),
    /// The person does not want to answer.
    Skipped,
    /// Nobody answered in time, according to the source of the answer. The time-outs of the engine do not need this
    /// reply.
    TimedOut,
}

/// An answer to a [`Question`](crate::Question) (Attractor 6.3).
///
/// ```
/// use orchestra_core::{Answer, AnsweredBy};
/// let answer = Answer::choice("Y").by(AnsweredBy::Prepared);
/// assert_eq!(answer.by, AnsweredBy::Prepared);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// The content of the answer.
    pub reply: Reply,
    /// The origin of the answer.
    pub by: AnsweredBy,
    /// The [subject](crate::Question::subject) of the question, if a stage asked it and is run again before it gets the
    /// answer: it may ask something else then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

impl Answer {
    /// Creates an answer that makes a choice by key, label or target, or that is a free text.
    pub fn choice(choice: impl Into<String>) -> Answer {
        Answer::choices([choice.into()])
    }

    /// Creates an answer that makes several choices.
    pub fn choices(choices: impl IntoIterator<Item = impl Into<String>>) -> Answer {
        Answer {
            reply: Reply::Chosen(choices.into_iter().map(Into::into).collect()),
            by: AnsweredBy::Person,
            question: None,
        }
    }

    /// Creates a yes.
    pub fn yes() -> Answer {
        Answer::choice("yes")
    }

    /// Creates a no.
    pub fn no() -> Answer {
        Answer::choice("no")
    }

    /// Creates an answer that skips the question.
    pub fn skipped() -> Answer {
        Answer {
            reply: Reply::Skipped,
            by: AnsweredBy::Person,
            question: None,
        }
    }

    /// Creates an answer that means that nobody answered in time; simulations use it to trigger a time-out.
    pub fn timed_out() -> Answer {
        Answer {
            reply: Reply::TimedOut,
            by: AnsweredBy::Prepared,
            question: None,
        }
    }

    /// Sets the subject of the question that the answer belongs to.
    ///
    /// ```
    /// use orchestra_core::Answer;
    /// let answer = Answer::yes().to("Delete the branch?");
    /// assert_eq!(answer.question.as_deref(), Some("Delete the branch?"));
    /// ```
    #[must_use]
    pub fn to(mut self, question: impl Into<String>) -> Answer {
        self.question = Some(question.into());
        self
    }

    /// Sets the origin of the answer.
    #[must_use]
    pub fn by(mut self, by: AnsweredBy) -> Answer {
        self.by = by;
        self
    }
}

impl From<&str> for Answer {
    fn from(choice: &str) -> Answer {
        Answer::choice(choice)
    }
}

impl From<String> for Answer {
    fn from(choice: String) -> Answer {
        Answer::choice(choice)
    }
}

/// A choice of a human gate, which an answer can name by its key.
///
/// ```
/// use orchestra_core::GateChoice;
/// struct Choice;
/// impl GateChoice for Choice {
///     fn key(&self) -> &str {
///         "A"
///     }
/// }
/// assert_eq!(Choice.key(), "A");
/// ```
#[doc(hidden)]
pub trait GateChoice {
    /// Returns the key of the choice.
    fn key(&self) -> &str;
}

/// The type of the answers of a human gate, as generated code declares it.
///
/// ```
/// # struct Choice;
/// # impl orchestra_core::GateChoice for Choice {
/// #     fn key(&self) -> &str {
/// #         "A"
/// #     }
/// # }
/// use orchestra_core::{Answer, GateAnswer};
/// enum Review {
///     Approve,
/// }
/// impl std::ops::Deref for Review {
///     type Target = Choice;
///     fn deref(&self) -> &Choice {
///         &Choice
///     }
/// }
/// impl GateAnswer for Review {}
/// assert_eq!(Answer::from(Review::Approve), Answer::choice("A"));
/// ```
#[doc(hidden)]
pub trait GateAnswer: Deref<Target: GateChoice> {}

/// One impl for the answers of all gates: rustc compares each impl of `From` for `Answer` with every other one, so that
/// an impl per gate would take quadratic time.
impl<A: GateAnswer> From<A> for Answer {
    fn from(answer: A) -> Answer {
        Answer::choice(answer.key())
    }
}
