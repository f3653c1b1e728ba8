//! The routes of the server.

mod context;
mod definitions;
mod files;
mod gates;
mod graph;
mod pipelines;
mod powers;
mod request;
mod runs;
mod session;
mod stations;
mod submit;
mod what_if;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use crate::app::App;
use crate::error::ApiError;
use crate::guard::{guard, protect_page};
use crate::page;

/// Every route with the methods that it accepts, for tests of all of them.
pub const ROUTES: &[(&str, &[&str])] = &[
    ("/pipelines", &["POST"]),
    ("/pipelines/{id}", &["GET"]),
    ("/pipelines/{id}/events", &["GET"]),
    ("/pipelines/{id}/cancel", &["POST"]),
    ("/pipelines/{id}/graph", &["GET"]),
    ("/pipelines/{id}/questions", &["GET"]),
    ("/pipelines/{id}/questions/{qid}/answer", &["POST"]),
    ("/pipelines/{id}/checkpoint", &["GET"]),
    ("/pipelines/{id}/context", &["GET"]),
    ("/api/v1/about", &["GET"]),
    ("/api/v1/runs", &["GET"]),
    ("/api/v1/runs/{id}", &["GET"]),
    ("/api/v1/runs/{id}/events", &["GET"]),
    ("/api/v1/runs/{id}/pause", &["POST"]),
    ("/api/v1/runs/{id}/resume", &["POST"]),
    ("/api/v1/runs/{id}/replay", &["POST"]),
    ("/api/v1/runs/{id}/decisions/{seq}/what-if", &["POST"]),
    ("/api/v1/runs/{id}/checkpoints", &["GET"]),
    ("/api/v1/runs/{id}/files", &["GET"]),
    ("/api/v1/runs/{id}/files/{file}", &["GET"]),
    ("/api/v1/gates", &["GET"]),
    ("/api/v1/stream", &["GET"]),
    ("/api/v1/definitions", &["GET"]),
    ("/api/v1/definitions/{name}", &["GET"]),
    ("/api/v1/definitions/{name}/runs", &["POST"]),
    ("/api/v1/check", &["POST"]),
    ("/api/v1/session", &["POST", "DELETE"]),
    ("/api/v1/health", &["GET"]),
    ("/api/workflows", &["GET", "POST"]),
    ("/api/workflows/{id}", &["GET", "PUT", "DELETE"]),
    ("/api/workflows/{id}/versions", &["GET", "POST"]),
    ("/api/workflows/{id}/versions/{n}", &["GET"]),
    ("/api/workflows/{id}/versions/{n}/difference", &["GET"]),
    ("/api/workflows/{id}/versions/{n}/validate", &["POST"]),
    ("/api/workflows/{id}/versions/{n}/activate", &["POST"]),
    ("/api/workflows/{id}/analytics", &["GET"]),
    ("/api/workflows/{id}/execute", &["POST"]),
    ("/api/workflow-executions/{id}", &["GET"]),
    ("/api/workflow-executions/{id}/retry-station", &["POST"]),
];

/// Returns the router of a server.
pub(crate) fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .route("/pipelines", post(submit::submit))
        .route("/pipelines/{id}", get(pipelines::status))
        .route("/pipelines/{id}/events", get(pipelines::events))
        .route("/pipelines/{id}/cancel", post(pipelines::cancel))
        .route("/pipelines/{id}/graph", get(graph::graph))
        .route("/pipelines/{id}/questions", get(gates::questions))
        .route("/pipelines/{id}/questions/{qid}/answer", post(gates::answer))
        .route("/pipelines/{id}/checkpoint", get(context::checkpoint))
        .route("/pipelines/{id}/context", get(context::context))
        .route("/api/v1/about", get(session::about))
        .route("/api/v1/runs", get(runs::list))
        .route("/api/v1/runs/{id}", get(runs::run))
        .route("/api/v1/runs/{id}/events", get(runs::events))
        .route("/api/v1/runs/{id}/pause", post(runs::pause))
        .route("/api/v1/runs/{id}/resume", post(runs::resume))
        .route("/api/v1/runs/{id}/replay", post(runs::replay))
        .route("/api/v1/runs/{id}/checkpoints", get(context::checkpoints))
        .route(
            "/api/v1/runs/{id}/decisions/{seq}/what-if",
            post(what_if::what_if),
        )
        .route("/api/v1/runs/{id}/files", get(files::list))
        .route("/api/v1/runs/{id}/files/{file}", get(files::file))
        .route("/api/v1/gates", get(gates::gates))
        .route("/api/v1/stream", get(runs::stream))
        .route("/api/v1/definitions", get(definitions::list))
        .route("/api/v1/definitions/{name}", get(definitions::definition))
        .route("/api/v1/definitions/{name}/runs", post(definitions::start))
        .route("/api/v1/check", post(submit::check))
        .route("/api/v1/session", post(session::begin).delete(session::end))
        .route("/api/v1/health", get(session::health))
        .merge(stations::routes())
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method);
    let pages = Router::new()
        .route("/", get(page::redirect))
        .route("/ui", get(page::redirect))
        .route("/ui/", get(page::index))
        .route("/ui/{*path}", get(page::asset))
        .layer(middleware::from_fn(protect_page));
    api.merge(pages)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

async fn unknown_path(State(_): State<Arc<App>>, uri: Uri) -> Response {
    let message = format!("there is nothing at `{}`", uri.path().escape_debug());
    ApiError::new(StatusCode::NOT_FOUND, "unknown_path", message).into_response()
}

async fn wrong_method(uri: Uri) -> Response {
    let message = format!("`{}` does not accept this method", uri.path().escape_debug());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).into_response()
}
