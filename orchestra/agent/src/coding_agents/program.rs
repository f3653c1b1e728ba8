//! The program of a coding agent: that of a preset, or a command of the configuration.

use orchestra_config::{Access, AgentSettings, Backend, OutputFormat, Preset};
use orchestra_engine::BackendError;
use orchestra_engine::process::ShellCommand;

use crate::cli_backend::CliCall;
use crate::coding_agents::event::AgentParser;
use crate::coding_agents::invocation::StartRequest;
use crate::coding_agents::json_lines::{LineParser, LinePointers};
use crate::coding_agents::presets;

/// A coding agent of the configuration.
#[derive(Clone, Debug)]
pub(crate) enum AgentProgram {
    /// An agent that is known by its name.
    Preset {
        preset: Preset,
        access: Access,
        settings: AgentSettings,
    },
    /// A command that writes an event in each line.
    Command {
        /// The name of the backend.
        name: String,
        command: String,
        pointers: LinePointers,
    },
}

impl AgentProgram {
    /// Returns the coding agent of a backend. Returns `None` for a program without events.
    pub(crate) fn new(name: &str, backend: &Backend) -> Option<AgentProgram> {
        if let Some(preset) = &backend.preset {
            return Some(AgentProgram::Preset {
                preset: preset.value,
                access: backend.file_access(),
                settings: backend.settings_source(),
            });
        }
        let output = backend.output.as_ref()?;
        if output.value != OutputFormat::JsonLines {
            return None;
        }
        let text = |pointer: &Option<orchestra_config::Located<String>>| {
            pointer.as_ref().map(|pointer| pointer.value.clone())
        };
        let last = backend.r#final.iter();
        Some(AgentProgram::Command {
            name: name.to_owned(),
            command: text(&backend.command)?,
            pointers: LinePointers {
                last: last
                    .map(|(field, value)| (field.clone(), value.value.clone()))
                    .collect(),
                result: text(&backend.result_pointer).unwrap_or_else(|| "/result".to_owned()),
                session: text(&backend.session_pointer),
                input_tokens: text(&backend.input_tokens_pointer),
                output_tokens: text(&backend.output_tokens_pointer),
                cost: text(&backend.cost_pointer),
            },
        })
    }

    /// Returns the name of the agent: that of the preset, or of the backend.
    pub(crate) fn name(&self) -> &str {
        match self {
            AgentProgram::Preset { preset, .. } => preset.word(),
            AgentProgram::Command { name, .. } => name,
        }
    }

    pub(crate) fn preset(&self) -> Option<Preset> {
        match self {
            AgentProgram::Preset { preset, .. } => Some(*preset),
            AgentProgram::Command { .. } => None,
        }
    }

    pub(crate) fn access(&self) -> Access {
        match self {
            AgentProgram::Preset { access, .. } => *access,
            AgentProgram::Command { .. } => Access::Write,
        }
    }

    /// Returns whether a later stage can continue a session.
    pub(crate) fn has_sessions(&self) -> bool {
        match self {
            AgentProgram::Preset { .. } => true,
            AgentProgram::Command { pointers, .. } => pointers.session.is_some(),
        }
    }

    pub(crate) fn parser(&self) -> Box<dyn AgentParser> {
        match self {
            AgentProgram::Preset { preset, .. } => presets::parser(*preset),
            AgentProgram::Command { pointers, .. } => Box::new(LineParser::new(pointers.clone())),
        }
    }

    /// Returns the command that starts the agent. No shell reads the command of a preset.
    ///
    /// # Errors
    /// The agent would take the name of the model for an option.
    pub(crate) fn command(
        &self,
        call: &CliCall,
        session: Option<&str>,
    ) -> Result<ShellCommand, BackendError> {
        let (preset, access, settings) = match self {
            AgentProgram::Preset {
                preset,
                access,
                settings,
            } => (*preset, *access, *settings),
            AgentProgram::Command { command, .. } => {
                let command = ShellCommand::new(command);
                return Ok(match session {
                    Some(session) => command.variable("ORCHESTRA_SESSION_ID", session),
                    None => command,
                });
            }
        };
        let names = [call.model.as_deref(), call.provider.as_deref()];
        if let Some(name) = names.into_iter().flatten().find(|name| name.starts_with('-')) {
            let message = format!("`{name}` is not the name of a model or provider: it begins with `-`");
            return Err(BackendError::terminal(message).code("cli_model"));
        }
        let request = StartRequest {
            model: call.model.as_deref(),
            provider: call.provider.as_deref().map(presets::provider_name),
            effort: call.effort,
            access,
            settings,
            session,
        };
        let invocation = presets::invocation(preset, &request);
        let command = ShellCommand::without_shell(preset.program(), invocation.arguments);
        let variables = invocation.variables.into_iter();
        Ok(variables.fold(command, |command, (name, value)| command.variable(name, value)))
    }
}
