//! Runs: the list, one run with its rows, and its control.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Begin, ControlClient, EventReader, ResumeSettings, RunFolder, RunId};
use orchestra_sessions::{RunCursor, RunFilter, Session, SessionStatus};
use orchestra_stations::VersionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::{Query, RunName, SMALL, accepted, created, json};
use super::stations;
use super::submit::{is_submitted, require_powers_of_run};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::live::stream::{Watch, rows};
use crate::openapi::described;
use crate::reports::{ListedRun, RunReport, listed_run, run_update};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(run))
        .routes(routes!(events))
        .routes(routes!(stream))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(replay))
}

described!(Request: Stop, Resume, Replay);
described!(Reply: RunList, RunReport, EventPage);

/// Number of runs in a page of the list, if the request names none.
const DEFAULT_LIMIT: u64 = 50;

/// Maximum number of runs in a page of the list.
const MAX_LIMIT: u64 = 200;

/// Maximum number of events in a page, and of their bytes.
const MAX_EVENTS: u64 = 1_000;
const MAX_EVENT_BYTES: usize = 1 << 20;

/// A page of the list of runs.
#[derive(Serialize, JsonSchema)]
struct RunList {
    /// The runs, the latest first.
    runs: Vec<ListedRun>,
    /// The cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Lists runs, the latest first.
#[utoipa::path(
    get, path = "/api/v1/runs", operation_id = "list_runs", tag = "runs",
    params(
        ("status" = Option<String>, Query, description = "Statuses, separated by commas."),
        ("name" = Option<String>, Query, description = "The name of the pipeline."),
        ("workflow" = Option<String>, Query, description = "The id or the name of the station workflow."),
        ("limit" = Option<u64>, Query, description = "The maximum number of runs, at most 200; 50 by default."),
        ("cursor" = Option<String>, Query, description = "The value `next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of runs.", body = RunList),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
    ),
)]
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["status", "name", "workflow", "limit", "cursor"])?;
    let statuses = query.text("status").map(statuses).transpose()?;
    let limit = query
        .number("limit")?
        .unwrap_or(DEFAULT_LIMIT)
        .clamp(1, MAX_LIMIT) as usize;
    let cursor: Option<RunCursor> = query
        .text("cursor")
        .map(|text| {
            text.parse()
                .map_err(|error: orchestra_sessions::InvalidCursor| ApiError::malformed(error.to_string()))
        })
        .transpose()?;
    let name = query.text("name").map(str::to_owned);
    let workflow = match query.text("workflow") {
        Some(workflow) => Some(stations::names(&app, workflow.to_owned()).await?),
        None => None,
    };
    // The index does not know workflows, so most runs of a page may be of others.
    let page_limit = if workflow.is_some() {
        MAX_LIMIT as usize
    } else {
        limit
    };
    let found = app.index(move |index| {
        let mut found = Vec::new();
        let mut after = cursor;
        loop {
            let mut filter = RunFilter::all().limit(page_limit);
            // The index does not know which open runs were interrupted.
            for status in stored_statuses(statuses.as_deref()) {
                filter = filter.status(status);
            }
            if let Some(name) = &name {
                filter = filter.name(name);
            }
            if let Some(after) = after.take() {
                filter = filter.after(after);
            }
            let page = index.list(&filter)?;
            let is_last = page.len() < page_limit;
            after = page.last().map(Session::cursor);
            let page = page.into_iter().map(|session| index.with_present_status(session));
            found.extend(page.filter(|session| {
                let has_status = statuses
                    .as_ref()
                    .is_none_or(|statuses| statuses.contains(&session.status));
                let is_of_workflow = workflow
                    .as_ref()
                    .is_none_or(|names| is_of_workflow(&session.file, names));
                has_status && is_of_workflow
            }));
            if found.len() >= limit || is_last {
                let next = if found.len() > limit || !is_last {
                    found.get(limit - 1)
                } else {
                    None
                };
                let next = next.map(|last: &Session| last.cursor().to_string());
                found.truncate(limit);
                return Ok((found, next));
            }
        }
    });
    let (runs, next) = found.await?;
    let runs = runs.into_iter().map(listed_run).collect();
    Ok(json_response(StatusCode::OK, &RunList { runs, next }))
}

/// Returns whether a run bears one of the names of a workflow.
fn is_of_workflow(file: &str, names: &[String]) -> bool {
    let version = VersionName::parse_file(file).and_then(Result::ok);
    version.is_some_and(|version| names.iter().any(|name| name == version.workflow))
}

