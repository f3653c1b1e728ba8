//! [`Telemetry`]: the observer of runs that exports their spans and metrics.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor as _};
use orchestra_engine::{Engine, RunEvent};

use crate::error::{ExportFailure, TelemetryError};
use crate::export::{Deliveries, meter_provider, span_processor};
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::traces::Traces;

/// Maximum time that [`Telemetry::finish`] waits for a collector that has received something before.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// Maximum time that [`Telemetry::finish`] waits for a collector that has not answered yet.
const FIRST_FLUSH_LIMIT: Duration = Duration::from_millis(750);
/// The environment variable from which programs read the span to which their own belong.
const TRACEPARENT: &str = "TRACEPARENT";
/// The name of the service, unless the environment sets one.
const SERVICE: &str = "orchestra";

/// The observer of runs that exports their spans and metrics to a collector, with OTLP over HTTP.
///
/// The environment variables of OpenTelemetry configure it, such as `OTEL_EXPORTER_OTLP_ENDPOINT`. Spans and metrics wait
/// in bounded queues for threads of their own, so that a collector that is slow or gone neither delays nor fails a run.
///
/// ```
/// use orchestra_engine::Engine;
/// use orchestra_telemetry::Telemetry;
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut engine = Engine::builder().build()?;
/// let telemetry = Telemetry::from_environment()?;
/// if let Some(telemetry) = &telemetry {
///     engine = telemetry.observe(&engine);
/// }
/// engine.start(pipeline, ()).await?.wait().await?;
/// if let Some(failure) = telemetry.and_then(|telemetry| telemetry.finish()) {
///     eprintln!("warning: {failure}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    traces: Mutex<Traces>,
    contents: bool,
    processor: Option<BatchSpanProcessor>,
    provider: Option<SdkMeterProvider>,
    metrics: Option<Metrics>,
    deliveries: Deliveries,
    /// The number of spans that ended.
    spans: AtomicU64,
    endpoint: String,
}

impl Telemetry {
    /// Creates the telemetry that the environment of this process configures. Returns `None` if it is off: no variable
    /// names an endpoint, or `OTEL_SDK_DISABLED` is `true`.
    ///
    /// # Errors
    /// A variable has a value that is not supported.
    pub fn from_environment() -> Result<Option<Telemetry>, TelemetryError> {
        Telemetry::from_variables(|name| std::env::var(name).ok())
    }

