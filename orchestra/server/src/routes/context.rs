//! Checkpoints of a run, and its context at them.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Checkpoint, ReplayPoints};
use serde_json::{Value, json};

use super::request::Query;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};

/// Returns the latest checkpoint of a run, or another one, without the internal state.
pub(super) async fn checkpoint(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["at"])?;
    let (_, checkpoint) = state_at(&app, &id, query.text("at")).await?;
    let mut value = serde_json::to_value(&checkpoint).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        for internal in ["state", "journal", "identity"] {
            fields.remove(internal);
        }
    }
    Ok(json_response(StatusCode::OK, &value))
}

/// Returns the context of a run at a checkpoint.
pub(super) async fn context(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["at"])?;
    let (name, checkpoint) = state_at(&app, &id, query.text("at")).await?;
    Ok(json_response(
        StatusCode::OK,
        &json!({
            "checkpoint": name,
            "node": checkpoint.current_node,
            "values": checkpoint.context,
        }),
    ))
}

/// Returns a checkpoint with its name; the latest one if none is named.
async fn state_at(app: &App, id: &str, name: Option<&str>) -> Result<(String, Checkpoint), ApiError> {
    let (session, folder) = app.folder(id).await?;
    let name = match (name, session.summary.checkpoint) {
        (Some(name), _) => name.to_owned(),
        (None, Some(latest)) => latest,
        (None, None) => return Err(ApiError::not_found("checkpoint", "latest")),
    };
    let transforms = app.project.transforms();
    blocking(move || {
        let checkpoint = folder.state_at(&name, &transforms)?;
        Ok((name, checkpoint))
    })
    .await?
}

/// Lists the checkpoints from which a run can be replayed.
pub(super) async fn checkpoints(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let (_, folder) = app.folder(&id).await?;
    let mut points = ReplayPoints::default();
    let points = blocking(move || folder.each_event(|line| points.apply_line(line)).map(|()| points));
    let points = points.await??.into_list();
    Ok(json_response(StatusCode::OK, &json!({ "checkpoints": points })))
}
