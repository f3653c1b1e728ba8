//! The exporters. They count what they deliver, so that a failure is reported once, when the program ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter as ExportSpans, SpanProcessor as _,
};
use orchestra_engine::error_chain;
use reqwest::blocking::Client;

use crate::error::TelemetryError;
use crate::settings::Endpoint;

/// The interval at which finished spans are exported, unless `OTEL_BSP_SCHEDULE_DELAY` sets another one. The spans of a
/// process that is killed are lost if they ended in the last interval.
const SPAN_INTERVAL: Duration = Duration::from_millis(500);

/// What the exporters delivered.
#[derive(Clone, Default)]
pub(crate) struct Deliveries(Arc<DeliveriesInner>);

#[derive(Default)]
struct DeliveriesInner {
    has_delivered: AtomicBool,
    spans: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Deliveries {
    fn record(&self, result: OTelSdkResult) -> OTelSdkResult {
        match &result {
            Ok(()) => self.0.has_delivered.store(true, Ordering::Relaxed),
            Err(error) => {
                let mut failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert_with(|| error.to_string());
            }
        }
        result
    }

    /// Returns whether the collector has received anything.
    pub(crate) fn has_delivered(&self) -> bool {
        self.0.has_delivered.load(Ordering::Relaxed)
    }

    /// Returns the number of spans that the collector has received.
    pub(crate) fn spans(&self) -> u64 {
        self.0.spans.load(Ordering::Relaxed)
    }

    /// Returns the first failure.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// An exporter that counts what it delivers.
struct Counting<E> {
    exporter: E,
    deliveries: Deliveries,
}

impl<E> std::fmt::Debug for Counting<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

impl<E: ExportSpans> ExportSpans for Counting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let result = self.deliveries.record(self.exporter.export(batch).await);
        if result.is_ok() {
            self.deliveries.0.spans.fetch_add(spans, Ordering::Relaxed);
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Counting<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.deliveries.record(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

/// Creates the client for an endpoint.
fn client(endpoint: &Endpoint) -> Result<Client, TelemetryError> {
    let is_plain = endpoint.url.starts_with("http://");
    let timeout = endpoint.timeout;
    // A blocking client cannot be created on a thread of an asynchronous runtime.
    let building = std::thread::spawn(move || {
        let mut builder = Client::builder().timeout(timeout);
        if is_plain {
            // Plain HTTP does not need the certificates of the system, which may be missing.
            builder = builder.tls_certs_only([]);
        }
        builder.build()
    });
    let reason = match building.join() {
        Ok(Ok(client)) => return Ok(client),
        Ok(Err(error)) => error_chain(&error),
        Err(_) => "its HTTP client cannot be created".to_owned(),
    };
    Err(TelemetryError::Setup { reason })
}

/// Creates the queue of finished spans, with a thread of its own that exports them. It is bounded: if the collector does
/// not keep up, spans are dropped.
pub(crate) fn span_processor(
    endpoint: &Endpoint,
    resource: &Resource,
    has_interval: bool,
    deliveries: &Deliveries,
) -> Result<BatchSpanProcessor, TelemetryError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client(endpoint)?)
        .with_endpoint(&endpoint.url)
        .with_timeout(endpoint.timeout)
        .build();
    let exporter = exporter.map_err(|error| TelemetryError::Setup {
        reason: error.to_string(),
    })?;
    let config = BatchConfigBuilder::default();
    let config = if has_interval {
        config
    } else {
        config.with_scheduled_delay(SPAN_INTERVAL)
    };
    let counting = Counting {
        exporter,
        deliveries: deliveries.clone(),
    };
    let processor = BatchSpanProcessor::builder(counting).with_batch_config(config.build());
    let mut processor = processor.build();
    processor.set_resource(resource);
    Ok(processor)
}

/// Creates the provider of instruments, with a thread of its own that exports them at intervals.
pub(crate) fn meter_provider(
    endpoint: &Endpoint,
    resource: Resource,
    deliveries: &Deliveries,
) -> Result<SdkMeterProvider, TelemetryError> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_http_client(client(endpoint)?)
        .with_endpoint(&endpoint.url)
        .with_timeout(endpoint.timeout)
        .build();
    let exporter = exporter.map_err(|error| TelemetryError::Setup {
        reason: error.to_string(),
    })?;
    let counting = Counting {
        exporter,
        deliveries: deliveries.clone(),
    };
    let provider = SdkMeterProvider::builder().with_periodic_exporter(counting);
    Ok(provider.with_resource(resource).build())
}
