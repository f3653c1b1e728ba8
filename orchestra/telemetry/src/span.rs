//! Building spans.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, Key, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use orchestra_engine::Timestamp;

/// Maximum length of an attribute, in bytes. Longer texts are cut.
const MAX_ATTRIBUTE: usize = 64 << 10;
/// Maximum length of a text that is not a content, such as the reason of a failure.
const MAX_REASON: usize = 1_000;

/// A span that is being built.
pub(crate) struct Span {
    data: SpanData,
}

/// Returns the time of an event.
pub(crate) fn moment(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(time.as_millis())
}

/// Returns the context of a span.
fn context(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default())
}

impl Span {
    /// Creates a span with its place in a trace.
    pub(crate) fn new(
        trace: TraceId,
        parent: SpanId,
        id: SpanId,
        name: impl Into<Cow<'static, str>>,
        start: SystemTime,
        end: SystemTime,
    ) -> Span {
        let scope = InstrumentationScope::builder("orchestra").with_version(env!("CARGO_PKG_VERSION"));
        Span {
            data: SpanData {
                span_context: context(trace, id),
                parent_span_id: parent,
                parent_span_is_remote: false,
                span_kind: SpanKind::Internal,
                name: name.into(),
                start_time: start.min(end),
                end_time: end,
                attributes: Vec::new(),
                dropped_attributes_count: 0,
                events: SpanEvents::default(),
                links: SpanLinks::default(),
                status: Status::Unset,
                instrumentation_scope: scope.build(),
            },
        }
    }

    /// Marks the span as the call of another system.
    pub(crate) fn client(mut self) -> Span {
        self.data.span_kind = SpanKind::Client;
        self
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Span {
        self.data.attributes.push(KeyValue::new(key, value));
        self
    }

    /// Adds a text, unless it is missing or empty.
    pub(crate) fn text<'t>(self, key: &'static str, text: impl Into<Option<&'t str>>) -> Span {
        match text.into() {
            None | Some("") => self,
            Some(text) => self.with(key, cut(text, MAX_ATTRIBUTE)),
        }
    }

    /// Adds a list of one text, unless it is missing.
    pub(crate) fn one_text(mut self, key: &'static str, text: Option<&str>) -> Span {
        if let Some(text) = text {
            let texts = vec![StringValue::from(text.to_owned())];
            let value = Value::Array(Array::String(texts));
            self.data
                .attributes
                .push(KeyValue::new(Key::from_static_str(key), value));
        }
        self
    }

    /// Adds a number. A larger one than the protocol knows becomes the largest.
    pub(crate) fn number(self, key: &'static str, number: u64) -> Span {
        self.with(key, i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Marks the span as failed.
    pub(crate) fn failed(mut self, reason: &str) -> Span {
        self.data.status = Status::error(cut(reason, MAX_REASON));
        self
    }

    /// Adds an event without attributes.
    pub(crate) fn event(mut self, name: &'static str, time: Timestamp) -> Span {
        self.data
            .events
            .events
            .push(Event::new(name, moment(time), Vec::new(), 0));
        self
    }

    /// Adds a link to a span of another trace.
    pub(crate) fn link(mut self, trace: TraceId, span: SpanId) -> Span {
        self.data
            .links
            .links
            .push(Link::new(context(trace, span), Vec::new(), 0));
        self
    }

    /// Returns the finished span.
    pub(crate) fn end(self) -> SpanData {
        self.data
    }
}

/// Returns the beginning of a text.
fn cut(text: &str, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    text.get(..end).unwrap_or_default().to_owned()
}
