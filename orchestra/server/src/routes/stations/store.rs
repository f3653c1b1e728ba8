//! Access to the database of workflows, which may be missing.

use std::sync::Arc;

use axum::http::StatusCode;
use orchestra_stations::StationStore;

use crate::app::{App, blocking};
use crate::error::ApiError;

/// Calls a function of the database, which blocks, on a thread of its own. `workflow` is the id or the name of the
/// one that it concerns.
pub(super) async fn with_store<T: Send + 'static>(
    app: &Arc<App>,
    workflow: String,
    call: impl FnOnce(&App, &StationStore, &str) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let app = app.clone();
    blocking(move || {
        let store = app.stations.existing()?;
        let store = store.ok_or_else(|| missing(&app, &workflow))?;
        call(&app, &store, &workflow)
    })
    .await?
}

/// Returns the error for a workflow while there is no database.
pub(super) fn missing(app: &App, workflow: &str) -> ApiError {
    if app.stations.are_offered() {
        ApiError::not_found("workflow", workflow)
    } else {
        not_offered()
    }
}

/// Returns the error for a project without station workflows.
pub(super) fn not_offered() -> ApiError {
    let message = "this server has no station workflows";
    ApiError::new(StatusCode::NOT_FOUND, "no_stations", message)
        .help("a program names their database with `Server::stations`")
}
