//! What the list and the details of runs have in common.

use orchestra_engine::Usage;
use orchestra_sessions::{Session, SessionStatus};

use crate::terminal::Paint;
use crate::terminal::format::{between, cost, long_duration, now, tokens};

/// Returns the duration of a run: until now, until its end, or until it stopped.
pub(crate) fn run_duration(session: &Session) -> String {
    let summary = &session.summary;
    let end = match session.status {
        SessionStatus::Running => Some(now()),
        _ => summary.ended.or(summary.updated),
    };
    let (Some(from), Some(to)) = (summary.started, end) else {
        return String::new();
    };
    long_duration(between(from, to))
}

/// Returns the colour of a status.
pub(crate) fn status_paint(status: SessionStatus) -> Paint {
    match status {
        SessionStatus::Success => Paint::Good,
        SessionStatus::Fail => Paint::Bad,
        SessionStatus::Running | SessionStatus::Accepted => Paint::Bold,
        _ => Paint::Warn,
    }
}

/// Returns the model usage as text; empty if there is none.
pub(crate) fn usage_text(usage: Usage) -> String {
    let mut parts = Vec::new();
    if usage.tokens() > 0 {
        parts.push(format!("{} tokens", tokens(usage)));
    }
    if usage.cost_micros > 0 {
        parts.push(cost(usage));
    }
    parts.join(", ")
}
