//! The pipelines that can be started by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Begin, Budget, Limits, Script, StartSettings};
use orchestra_graph::parse_duration;
use orchestra_sessions::RunFilter;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::graph::scene_of;
use super::request::{Query, SMALL, created, json};
use super::stations;
use crate::app::{App, blocking};
use crate::error::{ApiError, diagnostics, json_response};
use crate::project::LoadedDefinition;

/// Number of runs that are counted for the list.
const COUNTED_RUNS: usize = 10_000;

/// Lists the pipelines.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let mut definitions = app.project(|project| Ok(project.definitions())).await?;
    definitions.extend(stations::definitions(&app).await?);
    let sessions = app
        .index(|index| index.list(&RunFilter::all().limit(COUNTED_RUNS)))
        .await?;
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for session in &sessions {
        *counts.entry(&session.file).or_default() += 1;
    }
    let rows = definitions.iter().map(|definition| {
        json!({
            "name": definition.name,
            "kind": definition.kind,
            "file": definition.file,
            "runs": counts.get(definition.file.as_str()).copied().unwrap_or(0),
        })
    });
    Ok(json_response(
        StatusCode::OK,
        &json!({ "definitions": rows.collect::<Vec<Value>>() }),
    ))
}

/// Returns one pipeline with its text, diagnostics and graph, and how often its edges were taken.
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
    let _drawing = app.drawings.acquire().await;
    let body = blocking(move || {
        let LoadedDefinition {
            definition,
            loaded,
            entry,
        } = found;
        json!({
            "name": definition.name,
            "kind": definition.kind,
            "file": definition.file,
            "goal": loaded.graph.goal(),
            "valid": entry.is_some(),
            "nodes": loaded.graph.nodes.len(),
            "source": loaded.source.text(),
            "diagnostics": diagnostics(loaded.reports()),
            // A picture that is too large is missing; the text is there.
            "scene": scene_of(&loaded.graph).ok(),
            "runs": totals.runs(),
            "edges": totals.edges,
        })
    });
    Ok(json_response(StatusCode::OK, &body.await?))
}

/// The body of a start.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Start {
    pub(super) params: Map<String, Value>,
    pub(super) simulate: bool,
    pub(super) max_cost: Option<String>,
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
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let start: Start = json(&headers, body, SMALL).await?;
    let script = start.script();
    let settings = start.settings()?;
    if let Some(version) = stations::named(&app, &name).transpose()? {
        let (workflow, version) = (version.workflow.to_owned(), version.version);
        let id = stations::start(&app, workflow, version, script, settings).await?;
        return Ok(created(&id));
    }
    let (entry, engine) = app
        .project(move |project| {
            let found = project.load(&name)?;
            let Some(entry) = found.entry else {
                let message = format!("the pipeline `{name}` is invalid");
                let error = crate::project::ProjectError::new("invalid_pipeline", message);
                return Err(error.reports(found.loaded.reports().cloned()));
            };
            let engine = project.engine(&entry, script)?;
            Ok((entry, engine))
        })
        .await?;
    let id = app.begin(entry, engine, Begin::Start(settings)).await?;
    Ok(created(&id))
}
