//! Model stages (Attractor 4.5).

use std::sync::Arc;

use orchestra_core::Outcome;
use orchestra_graph::{AnswerSchema, Stage};
use serde_json::Value;

use super::answer;
use super::backend::{AnyBackend, ChatVerdict, CodergenAnswer, CodergenRequest};
use super::output::{self, Requested};
use super::status;
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::into_outcome::error_chain;
use crate::run::stage::StageContext;
use crate::stage_end::{Finished, StageEnd, Suspension};
use crate::store::{StageFile, StoreError};

/// Maximum length in characters of the response in the context.
const LAST_RESPONSE: usize = 200;
/// The context key of the response.
pub(crate) const LAST_RESPONSE_KEY: &str = "last_response";

pub(crate) struct Codergen {
    pub(crate) backend: Arc<dyn AnyBackend>,
}

impl Handler for Codergen {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { end_of(&stage, self.answer(&stage).await) })
    }

    fn may_write(&self, stage: Stage<'_>) -> bool {
        self.backend.may_write_files(stage)
    }
}

impl Codergen {
    async fn answer(&self, stage: &StageContext) -> Result<Finished, NoAnswer> {
        let node = stage.node();
        let requested = output::requested(node);
        let schema = match AnswerSchema::from_stage(node) {
            Ok(schema) => schema,
            Err(error) => return Ok(answer::unusable(&error).into()),
        };
        let (text, verdict) = match ask(&*self.backend, stage, answer::prompt(node)).await? {
            Answered::Outcome(finished) => {
                return Ok(finished.replace(|outcome| {
                    let outcome = say_missing(stage, &requested, outcome);
                    match &schema {
                        Some(schema) => answer::validated(schema, outcome),
                        None => outcome,
                    }
                }));
            }
            Answered::Text(text, verdict) => (text, verdict),
        };
        let finished = responded(node.id(), &text);
        let written = match written(stage) {
            Ok(written) => written,
            Err(problem) => return Ok(Outcome::fail(problem).into()),
        };
        let finished = finished.replace(|outcome| {
            if let Some(schema) = &schema {
                with_answer(schema, &text, outcome, written)
            } else if requested.is_empty() {
                merged(outcome, written)
            } else {
                with_output(stage, &requested, &text, outcome, written)
            }
        });
        // If the stage fails all the same, its result is not what the person approved.
        Ok(match verdict {
            Some(verdict) if finished.outcome.status.is_success() => {
                verdict.record(finished.replace(|outcome| outcome.prefer("Approve")))
            }
            _ => finished,
        })
    }
}

/// Adds the output data of a response to its outcome (rule R11). A status file may provide the keys that the response
/// does not contain.
fn with_output(
    stage: &StageContext,
    requested: &[Requested],
    text: &str,
    mut outcome: Outcome,
    written: Option<Outcome>,
) -> Outcome {
    let given = |key: &&str| {
        let written = written.as_ref();
        written.is_some_and(|written| written.context_updates.contains_key(*key))
    };
    let failed = written
        .as_ref()
        .is_some_and(|written| !written.status.is_success());
    let keys = output::required(requested);
    match answer::answer_object(text) {
        Ok(mut fields) => {
            let found = requested
                .iter()
                .filter_map(|requested| fields.remove_entry(&requested.key));
            outcome.context_updates.extend(found);
        }
        // A stage that reports its own failure does not need to provide data.
        Err(_) if failed || keys.iter().all(given) => {}
        Err(found) => {
            let mut unparsed = output::unparsed(&keys, &found);
            unparsed.context_updates = outcome.context_updates;
            return unparsed;
        }
    }
    say_missing(stage, requested, merged(outcome, written))
}

/// Adds the values of an answer that is bound to a schema to the outcome (rule T8). A status file may provide them
/// instead, or report a failure.
fn with_answer(schema: &AnswerSchema, text: &str, mut outcome: Outcome, written: Option<Outcome>) -> Outcome {
    let answered = answer::answer_object(text);
    let merge = |outcome: Outcome| merged(outcome, written.clone());
    match (answered, &written) {
        (Ok(fields), _) => {
            let values = Value::Object(fields);
            let violations = schema.validate(&values);
            if let Value::Object(fields) = values {
                let known = schema.properties();
                outcome
                    .context_updates
                    .extend(known.filter_map(|key| Some((key.to_owned(), fields.get(key)?.clone()))));
            }
            match (merge(outcome), violations) {
                (outcome, Err(violations)) if outcome.status.is_success() => answer::misfit(&violations),
                (outcome, _) => outcome,
            }
        }
        // A stage that reports its own failure does not need to answer.
        (Err(found), None) => answer::missing(&found),
        (Err(found), Some(written)) if written.context_updates.is_empty() && written.status.is_success() => {
            answer::missing(&found)
        }
        (Err(_), Some(_)) => answer::validated(schema, merge(outcome)),
    }
}

