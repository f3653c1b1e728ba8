//! The errors of requests, in the form `orchestra.error/1`.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use orchestra_engine::{AnswerError, ControlError, OfflineError, Refusals, StartError, StoreError};
use orchestra_graph::render::{self, DIAGNOSTIC_SCHEMA, DiagnosticObject};
use orchestra_graph::{Report, Severity};
use orchestra_sessions::SessionError;
use orchestra_stations::StationError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};

/// The reply to a request that fails.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: Cow<'static, str>,
    message: String,
    help: Option<String>,
    diagnostics: Diagnostics,
    /// Seconds after which the request may be tried again.
    retry_after: Option<u32>,
    /// The present entity tag of what the request would have changed.
    etag: Option<Box<HeaderValue>>,
}

/// An error.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody<'e> {
    /// Always `orchestra.error/1`.
    schema: &'static str,
    /// The machine-readable code.
    code: &'e str,
    /// The human-readable reason.
    message: &'e str,
    /// A hint on how to fix the problem.
    help: Option<&'e str>,
    /// The diagnostics of a pipeline that is invalid.
    #[serde(skip_serializing_if = "Diagnostics::is_empty")]
    diagnostics: &'e Diagnostics,
}

impl ApiError {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> ApiError {
        ApiError {
            status,
            code: code.into(),
            message: message.into(),
            help: None,
            diagnostics: Diagnostics::default(),
            retry_after: None,
            etag: None,
        }
    }

    /// The request cannot be understood.
    pub(crate) fn malformed(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// There is nothing with this name.
    pub(crate) fn not_found(what: &str, name: &str) -> ApiError {
        let message = format!("there is no {what} `{}`", name.escape_debug());
        ApiError::new(
            StatusCode::NOT_FOUND,
            format!("unknown_{}", what.replace(' ', "_")),
            message,
        )
    }

    /// The state of the run forbids the request.
    pub(crate) fn conflict(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, code, message)
    }

    /// The content of the request is understood, but wrong.
    pub(crate) fn unprocessable(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    /// The server itself failed.
    pub(crate) fn internal(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, code, message)
    }

    /// The server stops.
    pub(crate) fn stopping() -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server stops")
    }

    /// The server accepts no writes.
    pub(crate) fn read_only() -> ApiError {
        let message = "the server was started with `--read-only`";
        ApiError::new(StatusCode::FORBIDDEN, "read_only", message)
    }

    /// There are too many requests of this kind.
    pub(crate) fn too_many(message: impl Into<String>, seconds: u32) -> ApiError {
        ApiError {
            retry_after: Some(seconds),
            ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message)
        }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> ApiError {
        ApiError {
            help: Some(help.into()),
            ..self
        }
    }

    /// Adds the diagnostics of a pipeline.
    pub(crate) fn diagnostics<'r>(self, reports: impl Iterator<Item = &'r Report>) -> ApiError {
        ApiError {
            diagnostics: Diagnostics::new(reports),
            ..self
        }
    }

    /// Returns whether the request names something that does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &str {
        &self.code
    }
}

/// The diagnostics of a pipeline, as `orchestra check --json` prints them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Diagnostics(Vec<Value>);

impl Diagnostics {
    pub(crate) fn new<'r>(reports: impl Iterator<Item = &'r Report>) -> Diagnostics {
        let objects = reports.flat_map(|report| {
            let objects = render::objects(report).into_iter();
            objects.map(|object| serde_json::to_value(object).unwrap_or_default())
        });
        Diagnostics(objects.collect())
    }

    /// Returns what a pipeline needs and the engine does not have, as errors at the nodes that need it.
    pub(crate) fn from_refusals(refusals: &Refusals) -> Diagnostics {
        let objects = refusals.list.iter().map(|refusal| {
            let (line, column) = (refusal.position.line, refusal.position.column);
            let object = DiagnosticObject {
                schema: DIAGNOSTIC_SCHEMA,
                code: refusal.code,
                severity: Severity::Error.word(),
                message: &refusal.message,
                file: &refusal.file,
                line,
                column,
                end_line: line,
                end_column: column,
                node: None,
                edge: None,
                label: "",
                notes: &[],
                help: None,
                fix: None,
                related: Vec::new(),
            };
            serde_json::to_value(object).unwrap_or_default()
        });
        Diagnostics(objects.collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl JsonSchema for Diagnostics {
    fn schema_name() -> Cow<'static, str> {
        "Diagnostics".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let place = |more: Value| {
            let mut place = json!({
                "line": { "type": "integer", "minimum": 1 },
                "column": { "type": "integer", "minimum": 1, "description": "In characters." },
                "end_line": { "type": "integer", "minimum": 1 },
                "end_column": { "type": "integer", "minimum": 1 },
            });
            if let (Value::Object(place), Value::Object(more)) = (&mut place, more) {
                place.extend(more);
            }
            place
        };
        let text = json!({ "type": "string" });
        let optional = json!({ "type": ["string", "null"] });
        json_schema!({
            "description": "The diagnostics of a pipeline.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["schema", "code", "severity", "message", "file", "line", "column"],
                "properties": place(json!({
                    "schema": { "const": DIAGNOSTIC_SCHEMA },
                    "code": text,
                    "severity": { "enum": ["error", "warning", "note"] },
                    "message": text,
                    "file": text,
                    "node": optional,
                    "edge": { "type": ["array", "null"], "items": text },
                    "label": text,
                    "notes": { "type": "array", "items": text },
                    "help": optional,
                    "fix": { "type": ["object", "null"], "properties": place(json!({ "replacement": text })) },
                    "related": {
                        "type": "array",
                        "items": { "type": "object", "properties": place(json!({ "label": text })) },
                    },
                })),
            },
        })
    }
}

