//! The errors of telemetry. None of them stops or fails a run.

/// The error of telemetry that cannot be set up as it is configured.
///
/// ```
/// use orchestra_telemetry::Telemetry;
/// let variable = |name: &str| match name {
///     "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("collector:4318".to_owned()),
///     _ => None,
/// };
/// let error = Telemetry::from_variables(variable).unwrap_err();
/// assert_eq!(error.code(), "telemetry_endpoint");
/// assert_eq!(
///     error.to_string(),
///     "`OTEL_EXPORTER_OTLP_ENDPOINT` is `collector:4318`, which is not the URL of a collector"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// An endpoint is not the URL of an HTTP server.
    #[error("`{variable}` is `{}`, which is not the URL of a collector", .value.escape_debug())]
    Endpoint {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A protocol that is not supported.
    #[error("`{variable}` is `{}`, and only `http/protobuf` is supported", .value.escape_debug())]
    Protocol {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// An exporter that is not supported.
    #[error("`{variable}` is `{}`, which is neither `otlp` nor `none`", .value.escape_debug())]
    Exporter {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A value that has not the form of its variable. It may be a secret, so the message does not contain it.
    #[error("the value of `{variable}` is not {form}")]
    Value {
        /// The environment variable.
        variable: &'static str,
        /// The form of its values.
        form: &'static str,
    },
    /// The exporter could not be created.
    #[error("the exporter of telemetry cannot be created: {reason}")]
    Setup {
        /// The reason.
        reason: String,
    },
}

impl TelemetryError {
    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            TelemetryError::Endpoint { .. } => "telemetry_endpoint",
            TelemetryError::Protocol { .. } => "telemetry_protocol",
            TelemetryError::Exporter { .. } => "telemetry_exporter",
            TelemetryError::Value { .. } => "telemetry_value",
            TelemetryError::Setup { .. } => "telemetry_setup",
        }
    }

    /// Returns how to fix the problem.
    pub fn help(&self) -> &'static str {
        match self {
            TelemetryError::Endpoint { .. } => "write it as `http://HOST:4318`",
            TelemetryError::Protocol { .. } => {
                "unset it, and name the endpoint of the collector for HTTP, usually port 4318"
            }
            TelemetryError::Exporter { .. } => "set it to `otlp`, or to `none` to switch it off",
            TelemetryError::Value { .. } => "correct it, or unset it",
            TelemetryError::Setup { .. } => {
                "check the variables `OTEL_EXPORTER_OTLP_*`, or set `OTEL_SDK_DISABLED=true`"
            }
        }
    }
}

/// Telemetry that did not reach its collector.
///
/// ```
/// use std::time::Duration;
/// use orchestra_telemetry::Telemetry;
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let endpoint = format!("http://{}", listener.local_addr()?);
/// # drop(listener);
/// // Nobody listens there.
/// let variable = move |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone());
/// let telemetry = Telemetry::from_variables(variable)?.expect("an endpoint is named");
/// # let engine = orchestra_engine::Engine::builder().build()?;
/// # let text = "digraph hello { start -> exit }";
/// # let source = orchestra_graph::Source::new("hello.dot", text);
/// # let pipeline = orchestra_graph::load(source, &Default::default()).pipeline().expect("sound");
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// telemetry.observe(&engine).start(pipeline, ()).await?.wait().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// let failure = telemetry.finish().expect("nothing was delivered");
/// assert!(failure.to_string().starts_with("not all telemetry was delivered"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not all telemetry was delivered to `{endpoint}`: {reason}")]
#[non_exhaustive]
pub struct ExportFailure {
    /// The endpoint of the collector.
    pub endpoint: String,
    /// The reason.
    pub reason: String,
}

impl ExportFailure {
    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        "telemetry_export"
    }
}
