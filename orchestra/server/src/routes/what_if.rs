//! Decisions that are made again with other values.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use orchestra_engine::{EventKind, ReplayPoints, TestedCondition, WhatIf};
use orchestra_sessions::{Page, StageRow, TransitionRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::{SMALL, json};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};
use crate::openapi::described;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(what_if))
}

described!(Request: Changed);
described!(Reply: DecidedAgain);

/// The body: values by their keys. A text that is JSON counts as JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChangedValues")]
struct Changed {
    /// The values; the others stay as they were.
    values: BTreeMap<String, Value>,
}

/// A decision that was made again.
#[derive(Serialize, JsonSchema)]
struct DecidedAgain {
    /// The node whose edge is chosen.
    from: String,
    /// The target; `null` if no edge can be taken.
    to: Option<String>,
    /// The number of the edge among those that leave the node.
    edge: Option<u32>,
    /// The rule that decided.
    rule: &'static str,
    /// The conditions that were tested, with the values that they read.
    tested: Vec<TestedCondition>,
    /// `true` if the decision is the same as that of the run.
    same: bool,
}

/// Returns which edge a decision would take with other values, by the router that runs use.
#[utoipa::path(
    post, path = "/api/v1/runs/{id}/decisions/{decision}/what-if", operation_id = "decide_again", tag = "runs", request_body = Changed,
    responses(
        (status = 200, description = "The decision.", body = DecidedAgain),
        (status = 404, description = "`unknown_run`, `unknown_decision` or `unknown_checkpoint`"),
        (status = 422, description = "`no_choice`: a fan-out takes every edge."),
    ),
)]
pub(super) async fn what_if(
    State(app): State<Arc<App>>,
    Path((id, decision)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let Changed { values } = json(&headers, body, SMALL).await?;
    let (_, folder) = app.folder(&id).await?;
    let unknown = || ApiError::not_found("decision", &decision);
    let seq: u64 = decision.parse().map_err(|_| unknown())?;
    let (run, before) = (id.clone(), seq.checked_sub(1).ok_or_else(unknown)?);
    let (found, stages) = app
        .index(move |index| {
            let page = Page::After { seq: before, most: 1 };
            let decision = index.transitions_in(&run, page)?.into_iter().next();
            let stages = index.stages(&run)?;
            Ok((decision, stages))
        })
        .await?;
    let decision = found.filter(|found| found.seq == seq).ok_or_else(unknown)?;
    if decision.branches.is_some() {
        let message = "a fan-out takes every edge whose condition holds; there is no choice to make again";
        return Err(ApiError::unprocessable("no_choice", message));
    }
    let what_if = with_values(&decision, &stages, values);
    let visit = left_stage(&decision, &stages).map(|stage| stage.visit);
    let transforms = app.project.transforms();
    let from = decision.from.clone();
    let again = blocking(move || {
        let mut points = ReplayPoints::default();
        folder.each_event(|line| points.apply_line(line))?;
        // The stage has ended at its own checkpoint. A branch has none on the main path, so the one before it counts.
        let own = |point: &&orchestra_engine::ReplayPoint| {
            point.node.as_deref() == Some(&*from) && (visit.is_none() || point.visit == visit)
        };
        let point = points.list().iter().find(own).or_else(|| {
            let earlier =
                |point: &&orchestra_engine::ReplayPoint| point.time.as_millis() <= decision.time.as_millis();
            points.list().iter().rfind(earlier)
        });
        let Some(point) = point else {
            return Err(ApiError::not_found("checkpoint", "of this decision"));
        };
        Ok((
            folder.what_if(&point.checkpoint, &what_if, &transforms)?,
            decision,
        ))
    });
    let (again, decision) = again.await??;
    let EventKind::EdgeSelected {
        from,
        to,
        edge,
        rule,
        tested,
        ..
    } = again
    else {
        return Err(ApiError::internal("internal", "the router made no decision"));
    };
    let again = DecidedAgain {
        from: from.to_string(),
        same: to.as_deref() == decision.to.as_deref() && edge == decision.edge,
        to: to.map(|to| to.to_string()),
        edge,
        rule: rule.word(),
        tested,
    };
    Ok(json_response(StatusCode::OK, &again))
}

/// Returns the attempt that ended before a decision.
fn left_stage<'s>(decision: &TransitionRow, stages: &'s [StageRow]) -> Option<&'s StageRow> {
    let is = |stage: &&StageRow| {
        stage.node == decision.from && stage.branch == decision.branch && stage.seq < decision.seq
    };
    stages.iter().rfind(is)
}

/// Returns the values of a decision with some of them replaced.
fn with_values(decision: &TransitionRow, stages: &[StageRow], values: BTreeMap<String, Value>) -> WhatIf {
    let stage = left_stage(decision, stages);
    let mut what_if = WhatIf {
        node: decision.from.clone(),
        outcome: stage.and_then(|stage| stage.outcome.clone()).unwrap_or_else(|| {
            let failed = stage.is_some_and(|stage| stage.error.is_some());
            if failed { "fail" } else { "success" }.to_owned()
        }),
        preferred_label: stage
            .and_then(|stage| stage.preferred_label.clone())
            .unwrap_or_default(),
        failure_reason: stage.and_then(|stage| stage.error.clone()).unwrap_or_default(),
        ..WhatIf::default()
    };
    for (key, value) in values {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match key.as_str() {
            "outcome" => what_if.outcome = text,
            "preferred_label" => what_if.preferred_label = text,
            "failure_reason" => what_if.failure_reason = text,
            _ => {
                let parsed = match value {
                    Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                    other => other,
                };
                what_if.values.insert(key, parsed);
            }
        }
    }
    what_if
}
