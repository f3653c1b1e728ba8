//! Simulation: no model is called and nothing is executed; a script says how stages end.

use std::collections::BTreeMap;
use std::sync::Arc;

use orchestra_core::{Answer, AnsweredBy, Outcome, Status, fan_in};
use orchestra_graph::kind;

use super::backend::SimulationBackend;
use super::codergen::{keep, responded, stored};
use super::output;
use crate::handler::{Handler, HandlerFuture};
use crate::stage::StageContext;
use crate::store::{StageFile, StoreError};

/// The outcomes that stages give in a simulated run; a stage that is not named succeeds.
///
/// A fan-in that is not named chooses by status, score and id, because that needs no model.
///
/// A stage gives its outcomes in turn, one an attempt, and the last again and again. For a human gate, the label, the
/// suggested node or the outcome word is the answer; `skipped` skips the question, `timeout` leaves it unanswered.
///
/// ```
/// use orchestra_engine::{Outcome, Script};
/// let script = Script::new()
///     .outcomes("build", [Outcome::fail("no compiler"), Outcome::success()])
///     .outcomes("review", [Outcome::success().prefer("Fix")]);
/// assert_eq!(script.nodes().collect::<Vec<_>>(), ["build", "review"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    nodes: BTreeMap<String, Vec<Outcome>>,
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
        outcomes: impl IntoIterator<Item = Outcome>,
    ) -> Script {
        self.nodes.entry(node.into()).or_default().extend(outcomes);
        self
    }

    /// The nodes that are named, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// What a node gives this time; `None` for one that is not named, whose turns are not counted.
    pub(crate) fn turn(&self, node: &str, turn: impl FnOnce() -> usize) -> Option<&Outcome> {
        let outcomes = self.nodes.get(node)?;
        outcomes.get(turn()).or(outcomes.last())
    }
}

/// A gate's outcome in a script as an answer: its label, its target, or its word. `skipped` and a failure skip the
/// question; `timeout` and a retry leave it unanswered, which is `None`.
pub fn answer_of(outcome: &Outcome) -> Option<Answer> {
    let named = outcome
        .preferred_label
        .as_ref()
        .or(outcome.suggested_next_ids.first());
    let answer = match (named, &outcome.status) {
        (Some(choice), _) => Answer::choice(choice),
        (None, Status::Retry) => return None,
        (None, Status::Custom(word)) if word == "timeout" => return None,
        (None, Status::Skipped | Status::Fail) => Answer::skipped(),
        (None, status) => Answer::choice(status.word()),
    };
    Some(answer.by(AnsweredBy::Prepared))
}

/// Stands for every handler in a simulated run.
pub(crate) struct Simulated {
    pub(crate) script: Arc<Script>,
}

impl Handler for Simulated {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { stored(&stage, self.outcome(&stage)) })
    }
}

impl Simulated {
    fn outcome(&self, stage: &StageContext) -> Result<Outcome, StoreError> {
        let node = stage.node();
        let scripted = self
            .script
            .turn(node.id(), || stage.run().next_turn(node.index()))
            .cloned();
        if node.kind() == kind::CODERGEN {
            let response = SimulationBackend::response(node.id());
            keep(stage, StageFile::Prompt, &output::prompt(node))?;
            keep(stage, StageFile::Response, &response)?;
            return Ok(scripted.unwrap_or_else(|| responded(node.id(), &response)));
        }
        if node.kind() == kind::FAN_IN {
            return Ok(scripted.unwrap_or_else(|| fan_in(stage.context())));
        }
        Ok(scripted.unwrap_or_else(|| Outcome::success().notes(format!("[Simulated] {}", node.id()))))
    }
}
