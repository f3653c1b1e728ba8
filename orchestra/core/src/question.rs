//! Questions to people, and the answers that they accept (Attractor 6.2, rules H1 to H4).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use orchestra_graph::condition::Facts;
use orchestra_graph::{Choice, NodeIndex, Offers, Pipeline, Tested, choices, offers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Answer, AnsweredBy, Reply};
use crate::chat::ChatTurn;
use crate::option::{Named, QuestionOption, UnmetCondition, WithheldOption, named};
use crate::outcome::Outcome;

/// The kind of answer that a question requests (Attractor 6.2, 11.8).
///
/// ```
/// use orchestra_core::QuestionKind;
/// assert_eq!(serde_json::to_string(&QuestionKind::SingleSelect)?, r#""single_select""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionKind {
    /// Yes or no.
    YesNo,
    /// Yes or no, before an action is carried out.
    Confirm,
    /// One of the options.
    SingleSelect,
    /// Any of the options.
    MultiSelect,
    /// Any text.
    FreeText,
}

/// A question to a person (Attractor 6.2).
///
/// ```
/// use orchestra_core::{Answer, Question, QuestionOption};
/// let question = Question::select("Ship it?", [QuestionOption::new("Y", "Yes"), QuestionOption::new("N", "No")]);
/// let accepted = question.accept(&Answer::choice("yes"))?;
/// assert_eq!(accepted.options[0].key, "Y");
/// let refused = question.accept(&Answer::choice("maybe")).unwrap_err();
/// assert_eq!(refused.to_string(), "`maybe` is not one of the answers: [Y] Yes, [N] No");
/// # Ok::<(), orchestra_core::AnswerRefused>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// The id of the question in its run, such as `approve#1/1`; empty if a handler asks the question.
    pub id: String,
    /// The id of the node that asks.
    pub node: String,
    /// The text of the question.
    pub text: String,
    /// The kind of answer that the question requests.
    pub kind: QuestionKind,
    /// The answers that the question offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// The answers that the question does not offer now, because no condition on their edges holds (rule H5).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<WithheldOption>,
    /// The key of the option that is used if nobody answers in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The time to wait for an answer.
    #[serde(
        default,
        rename = "timeout_ms",
        with = "millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// Additional data to show.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// What the question is about, if its text changes when it is asked again ([`Question::about`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// The metadata key that marks a question as a turn of a conversation.
const CHAT: &str = "chat";

impl Question {
    /// Creates a question without options.
    pub fn new(kind: QuestionKind, text: impl Into<String>) -> Question {
        Question {
            id: String::new(),
            node: String::new(),
            text: text.into(),
            kind,
            options: Vec::new(),
            withheld: Vec::new(),
            default: None,
            timeout: None,
            metadata: BTreeMap::new(),
            subject: None,
        }
    }

    /// Creates a question with options, one of which is to be chosen.
    pub fn select(text: impl Into<String>, options: impl IntoIterator<Item = QuestionOption>) -> Question {
        Question {
            options: options.into_iter().collect(),
            ..Question::new(QuestionKind::SingleSelect, text)
        }
    }

