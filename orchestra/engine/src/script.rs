//! The script of a simulated run, which determines the outcomes of stages.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_core::{Answer, AnsweredBy, Outcome, Question, Status};
use orchestra_graph::Stage;
use serde::{Deserialize, Serialize};

use crate::into_outcome::IntoOutcome;

/// An outcome in a [`Script`]: an outcome name, a [`Status`], or any return value of a handler.
///
/// If a failure or a retry is only named, its reason says that it is simulated.
///
/// ```
/// use orchestra_engine::{Outcome, ScriptedOutcome, Status};
/// assert_eq!("fail".scripted().failure_reason.as_deref(), Some("simulated failure"));
/// assert_eq!(Status::Fail.scripted(), "fail".scripted());
/// assert_eq!("approved".scripted(), Outcome::custom("approved"));
/// assert_eq!(Outcome::fail("no compiler").scripted(), Outcome::fail("no compiler"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outcome of a script",
    label = "not an outcome",
    note = "give a word such as \"fail\", a `Status`, an `Outcome`, or an enum that derives `orchestra::Outcome`"
)]
pub trait ScriptedOutcome {
    /// Converts this value to an outcome.
    fn scripted(self) -> Outcome;
}

impl<T: IntoOutcome> ScriptedOutcome for T {
    fn scripted(self) -> Outcome {
        self.into_outcome()
    }
}

impl ScriptedOutcome for Status {
    fn scripted(self) -> Outcome {
        match self {
            Status::Fail => Outcome::fail("simulated failure"),
            Status::Retry => Outcome::retry("simulated wish for a retry"),
            status => Outcome::new(status),
        }
    }
}

impl ScriptedOutcome for &str {
    fn scripted(self) -> Outcome {
        Status::from_name(self).scripted()
    }
}

impl ScriptedOutcome for String {
    fn scripted(self) -> Outcome {
        self.as_str().scripted()
    }
}

/// The outcomes of the stages of a simulated run. A stage that is not named succeeds.
///
/// A fan-in that is not named chooses by status, score and id, because that needs no model.
///
/// A manager loop or sub-pipeline that is not named runs its child pipeline, if it has one. The child is simulated by
/// the same script, which may name the nodes of the child too.
///
/// Each attempt of a stage takes the next outcome, and the last outcome repeats. A child that runs again starts from
/// the first outcome again. For a human gate, the label, the suggested node or the outcome name is the answer;
/// `skipped` skips the question, and `timeout` leaves it unanswered.
///
/// ```
/// use orchestra_engine::{Outcome, Script};
/// let script = Script::new()
///     .outcomes("build", ["fail", "success"])
///     .outcomes("review", [Outcome::success().prefer("Fix")]);
/// assert_eq!(script.nodes().collect::<Vec<_>>(), ["build", "review"]);
/// ```
///
/// The script is stored with a run as JSON, so that a resumed run is simulated in the same way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Script {
    #[serde(default)]
    nodes: BTreeMap<String, Turns>,
    #[serde(default, skip_serializing_if = "Scope::is_everything")]
    scope: Scope,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hastens: bool,
}

/// The kinds of stages that are simulated although the script does not name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Everything,
    /// All stages except those with a handler of the program.
    AllButHandlers,
    /// The stages that call a model.
    Models,
}

impl Scope {
    fn is_everything(&self) -> bool {
        *self == Scope::Everything
    }
}

/// The outcomes and durations of a node, one for each attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Turns {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outcomes: Vec<Outcome>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    takes: Vec<Duration>,
}

/// The simulated behaviour of a node in one attempt.
#[derive(Default)]
pub(crate) struct Turn<'s> {
    /// The outcome. `None` if the script does not determine it.
    pub(crate) outcome: Option<&'s Outcome>,
    /// The duration of the attempt.
    pub(crate) takes: Duration,
}

impl Script {
    /// Creates a script by which every stage succeeds.
    pub fn new() -> Script {
        Script::default()
    }

    /// Appends outcomes of a node.
    #[must_use]
    pub fn outcomes(
        mut self,
        node: impl Into<String>,
        outcomes: impl IntoIterator<Item = impl ScriptedOutcome>,
    ) -> Script {
        let outcomes = outcomes.into_iter().map(ScriptedOutcome::scripted);
        self.nodes
            .entry(node.into())
            .or_default()
            .outcomes
            .extend(outcomes);
        self
    }

