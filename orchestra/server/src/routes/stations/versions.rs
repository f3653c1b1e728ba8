//! The versions of a workflow: reading, adding, comparing, checking and activating them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use orchestra_graph::Difference;
use orchestra_picture::Scene;
use orchestra_stations::{StoredVersion, VersionOrigin, VersionSummary, WorkflowRows};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::conditions::{created, if_match, tagged};
use super::running::{load_to_show, require_powers_to_activate};
use super::store::with_store;
use super::workflows::{VERSION, WorkflowReply, text_of};
use crate::app::App;
use crate::error::{ApiError, Diagnostics, json_response};
use crate::openapi::described;
use crate::routes::graph::scene_of;
use crate::routes::request::{Query, SMALL, json};
use crate::routes::submit::MAX_NODES;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(version))
        .routes(routes!(difference))
        .routes(routes!(validate))
        .routes(routes!(activate))
}

described!(Request: NewVersion, Nothing);
described!(Reply: Versions, AddedVersion, VersionDetails, VersionDifference, Checked);

/// The versions of a workflow.
#[derive(Serialize, JsonSchema)]
struct Versions {
    /// The versions, the latest first.
    versions: Vec<VersionSummary>,
}

/// Lists the versions of a workflow, the latest first.
#[utoipa::path(
    get, path = "/api/workflows/{workflow}/versions", operation_id = "list_versions", tag = "stations",
    responses(
        (status = 200, description = "The versions.", body = Versions, headers(("ETag" = String))),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
    ),
)]
pub(in crate::routes) async fn list(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let found = with_store(&app, id, move |_, store, id| {
        let workflow = store.workflow(id)?;
        let versions = store.versions(&workflow.id)?;
        Ok((workflow, versions))
    });
    let (workflow, versions) = found.await?;
    Ok(tagged(StatusCode::OK, &workflow, &Versions { versions }))
}

/// The body of a new version.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewVersion {
    /// The version in DOT.
    dot: Option<String>,
    /// The version as rows, in place of `dot`.
    rows: Option<Box<WorkflowRows>>,
    /// What the version is for.
    #[serde(default)]
    note: String,
}

/// A version that was added.
#[derive(Serialize, JsonSchema)]
struct AddedVersion {
    #[serde(flatten)]
    summary: VersionSummary,
    #[serde(flatten)]
    checked: Checked,
}

/// The result of a check.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CheckedVersion")]
struct Checked {
    /// `true` if the version can be activated.
    valid: bool,
    /// The diagnostics.
    diagnostics: Diagnostics,
}

fn check(app: &App, stored: &StoredVersion) -> Checked {
    let loaded = load_to_show(app, stored);
    Checked {
        valid: !loaded.report.has_errors(),
        diagnostics: Diagnostics::new(loaded.reports()),
    }
}

/// Adds a version to a workflow.
#[utoipa::path(
    post, path = "/api/workflows/{workflow}/versions", operation_id = "add_version", tag = "stations", request_body = NewVersion,
    params(("If-Match" = String, Header, description = "The `ETag` of the workflow that the client has read.")),
    responses(
        (status = 201, description = "The version; it is not active yet.", body = AddedVersion, headers(("ETag" = String))),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
        (status = 409, description = "`workflow_archived` or `workflow_exists`"),
        (status = 412, description = "The workflow was changed meanwhile; the reply has its present `ETag`."),
        (status = 428, description = "`if_match_required`"),
        (status = 422, description = "The text is invalid, with diagnostics; or the code tells why."),
    ),
)]
pub(in crate::routes) async fn add(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let new: NewVersion = json(&headers, content, VERSION).await?;
    let text = text_of(new.dot, new.rows)?;
    let _drawing = app.drawings.acquire().await;
    let added = with_store(&app, id, move |app, store, id| {
        let present = store.workflow(id)?;
        let etag = if_match(&headers)?;
        let workflow = store.add_version(&present.id, &etag, &text, VersionOrigin::Http, &new.note)?;
        let stored = store.stored(&workflow.id, Some(workflow.latest))?;
        let checked = check(app, &stored);
        let summary = stored.version.summary;
        Ok((workflow, AddedVersion { summary, checked }))
    });
    let (workflow, added) = added.await?;
    let path = format!("/api/workflows/{}/versions/{}", workflow.id, workflow.latest);
    Ok(created(&path, &workflow, &added))
}

/// Parses the number of a version in a path.
fn number(text: &str) -> Result<u32, ApiError> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| ApiError::not_found("version", text))
}

/// A version with its text, rows, diagnostics and picture.
#[derive(Serialize, JsonSchema)]
struct VersionDetails {
    #[serde(flatten)]
    summary: VersionSummary,
    /// The text in DOT.
    dot: String,
    /// The rows of the text.
    rows: WorkflowRows,
    #[serde(flatten)]
    checked: Checked,
    /// The picture; `null` if it is too large.
    scene: Option<Scene>,
}

