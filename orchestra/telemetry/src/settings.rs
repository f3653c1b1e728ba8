//! The settings in the environment: the standard variables of OpenTelemetry.

use crate::error::TelemetryError;

/// The endpoint for all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The switch for everything.
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// The switch for prompts, answers and questions.
const CONTENTS: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
/// The protocol for all signals.
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// The only supported protocol.
const HTTP_PROTOBUF: &str = "http/protobuf";

/// A signal: traces or metrics.
struct Signal {
    endpoint: &'static str,
    exporter: &'static str,
    protocol: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal {
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    exporter: "OTEL_TRACES_EXPORTER",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    path: "v1/traces",
};

const METRICS: Signal = Signal {
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    exporter: "OTEL_METRICS_EXPORTER",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    path: "v1/metrics",
};

/// The settings of telemetry that is switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The endpoint of traces; `None` if they are not exported.
    pub(crate) traces: Option<String>,
    /// The endpoint of metrics; `None` if they are not exported.
    pub(crate) metrics: Option<String>,
    /// `true` if spans contain prompts, answers and questions.
    pub(crate) contents: bool,
    /// `true` if the environment names the service.
    pub(crate) names_service: bool,
}

impl Settings {
    /// Reads the settings. Returns `None` if telemetry is off: no variable names an endpoint, or it is disabled.
    pub(crate) fn read(
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Settings>, TelemetryError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_true =
            |name: &str| variable(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        if is_true(DISABLED) {
            return Ok(None);
        }
        let settings = Settings {
            traces: endpoint(&TRACES, &variable)?,
            metrics: endpoint(&METRICS, &variable)?,
            contents: is_true(CONTENTS),
            names_service: variable("OTEL_SERVICE_NAME").is_some()
                || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|value| value.contains("service.name=")),
        };
        Ok(Some(settings).filter(|settings| settings.traces.is_some() || settings.metrics.is_some()))
    }
}

/// Returns the endpoint of a signal. Returns `None` if it is not exported.
fn endpoint(
    signal: &Signal,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, TelemetryError> {
    match variable(signal.exporter).as_deref().map(str::trim) {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(value) => {
            return Err(TelemetryError::Exporter {
                variable: signal.exporter,
                value: value.to_owned(),
            });
        }
    }
    let (name, value) = match (variable(signal.endpoint), variable(ENDPOINT)) {
        (Some(value), _) => (signal.endpoint, value),
        (None, Some(value)) => (ENDPOINT, value),
        (None, None) => return Ok(None),
    };
    for protocol in [signal.protocol, PROTOCOL] {
        if let Some(value) = variable(protocol) {
            if value.trim() == HTTP_PROTOBUF {
                break;
            }
            return Err(TelemetryError::Protocol {
                variable: protocol,
                value,
            });
        }
    }
    let url = value.trim();
    let host = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        return Err(TelemetryError::Endpoint {
            variable: name,
            value,
        });
    }
    Ok(Some(if name == ENDPOINT {
        format!("{}/{}", url.trim_end_matches('/'), signal.path)
    } else {
        url.to_owned()
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, TelemetryError> {
        Settings::read(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_endpoint_switches_it_on_and_a_signal_may_have_its_own() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "a")]).unwrap(), None);
        let all = read(&[(ENDPOINT, "http://c:4318/")]).unwrap().unwrap();
        assert_eq!(all.traces.as_deref(), Some("http://c:4318/v1/traces"));
        assert_eq!(all.metrics.as_deref(), Some("http://c:4318/v1/metrics"));
        assert!(!all.contents);
        let traces = read(&[(TRACES.endpoint, "https://c/own"), (CONTENTS, "true")]);
        let traces = traces.unwrap().unwrap();
        assert_eq!(
            (traces.traces.as_deref(), traces.metrics),
            (Some("https://c/own"), None)
        );
        assert!(traces.contents);
    }

    #[test]
    fn it_can_be_switched_off() {
        let on = (ENDPOINT, "http://c:4318");
        assert_eq!(read(&[on, (DISABLED, "TRUE")]).unwrap(), None);
        assert_eq!(
            read(&[on, (TRACES.exporter, "none"), (METRICS.exporter, "none")]).unwrap(),
            None
        );
        assert_eq!(
            read(&[on, (TRACES.exporter, "none")]).unwrap().unwrap().traces,
            None
        );
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        let on = (ENDPOINT, "http://c:4318");
        let code = |variables: &[(&str, &str)]| read(variables).unwrap_err().code();
        assert_eq!(code(&[(ENDPOINT, "c:4318")]), "telemetry_endpoint");
        assert_eq!(code(&[(ENDPOINT, "http:///v1")]), "telemetry_endpoint");
        assert_eq!(code(&[on, (PROTOCOL, "grpc")]), "telemetry_protocol");
        assert_eq!(code(&[on, (TRACES.exporter, "zipkin")]), "telemetry_exporter");
        // The protocol of a signal takes precedence.
        let own = [
            on,
            (PROTOCOL, "grpc"),
            (TRACES.protocol, HTTP_PROTOBUF),
            (METRICS.protocol, HTTP_PROTOBUF),
        ];
        assert!(read(&own).unwrap().is_some());
    }
}
