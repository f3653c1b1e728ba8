//! Numbers for monitoring, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use orchestra_engine::STAGE_DURATION_BUCKETS;
use orchestra_sessions::{IndexMetrics, RunFilter, SessionStatus, StageSeries};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::App;
use crate::error::ApiError;

/// Maximum number of open runs whose present status is determined.
const MAX_OPEN: usize = 10_000;

/// The counters, by the prefix of their series: the name, the help, and the number of decimals of its values.
const COUNTERS: [(&str, &str, u32); 3] = [
    (
        "orchestra_runs_total",
        "Runs that ended, by the status with which they ended.",
        0,
    ),
    (
        "orchestra_model_tokens_total",
        "Tokens that were sent to and received from models.",
        0,
    ),
    (
        "orchestra_model_cost_dollars_total",
        "Cost of model calls in US dollars.",
        6,
    ),
];
/// The histogram of the durations of stage attempts.
const DURATIONS: &str = "orchestra_stage_duration_seconds";
/// The number of decimals of a sum of durations.
const MICROS: u32 = 6;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Returns numbers for monitoring, in the text format of Prometheus.
///
/// Simulated runs are not counted. Counters never decrease, also if runs are removed, until the server ends.
#[utoipa::path(
    get, path = "/api/v1/metrics", operation_id = "get_metrics", tag = "server",
    responses((status = 200, description = "The numbers.", body = String, content_type = "text/plain")),
)]
pub(super) async fn metrics(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let reader = app.clone();
    let (counters, active, waiting) = app
        .index(move |index| {
            let open = RunFilter::all()
                .status(SessionStatus::Accepted)
                .status(SessionStatus::Running)
                .limit(MAX_OPEN);
            let open = index.list(&open)?.into_iter().filter(|run| !run.simulated);
            let active = open.map(|run| index.with_present_status(run));
            let active = active.filter(|run| run.status.is_open()).count();
            let asking = index.asking()?.into_iter().filter(|run| !run.simulated);
            let asking = asking.map(|run| index.with_present_status(run));
            let waiting: usize = asking.map(|run| run.questions().len()).sum();
            let counters = reader.counters.update(|| Ok(series(&index.metrics()?)))?;
            Ok((counters, active, waiting))
        })
        .await?;
    let text = exposition(&counters, active, waiting);
    let headers = [
        (CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((StatusCode::OK, headers, text).into_response())
}

/// Returns the numbers of all counters by their series. Costs and durations are in millionths.
fn series(metrics: &IndexMetrics) -> BTreeMap<String, u64> {
    let mut series = BTreeMap::new();
    for ((pipeline, status), runs) in &metrics.runs {
        if has_ended(*status) {
            let labels = labels(&[("pipeline", pipeline), ("status", status.word())]);
            series.insert(format!("orchestra_runs_total{{{labels}}}"), *runs);
        }
    }
    for ((provider, model), usage) in &metrics.models {
        let of = labels(&[("provider", provider), ("model", model)]);
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            let name = format!("orchestra_model_tokens_total{{{of},type=\"{kind}\"}}");
            series.insert(name, tokens);
        }
        let name = format!("orchestra_model_cost_dollars_total{{{of}}}");
        series.insert(name, usage.cost_micros);
    }
    for (stages, histogram) in &metrics.stages {
        let labels = stage_labels(stages);
        for (number, count) in histogram.buckets.iter().enumerate() {
            series.insert(bucket(&labels, number), *count);
        }
        let sum = u64::try_from(histogram.sum.as_micros()).unwrap_or(u64::MAX);
        series.insert(format!("{DURATIONS}_sum{{{labels}}}"), sum);
    }
    series
}

/// Returns the name under which a bucket is counted by itself. The exposition adds up the buckets.
fn bucket(labels: &str, number: usize) -> String {
    format!("{DURATIONS}_bucket{{{labels}}} {number}")
}

fn stage_labels(stages: &StageSeries) -> String {
    labels(&[
        ("pipeline", &stages.pipeline),
        ("node", &stages.node),
        ("outcome", &stages.outcome),
    ])
}

fn has_ended(status: SessionStatus) -> bool {
    matches!(
        status,
        SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
    )
}

/// Writes labels with their values escaped.
fn labels(labels: &[(&str, &str)]) -> String {
    let labels = labels.iter().map(|(name, value)| {
        let value = value
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('\n', r"\n");
        format!("{name}=\"{value}\"")
    });
    labels.collect::<Vec<_>>().join(",")
}

/// Writes all numbers. Writing to a text cannot fail.
fn exposition(counters: &BTreeMap<String, u64>, active: usize, waiting: usize) -> String {
    let mut text = String::new();
    for (name, help, value) in [
        (
            "orchestra_runs_active",
            "Runs that a process executes, or that are about to start.",
            active,
        ),
        (
            "orchestra_human_waiting",
            "Questions that wait for a person.",
            waiting,
        ),
    ] {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
    for (name, help, decimals) in COUNTERS {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        let prefix = format!("{name}{{");
        for (series, value) in counters.iter().filter(|(series, _)| series.starts_with(&prefix)) {
            let _ = writeln!(text, "{series} {}", decimal(*value, decimals));
        }
    }
    let _ = writeln!(
        text,
        "# HELP {DURATIONS} Durations of stage attempts.\n# TYPE {DURATIONS} histogram"
    );
    let prefix = format!("{DURATIONS}_sum{{");
    for (series, sum) in counters.iter().filter(|(series, _)| series.starts_with(&prefix)) {
        let of = series.strip_prefix(&prefix).and_then(|of| of.strip_suffix('}'));
        let of = of.unwrap_or_default();
        let mut count = 0;
        let limits = STAGE_DURATION_BUCKETS
            .iter()
            .map(|limit| limit.as_secs_f64().to_string());
        for (number, limit) in limits.chain(["+Inf".to_owned()]).enumerate() {
            count += counters.get(&bucket(of, number)).copied().unwrap_or_default();
            let _ = writeln!(text, "{DURATIONS}_bucket{{{of},le=\"{limit}\"}} {count}");
        }
        let _ = writeln!(
            text,
            "{series} {}\n{DURATIONS}_count{{{of}}} {count}",
            decimal(*sum, MICROS)
        );
    }
    text
}

/// Writes a number of millionths or of whole things, exactly.
fn decimal(value: u64, decimals: u32) -> String {
    let unit = 10_u64.pow(decimals);
    match value % unit {
        0 => (value / unit).to_string(),
        rest => {
            let digits = format!("{rest:0width$}", width = decimals as usize);
            format!("{}.{}", value / unit, digits.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_labels_are_written_exactly() {
        assert_eq!(
            (decimal(12, 0), decimal(12_500, 6)),
            ("12".into(), "0.0125".into())
        );
        assert_eq!(decimal(3_000_001, 6), "3.000001");
        assert_eq!(labels(&[("a", "x\"\\\n")]), r#"a="x\"\\\n""#);
    }
}
