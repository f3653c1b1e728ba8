//! OpenTelemetry traces and metrics of runs, derived from their events.
//!
//! A [`Telemetry`] observes the runs of an engine and exports their spans and metrics with OTLP over HTTP. The
//! environment variables of OpenTelemetry configure it.
//!
//! # Glossary
//!
//! - **Trace**: all spans of one run and of its child runs, in whichever processes they were executed. Its id is a hash
//!   of the id of the run.
//! - **Span**: one stage attempt, model call, tool call or gate, or the whole run. Its id is a hash of its name in the
//!   run, so that another process that resumes the run gives its spans the right parents.
//! - **Segment**: the part of a run from its start, or from the retry of a failed run, to its end. Each has a root span.
//! - **Collector**: the program that receives the spans and metrics.
//!
//! # Modules, in reading order
//!
//! - `conventions`: the names of spans, attributes and metrics.
//! - `ids`: ids of traces and spans.
//! - `settings`: the settings in the environment.
//! - `error`: [`TelemetryError`] and [`ExportFailure`].
//! - `span`: building spans.
//! - `run_spans`: the ids of the spans of one run, and the spans without children.
//! - `run_trace`: the spans of one run, as a fold of its events.
//! - `traces`: the spans of all runs, with their child runs and their earlier processes.
//! - `metrics`: the metrics of OTLP.
//! - `export`: the exporters, which count what they deliver.
//! - `telemetry`: [`Telemetry`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod conventions;
mod error;
mod export;
mod ids;
mod metrics;
mod run_spans;
mod run_trace;
mod settings;
mod span;
mod telemetry;
mod traces;

pub use error::{ExportFailure, TelemetryError};
pub use telemetry::Telemetry;
