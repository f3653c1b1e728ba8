//! Starts that a client may repeat with the same key when it does not know whether the first request arrived.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use orchestra_engine::{Begin, Engine, Entry, RunFolder, StartSettings};
use sha2::{Digest as _, Sha256};

use super::request::{RunName, created};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};

/// Maximum length of a key, in bytes.
const MAX_KEY: usize = 255;

/// Starts a run. With the header `Idempotency-Key`, the key determines the id of the run, so that it starts only once.
pub(super) async fn start_once(
    app: &Arc<App>,
    headers: &HeaderMap,
    entry: Entry,
    engine: Engine,
    mut settings: StartSettings,
) -> Result<Response, ApiError> {
    let Some(run) = run_of_key(headers)? else {
        return Ok(created(app.begin(entry, engine, Begin::Start(settings)).await?));
    };
    if let Some(reply) = repeated(app, &run, &entry, &settings).await? {
        return Ok(reply);
    }
    settings.run_id = Some(run.clone());
    let again = (entry.clone(), settings.clone());
    match app.begin(entry, engine, Begin::Start(settings)).await {
        Ok(id) => Ok(created(id)),
        // Another request with the same key may have been faster.
        Err(error) => match repeated(app, &run, &again.0, &again.1).await? {
            Some(reply) => Ok(reply),
            None => Err(error),
        },
    }
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
) -> Result<Option<Response>, ApiError> {
    let path = app.index.runs_dir().join(run);
    let found = blocking(move || RunFolder::open(path)).await?;
    let Ok(found) = found else {
        return Ok(None);
    };
    let manifest = found.manifest();
    let same_values = |(key, value): &(String, serde_json::Value)| manifest.params.get(key) == Some(value);
    if *manifest.pipeline.source != *entry.pipeline().source || !settings.params.iter().all(same_values) {
        let message = format!("another request with this key has started run `{run}`");
        return Err(
            ApiError::unprocessable("key_reused", message).help("use a new `Idempotency-Key` for each run")
        );
    }
    let id = app.session(run).await?.run;
    Ok(Some(json_response(StatusCode::OK, &RunName { id })))
}
