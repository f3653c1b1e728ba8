//! opencode.
//!
//! Without a model it chooses a hosted one by itself, so a stage must name a model.

use serde_json::Value;

use crate::coding_agents::event::{
    AgentEvent, AgentParser, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, number, says, target,
    text,
};
use crate::coding_agents::invocation::{Invocation, StartRequest};
use crate::model::TokenUsage;

/// The permissions of an agent that only reads. Its plan mode alone allows commands.
const READ_ONLY: &str = r#"{"edit":"deny","bash":"deny","task":"deny"}"#;

pub(crate) fn invocation(request: &StartRequest<'_>) -> Invocation {
    let reads = !request.may_write();
    let model = request.model.map(|model| match request.provider {
        Some(provider) if !model.contains('/') => format!("{provider}/{model}"),
        _ => model.to_owned(),
    });
    Invocation::new(&["run", "--format", "json"])
        .with_if(request.is_isolated(), &["--pure"])
        .with_if(reads, &["--agent", "plan"])
        .with_if(!reads, &["--auto"])
        .option("-m", model.as_deref())
        .option("-s", request.session)
        .variable("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .variable_if(request.is_isolated(), "OPENCODE_DISABLE_PROJECT_CONFIG", "1")
        .variable_if(reads, "OPENCODE_PERMISSION", READ_ONLY)
}

#[derive(Debug, Default)]
pub(crate) struct OpenCodeParser {
    session: String,
}

impl AgentParser for OpenCodeParser {
    fn event(&mut self, line: &Value) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        let session = text(line, "/sessionID");
        if !session.is_empty() && session != self.session {
            session.clone_into(&mut self.session);
            events.push(AgentEvent::Session(session.to_owned()));
        }
        let part = line.get("part").unwrap_or(&Value::Null);
        match text(line, "/type") {
            "step_start" => events.push(AgentEvent::Working),
            "text" => events.push(AgentEvent::Piece(text(part, "/text").to_owned())),
            "tool_use" => events.extend([AgentEvent::Tool(tool(part)), AgentEvent::Working]),
            "step_finish" => {
                events.push(AgentEvent::Usage(usage(part)));
                match text(part, "/reason") {
                    "stop" => events.push(AgentEvent::Ended),
                    "tool-calls" => {}
                    reason => events.push(AgentEvent::failed(format!("the model stopped: {reason}"))),
                }
            }
            "error" => {
                let messages = [text(line, "/error/data/message"), text(line, "/error/name")];
                let message = messages.into_iter().find(|message| !message.is_empty());
                let status = u16::try_from(number(line, "/error/data/statusCode"));
                events.push(AgentEvent::Failed {
                    reason: message.unwrap_or_default().to_owned(),
                    status: status.ok().filter(|status| *status > 0),
                });
            }
            _ => {}
        }
        events
    }
}

fn tool(part: &Value) -> ToolEnd {
    let input = part.pointer("/state/input").unwrap_or(&Value::Null);
    let mut tool = text(part, "/tool");
    let mut result = match text(part, "/state/status") {
        "error" => {
            let reason = text(part, "/state/error").to_owned();
            if says(&reason, &["rule which prevents you", "rejected permission"]) {
                ToolEnding::Denied(reason)
            } else {
                ToolEnding::Failed(reason)
            }
        }
        _ => ToolEnding::Succeeded,
    };
    // A call of a tool that the agent does not have is a call of this tool, which succeeds.
    if tool == "invalid" {
        tool = text(input, "/tool");
        let reason = text(input, "/error").to_owned();
        result = if says(&reason, &["unavailable tool"]) {
            ToolEnding::Denied(reason)
        } else {
            ToolEnding::Failed(reason)
        };
    }
    let kind = match tool {
        "write" | "edit" | "patch" | "apply_patch" | "multiedit" => ToolKind::Edit,
        "codesearch" | "glob" | "grep" | "list" | "lsp" | "question" | "read" | "skill" | "todoread"
        | "todowrite" | "webfetch" | "websearch" => ToolKind::Reading,
        _ => ToolKind::Command,
    };
    ToolEnd {
        tool: tool.to_owned(),
        kind,
        target: target(input, &["filePath", "command", "path"]),
        result,
    }
}

/// Returns the tokens of a call. Cached tokens are not among the input, and those of reasoning not among the output.
fn usage(part: &Value) -> AgentUsage {
    let (read, written) = (
        number(part, "/tokens/cache/read"),
        number(part, "/tokens/cache/write"),
    );
    AgentUsage {
        tokens: TokenUsage {
            input: number(part, "/tokens/input") + read + written,
            output: number(part, "/tokens/output") + number(part, "/tokens/reasoning"),
            cached_input: read,
            cache_write: written,
        },
        cost: part.get("cost").and_then(Value::as_f64),
        scope: UsageScope::Call,
    }
}
