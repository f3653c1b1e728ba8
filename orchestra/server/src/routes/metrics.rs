//! Numbers for monitoring, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use orchestra_sessions::SessionStatus;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::App;
use crate::error::ApiError;
use crate::reports::open_gates;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Returns numbers for monitoring, in the text format of Prometheus.
#[utoipa::path(
    get, path = "/api/v1/metrics", operation_id = "get_metrics", tag = "server",
    responses((status = 200, description = "The numbers.", body = String, content_type = "text/plain")),
)]
pub(super) async fn metrics(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let totals = app.index(|index| index.index_totals()).await?;
    let questions = open_gates(&app).await?.len();
    let mut text = String::new();
    // Runs can be removed, so that every number can become smaller.
    let mut gauges = |name: &str, help: &str, samples: &[(String, u64)]| {
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "# HELP orchestra_{name} {help}\n# TYPE orchestra_{name} gauge"
        );
        for (labels, value) in samples {
            let _ = writeln!(text, "orchestra_{name}{labels} {value}");
        }
    };
    let one = |value: u64| [(String::new(), value)];
    let by_status: Vec<(String, u64)> = SessionStatus::ALL
        .iter()
        .map(|status| {
            let count = totals.runs.get(status).copied().unwrap_or_default();
            (format!("{{status=\"{}\"}}", status.word()), count)
        })
        .collect();
    gauges("runs", "Runs by the status of their last event.", &by_status);
    gauges(
        "runs_executing",
        "Runs that this server executes.",
        &one(app.own_runs().len() as u64),
    );
    gauges(
        "questions_open",
        "Questions that wait for an answer.",
        &one(questions as u64),
    );
    gauges(
        "stage_attempts",
        "Stage attempts of all runs.",
        &one(totals.stages),
    );
    gauges(
        "stage_failures",
        "Failed stage attempts of all runs.",
        &one(totals.failures),
    );
    gauges(
        "model_tokens",
        "Tokens that were sent to and received from models.",
        &one(totals.usage.tokens()),
    );
    gauges(
        "model_cost_microdollars",
        "Cost of all runs in millionths of a US dollar.",
        &one(totals.usage.cost_micros),
    );
    let headers = [
        (CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((StatusCode::OK, headers, text).into_response())
}
