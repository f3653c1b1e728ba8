//! The events that a run emits (Attractor 9.6, rule R8), and their JSON form.

mod attempt_end;
mod fields;
mod kind;
mod label;
mod model_call;
mod name;
mod observed;
mod pause_code;
mod stage_ref;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use attempt_end::{AttemptEnd, AttemptResult};
pub(crate) use fields::millis::serialize as millis;
pub(crate) use kind::EventOrigin;
pub use kind::{EventKind, TestedCondition};
pub use label::{branch_label, stage_label};
pub use model_call::{ModelCall, ModelContents};
pub use name::NodeName;
pub use observed::ObservedStage;
pub use pause_code::PauseCode;
pub use stage_ref::StageRef;

use crate::clock::Timestamp;
use crate::id::RunId;

/// The schema version of serialized events.
const SCHEMA: &str = "orchestra.event/1";

/// An event of a run.
///
/// Serialized as JSON it is one flat object: `schema`, `seq`, `time`, `run`, `event`, and the fields of its kind.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
/// let mut events = run.events();
/// let first = events.recv().await.expect("a run has events");
/// assert_eq!((first.seq, first.kind.name()), (1, "PipelineStarted"));
/// assert!(serde_json::to_string(&*first)?.contains(r#""event":"PipelineStarted","name":"hello""#));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    /// The sequence number in the run, from 1, without gaps.
    pub seq: u64,
    /// The time of the event.
    pub time: Timestamp,
    /// The id of the run.
    pub run: RunId,
    /// The kind and its data.
    pub kind: EventKind,
}

impl RunEvent {
    /// Parses an event from its JSON text, such as a line of `events.jsonl`. Ignores unknown fields. Fields that older
    /// versions did not write get their defaults.
    ///
    /// ```
    /// use orchestra_engine::RunEvent;
    /// let line = br#"{"schema":"orchestra.event/1","seq":3,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
    ///     "event":"StageStarted","node":"build","index":1,"visit":1,"attempt":1}"#;
    /// let event = RunEvent::from_json(line)?;
    /// assert_eq!((event.seq, event.kind.name()), (3, "StageStarted"));
    /// # Ok::<(), orchestra_engine::EventError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the text is not JSON, has another schema, or names a kind of event that only a newer version knows.
    pub fn from_json(line: &[u8]) -> Result<RunEvent, EventError> {
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(borrow)]
            schema: Cow<'a, str>,
            #[serde(borrow)]
            event: Cow<'a, str>,
        }
        serde_json::from_slice(line).map_err(|source| match serde_json::from_slice(line) {
            Ok(Head { schema, .. }) if schema != SCHEMA => EventError::UnknownSchema {
                schema: schema.into_owned(),
            },
            Ok(Head { event, .. }) if !EventKind::NAMES.contains(&&*event) => EventError::UnknownEvent {
                name: event.into_owned(),
            },
            _ => EventError::Malformed { source },
        })
    }
}

/// The error of a text that is not an event.
///
/// ```
/// use orchestra_engine::{EventError, RunEvent};
/// let line = br#"{"schema":"orchestra.event/1","seq":3,"time":"2026-11-21T15:30:00.042Z","run":"r","event":"StageTold"}"#;
/// let error = RunEvent::from_json(line).unwrap_err();
/// assert!(matches!(&error, EventError::UnknownEvent { name } if name == "StageTold"));
/// assert_eq!(error.to_string(), "unknown event `StageTold`; a newer version of Orchestra wrote it");
/// assert_eq!(error.code(), "unknown_event");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// A kind of event that only a newer version knows.
    #[error("unknown event `{}`; a newer version of Orchestra wrote it", .name.escape_debug())]
    UnknownEvent {
        /// The name of the kind.
        name: String,
    },
    /// An unknown schema.
    #[error("an event of the form `{}`, where `{SCHEMA}` is known; a newer version of Orchestra wrote it", .schema.escape_debug())]
    UnknownSchema {
        /// The schema.
        schema: String,
    },
    /// Not the JSON text of an event.
    #[error("not an event: {source}")]
    Malformed {
        /// The parse error.
        source: serde_json::Error,
    },
}

impl EventError {
    /// Returns the machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            EventError::UnknownEvent { .. } => "unknown_event",
            EventError::UnknownSchema { .. } => "unknown_event_schema",
            EventError::Malformed { .. } => "malformed_event",
        }
    }
}

impl Serialize for RunEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            schema: &'static str,
            seq: u64,
            time: Timestamp,
            run: &'a RunId,
            #[serde(flatten)]
            kind: &'a EventKind,
        }
        let RunEvent { seq, time, run, kind } = self;
        Written {
            schema: SCHEMA,
            seq: *seq,
            time: *time,
            run,
            kind,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunEvent, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            schema: Box<str>,
            seq: u64,
            time: Timestamp,
            run: RunId,
            #[serde(flatten)]
            kind: EventKind,
        }
        let Written {
            schema,
            seq,
            time,
            run,
            kind,
        } = Written::deserialize(deserializer)?;
        if *schema != *SCHEMA {
            return Err(de::Error::custom(format_args!("not of the form `{SCHEMA}`")));
        }
        Ok(RunEvent { seq, time, run, kind })
    }
}