/// Adds the missing output keys of a success to its notes, and logs them.
fn say_missing(stage: &StageContext, requested: &[Requested], mut outcome: Outcome) -> Outcome {
    let missing: Vec<&str> = output::required(requested)
        .into_iter()
        .filter(|key| !outcome.context_updates.contains_key(*key))
        .collect();
    if !missing.is_empty() && outcome.status.is_success() {
        let note = format!("missing outputs: {}", output::quoted(&missing));
        stage.log(note.as_str());
        outcome.notes = Some(match outcome.notes {
            Some(notes) => format!("{notes}; {note}"),
            None => note,
        });
    }
    outcome
}

/// The answer of a backend.
pub(crate) enum Answered {
    /// A text, and the decision of a person in the conversation that produced it.
    Text(String, Option<ChatVerdict>),
    /// An outcome, or the failure that replaces it.
    Outcome(Finished),
}

/// The reason for a missing answer.
pub(crate) enum NoAnswer {
    /// The files of the stage cannot be written.
    Store(StoreError),
    /// The run is suspended.
    Suspended(Suspension),
}

impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> NoAnswer {
        NoAnswer::Store(error)
    }
}

/// Calls the backend. Stores the prompt and the response, and records the usage. An error of the backend becomes a
/// failed outcome, unless a suspension caused it.
pub(crate) async fn ask(
    backend: &dyn AnyBackend,
    stage: &StageContext,
    prompt: String,
) -> Result<Answered, NoAnswer> {
    stage.write_file(StageFile::Prompt, &prompt)?;
    let request = CodergenRequest {
        stage: stage.clone(),
        prompt,
    };
    let reply = match backend.run_boxed(request).await {
        Ok(reply) => reply,
        Err(error) => {
            if let Some(suspension) = Suspension::in_error(&error) {
                return Err(NoAnswer::Suspended(suspension));
            }
            let mut outcome = Outcome::fail(error_chain(&error));
            outcome.failure_category = error.category;
            outcome.failure_code = error.code;
            outcome.retry_after = error.retry_after;
            return Ok(Answered::Outcome(outcome.into()));
        }
    };
    stage.record_usage(reply.usage.unwrap_or_default());
    let outcome = match reply.answer {
        CodergenAnswer::Text(text) => {
            stage.keep_response(&text)?;
            return Ok(Answered::Text(text, reply.verdict));
        }
        CodergenAnswer::Outcome(outcome) => outcome,
    };
    let mut finished = Finished::from(outcome);
    if let Some(text) = &reply.response {
        stage.keep_response(text)?;
        finished = finished.record(LAST_RESPONSE_KEY, last_response(text));
    }
    if let Some(verdict) = reply.verdict {
        finished = verdict.record(finished);
    }
    Ok(Answered::Outcome(finished))
}

/// Returns the status that the stage wrote itself.
///
/// # Errors
/// Returns a message of one line if the status file is invalid.
pub(crate) fn written(stage: &StageContext) -> Result<Option<Outcome>, String> {
    match stage.run().present_files() {
        Some(files) => status::read(&*files, stage.stage_folder().as_ref(), stage.node()),
        None => Ok(None),
    }
}

fn merged(known: Outcome, written: Option<Outcome>) -> Outcome {
    match written {
        Some(written) => status::merge(known, written),
        None => known,
    }
}

/// Returns the end of a stage that called a backend. If its files could not be written, the stage fails and the run
/// ends.
pub(crate) fn end_of(stage: &StageContext, answer: Result<Finished, NoAnswer>) -> StageEnd {
    match answer {
        Ok(finished) => finished.into(),
        Err(NoAnswer::Suspended(suspension)) => suspension.into(),
        Err(NoAnswer::Store(error)) => stored(stage, Err(error)),
    }
}

/// Returns the end of a stage. If its files could not be written, the stage fails and the run ends.
pub(crate) fn stored(stage: &StageContext, finished: Result<Finished, StoreError>) -> StageEnd {
    match finished {
        Ok(finished) => finished.into(),
        Err(error) => {
            let reason = error.to_string();
            stage.run().fail(error);
            Outcome::fail(reason).into()
        }
    }
}

/// Returns the outcome of a stage whose model responded.
pub(crate) fn responded(node: &str, text: &str) -> Finished {
    let outcome = Outcome::success().notes(format!("Stage completed: {node}"));
    Finished::from(outcome).record(LAST_RESPONSE_KEY, last_response(text))
}

fn last_response(text: &str) -> String {
    text.chars().take(LAST_RESPONSE).collect()
}
