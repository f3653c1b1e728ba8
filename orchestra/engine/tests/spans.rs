//! Tests of the tracing spans of runs and stages. They are alone in their file, because all tests of a process share
//! the interest of callsites in subscribers.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, Mutex};

use support::{Acts, acts};

/// A subscriber that counts the spans.
struct Spans(Mutex<Vec<String>>);

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!(" {}={value:?}", field.name()));
            }
        }
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        let mut spans = self.0.lock().unwrap();
        spans.push(fields.0);
        tracing::span::Id::from_u64(spans.len() as u64)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn runs_and_stages_are_spans() {
    let spans = Arc::new(Spans(Mutex::default()));
    let guard = tracing::subscriber::set_default(spans.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = support::engine();
        let run = engine
            .start(acts("start -> a -> exit"), Acts::new())
            .run_id("one")
            .await
            .unwrap();
        run.wait().await.unwrap();
    });
    drop(guard);
    assert_eq!(
        *spans.0.lock().unwrap(),
        [
            "run run=one pipeline=\"t\"",
            "stage node=\"a\" kind=\"act\" visit=1 attempt=1"
        ]
    );
}
