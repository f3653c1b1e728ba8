//! One run by the paths of the Attractor specification (Attractor 9.5).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::ControlClient;
use orchestra_sessions::SessionStatus;
use serde_json::json;

use super::request::{Query, SMALL, json};
use super::runs::{Stop, not_executed};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::live::events;
use crate::reports::listed_run;

/// Returns the status of a run.
pub(super) async fn status(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let session = app.session(&id).await?;
    let (run, questions) = (session.run.to_string(), session.questions());
    let open = app.index(move |index| index.open_stages(&run)).await?;
    let position: Vec<String> = open.into_iter().map(|stage| stage.node).collect();
    Ok(json_response(
        StatusCode::OK,
        &json!({
            "id": session.run,
            "position": position,
            "questions": questions,
            "run": listed_run(session),
        }),
    ))
}

/// Streams the events of a run.
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

/// Cancels a run.
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
        let path = session.folder;
        blocking(move || ControlClient::open(&path)?.cancel(reason)).await??;
    } else {
        let paused = app.project(move |project| project.paused_run(&folder)).await?;
        paused.cancel(reason).await?;
    }
    Ok(json_response(StatusCode::ACCEPTED, &json!({ "id": id })))
}
