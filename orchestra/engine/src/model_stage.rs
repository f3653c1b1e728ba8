//! The stages that call a model.

use orchestra_graph::{Stage, kind};

/// Returns whether a stage calls a model.
pub(crate) fn calls_model(stage: Stage<'_>) -> bool {
    match stage.kind() {
        kind::CODERGEN => true,
        kind::FAN_IN => has_prompt(stage),
        _ => false,
    }
}

/// Returns whether a stage has a prompt. The model of a fan-in with a prompt chooses the best branch (rule P6).
pub(crate) fn has_prompt(stage: Stage<'_>) -> bool {
    stage
        .text("prompt")
        .is_some_and(|prompt| !prompt.trim().is_empty())
}