    /// Sets the durations of the attempts of a stage, one for each attempt; the last one repeats. The default is zero.
    /// The clock of the engine measures the durations. A human gate always answers at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use orchestra_engine::{Engine, Script};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let text = "digraph { start -> build -> exit; build [prompt=Build, timeout=5ms] }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// // The stage has `timeout=5ms`.
    /// let script = Script::new().takes("build", [Duration::from_secs(60)]);
    /// let result = Engine::builder().simulate(script).build()?.start(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.error_history[0].reason, "timed out after 5ms");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn takes(mut self, node: impl Into<String>, durations: impl IntoIterator<Item = Duration>) -> Script {
        self.nodes.entry(node.into()).or_default().takes.extend(durations);
        self
    }

    /// Runs the handlers of the program. Stages that the script names are still simulated, and so are models, tools and
    /// kinds without a handler.
    #[must_use]
    pub fn run_handlers(mut self) -> Script {
        self.scope = Scope::AllButHandlers;
        self
    }

    /// Simulates only model stages, and fan-ins that call a model. Tools, handlers and child pipelines run, and gates
    /// ask a person. Stages that the script names are still simulated.
    ///
    /// ```
    /// use orchestra_engine::{Engine, Script};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = r#"digraph { start -> plan -> test -> exit; plan [prompt="Plan it."]
    ///     test [shape=parallelogram, tool_command="echo 12 passed"] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let script = Script::new().models_only();
    /// let result = Engine::builder().simulate(script).build()?.start(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.context.text("last_response"), "[Simulated] Response for stage: plan");
    /// assert_eq!(result.context.text("tool.output"), "12 passed\n");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn models_only(mut self) -> Script {
        self.scope = Scope::Models;
        self
    }

    /// Lets a question that the script leaves unanswered time out at once, instead of by the clock of the engine.
    ///
    /// ```
    /// use orchestra_engine::{Engine, Script};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = r#"digraph { start -> ask; ask [shape=hexagon, timeout=90m, "human.default_choice"=Ship]
    ///     ask -> exit [label=Ship] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let script = Script::new().outcomes("ask", ["timeout"]).hasten();
    /// let result = Engine::builder().simulate(script).build()?.start(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.context.text("human.gate.answered_by"), "default");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn hasten(mut self) -> Script {
        self.hastens = true;
        self
    }

    pub(crate) fn hastens(&self) -> bool {
        self.hastens
    }

    /// Returns the nodes that the script names, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// Returns the outcomes of a node, in order. Returns an empty slice for a node that is not named.
    pub fn outcomes_of(&self, node: &str) -> &[Outcome] {
        self.nodes
            .get(node)
            .map(|turns| &*turns.outcomes)
            .unwrap_or_default()
    }

    /// Removes the outcomes and durations of a node.
    ///
    /// ```
    /// use orchestra_engine::Script;
    /// let mut script = Script::new().outcomes("build", ["fail"]);
    /// script.remove("build");
    /// assert_eq!(script, Script::new());
    /// ```
    pub fn remove(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Returns whether the script names a node.
    pub(crate) fn names(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Returns whether every stage of the run is simulated.
    pub(crate) fn executes_nothing(&self) -> bool {
        self.scope == Scope::Everything
    }

    /// Returns whether all stages run that do not call a model.
    ///
    /// ```
    /// use orchestra_engine::Script;
    /// assert!(Script::new().models_only().simulates_models_only());
    /// ```
    pub fn simulates_models_only(&self) -> bool {
        self.scope == Scope::Models
    }

    /// Returns a script that simulates the same kinds of stages and names none.
    pub(crate) fn without_nodes(mut self) -> Script {
        self.nodes.clear();
        self
    }

    /// Returns whether a stage is simulated although it has a handler.
    pub(crate) fn simulates(&self, stage: Stage<'_>) -> bool {
        let is_named = || self.names(stage.id());
        match self.scope {
            Scope::Everything => true,
            Scope::AllButHandlers => is_named(),
            Scope::Models => is_named() || stage.calls_model(),
        }
    }

    /// Returns the behaviour of a node in this attempt. Does not call `turn` for a node that is not named.
    pub(crate) fn turn(&self, node: &str, turn: impl FnOnce() -> usize) -> Turn<'_> {
        let Some(turns) = self.nodes.get(node) else {
            return Turn::default();
        };
        let turn = turn();
        Turn {
            outcome: turns.outcomes.get(turn).or(turns.outcomes.last()),
            takes: turns
                .takes
                .get(turn)
                .or(turns.takes.last())
                .copied()
                .unwrap_or_default(),
        }
    }
}

/// Converts the outcome of a gate in a script to an answer: its label, its suggested node, or its name. `skipped` and a
/// failure skip the question. Returns `None` for `timeout` and a retry, which leave it unanswered. A choice with the
/// same name as one of these outcomes takes precedence.
pub fn answer_of(question: &Question, outcome: &Outcome) -> Option<Answer> {
    let named = outcome
        .preferred_label
        .as_ref()
        .or(outcome.suggested_next_ids.first());
    let by_word = Answer::choice(outcome.status.word()).by(AnsweredBy::Prepared);
    let is_choice = |answer: &Answer| {
        question
            .accept(answer)
            .is_ok_and(|accepted| accepted.text.is_none())
    };
    let answer = match (named, &outcome.status) {
        (Some(choice), _) => Answer::choice(choice),
        (None, _) if is_choice(&by_word) => return Some(by_word),
        (None, Status::Retry) => return None,
        (None, Status::Custom(word)) if word == "timeout" => return None,
        (None, Status::Skipped | Status::Fail) => Answer::skipped(),
        (None, _) => return Some(by_word),
    };
    Some(answer.by(AnsweredBy::Prepared))
}
