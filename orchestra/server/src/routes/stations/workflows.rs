//! Workflows: the list, and the creation, renaming and archiving of one.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_stations::{StationError, VersionName, VersionOrigin, VersionText, Workflow, WorkflowRows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::conditions::{created, if_match, is_known, not_modified, tagged};
use super::store::{not_offered, with_store};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;
use crate::routes::request::{PIPELINE, Query, SMALL, json};

/// Maximum size of a body with a version, in bytes. Rows take more space than their text.
pub(super) const VERSION: usize = 2 * PIPELINE;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(workflow, rename, archive))
}

described!(Request: NewWorkflow, Rename);
described!(Reply: Workflows, WorkflowReply);

/// A workflow.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkflowReply(pub(super) Workflow);

/// The workflows.
#[derive(Serialize, JsonSchema)]
struct Workflows {
    /// The workflows, sorted by name.
    workflows: Vec<ListedWorkflow>,
}

/// A workflow in the list.
#[derive(Serialize, JsonSchema)]
struct ListedWorkflow {
    #[serde(flatten)]
    workflow: Workflow,
    /// The number of runs of all its versions, also of those under a former name.
    runs: u64,
}

/// Lists the workflows by name.
#[utoipa::path(
    get, path = "/api/workflows", operation_id = "list_workflows", tag = "stations",
    params(("archived" = Option<bool>, Query, description = "`true` to include archived workflows.")),
    responses(
        (status = 200, description = "The workflows.", body = Workflows),
    ),
)]
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
    let shared = app.clone();
    let named = blocking(move || match shared.stations.existing()? {
        Some(store) => {
            let workflows = store.list(archived)?.into_iter();
            let named = workflows.map(|workflow| Ok((store.names(&workflow.id)?, workflow)));
            named.collect::<Result<Vec<_>, StationError>>()
        }
        None => Ok(Vec::new()),
    });
    let named = named.await??;
    let mut runs: HashMap<String, u64> = HashMap::new();
    for (file, count) in app.index(|index| index.runs_of_files()).await? {
        if let Some(Ok(version)) = VersionName::parse_file(&file) {
            *runs.entry(version.workflow.to_owned()).or_default() += count;
        }
    }
    let workflows = named.into_iter().map(|(names, workflow)| ListedWorkflow {
        runs: names.iter().filter_map(|name| runs.get(name)).sum(),
        workflow,
    });
    let workflows = workflows.collect();
    Ok(json_response(StatusCode::OK, &Workflows { workflows }))
}

/// The body of a new workflow.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewWorkflow {
    /// The name.
    name: String,
    /// The first version in DOT.
    dot: Option<String>,
    /// The first version as rows, in place of `dot`.
    rows: Option<Box<WorkflowRows>>,
    /// What the version is for.
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
#[utoipa::path(
    post, path = "/api/workflows", operation_id = "create_workflow", tag = "stations", request_body = NewWorkflow,
    responses(
        (status = 201, description = "The workflow with its first version.", body = WorkflowReply, headers(("ETag" = String))),
        (status = 404, description = "`no_stations`: the server has no database of workflows"),
        (status = 409, description = "`workflow_archived` or `workflow_exists`"),
        (status = 422, description = "The text is invalid, with diagnostics; or the code tells why."),
    ),
)]
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
    Ok(created(&path, &workflow, &WorkflowReply(workflow.clone())))
}

/// Returns a workflow.
#[utoipa::path(
    get, path = "/api/workflows/{workflow}", operation_id = "get_workflow", tag = "stations",
    params(("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier reply.")),
    responses(
        (status = 200, description = "The workflow.", body = WorkflowReply, headers(("ETag" = String))),
        (status = 304, description = "The client has the present state."),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
    ),
)]
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
    Ok(tagged(
        StatusCode::OK,
        &workflow,
        &WorkflowReply(workflow.clone()),
    ))
}

/// The body of a rename.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rename {
    /// The new name.
    name: String,
}

/// Renames a workflow.
#[utoipa::path(
    put, path = "/api/workflows/{workflow}", operation_id = "rename_workflow", tag = "stations", request_body = Rename,
    params(("If-Match" = String, Header, description = "The `ETag` of the workflow that the client has read.")),
    responses(
        (status = 200, description = "The workflow.", body = WorkflowReply, headers(("ETag" = String))),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
        (status = 409, description = "`workflow_archived` or `workflow_exists`"),
        (status = 412, description = "The workflow was changed meanwhile; the reply has its present `ETag`."),
        (status = 428, description = "`if_match_required`"),
        (status = 422, description = "The text is invalid, with diagnostics; or the code tells why."),
    ),
)]
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
    Ok(tagged(
        StatusCode::OK,
        &workflow,
        &WorkflowReply(workflow.clone()),
    ))
}

/// Archives a workflow.
#[utoipa::path(
    delete, path = "/api/workflows/{workflow}", operation_id = "archive_workflow", tag = "stations",
    params(("If-Match" = String, Header, description = "The `ETag` of the workflow that the client has read.")),
    responses(
        (status = 200, description = "The workflow.", body = WorkflowReply, headers(("ETag" = String))),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
        (status = 409, description = "`workflow_archived` or `workflow_exists`"),
        (status = 412, description = "The workflow was changed meanwhile; the reply has its present `ETag`."),
        (status = 428, description = "`if_match_required`"),
    ),
)]
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
    Ok(tagged(
        StatusCode::OK,
        &workflow,
        &WorkflowReply(workflow.clone()),
    ))
}
