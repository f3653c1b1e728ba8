//! The pipelines that can be started by name.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Budget, Entry, Limits, Script, StartError, StartSettings};
use orchestra_graph::parse_duration;
use orchestra_picture::Scene;
use orchestra_sessions::EdgeCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::graph::scene_of;
use super::once::start_once;
use super::request::{PIPELINE, Query, RunName, SMALL, json};
use super::stations;
use crate::app::{App, blocking};
use crate::error::{ApiError, Diagnostics, json_response};
use crate::openapi::described;
use crate::project::{Definition, LoadedDefinition, Project};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(definition))
        .routes(routes!(start))
}

described!(Request: Start);
described!(Reply: Definitions, DefinitionDetails);

/// A pipeline in the list.
#[derive(Serialize, JsonSchema)]
struct ListedDefinition {
    #[serde(flatten)]
    definition: Definition,
    /// The number of its runs.
    runs: u64,
}

/// The pipelines that can be started by name.
#[derive(Serialize, JsonSchema)]
struct Definitions {
    /// The pipelines.
    definitions: Vec<ListedDefinition>,
}

/// Lists the pipelines that can be started by name.
#[utoipa::path(
    get, path = "/api/v1/definitions", operation_id = "list_definitions", tag = "pipelines",
    responses((status = 200, description = "The pipelines.", body = Definitions)),
)]
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let mut definitions = app.project(|project| Ok(project.definitions())).await?;
    definitions.extend(stations::definitions(&app).await?);
    let counts = app.index(|index| index.runs_of_files()).await?;
    let rows = definitions.into_iter().map(|definition| ListedDefinition {
        runs: counts.get(&definition.file).copied().unwrap_or(0),
        definition,
    });
    let definitions = rows.collect();
    Ok(json_response(StatusCode::OK, &Definitions { definitions }))
}

/// A pipeline that can be started by name.
#[derive(Serialize, JsonSchema)]
struct DefinitionDetails {
    #[serde(flatten)]
    definition: Definition,
    /// The goal; may be empty.
    goal: String,
    /// `true` if the pipeline can be run.
    valid: bool,
    /// The number of its nodes.
    nodes: usize,
    /// The text in DOT; of a text of more than a mebibyte, its beginning.
    source: String,
    /// The diagnostics.
    diagnostics: Diagnostics,
    /// The error with which a run that is not simulated would be refused now; `null` if it would start.
    obstacle: Option<ApiError>,
    /// The picture; `null` if it is too large.
    scene: Option<Scene>,
    /// The number of its runs.
    runs: u64,
    /// How often its edges were tested and taken in all runs.
    edges: Vec<EdgeCount>,
}

/// Returns one pipeline with its text, diagnostics and picture, and how often its edges were taken.
#[utoipa::path(
    get, path = "/api/v1/definitions/{name}", operation_id = "get_definition", tag = "pipelines",
    responses(
        (status = 200, description = "The pipeline.", body = DefinitionDetails),
        (status = 404, description = "`unknown_definition`"),
        (status = 422, description = "The file cannot be read; the code tells why."),
    ),
)]
pub(super) async fn definition(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let found = stations::load_definition(&app, name).await?;
    let files = [stations::files(&app, &found.definition).await?];
    let totals = app.index(move |index| index.totals(&files)).await?;
    let totals = totals.into_iter().next().unwrap_or_default();
    let obstacle = match found.entry.clone() {
        Some(entry) => app.project(move |project| Ok(obstacle(project, &entry))).await?,
        None => None,
    };
    let _drawing = app.drawings.acquire().await;
    let body = blocking(move || {
        let LoadedDefinition {
            definition,
            loaded,
            entry,
        } = found;
        DefinitionDetails {
            definition,
            goal: loaded.graph.goal().to_owned(),
            valid: entry.is_some(),
            nodes: loaded.graph.nodes.len(),
            source: beginning(loaded.source.text()).to_owned(),
            diagnostics: Diagnostics::new(loaded.reports()),
            obstacle,
            scene: scene_of(&loaded.graph).ok(),
            runs: totals.runs(),
            edges: totals.edges,
        }
    });
    Ok(json_response(StatusCode::OK, &body.await?))
}

/// Returns the part of a text that a reply contains.
fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(PIPELINE)).unwrap_or(text)
}

/// Returns the error with which a run would be refused now.
fn obstacle(project: &dyn Project, entry: &Entry) -> Option<ApiError> {
    let engine = match project.engine(entry, None) {
        Ok(engine) => engine,
        Err(error) => return Some(error.into()),
    };
    let refused = entry.check(&engine).err()?;
    Some(StartError::from(refused).into())
}

/// The body of a start.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Start {
    /// The parameters of the run.
    pub(super) params: Map<String, Value>,
    /// Simulates the run: models and tools are not called.
    pub(super) simulate: bool,
    /// The maximum cost in dollars, such as `2.50`.
    pub(super) max_cost: Option<String>,
    /// The maximum time, such as `30m`.
    pub(super) max_time: Option<String>,
}

impl Start {
    pub(super) fn script(&self) -> Option<Script> {
        self.simulate.then(Script::default)
    }

    pub(super) fn settings(self) -> Result<StartSettings, ApiError> {
        let cost = self.max_cost.as_deref().map(|text| {
            Budget::parse_dollars(text).ok_or_else(|| {
                ApiError::malformed(format!("`max_cost` is not an amount: {}", text.escape_debug()))
                    .help("write dollars, as in `2.50`")
            })
        });
        let time = self.max_time.as_deref().map(|text| {
            let time: Option<Duration> = parse_duration(text);
            time.ok_or_else(|| {
                ApiError::malformed(format!("`max_time` is not a duration: {}", text.escape_debug()))
                    .help("write a number with a unit, as in `30m`")
            })
        });
        Ok(StartSettings {
            params: self.params.into_iter().collect(),
            limits: Limits {
                time: time.transpose()?,
                budget: Budget {
                    max_cost_micros: cost.transpose()?,
                    ..Budget::default()
                },
            },
            ..StartSettings::default()
        })
    }
}

/// Starts a run of a pipeline.
#[utoipa::path(
    post, path = "/api/v1/definitions/{name}/runs", operation_id = "start_definition", tag = "pipelines", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header, description =
        "Determines the id of the run, so that a repeated request starts it only once.")),
    responses(
        (status = 200, description = "An earlier request with this key has started the run.", body = RunName),
        (status = 201, description = "The run has started.", body = RunName, headers(("Location" = String))),
        (status = 404, description = "`unknown_definition`"),
        (status = 409, description = "The run cannot be started; the code tells why."),
        (status = 422, description = "`invalid_pipeline` with diagnostics, `key_reused`, or another reason"),
    ),
)]
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let start: Start = json(&headers, body, SMALL).await?;
    let script = start.script();
    let simulated = script.is_some();
    let settings = start.settings()?;
    if let Some(version) = stations::named(&app, &name).transpose()? {
        let (workflow, version) = (version.workflow.to_owned(), version.version);
        let started = stations::start(&app, &headers, workflow, version, script, settings).await?;
        return Ok(started.reply("/pipelines"));
    }
    let (entry, engine) = app.startable(name, script).await?;
    let started = start_once(&app, &headers, entry, engine, settings, simulated).await?;
    Ok(started.reply("/pipelines"))
}
