//! Starts that a client may repeat with the same key when it does not know whether the first request arrived.

use std::sync::Arc;

use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use orchestra_engine::{Begin, Engine, Entry, RunFolder, RunId, StartSettings};
use sha2::{Digest as _, Sha256};

use super::request::RunName;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};

/// Maximum length of a key, in bytes.
const MAX_KEY: usize = 255;

/// A run that was started by this request, or by an earlier one with the same key.
pub(super) struct StartedRun {
    id: RunId,
    is_new: bool,
}

impl StartedRun {
    /// Returns the reply. `place` is the path below which the client finds the run.
    pub(super) fn reply(self, place: &str) -> Response {
        let status = if self.is_new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let location = [(LOCATION, format!("{place}/{}", self.id))];
        (location, json_response(status, &RunName { id: self.id })).into_response()
    }
}

/// Starts a run. With the header `Idempotency-Key`, the key determines the id of the run, so that it starts only once.
pub(super) async fn start_once(
    app: &Arc<App>,
    headers: &HeaderMap,
    entry: Entry,
    engine: Engine,
    mut settings: StartSettings,
    simulated: bool,
) -> Result<StartedRun, ApiError> {
    let new = |id| StartedRun { id, is_new: true };
    let Some(run) = run_of_key(headers)? else {
        return app.begin(entry, engine, Begin::Start(settings)).await.map(new);
    };
    let _held = app.keyed_start.lock().await;
    if let Some(started) = repeated(app, &run, &entry, &settings, simulated).await? {
        return Ok(started);
    }
    settings.run_id = Some(run);
    app.begin(entry, engine, Begin::Start(settings)).await.map(new)
}

/// Returns the id of the run that a key determines.
fn run_of_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > MAX_KEY || keys.next().is_some() {
        let message = format!("`Idempotency-Key` must be one value of 1 to {MAX_KEY} bytes");
        return Err(ApiError::malformed(message));
    }
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(format!("key-{hex}")))
}

/// Returns the reply for a run that an earlier request with the same key has started, or `None` if there is none.
async fn repeated(
    app: &App,
    run: &str,
    entry: &Entry,
    settings: &StartSettings,
    simulated: bool,
) -> Result<Option<StartedRun>, ApiError> {
    let path = app.index.runs_dir().join(run);
    let found = blocking(move || RunFolder::open(path)).await?;
    let Ok(found) = found else {
        return Ok(None);
    };
    let manifest = found.manifest();
    let same_values = |(key, value): &(String, serde_json::Value)| manifest.params.get(key) == Some(value);
    let same = *manifest.pipeline.source == *entry.pipeline().source
        && manifest.simulated == simulated
        && manifest.max_time == settings.limits.time
        && manifest.budget == settings.limits.budget
        && settings.params.iter().all(same_values);
    if !same {
        let message = format!("another request with this key has started run `{run}`");
        return Err(
            ApiError::unprocessable("key_reused", message).help("use a new `Idempotency-Key` for each run")
        );
    }
    let id = app.session(run).await?.run;
    Ok(Some(StartedRun { id, is_new: false }))
}
