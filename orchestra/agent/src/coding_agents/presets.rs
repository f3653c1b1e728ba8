//! The coding agents by the names of their presets.

use orchestra_config::{Preset, ProviderKind};

use crate::coding_agents::event::AgentParser;
use crate::coding_agents::invocation::{Invocation, StartRequest};
use crate::coding_agents::{claude, codex, gemini, opencode, pi};

/// Returns what an agent is started with.
pub(crate) fn invocation(preset: Preset, request: &StartRequest<'_>) -> Invocation {
    match preset {
        Preset::Codex => codex::invocation(request),
        Preset::Claude => claude::invocation(request),
        Preset::Gemini => gemini::invocation(request),
        Preset::OpenCode => opencode::invocation(request),
        Preset::Pi => pi::invocation(request),
    }
}

/// Returns a parser of the output of an agent.
pub(crate) fn parser(preset: Preset) -> Box<dyn AgentParser> {
    match preset {
        Preset::Codex => Box::new(codex::CodexParser::default()),
        Preset::Claude => Box::new(claude::ClaudeParser::default()),
        Preset::Gemini => Box::new(gemini::GeminiParser::default()),
        Preset::OpenCode => Box::new(opencode::OpenCodeParser::default()),
        Preset::Pi => Box::new(pi::PiParser::default()),
    }
}

/// Returns whether an agent can call the models of a kind of provider.
pub(crate) const fn calls(preset: Preset, kind: ProviderKind) -> bool {
    match preset {
        Preset::Codex => matches!(kind, ProviderKind::OpenAi),
        Preset::Claude => matches!(kind, ProviderKind::Anthropic),
        Preset::Gemini => matches!(kind, ProviderKind::Gemini),
        Preset::OpenCode | Preset::Pi => true,
    }
}

/// Returns the name of a provider as opencode and pi write it.
pub(crate) fn provider_name(name: &str) -> &str {
    match name {
        "gemini" => "google",
        other => other,
    }
}
