//! The settings in the environment: the standard variables of OpenTelemetry.

use std::time::Duration;

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
/// The time limit of a request for all signals, in milliseconds.
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// The time limit of a request, unless a variable sets another one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The variables with numbers, besides those of a signal.
const NUMBERS: [&str; 6] = [
    TIMEOUT,
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
];
/// The variables with names and values.
const LISTS: [&str; 4] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_RESOURCE_ATTRIBUTES",
];

/// A signal: traces or metrics.
struct Signal {
    endpoint: &'static str,
    exporter: &'static str,
    protocol: &'static str,
    timeout: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal {
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    exporter: "OTEL_TRACES_EXPORTER",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    path: "v1/traces",
};

const METRICS: Signal = Signal {
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    exporter: "OTEL_METRICS_EXPORTER",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    path: "v1/metrics",
};

/// The server that receives a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    /// The time limit of a request.
    pub(crate) timeout: Duration,
}

/// The settings of telemetry that is switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The endpoint of traces; `None` if they are not exported.
    pub(crate) traces: Option<Endpoint>,
    /// The endpoint of metrics; `None` if they are not exported.
    pub(crate) metrics: Option<Endpoint>,
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
        if settings.traces.is_none() && settings.metrics.is_none() {
            return Ok(None);
        }
        check_values(&variable)?;
        Ok(Some(settings))
    }
}

/// Checks the variables that the exporters read themselves: they ignore what they do not understand.
fn check_values(variable: &dyn Fn(&str) -> Option<String>) -> Result<(), TelemetryError> {
    let check = |name, form, is_valid: &dyn Fn(&str) -> bool| match variable(name) {
        Some(value) if !is_valid(value.trim()) => Err(TelemetryError::Value { variable: name, form }),
        _ => Ok(()),
    };
    for name in NUMBERS.into_iter().chain([TRACES.timeout, METRICS.timeout]) {
        check(name, "a whole number", &|value| value.parse::<u64>().is_ok())?;
    }
    for name in LISTS {
        check(name, "a list such as `name=value,other=value`", &|value| {
            let mut pairs = value.split(',').filter(|pair| !pair.trim().is_empty());
            pairs.all(|pair| {
                pair.split_once('=')
                    .is_some_and(|(name, _)| !name.trim().is_empty())
            })
        })?;
    }
    for name in [DISABLED, CONTENTS] {
        check(name, "`true` or `false`", &|value| {
            ["true", "false"]
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word))
        })?;
    }
    Ok(())
}

/// Returns the endpoint of a signal. Returns `None` if it is not exported.
fn endpoint(
    signal: &Signal,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Endpoint>, TelemetryError> {
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
    let milliseconds = [signal.timeout, TIMEOUT]
        .into_iter()
        .find_map(|name| variable(name)?.trim().parse().ok());
    Ok(Some(Endpoint {
        url: if name == ENDPOINT {
            format!("{}/{}", url.trim_end_matches('/'), signal.path)
        } else {
            url.to_owned()
        },
        timeout: milliseconds.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
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
        let [traces, metrics] = [all.traces, all.metrics].map(Option::unwrap);
        assert_eq!(traces.url, "http://c:4318/v1/traces");
        assert_eq!(metrics.url, "http://c:4318/v1/metrics");
        assert_eq!((traces.timeout, all.contents), (DEFAULT_TIMEOUT, false));
        let traces = read(&[(TRACES.endpoint, "https://c/own"), (CONTENTS, "true")]);
        let traces = traces.unwrap().unwrap();
        assert_eq!(traces.traces.unwrap().url, "https://c/own");
        assert_eq!((traces.metrics, traces.contents), (None, true));
    }

    #[test]
    fn a_signal_may_have_its_own_time_limit() {
        let limits = |variables: &[(&str, &str)]| {
            let all = read(&[&[(ENDPOINT, "http://c:4318")], variables].concat());
            let all = all.unwrap().unwrap();
            [all.traces, all.metrics].map(|endpoint| endpoint.unwrap().timeout.as_millis())
        };
        assert_eq!(limits(&[(TIMEOUT, "50")]), [50, 50]);
        assert_eq!(limits(&[(TIMEOUT, "50"), (TRACES.timeout, "7")]), [7, 50]);
        assert_eq!(limits(&[]), [10_000, 10_000]);
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
        for (name, value) in [
            (LISTS[0], "Authorization: Bearer x"),
            (LISTS[3], "staging"),
            (TIMEOUT, "10s"),
            (NUMBERS[4], "-1"),
            (DISABLED, "1"),
            (CONTENTS, "yes"),
        ] {
            let error = read(&[on, (name, value)]).unwrap_err();
            assert_eq!(error.code(), "telemetry_value");
            assert!(
                error.to_string().contains(name) && !error.to_string().contains(value),
                "{error}"
            );
        }
        assert!(read(&[on, (LISTS[0], "a=1,b=Bearer%20x=")]).unwrap().is_some());
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
