//! Workflows: the list, and the creation, renaming and archiving of one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_stations::{VersionOrigin, VersionText, Workflow, WorkflowRows};
use serde::{Deserialize, Serialize};

use super::conditions::{created, if_match, is_known, not_modified, tagged};
use super::store::{not_offered, with_store};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::routes::request::{PIPELINE, Query, SMALL, json};

/// Maximum size of a body with a version, in bytes. Rows take more space than their text.
pub(super) const VERSION: usize = 2 * PIPELINE;

#[derive(Serialize)]
struct Workflows {
    workflows: Vec<Workflow>,
}

/// Lists the workflows by name.
pub(in crate::routes) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["archived"])?;
    let archived = match query.text("archived") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let message = format!("`archived={}` is neither true nor false", other.escape_debug());
            return Err(ApiError::malformed(message));
        }
    };
    let workflows = blocking(move || match app.stations.existing()? {
        Some(store) => store.list(archived),
        None => Ok(Vec::new()),
    });
    let workflows = workflows.await??;
    Ok(json_response(StatusCode::OK, &Workflows { workflows }))
}

/// The body of a new workflow.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewWorkflow {
    name: String,
    dot: Option<String>,
    rows: Option<Box<WorkflowRows>>,
    #[serde(default)]
    note: String,
}

/// Returns the text of a version: one of its two forms.
pub(super) fn text_of(dot: Option<String>, rows: Option<Box<WorkflowRows>>) -> Result<VersionText, ApiError> {
    match (dot, rows) {
        (Some(dot), None) => Ok(VersionText::Dot(dot)),
        (None, Some(rows)) => Ok(VersionText::Rows(rows)),
        _ => Err(ApiError::malformed("the body needs either `dot` or `rows`")),
    }
}

/// Creates a workflow with its first version.
pub(in crate::routes) async fn create(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let new: NewWorkflow = json(&headers, content, VERSION).await?;
    let text = text_of(new.dot, new.rows)?;
    let _drawing = app.drawings.acquire().await;
    let shared = app.clone();
    let workflow = blocking(move || {
        let store = shared.stations.created()?.ok_or_else(not_offered)?;
        Ok::<_, ApiError>(store.create(&new.name, &text, VersionOrigin::Http, &new.note)?)
    });
    let workflow = workflow.await??;
    let path = format!("/api/workflows/{}", workflow.id);
    Ok(created(&path, &workflow, &workflow))
}

/// Returns a workflow.
pub(in crate::routes) async fn workflow(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let workflow = with_store(&app, id, move |_, store, id| Ok(store.workflow(id)?)).await?;
    if is_known(&headers, &workflow) {
        return Ok(not_modified(&workflow));
    }
    Ok(tagged(StatusCode::OK, &workflow, &workflow))
}

/// The body of a rename.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    name: String,
}

/// Renames a workflow.
pub(in crate::routes) async fn rename(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let Rename { name } = json(&headers, content, SMALL).await?;
    let workflow = with_store(&app, id, move |_, store, id| {
        let present = store.workflow(id)?;
        Ok(store.rename(&present.id, &if_match(&headers)?, &name)?)
    });
    let workflow = workflow.await?;
    Ok(tagged(StatusCode::OK, &workflow, &workflow))
}

/// Archives a workflow.
pub(in crate::routes) async fn archive(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let workflow = with_store(&app, id, move |_, store, id| {
        let present = store.workflow(id)?;
        Ok(store.archive(&present.id, &if_match(&headers)?)?)
    });
    let workflow = workflow.await?;
    Ok(tagged(StatusCode::OK, &workflow, &workflow))
}