impl Serialize for ApiError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = ErrorBody {
            schema: "orchestra.error/1",
            code: &self.code,
            message: &self.message,
            help: self.help.as_deref(),
            diagnostics: &self.diagnostics,
        };
        body.serialize(serializer)
    }
}

impl JsonSchema for ApiError {
    fn schema_name() -> Cow<'static, str> {
        ErrorBody::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ErrorBody::json_schema(generator)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &self);
        if let Some(tag) = self.etag {
            response.headers_mut().insert(header::ETAG, *tag);
        }
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns an entity tag as headers contain it.
pub(crate) fn quoted_tag(tag: &str) -> String {
    format!("\"{tag}\"")
}

/// Returns a reply with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    // Bodies consist of texts and numbers, so serialization cannot fail.
    let text = serde_json::to_vec(body).unwrap_or_default();
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, text).into_response()
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> ApiError {
        match error {
            SessionError::UnknownRun { .. } | SessionError::AmbiguousRun { .. } => {
                ApiError::new(StatusCode::NOT_FOUND, "unknown_run", error.to_string())
            }
            error => ApiError::internal(error.code(), error.to_string()),
        }
    }
}

impl From<StationError> for ApiError {
    fn from(error: StationError) -> ApiError {
        let (code, message) = (error.code(), error.to_string());
        match error {
            StationError::UnknownWorkflow { .. } | StationError::UnknownVersion { .. } => {
                ApiError::new(StatusCode::NOT_FOUND, code, message)
            }
            StationError::InvalidVersion { .. } => ApiError::new(StatusCode::NOT_FOUND, code, message)
                .help("write the number behind `@`, as in `shipping@3`"),
            StationError::Changed { etag, .. } => ApiError {
                etag: quoted_tag(&etag).parse().ok().map(Box::new),
                ..ApiError::new(StatusCode::PRECONDITION_FAILED, "changed", message)
            },
            StationError::NoActiveVersion { .. }
            | StationError::NameTaken { .. }
            | StationError::FormerName { .. }
            | StationError::Archived { .. } => ApiError::conflict(code, message),
            StationError::Invalid { report } => {
                ApiError::unprocessable(code, message).diagnostics(std::iter::once(&*report))
            }
            StationError::InvalidName { .. } | StationError::InvalidRow { .. } => {
                ApiError::unprocessable(code, message)
            }
            StationError::NotRepresentable { .. } => {
                ApiError::unprocessable(code, message).help("send the whole text as `dot`")
            }
            StationError::Busy { .. } => ApiError {
                retry_after: Some(1),
                ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
            },
            _ => ApiError::internal(code, message),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::Owned { .. } => ApiError::conflict("owned", error.to_string()),
            // Another server has begun to start it.
            StoreError::Occupied { .. } => ApiError::conflict(error.code(), error.to_string()),
            // The copy of a run that a Restate server executes.
            StoreError::Exported { .. } => ApiError::conflict(error.code(), error.to_string()),
            StoreError::NoCheckpoint { .. } => {
                ApiError::new(StatusCode::NOT_FOUND, "unknown_checkpoint", error.to_string())
            }
            error => ApiError::internal(error.code(), error.to_string()),
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> ApiError {
        let message = error.to_string();
        match error {
            StartError::Store(error) => error.into(),
            StartError::Refused(refusals) => {
                let message = format!("this program cannot run the pipeline `{}`", refusals.pipeline);
                ApiError {
                    diagnostics: Diagnostics::from_refusals(&refusals),
                    ..ApiError::conflict("refused", message)
                }
                .help("supply what is missing, or simulate the run")
            }
            StartError::Inputs { .. } => {
                ApiError::unprocessable("inputs", message).help("give the inputs in `params`")
            }
            StartError::Changed(_) => ApiError::conflict("changed", message)
                .help("resume with `accept_changes` to go on with the changed pipeline"),
            StartError::AlreadyFinished(_) => ApiError::conflict("run_ended", message),
            error => ApiError::conflict(error.code(), message),
        }
    }
}

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> ApiError {
        match &error {
            AnswerError::Refused(_) => ApiError::unprocessable("not_offered", error.to_string()),
            _ => ApiError::conflict(error.code(), error.to_string()),
        }
    }
}

impl From<OfflineError> for ApiError {
    fn from(error: OfflineError) -> ApiError {
        match error {
            OfflineError::Start(error) => error.into(),
            OfflineError::Answer(error) => error.into(),
            error => ApiError::internal(error.code().to_owned(), error.to_string()),
        }
    }
}

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> ApiError {
        let message = error.to_string();
        match &error {
            ControlError::Refused(refusal) => match refusal.code.as_str() {
                "answer_refused" => ApiError::unprocessable("not_offered", message),
                code => ApiError::conflict(code.to_owned(), message),
            },
            ControlError::Unanswered { .. } => {
                ApiError::new(StatusCode::GATEWAY_TIMEOUT, "control_unanswered", message)
            }
            error => ApiError::conflict(error.code().to_owned(), message),
        }
    }
}
