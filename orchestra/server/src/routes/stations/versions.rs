//! The versions of a workflow: reading, adding, comparing, checking and activating them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use orchestra_picture::Scene;
use orchestra_stations::{StoredVersion, VersionOrigin, VersionSummary, WorkflowRows};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conditions::{created, if_match, tagged};
use super::running::{load_to_show, require_powers_to_activate};
use super::store::with_store;
use super::workflows::{VERSION, text_of};
use crate::app::App;
use crate::error::{ApiError, diagnostics, json_response};
use crate::routes::graph::scene_of;
use crate::routes::request::{Query, SMALL, json};
use crate::routes::submit::MAX_NODES;

#[derive(Serialize)]
struct Versions {
    versions: Vec<VersionSummary>,
}

/// Lists the versions of a workflow, the latest first.
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewVersion {
    dot: Option<String>,
    rows: Option<Box<WorkflowRows>>,
    #[serde(default)]
    note: String,
}

/// A version that was added.
#[derive(Serialize)]
struct AddedVersion {
    #[serde(flatten)]
    summary: VersionSummary,
    #[serde(flatten)]
    checked: Checked,
}

/// The result of a check.
#[derive(Serialize)]
struct Checked {
    /// `true` if the version can be activated.
    valid: bool,
    diagnostics: Vec<Value>,
}

fn check(app: &App, stored: &StoredVersion) -> Checked {
    let loaded = load_to_show(app, stored);
    Checked {
        valid: !loaded.report.has_errors(),
        diagnostics: diagnostics(loaded.reports()),
    }
}

/// Adds a version to a workflow.
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
#[derive(Serialize)]
struct VersionDetails {
    #[serde(flatten)]
    summary: VersionSummary,
    dot: String,
    rows: WorkflowRows,
    #[serde(flatten)]
    checked: Checked,
    /// The picture; `null` if it is too large.
    scene: Option<Scene>,
}

/// Returns a version; with `.dot` behind its number, its bare text.
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
                diagnostics: diagnostics(loaded.reports()),
            },
            scene: is_small.then(|| scene_of(&loaded.graph).ok()).flatten(),
            summary: stored.version.summary,
            dot: stored.version.dot,
            rows: stored.version.rows,
        })
    });
    Ok(json_response(StatusCode::OK, &details.await?))
}

/// Returns what changes for a run between an earlier version and this one.
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
    Ok(json_response(StatusCode::OK, &difference.await?))
}

/// The body of a request that has no content.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Checks a version.
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
    Ok(tagged(StatusCode::OK, &workflow, &workflow))
}
