//! The events of coding agents, independent of the agent.

use serde_json::Value;

use crate::model::TokenUsage;

/// An event of a coding agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AgentEvent {
    /// The agent works in this session.
    Session(String),
    /// The agent works on. What the model said before is not the answer, and an earlier failure is overcome.
    Working,
    /// A whole text of the model.
    Text(String),
    /// The next piece of a text of the model.
    Piece(String),
    /// A tool call ended.
    Tool(ToolEnd),
    /// The target of the latest denied tool call became known.
    DeniedTarget(String),
    /// Tokens were used.
    Usage(AgentUsage),
    /// Something went wrong that the agent may overcome.
    Trouble(String),
    /// The agent failed.
    Failed {
        /// The reason; empty if only the preceding trouble says it.
        reason: String,
        /// The HTTP status of the model's provider, if the agent reports it.
        status: Option<u16>,
    },
    /// The agent ended its work.
    Ended,
}

impl AgentEvent {
    pub(crate) fn failed(reason: impl Into<String>) -> AgentEvent {
        AgentEvent::Failed {
            reason: reason.into(),
            status: None,
        }
    }
}

/// A tool call that ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolEnd {
    /// The name of the tool.
    pub(crate) tool: String,
    pub(crate) kind: ToolKind,
    /// The file or command.
    pub(crate) target: Option<String>,
    pub(crate) result: ToolEnding,
}

/// The effect of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolKind {
    /// It changes a file.
    Edit,
    /// It runs a command, or has effects that are not known.
    Command,
    /// It changes nothing.
    Reading,
}

/// The end of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolEnding {
    Succeeded,
    Failed(String),
    /// The agent was not allowed to make the call.
    Denied(String),
}

/// The tokens that an agent reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentUsage {
    pub(crate) tokens: TokenUsage,
    /// The cost in US dollars, if the agent reports it.
    pub(crate) cost: Option<f64>,
    pub(crate) scope: UsageScope,
}

/// The part of the work that reported tokens belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageScope {
    /// One call of the model.
    Call,
    /// Everything since the program started.
    Program,
    /// Everything since the session began, in earlier programs too.
    Session,
}

/// A parser of the output of a coding agent. Unknown lines have no events.
pub(crate) trait AgentParser: Send {
    /// Returns the events of a line of the standard output.
    fn event(&mut self, line: &Value) -> Vec<AgentEvent>;

    /// Returns whether a line of the standard output has no events, without parsing it.
    fn ignores(&self, _line: &str) -> bool {
        false
    }

    /// Returns the events of a line of the standard error. Returns `None` if the line is one for people.
    fn error_line(&mut self, _line: &str) -> Option<Vec<AgentEvent>> {
        None
    }
}

/// Returns the text at a pointer, or an empty text.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number at a pointer, or 0.
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the first of these fields of the arguments of a tool that is a text: its file or command.
pub(crate) fn target(arguments: &Value, fields: &[&str]) -> Option<String> {
    let mut found = fields.iter().filter_map(|field| arguments.get(*field)?.as_str());
    found.find(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns whether a text contains one of these phrases, in any case.
pub(crate) fn says(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}
