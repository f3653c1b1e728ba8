//! The model of a simulated process: as the script of its case says.

use std::time::Duration;

use orchestra_agent::{
    Agents, Model, ModelError, ModelErrorKind, ModelFuture, ModelReply, ModelRequest, OnText, TokenUsage,
};
use orchestra_config::Project;
use orchestra_graph::ReadError;
use orchestra_oracle_tests::ScriptedOutcome;
use orchestra_oracle_tests::random::Random;
use serde_json::json;

use crate::clock::sleep;
use crate::stages::Actor;

/// The configuration: one call a stage, no tools.
const CONFIGURATION: &str =
    "backend: direct\nproviders: {default: house, house: {kind: ollama, models: {smart: owl-7b}}}";

/// How often a call is made again, all tries counted.
const TRIES: usize = 5;

/// What becomes of the calls of a stage.
#[derive(Clone, Debug, Default)]
pub struct ModelRun {
    /// The faults of the first calls.
    pub faults: Vec<ModelErrorKind>,
    /// The answer of the one behind them.
    pub text: String,
}

/// Faults that pass.
const PASSING: [ModelErrorKind; 5] = [
    ModelErrorKind::RateLimited,
    ModelErrorKind::Unavailable,
    ModelErrorKind::Network,
    ModelErrorKind::Timeout,
    ModelErrorKind::Malformed,
];

/// Faults that do not.
const LASTING: [ModelErrorKind; 7] = [
    ModelErrorKind::MissingKey,
    ModelErrorKind::Authentication,
    ModelErrorKind::Quota,
    ModelErrorKind::BadRequest,
    ModelErrorKind::UnknownModel,
    ModelErrorKind::ContextTooLong,
    ModelErrorKind::Redirected,
];

impl ModelRun {
    /// Draws what becomes of the calls of a stage.
    pub(crate) fn draw(chance: &mut Random, fails: bool) -> ModelRun {
        let mut faults = Vec::new();
        while faults.len() + 1 < TRIES && chance.chance(25) {
            faults.push(*chance.pick(&PASSING));
        }
        if fails && chance.chance(50) {
            faults.push(*chance.pick(&LASTING));
        } else if fails {
            faults = (0..TRIES).map(|_| *chance.pick(&PASSING)).collect();
        }
        let text = match chance.below(4) {
            0 => "\u{1f989} and \u{0}zero".to_owned(),
            1 => "word ".repeat(20_000),
            2 => "{\"outcome\": \"fail\"}".to_owned(),
            _ => "It is done.\n".to_owned(),
        };
        ModelRun { faults, text }
    }

    /// The outcome of the stage.
    pub(crate) fn said(&self, node: &str) -> ScriptedOutcome {
        if let Some(kind) = self.faults.get(TRIES - 1).or_else(|| {
            let mut lasting = self.faults.iter();
            lasting.find(|kind| LASTING.contains(kind))
        }) {
            let mut said = ScriptedOutcome::fail(&reason(*kind));
            if LASTING.contains(kind) {
                said.category = orchestra_oracle_tests::Category::Terminal;
            }
            return said;
        }
        let mut said = ScriptedOutcome::word("success");
        said.notes = format!("Stage completed: {node}");
        let text: String = self.text.chars().take(200).collect();
        said.updates.insert("last_response".to_owned(), json!(text));
        said
    }
}

fn reason(kind: ModelErrorKind) -> String {
    format!("the model says {}", kind.code())
}

impl Model for Actor {
    fn call<'a>(&'a self, request: &'a ModelRequest, _: Option<OnText<'a>>) -> ModelFuture<'a> {
        Box::pin(async move {
            self.lives().await;
            // The prompt names the stage.
            let node = request.messages.iter().rev().find_map(|message| match message {
                orchestra_agent::Message::User { text } => text.rsplit("stage:").next().map(str::trim),
                _ => None,
            });
            let key = self.process().world.stage_of(node.unwrap_or_default());
            let tries = self.calls(&key);
            self.process().step(format_args!("model {key}, call {tries}"));
            self.lives().await;
            let run = self.model_run(node.unwrap_or_default(), &key);
            sleep(&self.process().world.time, Duration::from_millis(70)).await;
            self.process().step(format_args!("model {key} answers"));
            self.lives().await;
            match run.faults.get(tries) {
                Some(kind) => Err(ModelError::new(*kind, reason(*kind))),
                None => {
                    let mut reply = ModelReply::text(run.text);
                    reply.usage = Some(TokenUsage {
                        input: 100,
                        output: 10,
                        ..TokenUsage::default()
                    });
                    Ok(reply)
                }
            }
        })
    }
}

/// The agents of a process, whose model is simulated.
///
/// # Errors
/// The configuration is not taken.
pub fn agents(actor: Actor) -> Result<Agents, ModelError> {
    let files = |path: &str, _: u64| match path {
        "orchestra.yaml" => Ok(CONFIGURATION.as_bytes().to_vec()),
        _ => Err(ReadError::Missing),
    };
    let project = Project::load("orchestra.yaml", &files);
    Agents::builder(project).reader(files).model(actor).build()
}
