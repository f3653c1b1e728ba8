//! Sessions of pages, and the server itself.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;

use super::request::{Query, SMALL, json};
use crate::app::App;
use crate::error::{ApiError, json_response};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginSession {
    token: String,
}

/// Exchanges the token for a cookie.
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
    let cookie = app.access.sessions.begin(Instant::now());
    let cookie = cookie.map_err(|error| ApiError::internal("internal", error.to_string()))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Ends a session.
pub(super) async fn end(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let cookie = app.access.sessions.end(&headers);
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

pub(super) async fn health() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// Describes the server.
pub(super) async fn about(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    Ok(json_response(
        StatusCode::OK,
        &json!({
            "version": env!("CARGO_PKG_VERSION"),
            "runs_dir": app.index.runs_dir(),
            "read_only": app.access.read_only,
            "submit": app.submit.word(),
            "max_runs": app.max_runs,
        }),
    ))
}
