//! Simulation: no model is called and nothing is executed; a script says how stages end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Answer, AnsweredBy, Outcome, Question, Status, fan_in as choose};
use orchestra_graph::{Stage, kind};
use serde::{Deserialize, Serialize};

use super::backend::SimulationBackend;
use super::codergen::{keep, responded, stored};
use super::{child, fan_in, output};
use crate::authority::is_recorded_by;
use crate::engine::Settings;
use crate::handler::{Handler, HandlerFuture, IntoOutcome};
use crate::stage::StageContext;
use crate::stage_end::Finished;
use crate::store::{StageFile, StoreError};

/// An outcome in a [`Script`]: a word, a [`Status`], or anything that a handler may return.
///
/// A failure and a wish for a retry that are given as a word have a reason that says where they come from.
///
/// ```
/// use orchestra_engine::{Outcome, ScriptedOutcome, Status};
/// assert_eq!("fail".scripted().failure_reason.as_deref(), Some("simulated failure"));
/// assert_eq!(Status::Fail.scripted(), "fail".scripted());
/// assert_eq!("approved".scripted(), Outcome::custom("approved"));
/// assert_eq!(Outcome::fail("no compiler").scripted(), Outcome::fail("no compiler"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no outcome of a script",
    label = "not an outcome",
    note = "give a word such as \"fail\", a `Status`, an `Outcome`, or an enum that derives `orchestra::Outcome`"
)]
pub trait ScriptedOutcome {
    /// The outcome.
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
        Status::of(self).scripted()
    }
}

impl ScriptedOutcome for String {
    fn scripted(self) -> Outcome {
        self.as_str().scripted()
    }
}

/// The outcomes that stages give in a simulated run; a stage that is not named succeeds.
///
/// A fan-in that is not named chooses by status, score and id, because that needs no model.
///
/// A manager loop or sub-pipeline that is not named runs its child, where it has one; the child is simulated by the same
/// script, which may name the child's nodes too.
///
/// A stage gives its outcomes in turn, one an attempt, and the last again and again; a child that is run anew begins
/// anew. For a human gate, the label, the suggested node or the outcome word is the answer; `skipped` skips the question,
/// `timeout` leaves it unanswered.
///
/// ```
/// use orchestra_engine::{Outcome, Script};
/// let script = Script::new()
///     .outcomes("build", ["fail", "success"])
///     .outcomes("review", [Outcome::success().prefer("Fix")]);
/// assert_eq!(script.nodes().collect::<Vec<_>>(), ["build", "review"]);
/// ```
///
/// It is kept with a run, as JSON, so that the run is simulated in the same way when it goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Script {
    #[serde(default)]
    nodes: BTreeMap<String, Turns>,
    #[serde(default, skip_serializing_if = "Scope::is_everything")]
    scope: Scope,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hastens: bool,
}

/// Which of the stages that a script does not name are simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Everything,
    /// All but those that have a handler of the program.
    AllButHandlers,
    /// Those that ask a model.
    Models,
}

impl Scope {
    fn is_everything(&self) -> bool {
        *self == Scope::Everything
    }
}

/// What a node does in turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Turns {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outcomes: Vec<Outcome>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    takes: Vec<Duration>,
}

/// What a node does this time.
#[derive(Default)]
pub(crate) struct Turn<'s> {
    /// How it ends; `None` where the script does not say.
    pub(crate) outcome: Option<&'s Outcome>,
    /// How long it takes.
    pub(crate) takes: Duration,
}

impl Script {
    /// A script by which every stage succeeds.
    pub fn new() -> Script {
        Script::default()
    }

    /// Adds outcomes of a node, behind those that it has.
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