    /// Sets the node that asks. For a gate, the engine sets it.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Question {
        self.node = node.into();
        self
    }

    /// Sets the answer that is used if nobody answers in time: the key of an option, or `yes` or `no`.
    #[must_use]
    pub fn default_answer(mut self, key: impl Into<String>) -> Question {
        self.default = Some(key.into());
        self
    }

    /// Sets the time to wait for an answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Question {
        self.timeout = Some(timeout);
        self
    }

    /// Adds data to show.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Question {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets what the question is about. A stage that asks again, in other words, because an answer did not fit, gives both
    /// questions the same subject: an answer that is given while no process executes the run belongs to either.
    ///
    /// ```
    /// use orchestra_core::{Question, QuestionKind};
    /// let first = Question::new(QuestionKind::FreeText, "A number?");
    /// let again = Question::new(QuestionKind::FreeText, "`x` is no number. A number?").about("A number?");
    /// assert_eq!(first.subject(), again.subject());
    /// ```
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Question {
        self.subject = Some(subject.into());
        self
    }

    /// Returns what the question is about; its text, unless something else was set.
    pub fn subject(&self) -> &str {
        self.subject.as_deref().unwrap_or(&self.text)
    }

    /// Makes the question a turn of a conversation with a model: its text is the message of the model, the answer is
    /// the reply to the model. `/done` and `/approve` end the conversation successfully, `/reject REASON` does not.
    #[must_use]
    pub fn chat(self) -> Question {
        self.metadata(CHAT, true)
    }

    /// Returns `true` if the question is a turn of a conversation with a model.
    pub fn is_chat(&self) -> bool {
        self.metadata.get(CHAT) == Some(&Value::Bool(true))
    }

    /// Returns the question of a human gate with all its choices, regardless of the conditions on their edges
    /// (Attractor 4.6). The `timeout` of the gate is that of the question.
    pub fn of_gate(pipeline: &Pipeline, gate: NodeIndex, id: String) -> Question {
        let offered = choices(pipeline, gate);
        let withheld = Vec::new();
        Question::from_offers(pipeline, gate, id, Offers { offered, withheld })
    }

    /// Returns the question that a human gate asks in a run: the choices whose conditions hold, and the withheld ones
    /// (rule H5).
    pub(crate) fn at_gate(pipeline: &Pipeline, gate: NodeIndex, id: String, facts: &Facts<'_>) -> Question {
        Question::from_offers(pipeline, gate, id, offers(pipeline, gate, facts))
    }

    fn from_offers(pipeline: &Pipeline, gate: NodeIndex, id: String, offers: Offers) -> Question {
        let stage = pipeline.stage(gate);
        let option = |choice: Choice| QuestionOption {
            to: Some(pipeline.stage(choice.to).id().to_owned()),
            key: choice.key,
            label: choice.label,
            freeform: choice.freeform,
        };
        let options: Vec<QuestionOption> = offers.offered.into_iter().map(option).collect();
        let withheld = offers.withheld.into_iter().map(|withheld| WithheldOption {
            option: option(withheld.choice),
            conditions: unmet(pipeline, &withheld.tested),
        });
        let withheld: Vec<WithheldOption> = withheld.collect();
        let only_text = !options.is_empty() && options.iter().all(|option| option.freeform);
        let wanted = stage
            .text("human.default_choice")
            .filter(|text| !text.trim().is_empty());
        // A withheld default counts as none: a time-out must not choose it either.
        let default = wanted.and_then(|wanted| match named(&options, &withheld, wanted) {
            Some(Named::Offered(option)) => Some(option.key.clone()),
            Some(Named::Withheld(_)) => None,
            // A default that names no choice is the text for an option that takes any text.
            None => options
                .iter()
                .any(|option| option.freeform)
                .then(|| wanted.to_owned()),
        });
        Question {
            id,
            node: stage.id().to_owned(),
            text: stage.prompt().into_owned(),
            kind: if only_text {
                QuestionKind::FreeText
            } else {
                QuestionKind::SingleSelect
            },
            default,
            options,
            withheld,
            timeout: stage.duration("timeout"),
            metadata: BTreeMap::new(),
            subject: None,
        }
    }

    /// Matches an answer against the question (rule H2).
    ///
    /// # Errors
    /// Returns an error if the answer matches nothing that the question offers, or names a withheld choice. It never
    /// falls back to the first option.
    pub fn accept(&self, answer: &Answer) -> Result<Accepted, AnswerRefused> {
        let texts = match &answer.reply {
            Reply::Skipped | Reply::TimedOut => return Err(AnswerRefused::new(self, "")),
            Reply::Chosen(texts) => texts,
        };
        let text = || texts.join(", ");
        match self.kind {
            QuestionKind::YesNo | QuestionKind::Confirm => match text().trim().to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Accepted::yes(true)),
                "n" | "no" | "false" => Ok(Accepted::yes(false)),
                _ => Err(AnswerRefused::new(self, &text())),
            },
            QuestionKind::FreeText if text().trim().is_empty() || self.withholds(&text()) => {
                Err(AnswerRefused::new(self, &text()))
            }
            QuestionKind::FreeText if self.is_chat() && ChatTurn::parse(&text()).is_err() => {
                Err(AnswerRefused {
                    command: ChatTurn::parse(&text()).err(),
                    ..AnswerRefused::new(self, &text())
                })
            }
            QuestionKind::FreeText => Ok(Accepted {
                options: self
                    .options
                    .iter()
                    .filter(|option| option.freeform)
                    .take(1)
                    .cloned()
                    .collect(),
                text: Some(text()),
            }),
            QuestionKind::SingleSelect => {
                let wanted = text();
                if let Some(option) = self.named(&wanted) {
                    return Ok(Accepted::options([option.clone()]));
                }
                match self.options.iter().find(|option| option.freeform) {
                    Some(option) if !wanted.trim().is_empty() && !self.withholds(&wanted) => Ok(Accepted {
                        options: vec![option.clone()],
                        text: Some(wanted),
                    }),
                    _ => Err(AnswerRefused::new(self, &wanted)),
                }
            }
            QuestionKind::MultiSelect => {
                let parts = texts
                    .iter()
                    .flat_map(|text| text.split(','))
                    .map(str::trim)
                    .filter(|part| !part.is_empty());
                let mut chosen: Vec<QuestionOption> = Vec::new();
                for part in parts {
                    let option = self.named(part).ok_or_else(|| AnswerRefused::new(self, part))?;
                    if !chosen.contains(option) {
                        chosen.push(option.clone());
                    }
                }
                Ok(Accepted::options(chosen))
            }
        }
    }

    /// Returns the option that an answer names. An option that takes any text cannot be named.
    fn named(&self, answer: &str) -> Option<&QuestionOption> {
        match named(&self.options, &self.withheld, answer)? {
            Named::Offered(option) => Some(option),
            Named::Withheld(_) => None,
        }
    }

    fn withholds(&self, answer: &str) -> bool {
        let named = named(&self.options, &self.withheld, answer);
        matches!(named, Some(Named::Withheld(_)))
    }

    /// Returns the outcome of a gate whose question got this answer (Attractor 4.6, rules H2, H4).
    pub(crate) fn outcome(&self, accepted: &Accepted, by: AnsweredBy) -> Outcome {
        let Some(option) = accepted.options.first() else {
            return Outcome::fail_terminal("the gate has no answer to choose from");
        };
        let mut outcome = Outcome::success()
            .prefer(&option.label)
            .notes(format!("{} ({})", option.label, by.describe()))
            .set("human.gate.selected", option.key.as_str())
            .set("human.gate.label", option.label.as_str())
            .set("human.gate.answered_by", by.word());
        if let Some(target) = &option.to {
            outcome = outcome.suggest(target);
        }
        if let Some(text) = &accepted.text {
            outcome = outcome.set("human.gate.text", text.as_str());
        }
        outcome
    }
}

