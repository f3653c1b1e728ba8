//! Starts that a client may repeat with the same key when it does not know whether the first request arrived.

use std::sync::Arc;

use axum::http::header::{HeaderName, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use orchestra_engine::{Begin, Engine, Entry, RunFolder, RunId, StartSettings};
use sha2::{Digest as _, Sha256};

use super::request::RunName;
use crate::app::{App, blocking};
use crate::bytes::hexadecimal;
use crate::error::{ApiError, json_response};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

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

/// The key of a request that may be repeated.
pub(super) struct Key(Vec<u8>);

impl Key {
    /// Returns the id of the run that the key determines.
    pub(super) fn run_id(&self, prefix: &str) -> String {
        let digest = Sha256::digest(&self.0);
        format!("{prefix}-{}", hexadecimal(digest.get(..16).unwrap_or_default()))
    }
}

/// Returns the key in a header.
pub(super) fn key_in(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Key>, ApiError> {
    let mut keys = headers.get_all(name).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    if key.is_empty() || key.len() > MAX_KEY || keys.next().is_some() {
        let name = if *name == IDEMPOTENCY_KEY {
            "Idempotency-Key"
        } else {
            name.as_str()
        };
        let message = format!("`{name}` must be one value of 1 to {MAX_KEY} bytes");
        return Err(ApiError::malformed(message));
    }
    Ok(Some(Key(key.as_bytes().to_vec())))
}

/// A start that may be repeated.
pub(super) struct KeyedStart {
    /// The id of the run that a key determines; `None` for a run of its own.
    pub(super) run: Option<String>,
    pub(super) settings: StartSettings,
    pub(super) simulated: bool,
    /// `true` if the pipeline and the limits of the first run may have been other ones.
    pub(super) any_configuration: bool,
}

/// Starts a run. With the header `Idempotency-Key`, the key determines the id of the run, so that it starts only once.
pub(super) async fn start_once(
    app: &Arc<App>,
    headers: &HeaderMap,
    entry: Entry,
    engine: Engine,
    settings: StartSettings,
    simulated: bool,
) -> Result<StartedRun, ApiError> {
    let key = key_in(headers, &IDEMPOTENCY_KEY)?;
    let start = KeyedStart {
        run: key.map(|key| key.run_id("key")),
        settings,
        simulated,
        any_configuration: false,
    };
    start_keyed(app, entry, engine, start).await
}

/// Starts a run, unless an earlier request has started it.
pub(super) async fn start_keyed(
    app: &Arc<App>,
    entry: Entry,
    engine: Engine,
    mut start: KeyedStart,
) -> Result<StartedRun, ApiError> {
    let new = |id| StartedRun { id, is_new: true };
    let Some(run) = start.run.take() else {
        return app
            .begin(entry, engine, Begin::Start(start.settings))
            .await
            .map(new);
    };
    let _held = app.keyed_start.lock().await;
    if let Some(started) = repeated(app, &run, &entry, &start).await? {
        return Ok(started);
    }
    start.settings.run_id = Some(run);
    app.begin(entry, engine, Begin::Start(start.settings))
        .await
        .map(new)
}

/// Returns the reply for a run that an earlier request with the same key has started, or `None` if there is none.
async fn repeated(
    app: &App,
    run: &str,
    entry: &Entry,
    start: &KeyedStart,
) -> Result<Option<StartedRun>, ApiError> {
    let settings = &start.settings;
    let path = app.index.runs_dir().join(run);
    let found = blocking(move || RunFolder::open(path)).await?;
    let Ok(found) = found else {
        return Ok(None);
    };
    let manifest = found.manifest();
    let same_values = |(key, value): &(String, serde_json::Value)| manifest.params.get(key) == Some(value);
    let same_start = *manifest.pipeline.source == *entry.pipeline().source
        && manifest.max_time == settings.limits.time
        && manifest.budget == settings.limits.budget;
    let same = (start.any_configuration || same_start)
        && manifest.simulated == start.simulated
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
