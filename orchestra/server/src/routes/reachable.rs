//! What may still happen in a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::{Budget, ReplayPoints, RunFolder};
use orchestra_graph::{NodeIndex, Pipeline, SharedPipeline};
use orchestra_sessions::{Session, SessionStatus};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(reachable))
}

described!(Reply: StillReachable);

/// What a run can still reach.
#[derive(Serialize, JsonSchema)]
struct StillReachable {
    /// The nodes where the run is: the stages in progress, else those that a resume begins with. Empty after the end of
    /// the run; a run that failed is at the stage that a retry repeats.
    from: Vec<String>,
    /// The nodes that the run can still execute, the nearest first.
    nodes: Vec<ReachableNode>,
    /// The nodes that it cannot reach any more.
    unreachable: Vec<String>,
    /// The limits on the usage of the whole run; a limit that is not named does not exist.
    budget: Budget,
}

/// A node that the run can still execute.
#[derive(Serialize, JsonSchema)]
struct ReachableNode {
    /// The node.
    node: String,
    /// Its label.
    label: String,
    /// The kind of its handler, such as `wait.human`.
    kind: String,
    /// The smallest number of edges that lead to it; 0 for a node where the run is.
    steps: u32,
    /// The number of visits up to now.
    visits: u32,
    /// The number of visits that are left; the run fails if it reaches a node without any.
    visits_left: u32,
    /// `true` if the run cannot succeed before the node has succeeded.
    goal_gate: bool,
}

/// Returns which nodes a run can still reach, with the visits that are left. Every condition may hold.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/reachable", operation_id = "list_reachable_nodes", tag = "runs",
    responses(
        (status = 200, description = "The nodes.", body = StillReachable),
        (status = 404, description = "`unknown_run`"),
        (status = 409, description = "`changed`: the stored pipeline can no longer be loaded."),
    ),
)]
pub(super) async fn reachable(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let (session, folder) = app.folder(&id).await?;
    let run = session.run.to_string();
    let (open, totals) = app
        .index(move |index| Ok((index.open_stages(&run)?, index.node_totals(&run)?)))
        .await?;
    let visits: BTreeMap<String, u64> = totals
        .into_iter()
        .map(|totals| (totals.node, totals.visits))
        .collect();
    let open = open.into_iter().map(|stage| stage.node).collect();
    let transforms = app.project.transforms();
    let found = blocking(move || {
        let pipeline = folder
            .load_pipeline(&transforms)
            .pipeline()
            .map(SharedPipeline::from);
        let pipeline = pipeline.ok_or_else(|| {
            ApiError::conflict(
                "changed",
                "the pipeline that is stored with the run is invalid now",
            )
        })?;
        let from = positions(&session, &folder, open)?;
        Ok::<_, ApiError>(still_reachable(
            &pipeline,
            from,
            &visits,
            folder.manifest().budget,
        ))
    });
    Ok(json_response(StatusCode::OK, &found.await??))
}

/// Returns the nodes where a run is.
fn positions(session: &Session, folder: &RunFolder, open: Vec<String>) -> Result<Vec<String>, ApiError> {
    match session.status {
        SessionStatus::Success | SessionStatus::Cancelled => return Ok(Vec::new()),
        SessionStatus::Fail => return Ok(session.failed_at().map(str::to_owned).into_iter().collect()),
        _ => {}
    }
    if !open.is_empty() {
        return Ok(open);
    }
    let mut points = ReplayPoints::default();
    folder.each_event(|line| points.apply_line(line))?;
    Ok(points
        .into_list()
        .pop()
        .map(|point| point.next)
        .unwrap_or_default())
}

fn still_reachable(
    pipeline: &Pipeline,
    mut from: Vec<String>,
    visits: &BTreeMap<String, u64>,
    budget: Budget,
) -> StillReachable {
    from.sort();
    from.dedup();
    let visits_of = |node: &str| {
        let visits = visits.get(node).copied().unwrap_or_default();
        u32::try_from(visits).unwrap_or(u32::MAX)
    };
    let roots: Vec<NodeIndex> = from.iter().filter_map(|node| pipeline.find(node)).collect();
    let found = pipeline.reachable(&roots, |node| visits_of(pipeline.stage(node).id()));
    let mut is_reachable = vec![false; pipeline.nodes.len()];
    let mut nodes = Vec::new();
    for to in found {
        let stage = pipeline.stage(to.node);
        if let Some(is_reachable) = is_reachable.get_mut(to.node.0 as usize) {
            *is_reachable = true;
        }
        nodes.push(ReachableNode {
            node: stage.id().to_owned(),
            label: stage.label().to_owned(),
            kind: stage.kind().to_owned(),
            steps: to.steps,
            visits: visits_of(stage.id()),
            visits_left: to.visits_left,
            goal_gate: stage.row().goal_gate,
        });
    }
    let unreachable = pipeline.stages().zip(is_reachable);
    let unreachable = unreachable.filter(|(_, is_reachable)| !is_reachable);
    StillReachable {
        from,
        nodes,
        unreachable: unreachable.map(|(stage, _)| stage.id().to_owned()).collect(),
        budget,
    }
}