/// Returns the conditions of a choice's edges, none of which holds.
fn unmet(pipeline: &Pipeline, tested: &[Tested]) -> Vec<UnmetCondition> {
    let text = |tested: &Tested| {
        pipeline
            .condition(pipeline.edge(tested.edge))
            .map(|condition| condition.text().to_owned())
    };
    let unmet = tested.iter().map(|tested| UnmetCondition {
        condition: text(tested).unwrap_or_default(),
        values: tested.values.iter().cloned().collect(),
    });
    unmet.collect()
}

/// An answer that a question accepted.
///
/// ```
/// use orchestra_core::{Answer, Question, QuestionKind};
/// let question = Question::new(QuestionKind::Confirm, "Delete everything?");
/// assert_eq!(question.accept(&Answer::no())?.is_yes(), Some(false));
/// # Ok::<(), orchestra_core::AnswerRefused>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The chosen options.
    pub options: Vec<QuestionOption>,
    /// The free text; `yes` or `no` for a yes-or-no question.
    pub text: Option<String>,
}

impl Accepted {
    fn options(options: impl IntoIterator<Item = QuestionOption>) -> Accepted {
        Accepted {
            options: options.into_iter().collect(),
            text: None,
        }
    }

    fn yes(yes: bool) -> Accepted {
        Accepted {
            options: Vec::new(),
            text: Some(if yes { "yes" } else { "no" }.to_owned()),
        }
    }

