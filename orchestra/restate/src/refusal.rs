//! The refusals of requests, with their HTTP statuses and codes.

use orchestra_engine::StartError;
use restate_sdk::prelude::{HandlerError, TerminalError};

use crate::message::Refused;

/// The reason for which a request is refused.
pub(crate) enum Refusal {
    UnknownRun(String),
    UnknownPipeline(String),
    RunExists(String),
    /// The pipeline, its parameters or the id of the run do not allow the start.
    Start(String),
    ForeignSecret,
    /// The run cannot be moved to the present version of its pipeline.
    Change(StartError),
    /// A run cannot be moved while this child run of this stage is in progress.
    ChildInProgress {
        child: String,
        stage: String,
    },
    /// A child run cannot be moved without this parent.
    IsChild(String),
    /// No worker can take a turn.
    Parked(String),
    Message(Refused),
}

/// Returns the error of a refusal. Its message begins with the code, so that a person at an HTTP client sees it.
pub(crate) fn refused(refusal: Refusal) -> HandlerError {
    let (status, code, message) = match refusal {
        Refusal::UnknownRun(run) => (404, "unknown_run", format!("no run `{run}` is known")),
        Refusal::UnknownPipeline(message) => (404, "unknown_pipeline", message),
        Refusal::RunExists(run) => (
            409,
            "run_exists",
            format!("run `{run}` was started with another pipeline or other parameters; choose another id"),
        ),
        Refusal::Start(message) => (422, "cannot_start", message),
        Refusal::ForeignSecret => (
            403,
            "foreign_secret",
            "the report does not name the secret of the run".to_owned(),
        ),
        Refusal::Change(error) => (409, error.code(), error.to_string()),
        Refusal::ChildInProgress { child, stage } => (
            409,
            "child_in_progress",
            format!(
                "the child run `{child}` of `{stage}` is in progress, and follows the pipeline that the run began with"
            ),
        ),
        Refusal::IsChild(parent) => (
            409,
            "child_run",
            format!("a child run follows the pipeline of its parent; its parent is `{parent}`"),
        ),
        Refusal::Parked(reason) => (
            409,
            "run_parked",
            format!("no turn of the run can be taken: {reason}; resume the run afterwards"),
        ),
        Refusal::Message(refused) => {
            let (status, code) = match &refused {
                Refused::WrongAnswer { .. } => (422, "answer_refused"),
                Refused::NoQuestion { .. } => (409, "no_question"),
                Refused::Phase(_) => (409, "wrong_phase"),
                _ => (409, "not_awaited"),
            };
            (status, code, refused.to_string())
        }
    };
    TerminalError::new_with_code(status, format!("{code}: {message}")).into()
}
