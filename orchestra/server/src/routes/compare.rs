//! Two runs, aligned to their first divergence.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use orchestra_sessions::RunComparison;
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::App;
use crate::error::{ApiError, json_response};
use crate::openapi::described;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(compare))
}

described!(Reply: Comparison);

/// The comparison of two runs, as `orchestra compare --json` prints it.
#[derive(Serialize, JsonSchema)]
struct Comparison {
    /// Always `orchestra.comparison/1`.
    schema: &'static str,
    #[serde(flatten)]
    comparison: RunComparison,
}

/// Returns up to where two runs agree, where they diverge, and the alignment of what follows.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/compare", operation_id = "compare_runs", tag = "runs",
    params(("with" = String, Query, description = "The id of the other run, which is the right one.")),
    responses(
        (status = 200, description = "The comparison.", body = Comparison),
        (status = 404, description = "`unknown_run`: one of the runs does not exist."),
    ),
)]
pub(super) async fn compare(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["with"])?;
    let left = app.session(&id).await?.run;
    let other = query.text("with").ok_or_else(|| {
        ApiError::malformed("the parameter `with` is missing").help("name the other run: `?with=ID`")
    })?;
    let right = app.session(other).await?.run;
    let transforms = app.project.transforms();
    let _drawing = app.drawings.acquire().await;
    let comparison = app
        .index(move |index| index.compare(&left, &right, &transforms))
        .await?;
    let schema = "orchestra.comparison/1";
    Ok(json_response(StatusCode::OK, &Comparison { schema, comparison }))
}
