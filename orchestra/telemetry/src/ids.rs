//! Ids of traces and spans: hashes of the names of what they identify.

use opentelemetry::trace::{SpanId, TraceId};
use sha2::{Digest, Sha256};

/// Returns the id of the trace of a run that is not a child run.
pub(crate) fn trace_id(run: &str) -> TraceId {
    TraceId::from_bytes(hash(&["trace", run]))
}

/// Returns the id of a span: by the run, its segment, and a name that is unique in the segment.
pub(crate) fn span_id(run: &str, segment: u32, kind: &str, name: &str) -> SpanId {
    let [a, b, c, d, e, f, g, h, ..] = hash(&["span", run, &segment.to_string(), kind, name]);
    SpanId::from_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the first bytes of a hash of texts. They are not all zero, which would be no id.
fn hash(parts: &[&str]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    let [first, ..] = &mut bytes;
    *first |= 1;
    bytes
}

/// Returns the value of `TRACEPARENT` for a span, as in W3C Trace Context.
pub(crate) fn traceparent(trace: TraceId, span: SpanId) -> String {
    format!("00-{trace:032x}-{span:016x}-01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_depend_on_all_names_and_on_nothing_else() {
        assert_eq!(trace_id("nightly"), trace_id("nightly"));
        assert_ne!(trace_id("nightly"), trace_id("weekly"));
        let span = span_id("nightly", 0, "stage", "build#1/1");
        assert_eq!(span, span_id("nightly", 0, "stage", "build#1/1"));
        for other in [
            span_id("nightly", 1, "stage", "build#1/1"),
            span_id("nightly", 0, "agent", "build#1/1"),
            span_id("nightly", 0, "stage", "build#1/2"),
            span_id("weekly", 0, "stage", "build#1/1"),
        ] {
            assert_ne!(span, other);
        }
        let parent = traceparent(trace_id("nightly"), span);
        assert_eq!((parent.len(), &parent[..3], &parent[52..]), (55, "00-", "-01"));
    }
}