    /// Creates the telemetry that variables configure, like [`from_environment`](Telemetry::from_environment). The
    /// variables about headers, time limits, queues and the service are still read from the environment.
    ///
    /// ```
    /// use orchestra_telemetry::Telemetry;
    /// assert!(Telemetry::from_variables(|_| None)?.is_none());
    /// # Ok::<(), orchestra_telemetry::TelemetryError>(())
    /// ```
    ///
    /// # Errors
    /// A variable has a value that is not supported.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Telemetry>, TelemetryError> {
        let Some(settings) = Settings::read(&variable)? else {
            return Ok(None);
        };
        // If another part of the program has already installed a cryptography provider, that one is used.
        drop(rustls::crypto::ring::default_provider().install_default());
        let resource = Resource::builder();
        let resource = if settings.names_service {
            resource.build()
        } else {
            resource.with_service_name(SERVICE).build()
        };
        let deliveries = Deliveries::default();
        let has_interval = variable("OTEL_BSP_SCHEDULE_DELAY").is_some();
        let processor = settings
            .traces
            .as_ref()
            .map(|endpoint| span_processor(endpoint, &resource, has_interval, &deliveries));
        let provider = settings
            .metrics
            .as_ref()
            .map(|endpoint| meter_provider(endpoint, resource.clone(), &deliveries));
        let provider = provider.transpose()?;
        let endpoint = settings.traces.or(settings.metrics);
        Ok(Some(Telemetry(Arc::new(Inner {
            traces: Mutex::new(Traces::new(settings.contents)),
            contents: settings.contents,
            processor: processor.transpose()?,
            metrics: provider.as_ref().map(Metrics::new),
            provider,
            deliveries,
            spans: AtomicU64::new(0),
            endpoint: endpoint.map(|endpoint| endpoint.url).unwrap_or_default(),
        }))))
    }

    /// Returns an engine whose runs are observed. Their commands get `TRACEPARENT`.
    #[must_use]
    pub fn observe(&self, engine: &Engine) -> Engine {
        self.observe_in(engine, [])
    }

    /// Returns an engine whose runs are observed, like [`observe`](Telemetry::observe), for runs whose folders may be
    /// outside of the runs folder of the engine. If a run is resumed, its earlier events are read from its folder. If it
    /// is a replay, its folder tells from which run, whose spans are not exported again.
    #[must_use]
    pub fn observe_in(&self, engine: &Engine, run_folders: impl IntoIterator<Item = PathBuf>) -> Engine {
        let runs_dir = engine.runs_dir().map(Path::to_owned);
        let folders: Vec<PathBuf> = run_folders.into_iter().chain(runs_dir).collect();
        let inner = self.0.clone();
        let mut engine = engine.with_observer(move |event| inner.apply(event, &folders));
        if self.0.contents {
            engine = engine.with_model_contents();
        }
        if self.0.processor.is_none() {
            return engine;
        }
        let inner = self.0.clone();
        engine.with_command_variables(move |run, attempt_key| {
            let traces = inner.traces.lock().unwrap_or_else(PoisonError::into_inner);
            vec![(TRACEPARENT.to_owned(), traces.traceparent(run, attempt_key))]
        })
    }

    /// Exports what is left, and stops. It waits for the collector for two seconds at most. Returns a failure if the
    /// collector did not receive everything.
    #[must_use]
    pub fn finish(&self) -> Option<ExportFailure> {
        let limit = if self.0.deliveries.has_delivered() {
            FLUSH_LIMIT
        } else {
            FIRST_FLUSH_LIMIT
        };
        let deadline = Instant::now() + limit;
        let (sender, done) = channel();
        // Stopping waits for the exporter, which may wait for the collector. The threads end with the process.
        for stop in [Inner::stop_traces, Inner::stop_metrics] {
            let (inner, sender) = (self.0.clone(), sender.clone());
            let stopping = thread::Builder::new().name("telemetry".to_owned());
            // Without a thread, the loss is reported below.
            let _ = stopping.spawn(move || {
                stop(&inner);
                // Nobody may be waiting any more.
                let _ = sender.send(());
            });
        }
        drop(sender);
        let mut stopped = 0;
        while stopped < 2
            && done
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .is_ok()
        {
            stopped += 1;
        }
        let inner = &self.0;
        let reason = match inner.deliveries.failure() {
            Some(failure) => Some(failure),
            None if stopped < 2 => Some(format!("no answer within {} ms", limit.as_millis())),
            None if inner.processor.is_none() => None,
            None => {
                let (ended, delivered) = (inner.spans.load(Ordering::Relaxed), inner.deliveries.spans());
                (delivered < ended).then(|| {
                    format!(
                        "{} of {ended} spans were dropped, because the queue was full",
                        ended - delivered
                    )
                })
            }
        };
        reason.map(|reason| ExportFailure {
            endpoint: inner.endpoint.clone(),
            reason,
        })
    }
}

impl Inner {
    fn apply(&self, event: &RunEvent, folders: &[PathBuf]) {
        // The spans of one event are queued together, in the order of events.
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut applied) = traces.apply(event, folders) else {
            return;
        };
        let ended = std::mem::take(&mut applied.ended);
        if let Some(processor) = &self.processor {
            self.spans.fetch_add(ended.len() as u64, Ordering::Relaxed);
            for span in ended {
                processor.on_end(span);
            }
        }
        drop(traces);
        if let Some(metrics) = &self.metrics {
            metrics.record(event, &applied);
        }
    }

    fn stop_traces(&self) {
        if let Some(processor) = &self.processor {
            // The deliveries tell what was lost.
            let _ = processor.shutdown_with_timeout(FLUSH_LIMIT);
        }
    }

    fn stop_metrics(&self) {
        if let Some(provider) = &self.provider {
            let _ = provider.shutdown_with_timeout(FLUSH_LIMIT);
        }
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry")
            .field("endpoint", &self.0.endpoint)
            .finish_non_exhaustive()
    }
}
