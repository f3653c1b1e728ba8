//! Executions of workflows: runs of their versions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use orchestra_engine::{Begin, Context, ResumeSettings, RunFolder, RunId};
use orchestra_sessions::{QuestionRow, Session, SessionStatus, StageRow, TransitionRow};
use orchestra_stations::VersionName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json as object};

use super::running::start;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::reports::run_update;
use crate::routes::definitions::Start;
use crate::routes::request::{Query, SMALL, json};
use crate::routes::runs::go_on;

/// The body of an execution.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Execute {
    /// The version; `None` for the active one.
    version: Option<u32>,
    params: Map<String, Value>,
    simulate: bool,
    max_cost: Option<String>,
    max_time: Option<String>,
}

/// Starts a run of a version of a workflow, or of its active one.
pub(in crate::routes) async fn execute(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let body: Execute = json(&headers, content, SMALL).await?;
    let settings = Start {
        params: body.params,
        simulate: body.simulate,
        max_cost: body.max_cost,
        max_time: body.max_time,
    };
    let script = settings.script();
    let run = start(&app, id, body.version, script, settings.settings()?).await?;
    let location = [(header::LOCATION, path(&run))];
    let body = json_response(StatusCode::CREATED, &object!({ "id": run }));
    Ok((location, body).into_response())
}

fn path(run: &RunId) -> String {
    format!("/api/workflow-executions/{run}")
}

/// The workflow of an execution.
#[derive(Serialize)]
struct ExecutedWorkflow {
    /// The id; `null` if the database does not contain the workflow.
    id: Option<String>,
    /// The present name, or the one that the run bears.
    name: String,
}

/// An execution: the rows of its run.
#[derive(Serialize)]
struct Execution {
    id: RunId,
    workflow: ExecutedWorkflow,
    version: Option<u32>,
    status: SessionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
    /// The attempts at stations, with what came out of them.
    stations: Vec<StageRow>,
    /// The transitions that were taken, with the conditions that were tested.
    transitions: Vec<TransitionRow>,
    /// The output of all stations at the latest checkpoint.
    context: Context,
    questions: Vec<QuestionRow>,
    run: Session,
    /// The position after these rows, for `?since`.
    position: u64,
    /// `true` if there are more rows after the position.
    more: bool,
}

/// Returns the folder of a run of a workflow version. Other runs are unknown here.
async fn folder(app: &App, id: &str) -> Result<(Session, RunFolder), ApiError> {
    let unknown = || ApiError::not_found("workflow execution", id);
    let session = match app.session(id).await {
        Err(error) if error.is_not_found() => return Err(unknown()),
        session => session?,
    };
    if !matches!(VersionName::parse_file(&session.file), Some(Ok(_))) {
        return Err(unknown());
    }
    app.folder(id).await
}

/// Returns an execution with its stations and transitions.
pub(in crate::routes) async fn execution(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let since = Query::of(&uri, &["since"])?.number("since")?.unwrap_or(0);
    let (session, folder) = folder(&app, &id).await?;
    let update = run_update(&app, &id, since).await?.update;
    let found = blocking(move || {
        let checkpoint = folder.checkpoint()?;
        let context = checkpoint
            .map(|checkpoint| checkpoint.context)
            .unwrap_or_default();
        let name = VersionName::parse_file(&session.file).transpose()?;
        let (name, version) = name.map_or(("", None), |name| (name.workflow, name.version));
        let store = app.stations.existing()?;
        let known = store.and_then(|store| store.workflow(name).ok());
        let workflow = ExecutedWorkflow {
            name: known
                .as_ref()
                .map_or_else(|| name.to_owned(), |known| known.name.clone()),
            id: known.map(|known| known.id),
        };
        Ok::<_, ApiError>((workflow, version, context))
    });
    let (workflow, version, context) = found.await??;
    let execution = Execution {
        id: update.run.run.clone(),
        workflow,
        version,
        status: update.run.status,
        failed_at: update.run.failed_at().map(str::to_owned),
        stations: update.stages,
        transitions: update.transitions,
        context,
        questions: update.run.questions(),
        run: update.run,
        position: update.position,
        more: update.more,
    };
    Ok(json_response(StatusCode::OK, &execution))
}

/// The body of a retry.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Retry {
    accept_changes: bool,
}

/// Continues an execution that failed at the station where it failed (rule D9).
pub(in crate::routes) async fn retry_station(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let Retry { accept_changes } = json(&headers, content, SMALL).await?;
    let (session, folder) = folder(&app, &id).await?;
    let begin = Begin::Resume {
        folder: session.folder,
        settings: ResumeSettings {
            accept_changes,
            ..ResumeSettings::default()
        },
        take_over: false,
        retry: true,
    };
    let run = go_on(&app, folder, begin, accept_changes).await?;
    let location = [(header::LOCATION, path(&run))];
    let body = json_response(StatusCode::ACCEPTED, &object!({ "id": run }));
    Ok((location, body).into_response())
}
