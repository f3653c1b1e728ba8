//! The program of a coding agent: that of a preset, or a command of the configuration.

use orchestra_config::{Access, AgentSettings, Backend, BackendKind, OutputFormat, Permissions, Preset};
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
    /// A program that speaks the Agent Client Protocol.
    Acp {
        /// The name of the backend.
        name: String,
        /// The program and its arguments.
        command: Vec<String>,
        permissions: Permissions,
    },
}

/// How an agent is followed.
pub(crate) enum AgentProtocol {
    /// It writes an event in each line, which this parser reads.
    Lines(Box<dyn AgentParser>),
    /// It speaks the Agent Client Protocol, and asks for permission.
    Acp(Permissions),
}

impl AgentProgram {
    /// Returns the coding agent of a backend. Returns `None` for a program without events.
    pub(crate) fn new(name: &str, kind: BackendKind, backend: &Backend) -> Option<AgentProgram> {
        if let Some(preset) = &backend.preset {
            return Some(AgentProgram::Preset {
                preset: preset.value,
                access: backend.file_access(),
                settings: backend.settings_source(),
            });
        }
        if let Some(permissions) = backend.asked_permissions(kind) {
            let command = backend.command.as_ref()?.arguments()?;
            return Some(AgentProgram::Acp {
                name: name.to_owned(),
                command: command.to_vec(),
                permissions,
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
            command: backend.command.as_ref()?.shell()?.to_owned(),
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
            AgentProgram::Command { name, .. } | AgentProgram::Acp { name, .. } => name,
        }
    }

    pub(crate) fn preset(&self) -> Option<Preset> {
        match self {
            AgentProgram::Preset { preset, .. } => Some(*preset),
            AgentProgram::Command { .. } | AgentProgram::Acp { .. } => None,
        }
    }

    fn access(&self) -> Access {
        match self {
            AgentProgram::Preset { access, .. } => *access,
            AgentProgram::Command { .. } | AgentProgram::Acp { .. } => Access::Write,
        }
    }

    /// Returns what helps against a tool call that was denied.
    pub(crate) fn help_for_denied(&self) -> &'static str {
        match (self, self.access()) {
            (AgentProgram::Acp { permissions, .. }, _) => match permissions {
                Permissions::Ask => "a person decides; say in the prompt what the agent may do",
                Permissions::Allow => "it offered no option that allows it",
                Permissions::Deny => {
                    "its backend has `permissions: deny`; ask it for an answer only, or set `permissions: ask`"
                }
            },
            (_, Access::Read) => {
                "its backend has `access: read`; ask it for an answer only, or set `access: write`"
            }
            (_, Access::Write) => "it may only change files of its folder; ask it for nothing else",
        }
    }

    /// Returns whether a later stage can continue a session.
    pub(crate) fn has_sessions(&self) -> bool {
        match self {
            AgentProgram::Preset { .. } | AgentProgram::Acp { .. } => true,
            AgentProgram::Command { pointers, .. } => pointers.session.is_some(),
        }
    }

    /// Returns how to follow the agent.
    pub(crate) fn protocol(&self) -> AgentProtocol {
        match self {
            AgentProgram::Preset { preset, .. } => AgentProtocol::Lines(presets::parser(*preset)),
            AgentProgram::Command { pointers, .. } => {
                AgentProtocol::Lines(Box::new(LineParser::new(pointers.clone())))
            }
            AgentProgram::Acp { permissions, .. } => AgentProtocol::Acp(*permissions),
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
            AgentProgram::Acp { command, .. } => {
                let (program, arguments) = command.split_first().ok_or_else(|| {
                    let message = "the command of the backend is empty";
                    BackendError::terminal(message).code("cli_command")
                })?;
                return Ok(ShellCommand::without_shell(program, arguments));
            }
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
