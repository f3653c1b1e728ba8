//! Sessions of pages, and the server itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::{Query, SMALL, json};
use crate::app::App;
use crate::error::{ApiError, json_response};
use crate::openapi::{Description, described};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(about))
        .routes(routes!(begin, end))
        .routes(routes!(health))
        .routes(routes!(openapi))
}

described!(Request: BeginSession);
described!(Reply: About, Health, SessionKey);

/// The key of a session.
#[derive(Serialize, JsonSchema)]
struct SessionKey {
    /// What requests with the cookie send in the header `X-Orchestra`. Other programs of the machine may see the cookie.
    key: String,
}

/// The body that begins a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BeginSession {
    /// The token of the server.
    token: String,
}

/// Exchanges the token for a cookie.
#[utoipa::path(
    post, path = "/api/v1/session", operation_id = "begin_session", tag = "server", request_body = BeginSession,
    responses((status = 200, description = "The reply sets the cookie.", body = SessionKey)),
)]
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let BeginSession { token } = json(&headers, body, SMALL).await?;
    if !app.access.token.is(token.as_bytes()) {
        if !app.access.count_failure() {
            return Err(ApiError::too_many("too many requests without a valid token", 1));
        }
        let message = "this is not the token of the server";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .help("open the link that the server printed"));
    }
    let begun = app.access.sessions.begin(Instant::now());
    let (cookie, key) = begun.map_err(|error| ApiError::internal("internal", error.to_string()))?;
    let reply = json_response(StatusCode::OK, &SessionKey { key });
    Ok(([(header::SET_COOKIE, cookie)], reply).into_response())
}

/// Ends a session.
#[utoipa::path(
    delete, path = "/api/v1/session", operation_id = "end_session", tag = "server",
    responses((status = 204, description = "The reply removes the cookie.")),
)]
pub(super) async fn end(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let cookie = app.access.sessions.end(&headers);
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

/// The health of the server.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// Tells that the server answers.
#[utoipa::path(
    get, path = "/api/v1/health", operation_id = "get_health", tag = "server",
    responses((status = 200, description = "The server answers.", body = Health)),
)]
pub(super) async fn health() -> Response {
    json_response(StatusCode::OK, &Health { status: "ok" })
}

/// Returns this description.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", operation_id = "get_description", tag = "server",
    responses((status = 200, description = "The description of the API.", content_type = "application/json")),
)]
pub(super) async fn openapi(Extension(description): Extension<Description>) -> Response {
    json_response(StatusCode::OK, description.0)
}

/// The server.
#[derive(Serialize, JsonSchema)]
struct About {
    /// The version of the server.
    version: &'static str,
    /// The folder of the runs.
    runs_dir: PathBuf,
    /// `true` if the server refuses writes.
    read_only: bool,
    /// What submitted pipelines may do: `off`, `simulate`, `safe` or `any`.
    submit: &'static str,
    /// The maximum number of runs that the server executes at once.
    max_runs: usize,
    /// `true` if the server has station workflows.
    stations: bool,
}

/// Describes the server.
#[utoipa::path(
    get, path = "/api/v1/about", operation_id = "get_about", tag = "server",
    responses((status = 200, description = "The server.", body = About)),
)]
pub(super) async fn about(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let about = About {
        version: env!("CARGO_PKG_VERSION"),
        runs_dir: app.index.runs_dir().to_owned(),
        read_only: app.access.read_only,
        submit: app.submit.word(),
        max_runs: app.max_runs,
        stations: app.stations.are_offered(),
    };
    Ok(json_response(StatusCode::OK, &about))
}
