//! Model stages (Attractor 4.5).

use std::sync::Arc;

use orchestra_core::Outcome;

use super::backend::{AnyBackend, CodergenReply, CodergenRequest};
use super::status;
use crate::handler::{Handler, HandlerFuture, chain};
use crate::stage::StageContext;
use crate::store::{StageFile, StoreError};

/// How many characters of a response the context keeps.
const LAST_RESPONSE: usize = 200;

pub(crate) struct Codergen {
    pub(crate) backend: Arc<dyn AnyBackend>,
}

impl Handler for Codergen {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            match self.answer(&stage).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    let reason = error.to_string();
                    stage.run().broken(error);
                    Outcome::fail(reason)
                }
            }
        })
    }
}

impl Codergen {
    async fn answer(&self, stage: &StageContext) -> Result<Outcome, StoreError> {
        let prompt = stage.node().prompt().to_owned();
        keep(stage, StageFile::Prompt, &prompt)?;
        let request = CodergenRequest {
            stage: stage.clone(),
            prompt,
        };
        let text = match self.backend.run_boxed(request).await {
            Ok(CodergenReply::Outcome(outcome)) => return Ok(outcome),
            Ok(CodergenReply::Text(text)) => text,
            Err(error) => {
                let mut outcome = Outcome::fail(chain(&error));
                outcome.failure_category = error.category;
                return Ok(outcome);
            }
        };
        keep(stage, StageFile::Response, &text)?;
        let outcome = responded(stage.node().id(), &text);
        let Some(files) = stage.run().present_files() else {
            return Ok(outcome);
        };
        Ok(match status::read(&*files, stage.node()) {
            Ok(Some(written)) => status::merge(outcome, written),
            Ok(None) => outcome,
            Err(problem) => Outcome::fail(problem),
        })
    }
}

/// The outcome of a stage whose model responded.
pub(crate) fn responded(node: &str, text: &str) -> Outcome {
    let last: String = text.chars().take(LAST_RESPONSE).collect();
    Outcome::success()
        .notes(format!("Stage completed: {node}"))
        .set("last_response", last)
}

/// Writes a file of the stage, where the run keeps files.
pub(crate) fn keep(stage: &StageContext, file: StageFile, text: &str) -> Result<(), StoreError> {
    let run = stage.run();
    match &run.store {
        Some(store) => store.write(stage.node().id(), file, text.as_bytes()),
        None => Ok(()),
    }
}
