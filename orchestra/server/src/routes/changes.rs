//! The changes that a run made to its git repositories.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{ReplayPoint, ReplayPoints};
use orchestra_workspace::{RepositoryChanges, changes};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;

/// Maximum size of the patch of a repository, in bytes.
const MAX_PATCH: usize = 1 << 20;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(of_run))
}

described!(Reply: Changes);

/// The changes of a run.
#[derive(Serialize, JsonSchema)]
struct Changes {
    /// The repositories of the run, sorted by name; empty if it has none.
    repositories: Vec<RepositoryChanges>,
}

/// Returns the changes of a run to its git repositories, as files and patches of at most 1 MiB.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/changes", operation_id = "list_changes", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "The checkpoint before the changes; the start by default."),
        ("to" = Option<String>, Query, description = "The checkpoint with the changes; the latest by default."),
    ),
    responses(
        (status = 200, description = "The changes.", body = Changes),
        (status = 404, description = "`unknown_run` or `unknown_checkpoint`"),
        (status = 422, description = "A repository or a commit no longer exists; the code tells why."),
    ),
)]
pub(super) async fn of_run(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["from", "to"])?;
    let named = |key: &str| query.text(key).map(str::to_owned);
    let (from, to) = (named("from"), named("to"));
    let (session, folder) = app.folder(&id).await?;
    let _drawing = app.drawings.acquire().await;
    let repositories = blocking(move || {
        let mut points = ReplayPoints::default();
        if from.is_some() || to.is_some() {
            folder.each_event(|line| points.apply_line(line))?;
        }
        let snapshot = |name: Option<String>| name.map(|name| snapshot_of(points.list(), &name)).transpose();
        let (from, to) = (snapshot(from)?, snapshot(to)?);
        let to = to.unwrap_or(session.snapshot);
        changes(folder.manifest(), from.flatten().as_ref(), to.as_ref(), MAX_PATCH)
            .map_err(|error| ApiError::unprocessable(error.code(), error.to_string()))
    });
    let repositories = repositories.await??;
    Ok(json_response(StatusCode::OK, &Changes { repositories }))
}

/// Returns the snapshot of a checkpoint. `None` if nothing had changed by then.
fn snapshot_of(points: &[ReplayPoint], name: &str) -> Result<Option<Value>, ApiError> {
    let point = points.iter().find(|point| point.checkpoint == name);
    let point = point.ok_or_else(|| ApiError::not_found("checkpoint", name))?;
    Ok(point.workspace.clone())
}