fn statuses(text: &str) -> Result<Vec<SessionStatus>, ApiError> {
    let parse = |word: &str| {
        SessionStatus::parse(word).ok_or_else(|| {
            let known: Vec<&str> = SessionStatus::ALL.iter().map(|status| status.word()).collect();
            ApiError::malformed(format!("unknown status `{}`", word.escape_debug()))
                .help(format!("the statuses are {}", known.join(", ")))
        })
    };
    text.split(',').map(parse).collect()
}

/// Returns the statuses that a run with one of these statuses may have in the index.
fn stored_statuses(statuses: Option<&[SessionStatus]>) -> Vec<SessionStatus> {
    let mut stored = statuses.unwrap_or_default().to_vec();
    if stored.contains(&SessionStatus::Interrupted) {
        stored.extend([SessionStatus::Accepted, SessionStatus::Running]);
    }
    stored
}

/// Returns one run with its rows, or those that changed after a position.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}", operation_id = "get_run", tag = "runs",
    params(("since" = Option<u64>, Query, description = "The value `position` of an earlier reply; 0 for all rows.")),
    responses(
        (status = 200, description = "The run.", body = RunReport),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let since = Query::of(&uri, &["since"])?.number("since")?.unwrap_or(0);
    Ok(json_response(
        StatusCode::OK,
        &run_update(&app, &id, since).await?,
    ))
}

/// Returns a page of the events of a run.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/events", operation_id = "list_events", tag = "runs",
    params(
        ("after" = Option<u64>, Query, description = "The sequence number after which the page begins; 0 by default."),
        ("limit" = Option<u64>, Query, description = "The maximum number of events, at most 1,000."),
    ),
    responses(
        (status = 200, description = "A page of events.", body = EventPage),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["after", "limit"])?;
    let after = query.number("after")?.unwrap_or(0);
    let limit = query.number("limit")?.unwrap_or(MAX_EVENTS).clamp(1, MAX_EVENTS) as usize;
    let folder = app.session(&id).await?.folder;
    let page = blocking(move || event_page(&folder, after, limit)).await?;
    Ok(json_response(StatusCode::OK, &page))
}

/// A page of the events of a run.
#[derive(Serialize, JsonSchema)]
struct EventPage {
    /// The events, as the run stores them.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    events: Vec<Box<RawValue>>,
    /// The sequence number after which there are more events; `null` on the last page.
    next: Option<u64>,
}

fn event_page(folder: &std::path::Path, after: u64, limit: usize) -> EventPage {
    let mut page = EventPage {
        events: Vec::new(),
        next: None,
    };
    let Ok(mut reader) = EventReader::open(folder) else {
        return page;
    };
    let (mut last, mut bytes) = (after, 0);
    while let Ok(Some(line)) = reader.next_line() {
        let seq = crate::live::feeds::seq(&line);
        if seq <= after {
            continue;
        }
        if page.events.len() >= limit || bytes > MAX_EVENT_BYTES {
            page.next = Some(last);
            break;
        }
        let text = line.text().into_owned();
        bytes += text.len();
        last = seq;
        page.events.extend(RawValue::from_string(text).ok());
    }
    page
}

/// Streams rows as they change: events `runs`, `gates`, `run` and `text`.
#[utoipa::path(
    get, path = "/api/v1/stream", operation_id = "stream_rows", tag = "runs",
    params((
        "watch" = Option<String>, Query,
        description = "What to follow: `runs`, `gates`, and `run:ID@POSITION` for single runs, separated by commas.",
    )),
    responses((status = 200, description = "The rows.", body = String, content_type = "text/event-stream")),
)]
pub(super) async fn stream(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["watch"])?;
    let watch = Watch::parse(query.text("watch").unwrap_or("runs"))?;
    Ok(rows(&app, watch))
}

/// The body of a pause or a cancellation.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stop {
    /// The reason, for people.
    reason: Option<String>,
}

impl Stop {
    pub(super) fn reason(self, otherwise: &str) -> String {
        self.reason.unwrap_or_else(|| otherwise.to_owned())
    }
}

/// Pauses a run.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/pause", operation_id = "pause_run", tag = "runs", request_body = Stop,
    responses(
        (status = 202, description = "The run is being paused.", body = RunName),
        (status = 404, description = "`unknown_run`"),
        (status = 409, description = "`run_ended` or `not_executed`"),
        (status = 504, description = "`control_unanswered`: the process that executes the run does not answer."),
    ),
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let reason = json::<Stop>(&headers, body, SMALL)
        .await?
        .reason("paused by request");
    let (session, folder) = app.folder(&id).await?;
    if let Some(own) = app.own_run(&id) {
        own.pause(reason);
    } else if folder.owner()?.is_some() {
        let path = session.folder.clone();
        blocking(move || ControlClient::open(&path)?.pause(reason)).await??;
    } else {
        return Err(not_executed(&session));
    }
    Ok(accepted(session.run))
}

