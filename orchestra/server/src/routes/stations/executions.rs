//! Executions of workflows: runs of their versions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use orchestra_engine::{Begin, Context, ResumeSettings, RunFolder, RunId};
use orchestra_sessions::{QuestionRow, Session, SessionStatus, StageRow, TransitionRow};
use orchestra_stations::VersionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::running::start;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;
use crate::reports::run_update;
use crate::routes::definitions::Start;
use crate::routes::request::{Query, RunName, SMALL, json};
use crate::routes::runs::go_on;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(execution))
        .routes(routes!(retry_station))
}

described!(Request: Execute, Retry);
described!(Reply: Execution);

/// The body of an execution.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Execute {
    /// The version; `null` for the active one.
    version: Option<u32>,
    /// The parameters of the run.
    params: Map<String, Value>,
    /// Simulates the run: models and tools are not called.
    simulate: bool,
    /// The maximum cost in dollars, such as `2.50`.
    max_cost: Option<String>,
    /// The maximum time, such as `30m`.
    max_time: Option<String>,
}

/// Starts a run of a version of a workflow, or of its active one.
#[utoipa::path(
    post, path = "/api/workflows/{workflow}/execute", operation_id = "execute_workflow", tag = "stations", request_body = Execute,
    params(("Idempotency-Key" = Option<String>, Header, description =
        "Determines the id of the run, so that a repeated request starts it only once.")),
    responses(
        (status = 200, description = "An earlier request with this key has started the run.", body = RunName),
        (status = 201, description = "The run has started.", body = RunName, headers(("Location" = String))),
        (status = 403, description = "`needs_power`: the version does more than the server allows. Or as everywhere."),
        (status = 404, description = "`unknown_workflow`, `unknown_version`, or `no_stations`"),
        (status = 409, description = "The run cannot be started; the code tells why."),
        (status = 422, description = "The text is invalid, with diagnostics; or the code tells why."),
    ),
)]
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
    let started = start(&app, &headers, id, body.version, script, settings.settings()?).await?;
    Ok(started.reply(PLACE))
}

/// The path below which executions are found.
const PLACE: &str = "/api/workflow-executions";

/// The workflow of an execution.
#[derive(Serialize, JsonSchema)]
struct ExecutedWorkflow {
    /// The id; `null` if the database does not contain the workflow.
    id: Option<String>,
    /// The present name, or the one that the run bears.
    name: String,
}

/// An execution: the rows of its run.
#[derive(Serialize, JsonSchema)]
struct Execution {
    /// The id of the run.
    id: RunId,
    /// The workflow.
    workflow: ExecutedWorkflow,
    /// The version.
    version: Option<u32>,
    /// The status of the run.
    status: SessionStatus,
    /// The station at which the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
    /// The attempts at stations, with what came out of them.
    stations: Vec<StageRow>,
    /// The transitions that were taken, with the conditions that were tested.
    transitions: Vec<TransitionRow>,
    /// The output of all stations at the latest checkpoint.
    #[schemars(with = "Map<String, Value>")]
    context: Context,
    /// The questions that wait for an answer, the oldest first.
    questions: Vec<QuestionRow>,
    /// The run.
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
#[utoipa::path(
    get, path = "/api/workflow-executions/{id}", operation_id = "get_execution", tag = "stations",
    params(("since" = Option<u64>, Query, description = "The value `position` of an earlier reply; 0 for all rows.")),
    responses(
        (status = 200, description = "The execution.", body = Execution),
        (status = 404, description = "`unknown_workflow_execution`"),
    ),
)]
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
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Retry {
    /// Goes on with the active version.
    accept_changes: bool,
}

/// Continues an execution that failed at the station where it failed (rule D9).
#[utoipa::path(
    post, path = "/api/workflow-executions/{id}/retry-station", operation_id = "retry_station", tag = "stations", request_body = Retry,
    responses(
        (status = 202, description = "The server executes the run.", body = RunName, headers(("Location" = String))),
        (status = 403, description = "`needs_power`, or as everywhere"),
        (status = 404, description = "`unknown_workflow_execution`"),
        (status = 409, description = "`owned`, `changed`, `run_ended`, or another reason of the run"),
        (status = 422, description = "`invalid_pipeline`"),
    ),
)]
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
    app.released(&session).await;
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
    let location = [(header::LOCATION, format!("{PLACE}/{run}"))];
    let body = json_response(StatusCode::ACCEPTED, &RunName { id: run });
    Ok((location, body).into_response())
}
