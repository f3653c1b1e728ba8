//! The request of a model call, with the settings of its provider.

use orchestra_config::ProviderKind;

use super::capability::Gpt;
use crate::model::ModelRequest;

/// The wire format of a model call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Messages,
    ChatCompletions,
    Responses,
    GenerateContent,
}

impl Wire {
    pub(super) fn for_model(kind: ProviderKind, model: &str) -> Wire {
        match kind {
            ProviderKind::Anthropic => Wire::Messages,
            ProviderKind::Gemini => Wire::GenerateContent,
            ProviderKind::OpenAi if Gpt::from_model(model).responses => Wire::Responses,
            _ => Wire::ChatCompletions,
        }
    }
}

/// A request with the settings of the provider's configuration.
pub(super) struct WireRequest<'r> {
    pub(super) request: &'r ModelRequest,
    pub(super) kind: ProviderKind,
    pub(super) wire: Wire,
    pub(super) max_output: Option<u32>,
    pub(super) streamed: bool,
}
