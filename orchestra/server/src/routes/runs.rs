//! Runs: the list, one run with its rows, and its control.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Begin, ControlClient, EventReader, ResumeSettings, RunFolder, RunId};
use orchestra_sessions::{RunCursor, RunFilter, Session, SessionStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::request::{Query, SMALL, created, json};
use super::stations;
use super::submit::require_powers_of_run;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::live::stream::{Watch, rows};
use crate::reports::{ListedRun, listed_run, run_update};

/// Number of runs in a page of the list, if the request names none.
const DEFAULT_LIMIT: u64 = 50;

/// Maximum number of runs in a page of the list.
const MAX_LIMIT: u64 = 200;

/// Maximum number of events in a page, and of their bytes.
const MAX_EVENTS: u64 = 1_000;
const MAX_EVENT_BYTES: usize = 1 << 20;

/// Lists runs, the latest first.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["status", "name", "limit", "cursor"])?;
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
    let found = app.index(move |index| {
        let mut found = Vec::new();
        let mut after = cursor;
        loop {
            let mut filter = RunFilter::all().limit(limit);
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
            let is_last = page.len() < limit;
            after = page.last().map(Session::cursor);
            let page = page.into_iter().map(Session::with_present_status);
            found.extend(page.filter(|session| {
                statuses
                    .as_ref()
                    .is_none_or(|statuses| statuses.contains(&session.status))
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
    let runs: Vec<ListedRun> = runs.into_iter().map(listed_run).collect();
    Ok(json_response(
        StatusCode::OK,
        &json!({ "runs": runs, "next": next }),
    ))
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

/// Returns one run.
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

#[derive(Serialize)]
struct EventPage {
    events: Vec<Box<RawValue>>,
    /// The sequence number after which there are more events.
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

/// Streams rows to a page.
pub(super) async fn stream(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["watch"])?;
    let watch = Watch::parse(query.text("watch").unwrap_or("runs"))?;
    Ok(rows(&app, watch))
}

/// The body of a pause or a cancellation.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stop {
    reason: Option<String>,
}

impl Stop {
    pub(super) fn reason(self, otherwise: &str) -> String {
        self.reason.unwrap_or_else(|| otherwise.to_owned())
    }
}

/// Pauses a run.
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
        let path = session.folder;
        blocking(move || ControlClient::open(&path)?.pause(reason)).await??;
    } else {
        return Err(not_executed(&session));
    }
    Ok(json_response(StatusCode::ACCEPTED, &json!({ "run": id })))
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
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Resume {
    retry: bool,
    accept_changes: bool,
    accept_loss: bool,
}

/// Resumes a run that stopped.
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body: Resume = json(&headers, body, SMALL).await?;
    let (session, folder) = app.folder(&id).await?;
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
    Ok(json_response(StatusCode::ACCEPTED, &json!({ "id": id })))
}

/// The body of a replay.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    checkpoint: String,
    #[serde(default)]
    accept_changes: bool,
}

/// Starts a new run from a checkpoint of another one.
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
    Ok(created(&id))
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
            project.entry_of_run(&folder, accept_changes)?
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
