//! One run by the paths of the Attractor specification (Attractor 9.5).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{ControlClient, RunId};
use orchestra_sessions::{QuestionRow, SessionStatus};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::{Query, RunName, SMALL, accepted, json};
use super::runs::{Stop, not_executed};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::live::events;
use crate::openapi::described;
use crate::reports::{ListedRun, listed_run};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(status))
        .routes(routes!(events))
        .routes(routes!(cancel))
}

described!(Reply: PipelineStatus);

/// The status of a run.
#[derive(Serialize, JsonSchema)]
struct PipelineStatus {
    /// The id of the run.
    id: RunId,
    /// The nodes that are executed now.
    position: Vec<String>,
    /// The questions that wait for an answer, the oldest first.
    questions: Vec<QuestionRow>,
    /// The run.
    run: ListedRun,
}

/// Returns the status of a run (Attractor 9.5).
#[utoipa::path(
    get, path = "/pipelines/{id}", operation_id = "get_status", tag = "attractor",
    responses(
        (status = 200, description = "The status.", body = PipelineStatus),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn status(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let session = app.session(&id).await?;
    let run = session.run.to_string();
    let open = app.index(move |index| index.open_stages(&run)).await?;
    let status = PipelineStatus {
        id: session.run.clone(),
        position: open.into_iter().map(|stage| stage.node).collect(),
        questions: session.questions(),
        run: listed_run(session),
    };
    Ok(json_response(StatusCode::OK, &status))
}

/// Streams the events of a run (Attractor 9.5), one JSON object each. A client that was cut off goes on with the header
/// `Last-Event-ID`. An event `reset` says that the events after that id have changed.
#[utoipa::path(
    get, path = "/pipelines/{id}/events", operation_id = "stream_events", tag = "attractor",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was received.")),
    responses(
        (status = 200, description = "The events.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The run is over, and the client has received all of its events."),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let session = app.session(&id).await?;
    let last = headers
        .get("last-event-id")
        .map(|last| last.to_str().unwrap_or("?"));
    events::events(&app, &session, last).await
}

/// Cancels a run (Attractor 9.5).
#[utoipa::path(
    post, path = "/pipelines/{id}/cancel", operation_id = "cancel_run", tag = "attractor", request_body = Stop,
    responses(
        (status = 202, description = "The run is being cancelled.", body = RunName),
        (status = 404, description = "`unknown_run`"),
        (status = 409, description = "`run_ended`"),
        (status = 504, description = "`control_unanswered`: the process that executes the run does not answer."),
    ),
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let reason = json::<Stop>(&headers, body, SMALL)
        .await?
        .reason("cancelled by request");
    let (session, folder) = app.folder(&id).await?;
    app.released(&session).await;
    let has_ended = matches!(
        session.status,
        SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
    );
    if has_ended {
        return Err(not_executed(&session));
    }
    if let Some(own) = app.own_run(&id) {
        own.cancel(reason);
    } else if folder.owner()?.is_some() {
        let path = session.folder.clone();
        blocking(move || ControlClient::open(&path)?.cancel(reason)).await??;
    } else {
        let paused = app.project(move |project| project.paused_run(&folder)).await?;
        paused.cancel(reason).await?;
    }
    Ok(accepted(session.run))
}
