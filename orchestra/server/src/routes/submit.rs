//! Pipelines that clients send as text: checking them, and running them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Entry, RunFolder};
use orchestra_graph::{LoadOptions, Loaded, Pipeline, SharedPipeline, Source, Transform, load};
use orchestra_picture::Scene;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::definitions::Start;
use super::graph::scene_of;
use super::once::start_once;
use super::powers::{allow, require_no_powers};
use super::request::{PIPELINE, Query, RunName, body, is_json, json};
use crate::app::{App, blocking};
use crate::error::{ApiError, Diagnostics, json_response};
use crate::openapi::described;
use crate::options::Submit;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(submit))
        .routes(routes!(check))
}

described!(Request: Check, Submission);
described!(Reply: Checked);

/// What messages call a submission.
const WHAT: &str = "submitted pipeline";

/// The name of the file of submitted pipelines. A run of such a pipeline is recognised by it, also when it is resumed. No
/// definition has this name.
const SUBMITTED: &str = "http:submitted.dot";

/// Maximum number of nodes of a submitted pipeline.
pub(super) const MAX_NODES: usize = 2_000;

/// The body of a check.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Check {
    /// The pipeline in DOT.
    source: String,
}

/// The result of a check.
#[derive(Serialize, JsonSchema)]
struct Checked {
    /// `true` if the pipeline can be run.
    valid: bool,
    /// The diagnostics.
    diagnostics: Diagnostics,
    /// The picture of the pipeline; `null` if it is too large.
    scene: Option<Scene>,
}

/// Checks a pipeline.
#[utoipa::path(
    post, path = "/api/v1/check", operation_id = "check_pipeline", tag = "pipelines", request_body = Check,
    responses((status = 200, description = "The diagnostics and the picture.", body = Checked)),
)]
pub(super) async fn check(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, ApiError> {
    let Check { source } = json(&headers, content, PIPELINE + 4_096).await?;
    let transforms = app.project.transforms();
    let _drawing = app.checks.acquire().await;
    let body = blocking(move || {
        let loaded = load_text(source, transforms);
        let scene = match loaded.graph.nodes.len() <= MAX_NODES {
            true => scene_of(&loaded.graph).ok(),
            false => None,
        };
        Checked {
            valid: !loaded.report.has_errors(),
            diagnostics: Diagnostics::new(loaded.reports()),
            scene,
        }
    });
    Ok(json_response(StatusCode::OK, &body.await?))
}

/// The body of a submission as JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Submission {
    /// The pipeline in DOT.
    source: String,
    /// The parameters of the run.
    #[serde(default)]
    params: Map<String, Value>,
    /// Simulates the run: models and tools are not called.
    #[serde(default)]
    simulate: bool,
    /// The maximum cost in dollars, such as `2.50`.
    max_cost: Option<String>,
    /// The maximum time, such as `30m`.
    max_time: Option<String>,
}

/// Runs a pipeline that a client sends (Attractor 9.5): as JSON, or its text alone.
#[utoipa::path(
    post, path = "/pipelines", operation_id = "submit_pipeline", tag = "attractor",
    request_body(content((Submission = "application/json"), (String = "text/vnd.graphviz"))),
    params(("Idempotency-Key" = Option<String>, Header, description =
        "Determines the id of the run, so that a repeated request starts it only once.")),
    responses(
        (status = 200, description = "An earlier request with this key has started the run.", body = RunName),
        (status = 201, description = "The run has started.", body = RunName, headers(("Location" = String))),
        (status = 403, description = "`needs_power`: the pipeline does more than the server allows. Or as everywhere."),
        (status = 409, description = "The run cannot be started; the code tells why."),
        (status = 422, description = "`invalid_pipeline` with diagnostics, `too_many_nodes`, or `key_reused`"),
    ),
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    uri: Uri,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let (source, start) = if is_json(&headers) {
        let body: Submission = json(&headers, content, PIPELINE + 65_536).await?;
        let start = Start {
            params: body.params,
            simulate: body.simulate,
            max_cost: body.max_cost,
            max_time: body.max_time,
        };
        (body.source, start)
    } else {
        let bytes = body(content, PIPELINE).await?;
        let source = String::from_utf8(bytes).map_err(|error| {
            ApiError::malformed(format!("the pipeline is not UTF-8: {}", error.utf8_error()))
        })?;
        (source, Start::default())
    };
    let script = start.script();
    let simulated = script.is_some();
    allow(app.submit, script.is_some(), WHAT)?;
    let settings = start.settings()?;
    let transforms = app.project.transforms();
    let pipeline = {
        let transforms = transforms.clone();
        let _drawing = app.checks.acquire().await;
        blocking(move || valid(load_text(source, transforms))).await??
    };
    if script.is_none() && app.submit != Submit::Any {
        require_no_powers(&pipeline, WHAT)?;
    }
    let pipeline = SharedPipeline::from(pipeline);
    let name = pipeline.name.to_string();
    let entry = Entry::loaded(&name, pipeline, transforms);
    let (entry, engine) = app
        .project(move |project| {
            let engine = project.engine(&entry, script)?;
            Ok((entry, engine))
        })
        .await?;
    let started = start_once(&app, &headers, entry, engine, settings, simulated).await?;
    Ok(started.reply("/pipelines"))
}

/// Returns whether a client sent the pipeline of a run.
pub(super) fn is_submitted(folder: &RunFolder) -> bool {
    folder.manifest().file == SUBMITTED
}

/// Refuses a resume or replay of a submitted run that this server would not have started. Such a run continues with its
/// own text.
pub(super) fn require_powers_of_run(app: &App, folder: &RunFolder) -> Result<(), ApiError> {
    let manifest = folder.manifest();
    if !is_submitted(folder) || manifest.simulated || app.submit == Submit::Any {
        return Ok(());
    }
    allow(app.submit, false, WHAT)?;
    let pipeline = valid(folder.load_pipeline(&app.project.transforms()))?;
    require_no_powers(&pipeline, WHAT)
}

fn valid(loaded: Loaded) -> Result<Pipeline, ApiError> {
    let nodes = loaded.graph.nodes.len();
    if nodes > MAX_NODES {
        let message = format!("the pipeline has {nodes} nodes, and at most {MAX_NODES} are accepted");
        return Err(ApiError::unprocessable("too_many_nodes", message));
    }
    loaded.pipeline().ok_or_else(|| {
        ApiError::unprocessable("invalid_pipeline", "the pipeline is invalid").diagnostics(loaded.reports())
    })
}

/// Loads a text. It names no other files: there is no reader for them.
fn load_text(text: String, transforms: Vec<Arc<dyn Transform>>) -> Loaded {
    let options = LoadOptions {
        transforms,
        ..LoadOptions::default()
    };
    load(Source::new(SUBMITTED, text), &options)
}
