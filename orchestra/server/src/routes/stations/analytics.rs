//! Analytics of a workflow: how its versions ran, from the index of runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use orchestra_sessions::{NodeSum, RunTotals, SessionStatus};
use orchestra_stations::{TransitionRow, Workflow, WorkflowRows};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::running::files_of_version;
use super::store::with_store;
use crate::app::App;
use crate::error::{ApiError, json_response};
use crate::openapi::described;
use crate::routes::request::Query;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(analytics))
}

described!(Reply: Analytics);

/// The analytics of a workflow.
#[derive(Serialize, JsonSchema)]
struct Analytics {
    /// The workflow.
    workflow: Workflow,
    /// The versions that ran, the active one and the latest one; the latest first.
    versions: Vec<VersionAnalytics>,
}

/// The runs of a version.
#[derive(Serialize, JsonSchema)]
struct VersionAnalytics {
    /// The version.
    version: u32,
    /// The number of its runs.
    runs: u64,
    /// The number of simulated runs among them.
    simulated: u64,
    /// The number of runs with each status.
    statuses: BTreeMap<SessionStatus, u64>,
    /// All transitions in their order, also those that no run has tested or taken.
    transitions: Vec<TransitionAnalytics>,
    /// All stations in their order, also those that no run has visited.
    stations: Vec<NodeSum>,
}

/// How often the runs tested and took a transition.
#[derive(Serialize, JsonSchema)]
struct TransitionAnalytics {
    /// The place in the version, from 0.
    ordinal: usize,
    /// The station that it leaves.
    source: String,
    /// The station to which it leads.
    target: String,
    /// The name that people see.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// The number of the transition among those that leave its source, from 0.
    edge: u32,
    /// How often its condition was tested.
    tested: u64,
    /// How often its condition held.
    held: u64,
    /// How often it was taken.
    taken: u64,
}

/// Returns how the versions of a workflow ran. A renamed workflow keeps its runs.
#[utoipa::path(
    get, path = "/api/workflows/{workflow}/analytics", operation_id = "get_analytics", tag = "stations",
    responses(
        (status = 200, description = "The analytics.", body = Analytics),
        (status = 404, description = "`unknown_workflow`, or `no_stations`: the server has no database of workflows"),
    ),
)]
pub(in crate::routes) async fn analytics(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let found = with_store(&app, id, move |_, store, id| {
        let workflow = store.workflow(id)?;
        let names = store.names(&workflow.id)?;
        let versions = store.versions(&workflow.id)?;
        let versions: Vec<u32> = versions.iter().map(|summary| summary.version).collect();
        Ok((workflow, names, versions))
    });
    let (workflow, names, versions) = found.await?;
    let files = versions
        .iter()
        .map(|version| files_of_version(&names, Some(*version)));
    let files: Vec<Vec<String>> = files.collect();
    let totals = app.index(move |index| {
        let totals = index.totals(&files)?.into_iter();
        let present = totals.map(|totals| index.totals_with_present_status(totals));
        Ok(present.collect::<Vec<_>>())
    });
    let is_shown = {
        let (active, latest) = (workflow.active, workflow.latest);
        move |version: u32, totals: &RunTotals| {
            totals.runs() > 0 || active == Some(version) || latest == version
        }
    };
    let shown: Vec<(u32, RunTotals)> = versions
        .into_iter()
        .zip(totals.await?)
        .filter(|(version, totals)| is_shown(*version, totals))
        .collect();
    let analytics = with_store(&app, workflow.id.clone(), move |_, store, id| {
        let mut versions = Vec::with_capacity(shown.len());
        for (version, totals) in shown {
            let rows = store.version(id, version)?.rows;
            versions.push(of_version(version, rows, totals));
        }
        Ok(Analytics { workflow, versions })
    });
    Ok(json_response(StatusCode::OK, &analytics.await?))
}

fn of_version(version: u32, rows: WorkflowRows, totals: RunTotals) -> VersionAnalytics {
    let runs = totals.runs();
    let mut sums: HashMap<String, NodeSum> = totals
        .nodes
        .into_iter()
        .map(|sum| (sum.node.clone(), sum))
        .collect();
    let stations = rows.stations.into_iter().map(|station| {
        sums.remove(&station.node).unwrap_or_else(|| {
            let mut sum = NodeSum::default();
            sum.node = station.node;
            sum
        })
    });
    let stations = stations.collect();
    let counts: HashMap<(&str, u32), _> = totals
        .edges
        .iter()
        .map(|count| ((count.from.as_str(), count.edge), count))
        .collect();
    let mut leaving: HashMap<String, u32> = HashMap::new();
    let transitions = rows.transitions.into_iter().enumerate().map(|(ordinal, row)| {
        let TransitionRow {
            source,
            target,
            label,
            ..
        } = row;
        let next = leaving.entry(source.clone()).or_default();
        let edge = *next;
        *next += 1;
        let count = counts.get(&(source.as_str(), edge));
        TransitionAnalytics {
            ordinal,
            edge,
            tested: count.map_or(0, |count| count.tested),
            held: count.map_or(0, |count| count.held),
            taken: count.map_or(0, |count| count.taken),
            source,
            target,
            label,
        }
    });
    VersionAnalytics {
        version,
        runs,
        simulated: totals.simulated,
        statuses: totals.statuses,
        transitions: transitions.collect(),
        stations,
    }
}
