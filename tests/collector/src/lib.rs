//! A collector for tests: receives spans and metrics with OTLP over HTTP, on loopback.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message as _;

/// A received span.
#[derive(Clone, Debug)]
pub struct Span {
    /// The id of its trace, in hexadecimal.
    pub trace: String,
    /// Its id, in hexadecimal.
    pub id: String,
    /// The id of its parent; empty if it has none.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// `true` if it is the call of another system.
    pub is_client: bool,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// Its attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// The names of its events.
    pub events: Vec<String>,
    /// The ids of the spans to which it has links.
    pub links: Vec<String>,
    /// The description of its failure; `None` if it did not fail.
    pub failure: Option<String>,
    /// The service that sent it.
    pub service: String,
}

impl Span {
    /// Returns an attribute, or an empty text.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// A collector on loopback.
///
/// ```
/// let collector = orchestra_collector_tests::Collector::start().expect("a port");
/// assert!(collector.endpoint().starts_with("http://127.0.0.1:"));
/// assert!(collector.spans().is_empty());
/// ```
pub struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    metrics: BTreeMap<String, f64>,
    headers: Vec<String>,
}

impl Collector {
    /// Starts a collector. It ends with the process.
    ///
    /// # Errors
    /// Fails if there is no port.
    pub fn start() -> io::Result<Collector> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Received::default()));
        let shared = received.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                // A client that breaks the connection ends its thread.
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Ok(Collector { address, received })
    }

    /// Returns the endpoint for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the spans so far, in the order of their arrival.
    pub fn spans(&self) -> Vec<Span> {
        self.received().spans.clone()
    }

    /// Returns the latest value of each series of the metrics, such as `orchestra.runs{pipeline=a,status=success}`. The
    /// value of a histogram is the number of its values.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        self.received().metrics.clone()
    }

    /// Returns the headers of the requests so far.
    pub fn headers(&self) -> Vec<String> {
        self.received().headers.clone()
    }
}

/// Answers the requests of a connection.
fn serve(stream: TcpStream, received: &Mutex<Received>) -> io::Result<()> {
    let mut answer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok()).flatten()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        if head
            .iter()
            .any(|line| line.eq_ignore_ascii_case("content-encoding: gzip"))
        {
            body = unzipped(body)?;
        }
        let path = head
            .first()
            .and_then(|line| line.split(' ').nth(1))
            .unwrap_or_default();
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = match path {
            "/v1/traces" => received.add_spans(&body),
            "/v1/metrics" => received.add_metrics(&body),
            _ => None,
        };
        received.headers.append(&mut head);
        drop(received);
        let status = if is_known.is_some() {
            "200 OK"
        } else {
            "400 Bad Request"
        };
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
        answer.write_all(head.as_bytes())?;
    }
}

/// Decompresses a body with the program `gzip`.
fn unzipped(body: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = gzip.stdin.take();
    let writer = thread::spawn(move || input.map(|mut input| input.write_all(&body)));
    let output = gzip.wait_with_output()?;
    // A body that is cut off cannot be decoded either.
    let _ = writer.join();
    Ok(output.stdout)
}

impl Received {
    fn add_spans(&mut self, body: &[u8]) -> Option<()> {
        let request = ExportTraceServiceRequest::decode(body).ok()?;
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.map(|resource| texts(&resource.attributes));
            let service = resource.and_then(|resource| resource.get("service.name").cloned());
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.extend(spans.map(|span| {
                Span {
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    is_client: span.kind == 3,
                    start: span.start_time_unix_nano,
                    end: span.end_time_unix_nano,
                    attributes: texts(&span.attributes),
                    events: span.events.into_iter().map(|event| event.name).collect(),
                    links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
                    failure: span
                        .status
                        .filter(|status| status.code == 2)
                        .map(|status| status.message),
                    service: service.clone().unwrap_or_default(),
                    name: span.name,
                }
            }));
        }
        Some(())
    }

    fn add_metrics(&mut self, body: &[u8]) -> Option<()> {
        let request = ExportMetricsServiceRequest::decode(body).ok()?;
        let scopes = request
            .resource_metrics
            .into_iter()
            .flat_map(|of| of.scope_metrics);
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let mut add = |attributes: &[KeyValue], value: f64| {
                let labels: Vec<String> = texts(attributes)
                    .into_iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                self.metrics
                    .insert(format!("{}{{{}}}", metric.name, labels.join(",")), value);
            };
            match metric.data? {
                Data::Sum(sum) => {
                    for point in sum.data_points {
                        let value = match point.value? {
                            number_data_point::Value::AsDouble(value) => value,
                            number_data_point::Value::AsInt(value) => value as f64,
                        };
                        add(&point.attributes, value);
                    }
                }
                Data::Histogram(histogram) => {
                    for point in histogram.data_points {
                        add(&point.attributes, point.count as f64);
                    }
                }
                _ => {}
            }
        }
        Some(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let texts = attributes.iter().map(|attribute| {
        (
            attribute.key.clone(),
            attribute.value.as_ref().map(text).unwrap_or_default(),
        )
    });
    texts.collect()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::ArrayValue(list)) => {
            let list: Vec<String> = list.values.iter().map(text).collect();
            list.join(",")
        }
        _ => String::new(),
    }
}
