//! The metrics of OTLP. They count the runs that this process executes, from the events from which spans are derived.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _, UpDownCounter};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use orchestra_engine::{EventKind, ModelCall, RunEvent, STAGE_DURATION_BUCKETS};

use crate::conventions as names;
use crate::traces::Applied;

/// The instruments. A collector that serves Prometheus gives them the names of the server's metrics.
pub(crate) struct Metrics {
    runs: Counter<u64>,
    active: UpDownCounter<i64>,
    durations: Histogram<f64>,
    tokens: Counter<u64>,
    cost: Counter<f64>,
    waiting: UpDownCounter<i64>,
}

impl Metrics {
    pub(crate) fn new(provider: &SdkMeterProvider) -> Metrics {
        let meter = provider.meter("orchestra");
        let limits = STAGE_DURATION_BUCKETS
            .iter()
            .map(std::time::Duration::as_secs_f64);
        Metrics {
            runs: meter
                .u64_counter(names::RUNS)
                .with_description("Runs that ended, by the status with which they ended.")
                .build(),
            active: meter
                .i64_up_down_counter(names::RUNS_ACTIVE)
                .with_description("Runs in progress.")
                .build(),
            durations: meter
                .f64_histogram(names::STAGE_DURATION)
                .with_unit("s")
                .with_description("Durations of stage attempts.")
                .with_boundaries(limits.collect())
                .build(),
            tokens: meter
                .u64_counter(names::MODEL_TOKENS)
                .with_description("Tokens that were sent to and received from models.")
                .build(),
            cost: meter
                .f64_counter(names::MODEL_COST)
                .with_description("Cost of model calls in US dollars.")
                .build(),
            waiting: meter
                .i64_up_down_counter(names::HUMAN_WAITING)
                .with_description("Questions that wait for a person.")
                .build(),
        }
    }

    /// Counts an event and what it changed.
    pub(crate) fn record(&self, event: &RunEvent, applied: &Applied) {
        let pipeline = KeyValue::new("pipeline", applied.pipeline.clone());
        if applied.active != 0 {
            self.active.add(applied.active, &[]);
        }
        if applied.waiting != 0 {
            self.waiting.add(applied.waiting, &[]);
        }
        if applied.is_copied {
            return;
        }
        let status = match &event.kind {
            EventKind::PipelineCompleted { .. } => "success",
            EventKind::PipelineFailed { .. } => "fail",
            EventKind::PipelineCancelled { .. } => "cancelled",
            EventKind::ModelCallCompleted { call, .. } => return self.record_call(call),
            kind => {
                if let Some(end) = kind.attempt_end() {
                    let outcome = end.outcome.unwrap_or(end.result.word());
                    let labels = [
                        pipeline,
                        KeyValue::new("node", end.stage.node.to_string()),
                        KeyValue::new("outcome", outcome.to_owned()),
                    ];
                    self.durations.record(end.duration.as_secs_f64(), &labels);
                }
                return;
            }
        };
        self.runs.add(1, &[pipeline, KeyValue::new("status", status)]);
    }

    fn record_call(&self, call: &ModelCall) {
        let provider = KeyValue::new("provider", call.provider.clone());
        let model = KeyValue::new("model", call.model_name().to_owned());
        let usage = call.usage;
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            let labels = [provider.clone(), model.clone(), KeyValue::new("type", kind)];
            self.tokens.add(tokens, &labels);
        }
        self.cost.add(usage.cost_usd(), &[provider, model]);
    }
}