    /// Says how long the attempts of a stage take, in turn, and the last again and again; without this they take no
    /// time. The times are waited for by the engine's clock. A human gate answers at once all the same.
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
    /// let result = Engine::builder().simulate(script).build()?.start_loaded(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.error_history[0].reason, "timed out after 5ms");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn takes(mut self, node: impl Into<String>, durations: impl IntoIterator<Item = Duration>) -> Script {
        self.nodes.entry(node.into()).or_default().takes.extend(durations);
        self
    }

    /// Runs the program's own handlers; what the script names is simulated all the same, and so are models, tools and
    /// kinds without a handler.
    #[must_use]
    pub fn run_handlers(mut self) -> Script {
        self.scope = Scope::AllButHandlers;
        self
    }

    /// Simulates model stages alone, and fan-ins that ask a model: tools, handlers and children run, and gates ask. What
    /// the script names is simulated all the same.
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
    /// let result = Engine::builder().simulate(script).build()?.start_loaded(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.context.text("last_response"), "[Simulated] Response for stage: plan");
    /// assert_eq!(result.context.text("tool.output"), "12 passed\n");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn models_only(mut self) -> Script {
        self.scope = Scope::Models;
        self
    }

    /// Lets the time of a question be up at once that the script leaves unanswered, instead of by the engine's clock.
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
    /// let result = Engine::builder().simulate(script).build()?.start_loaded(pipeline, ()).await?.wait().await?;
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

    /// The nodes that are named, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The outcomes of a node, in turn; none for one that is not named.
    pub fn outcomes_of(&self, node: &str) -> &[Outcome] {
        self.nodes
            .get(node)
            .map(|turns| &*turns.outcomes)
            .unwrap_or_default()
    }

    /// Forgets what was said of a node.
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

    /// Returns whether the script says what a node does.
    pub(crate) fn names(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Returns whether nothing but what the script says can happen in the run.
    pub(crate) fn executes_nothing(&self) -> bool {
        self.scope == Scope::Everything
    }

    /// Returns whether all stages are run that ask no model.
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

    /// Returns whether a stage is simulated although there is a handler for it.
    fn simulates(&self, stage: Stage<'_>) -> bool {
        let is_named = || self.names(stage.id());
        match self.scope {
            Scope::Everything => true,
            Scope::AllButHandlers => is_named(),
            Scope::Models => is_named() || asks_a_model(stage),
        }
    }

    /// What a node does this time; the turns of one that is not named are not counted.
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

/// A gate's outcome in a script as an answer to its question: its label, its target, or its word. `skipped` and a
/// failure skip the question; `timeout` and a retry leave it unanswered, which is `None`. A choice that is called like
/// one of these words comes before the word's meaning.
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

/// Returns whether a stage asks a model, whoever would do so.
fn asks_a_model(stage: Stage<'_>) -> bool {
    stage.kind() == kind::CODERGEN || stage.kind() == kind::FAN_IN && fan_in::asks_a_model(stage)
}

/// Stands for a handler in a simulated run.
pub(crate) struct Simulated {
    pub(crate) script: Arc<Script>,
    /// The handler that runs the stages which the script does not simulate.
    pub(crate) own: Option<Arc<dyn Handler>>,
}

impl Handler for Simulated {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        match &self.own {
            Some(own) if !self.script.simulates(stage.node()) => own.run(stage),
            _ => Box::pin(async move {
                let settings = stage.run().settings.clone();
                match self.child_handler(&settings, &stage) {
                    Some(handler) => handler.run(stage).await,
                    None => {
                        let outcome = self.outcome(&stage).await;
                        stored(&stage, outcome)
                    }
                }
            }),
        }
    }

    fn may_write(&self, stage: Stage<'_>) -> bool {
        match &self.own {
            Some(own) if !self.script.simulates(stage) => own.may_write(stage),
            _ => false,
        }
    }
}

impl Simulated {
    /// What runs the child of a stage that has one and no outcome in the script; the child is simulated too.
    fn child_handler<'s>(
        &self,
        settings: &'s Settings,
        stage: &StageContext,
    ) -> Option<&'s Arc<dyn Handler>> {
        let (node, registry) = (stage.node(), &stage.run().origin.registry);
        let scripted = self.script.names(node.id());
        if scripted || !child::runs_another(node, registry) {
            return None;
        }
        child::child_of(settings, stage.pipeline(), registry, node)?;
        settings.runner_of_children(node.kind())
    }

    async fn outcome(&self, stage: &StageContext) -> Result<Finished, StoreError> {
        let node = stage.node();
        let turn = self
            .script
            .turn(node.id(), || stage.run().next_turn(node.index()));
        let scripted = turn.outcome.cloned();
        if node.kind() == kind::CODERGEN {
            keep(stage, StageFile::Prompt, &output::prompt(node))?;
        }
        if !turn.takes.is_zero() {
            stage.run().settings.clock.sleep(turn.takes).await;
        }
        let scripted = scripted.map(|outcome| by_script(node.kind(), outcome));
        if node.kind() == kind::CODERGEN {
            let response = SimulationBackend::response(node.id());
            keep(stage, StageFile::Response, &response)?;
            return Ok(scripted.unwrap_or_else(|| responded(node.id(), &response)));
        }
        if node.kind() == kind::FAN_IN {
            return Ok(scripted.unwrap_or_else(|| Finished::by_engine(choose(stage.context()))));
        }
        let simulated = || {
            Outcome::success()
                .notes(format!("[Simulated] {}", node.id()))
                .into()
        };
        Ok(scripted.unwrap_or_else(simulated))
    }
}

/// Takes the outcome of a script, which also gives what the handler of the kind would have recorded.
fn by_script(kind: &str, outcome: Outcome) -> Finished {
    let mut finished = Finished::from(outcome);
    let updates = std::mem::take(&mut finished.outcome.context_updates);
    let recorded = |key: &str| is_recorded_by(kind, key);
    for (key, value) in updates {
        match recorded(&key) {
            true => finished.recorded.insert(key, value),
            false => finished.outcome.context_updates.insert(key, value),
        };
    }
    finished
}