/// Returns a version; with `.dot` behind its number, its bare text.
#[utoipa::path(
    get, path = "/api/workflows/{workflow}/versions/{version}", operation_id = "get_version", tag = "stations",
    responses(
        (status = 200, description = "The version.", content((VersionDetails = "application/json"), (String = "text/vnd.graphviz"))),
        (status = 404, description = "`unknown_workflow`, `unknown_version`, or `no_stations`"),
    ),
)]
pub(in crate::routes) async fn version(
    State(app): State<Arc<App>>,
    Path((id, n)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let bare = n.strip_suffix(".dot");
    let number = number(bare.unwrap_or(&n))?;
    if bare.is_some() {
        let text = with_store(&app, id, move |_, store, id| Ok(store.version(id, number)?.dot));
        let headers = [
            (CONTENT_TYPE, "text/vnd.graphviz; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
        ];
        return Ok((headers, text.await?).into_response());
    }
    let _drawing = app.drawings.acquire().await;
    let details = with_store(&app, id, move |app, store, id| {
        let stored = store.stored(id, Some(number))?;
        let loaded = load_to_show(app, &stored);
        let is_small = loaded.graph.nodes.len() <= MAX_NODES;
        Ok(VersionDetails {
            checked: Checked {
                valid: !loaded.report.has_errors(),
                diagnostics: Diagnostics::new(loaded.reports()),
            },
            scene: is_small.then(|| scene_of(&loaded.graph).ok()).flatten(),
            summary: stored.version.summary,
            dot: stored.version.dot,
            rows: stored.version.rows,
        })
    });
    Ok(json_response(StatusCode::OK, &details.await?))
}

/// The difference of two versions, as `orchestra stations diff --json` prints it.
#[derive(Serialize)]
struct VersionDifference(Difference);

impl JsonSchema for VersionDifference {
    fn schema_name() -> Cow<'static, str> {
        "VersionDifference".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let objects = |text: &str| json_schema!({ "description": text, "type": "array", "items": { "type": "object" } });
        json_schema!({
            "description": "The difference of two versions, as `orchestra stations diff --json` prints it.",
            "type": "object",
            "properties": {
                "schema": { "const": "orchestra.difference/1", "description": "Always `orchestra.difference/1`." },
                "changes": objects("The nodes, edges and attributes that were added, removed or changed."),
                "children": objects("The changes of child pipelines."),
            },
        })
    }
}

/// Returns what changes for a run between an earlier version and this one.
#[utoipa::path(
    get, path = "/api/workflows/{workflow}/versions/{version}/difference", operation_id = "get_difference", tag = "stations",
    params(("from" = u32, Query, description = "The version to compare with.")),
    responses(
        (status = 200, description = "What changes for a run.", body = VersionDifference),
        (status = 404, description = "`unknown_workflow`, `unknown_version`, or `no_stations`"),
        (status = 422, description = "The text is invalid, with diagnostics; or the code tells why."),
    ),
)]
pub(in crate::routes) async fn difference(
    State(app): State<Arc<App>>,
    Path((id, n)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["from"])?;
    let new = number(&n)?;
    let old = query.number("from")?;
    let old = old.ok_or_else(|| ApiError::malformed("`from` is missing: the version to compare with"))?;
    let old = number(&old.to_string())?;
    let _drawing = app.drawings.acquire().await;
    let difference = with_store(&app, id, move |_, store, id| {
        Ok(store.difference((id, old), (id, new))?)
    });
    Ok(json_response(
        StatusCode::OK,
        &VersionDifference(difference.await?),
    ))
}

/// The body of a request that has no content.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Checks a version.
#[utoipa::path(
    post, path = "/api/workflows/{workflow}/versions/{version}/validate", operation_id = "validate_version", tag = "stations", request_body = Nothing,
    responses(
        (status = 200, description = "The diagnostics.", body = Checked),
        (status = 404, description = "`unknown_workflow`, `unknown_version`, or `no_stations`"),
    ),
)]
pub(in crate::routes) async fn validate(
    State(app): State<Arc<App>>,
    Path((id, n)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let Nothing {} = json(&headers, content, SMALL).await?;
    let number = number(&n)?;
    let _drawing = app.drawings.acquire().await;
    let checked = with_store(&app, id, move |app, store, id| {
        Ok(check(app, &store.stored(id, Some(number))?))
    });
    Ok(json_response(StatusCode::OK, &checked.await?))
}

/// Activates a version. Runs in progress are not affected.
#[utoipa::path(
    post, path = "/api/workflows/{workflow}/versions/{version}/activate", operation_id = "activate_version", tag = "stations", request_body = Nothing,
    params(("If-Match" = String, Header, description = "The `ETag` of the workflow that the client has read.")),
    responses(
        (status = 200, description = "The workflow.", body = WorkflowReply, headers(("ETag" = String))),
        (status = 403, description = "`needs_power`: the version does more than the server allows. Or as everywhere."),
        (status = 404, description = "`unknown_workflow`, `unknown_version`, or `no_stations`"),
        (status = 409, description = "`workflow_archived` or `workflow_exists`"),
        (status = 412, description = "The workflow was changed meanwhile; the reply has its present `ETag`."),
        (status = 428, description = "`if_match_required`"),
        (status = 422, description = "The text is invalid, with diagnostics; or the code tells why."),
    ),
)]
pub(in crate::routes) async fn activate(
    State(app): State<Arc<App>>,
    Path((id, n)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let Nothing {} = json(&headers, content, SMALL).await?;
    let number = number(&n)?;
    let _drawing = app.drawings.acquire().await;
    let workflow = with_store(&app, id, move |app, store, id| {
        let stored = store.stored(id, Some(number))?;
        let etag = if_match(&headers)?;
        require_powers_to_activate(app, &stored)?;
        Ok(store.activate(&stored.workflow.id, &etag, number)?)
    });
    let workflow = workflow.await?;
    Ok(tagged(
        StatusCode::OK,
        &workflow,
        &WorkflowReply(workflow.clone()),
    ))
}
