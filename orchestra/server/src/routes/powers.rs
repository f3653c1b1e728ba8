//! What the texts of clients may do: pipelines that they send, and versions of workflows that they write.

use axum::http::StatusCode;
use orchestra_graph::{Pipeline, PowerKind, powers};

use crate::error::ApiError;
use crate::options::Submit;

/// Refuses texts of clients that the server was not started for. `what` is what messages call the text.
pub(super) fn allow(submit: Submit, simulated: bool, what: &str) -> Result<(), ApiError> {
    let allowed = match submit {
        Submit::Off => false,
        Submit::Simulate => simulated,
        _ => true,
    };
    if allowed {
        return Ok(());
    }
    let message = format!("the server does not run any {what}");
    Err(ApiError::new(StatusCode::FORBIDDEN, "needs_power", message)
        .help("start it with `--submit safe`, or run the pipeline with `\"simulate\": true`"))
}

/// Refuses a pipeline that would do more than ask models and people.
pub(super) fn require_no_powers(pipeline: &Pipeline, what: &str) -> Result<(), ApiError> {
    let powers = powers(pipeline);
    if powers.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = powers
        .iter()
        .map(|power| format!("line {}: {power}", power.position.line))
        .collect();
    let writes = powers.iter().any(|power| power.kind == PowerKind::Command);
    let does = if writes {
        "executes commands"
    } else {
        "uses more than people and models without tools"
    };
    let message = format!("the {what} {does}: {}", list.join("; "));
    Err(ApiError::new(StatusCode::FORBIDDEN, "needs_power", message)
        .help("start the server with `--submit any` if you trust everybody who has its token"))
}