    /// Returns `true` for a yes and `false` for a no; `None` if the question was not a yes-or-no question.
    pub fn is_yes(&self) -> Option<bool> {
        match self.text.as_deref() {
            Some("yes") if self.options.is_empty() => Some(true),
            Some("no") if self.options.is_empty() => Some(false),
            _ => None,
        }
    }
}

/// An answer that matches nothing that the question offers. The question stays open.
///
/// ```
/// use orchestra_core::{Answer, Question, QuestionKind};
/// let question = Question::new(QuestionKind::YesNo, "Ready?");
/// let refused = question.accept(&Answer::choice("perhaps")).unwrap_err();
/// assert_eq!(refused.to_string(), "`perhaps` is not one of the answers: yes, no");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerRefused {
    /// The text of the answer.
    pub answer: String,
    /// The answers that the question offers.
    pub offered: Vec<String>,
    /// The withheld choice that the answer names, with its conditions.
    pub withheld: Option<String>,
    /// The reason why the answer is not a valid command of a conversation, and the valid alternatives.
    pub command: Option<String>,
}

impl AnswerRefused {
    fn new(question: &Question, answer: &str) -> AnswerRefused {
        let offered = match question.kind {
            QuestionKind::YesNo | QuestionKind::Confirm => vec!["yes".to_owned(), "no".to_owned()],
            QuestionKind::FreeText => Vec::new(),
            _ => question.options.iter().map(ToString::to_string).collect(),
        };
        let withheld = match named(&question.options, &question.withheld, answer) {
            Some(Named::Withheld(option)) => Some(option.to_string()),
            _ => None,
        };
        AnswerRefused {
            answer: answer.to_owned(),
            offered,
            withheld,
            command: None,
        }
    }

    /// Describes the refusal without the text of the answer, which may be secret.
    ///
    /// ```
    /// use orchestra_core::{Answer, Question, QuestionKind};
    /// let question = Question::new(QuestionKind::YesNo, "Ready?");
    /// let refused = question.accept(&Answer::choice("hunter2")).unwrap_err();
    /// assert_eq!(refused.without_answer(), "the line is not one of the answers: yes, no");
    /// ```
    pub fn without_answer(&self) -> String {
        if self.command.is_some() {
            return "the line is not a command of a conversation; `//` sends it as text".to_owned();
        }
        let text = self.to_string();
        match text.strip_prefix(&format!("`{}`", self.answer.trim())) {
            Some(rest) => format!("the line{rest}"),
            None => text,
        }
    }
}

impl fmt::Display for AnswerRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(command) = &self.command {
            return f.write_str(command);
        }
        match self.answer.trim() {
            "" => f.write_str("an empty answer")?,
            answer => write!(f, "`{answer}`")?,
        }
        if let Some(withheld) = &self.withheld {
            write!(f, " is not offered now: {withheld}")?;
            return match &self.offered[..] {
                [] => Ok(()),
                offered => write!(f, "; the answers are {}", offered.join(", ")),
            };
        }
        match &self.offered[..] {
            [] => f.write_str(" is not an answer"),
            offered => write!(f, " is not one of the answers: {}", offered.join(", ")),
        }
    }
}

impl std::error::Error for AnswerRefused {}

/// Serialization of an optional duration as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => {
                serializer.serialize_some(&u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
            }
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