/// Returns the error for a request that needs somebody who executes the run.
pub(super) fn not_executed(session: &Session) -> ApiError {
    let ended = matches!(
        session.status,
        SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
    );
    let run = &session.run;
    if ended {
        ApiError::conflict("run_ended", format!("run `{run}` has ended: {}", session.status))
    } else {
        ApiError::conflict("not_executed", format!("no process executes run `{run}`"))
    }
}

/// The body of a resume.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Resume {
    /// Goes on at the stage that failed, with one more attempt.
    retry: bool,
    /// Goes on although the pipeline has changed.
    accept_changes: bool,
    /// Goes on although a part of the journal is lost.
    accept_loss: bool,
}

/// Resumes a run that stopped.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/resume", operation_id = "resume_run", tag = "runs", request_body = Resume,
    responses(
        (status = 202, description = "The server executes the run.", body = RunName),
        (status = 403, description = "`needs_power`, or as everywhere"),
        (status = 404, description = "`unknown_run`"),
        (status = 409, description = "`owned`, `changed`, `run_ended`, or another reason of the run"),
        (status = 422, description = "`invalid_pipeline`"),
    ),
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body: Resume = json(&headers, body, SMALL).await?;
    let (session, folder) = app.folder(&id).await?;
    app.released(&session).await;
    let begin = Begin::Resume {
        folder: session.folder,
        settings: ResumeSettings {
            accept_changes: body.accept_changes,
            accept_loss: body.accept_loss,
            ..ResumeSettings::default()
        },
        take_over: false,
        retry: body.retry,
    };
    let id = go_on(&app, folder, begin, body.accept_changes).await?;
    Ok(accepted(id))
}

/// The body of a replay.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replay {
    /// The checkpoint from which the new run starts, such as `cp_000012`.
    checkpoint: String,
    /// Starts although the pipeline has changed.
    #[serde(default)]
    accept_changes: bool,
}

/// Starts a new run from a checkpoint of another one.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/replay", operation_id = "replay_run", tag = "runs", request_body = Replay,
    responses(
        (status = 201, description = "The new run has started.", body = RunName, headers(("Location" = String))),
        (status = 403, description = "`needs_power`, or as everywhere"),
        (status = 404, description = "`unknown_run` or `unknown_checkpoint`"),
        (status = 409, description = "`changed`, or another reason of the run"),
        (status = 422, description = "`invalid_pipeline`"),
    ),
)]
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body: Replay = json(&headers, body, SMALL).await?;
    let (session, folder) = app.folder(&id).await?;
    let begin = Begin::Replay {
        folder: session.folder,
        checkpoint: body.checkpoint,
        run_id: None,
        run_dir: None,
        settings: ResumeSettings {
            accept_changes: body.accept_changes,
            ..ResumeSettings::default()
        },
    };
    let id = go_on(&app, folder, begin, body.accept_changes).await?;
    Ok(created(id))
}

/// Resumes or replays a run with the present version of its pipeline.
pub(super) async fn go_on(
    app: &Arc<App>,
    folder: RunFolder,
    begin: Begin,
    accept_changes: bool,
) -> Result<RunId, ApiError> {
    let shared = app.clone();
    let prepared = blocking(move || {
        let project = &*shared.project;
        let entry = if stations::is_of_version(&folder) {
            stations::entry_of_run(&shared, &folder, accept_changes)?
        } else {
            require_powers_of_run(&shared, &folder)?;
            // A submitted text has no present version: a file of the project with its name is another pipeline.
            project.entry_of_run(&folder, accept_changes && !is_submitted(&folder))?
        };
        let engine = project.engine(&entry, script_of(&folder)?)?;
        Ok::<_, ApiError>((entry, engine))
    });
    let (entry, engine) = prepared.await??;
    app.begin(entry, engine, begin).await
}

/// Returns the script of a simulated run, or `None` if the run is not simulated.
fn script_of(folder: &RunFolder) -> Result<Option<orchestra_engine::Script>, crate::project::ProjectError> {
    let manifest = folder.manifest();
    if !manifest.simulated {
        return Ok(None);
    }
    let script = manifest.script.clone().map(serde_json::from_value).transpose();
    let script = script.map_err(|error| {
        crate::project::ProjectError::new("unreadable_script", format!("the script cannot be read: {error}"))
    })?;
    Ok(Some(script.unwrap_or_default()))
}
