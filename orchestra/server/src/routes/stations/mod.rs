//! Station workflows: their versions, their executions and their analytics.

mod analytics;
mod conditions;
mod executions;
mod running;
mod store;
mod versions;
mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

pub(super) use running::{definitions, entry_of_run, files, is_of_version, load_definition, named, start};

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/workflows", get(workflows::list).post(workflows::create))
        .route(
            "/api/workflows/{id}",
            get(workflows::workflow)
                .put(workflows::rename)
                .delete(workflows::archive),
        )
        .route(
            "/api/workflows/{id}/versions",
            get(versions::list).post(versions::add),
        )
        .route("/api/workflows/{id}/versions/{n}", get(versions::version))
        .route(
            "/api/workflows/{id}/versions/{n}/difference",
            get(versions::difference),
        )
        .route(
            "/api/workflows/{id}/versions/{n}/validate",
            post(versions::validate),
        )
        .route(
            "/api/workflows/{id}/versions/{n}/activate",
            post(versions::activate),
        )
        .route("/api/workflows/{id}/analytics", get(analytics::analytics))
        .route("/api/workflows/{id}/execute", post(executions::execute))
        .route("/api/workflow-executions/{id}", get(executions::execution))
        .route(
            "/api/workflow-executions/{id}/retry-station",
            post(executions::retry_station),
        )
}
