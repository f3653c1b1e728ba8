//! Checkpoints of a run, and its context at them.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{
    Checkpoint, Context, ContextLineage, ReplayPoint, ReplayPoints, RunFolder, StartError,
};
use orchestra_graph::Transform;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(checkpoint))
        .routes(routes!(context))
        .routes(routes!(checkpoints))
}

described!(Reply: PublicCheckpoint, ContextAt, Checkpoints);

/// A checkpoint without the internal state.
#[derive(JsonSchema)]
struct PublicCheckpoint(Checkpoint);

impl Serialize for PublicCheckpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.0).map_err(serde::ser::Error::custom)?;
        if let Value::Object(fields) = &mut value {
            for internal in ["state", "journal", "identity"] {
                fields.remove(internal);
            }
        }
        value.serialize(serializer)
    }
}

/// Returns the latest checkpoint of a run, or another one, without the internal state (Attractor 9.5).
#[utoipa::path(
    get, path = "/pipelines/{id}/checkpoint", operation_id = "get_checkpoint", tag = "attractor",
    params(("at" = Option<String>, Query, description = "The checkpoint, such as `cp_000012`; the latest by default.")),
    responses(
        (status = 200, description = "The checkpoint.", body = PublicCheckpoint),
        (status = 404, description = "`unknown_run` or `unknown_checkpoint`"),
    ),
)]
pub(super) async fn checkpoint(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["at"])?;
    let (_, checkpoint) = at(&app, &id, query.text("at"), RunFolder::state_at).await?;
    Ok(json_response(StatusCode::OK, &PublicCheckpoint(checkpoint)))
}

/// The context of a run.
#[derive(Serialize, JsonSchema)]
struct ContextAt {
    /// The checkpoint.
    checkpoint: String,
    /// The node that ended last; empty before the first has ended.
    node: String,
    /// The values by their keys.
    #[schemars(with = "Map<String, Value>")]
    values: Context,
    /// Who wrote the values, and which edges read them.
    #[serde(flatten)]
    lineage: ContextLineage,
}

/// Returns the context of a run at a checkpoint (Attractor 9.5).
#[utoipa::path(
    get, path = "/pipelines/{id}/context", operation_id = "get_context", tag = "attractor",
    params(("at" = Option<String>, Query, description = "The checkpoint, such as `cp_000012`; the latest by default.")),
    responses(
        (status = 200, description = "The context.", body = ContextAt),
        (status = 404, description = "`unknown_run` or `unknown_checkpoint`"),
    ),
)]
pub(super) async fn context(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["at"])?;
    let (name, (checkpoint, lineage)) = at(&app, &id, query.text("at"), RunFolder::context_at).await?;
    let context = ContextAt {
        checkpoint: name,
        node: checkpoint.current_node,
        values: checkpoint.context,
        lineage,
    };
    Ok(json_response(StatusCode::OK, &context))
}

/// A method of a run folder that reads a checkpoint.
type ReadCheckpoint<T> = fn(&RunFolder, &str, &[Arc<dyn Transform>]) -> Result<T, StartError>;

/// Reads a checkpoint, the latest one if none is named; returns its name too.
async fn at<T: Send + 'static>(
    app: &App,
    id: &str,
    name: Option<&str>,
    read: ReadCheckpoint<T>,
) -> Result<(String, T), ApiError> {
    let (session, folder) = app.folder(id).await?;
    let name = match (name, session.summary.checkpoint) {
        (Some(name), _) => name.to_owned(),
        (None, Some(latest)) => latest,
        (None, None) => return Err(ApiError::not_found("checkpoint", "latest")),
    };
    let transforms = app.project.transforms();
    blocking(move || {
        let found = read(&folder, &name, &transforms)?;
        Ok((name, found))
    })
    .await?
}

/// The checkpoints of a run.
#[derive(Serialize, JsonSchema)]
struct Checkpoints {
    /// The checkpoints, in order.
    checkpoints: Vec<ReplayPoint>,
}

/// Lists the checkpoints from which a run can be replayed.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/checkpoints", operation_id = "list_checkpoints", tag = "runs",
    responses(
        (status = 200, description = "The checkpoints.", body = Checkpoints),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn checkpoints(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let (_, folder) = app.folder(&id).await?;
    let mut points = ReplayPoints::default();
    let points = blocking(move || folder.each_event(|line| points.apply_line(line)).map(|()| points));
    let checkpoints = points.await??.into_list();
    Ok(json_response(StatusCode::OK, &Checkpoints { checkpoints }))
}
