//! Decisions that are made again with other values.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use orchestra_engine::{EventKind, ReplayPoints, WhatIf};
use orchestra_sessions::{Page, StageRow, TransitionRow};
use serde::Deserialize;
use serde_json::{Value, json};

use super::request::{SMALL, json};
use crate::app::{App, blocking};
use crate::error::{ApiError, json_response};

/// The body: values by their keys. A text that is JSON counts as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    values: BTreeMap<String, Value>,
}

/// Returns which edge a decision would take with other values, by the router that runs use.
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
    Ok(json_response(
        StatusCode::OK,
        &json!({
            "from": &*from,
            "to": to.as_deref(),
            "edge": edge,
            "rule": rule.word(),
            "tested": tested,
            "same": to.as_deref() == decision.to.as_deref() && edge == decision.edge,
        }),
    ))
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
