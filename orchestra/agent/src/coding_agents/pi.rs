//! pi.
//!
//! It repeats the whole message in each update, and exits with 0 after any failure of the model.

use std::collections::HashMap;

use serde_json::Value;

use crate::coding_agents::event::{
    AgentEvent, AgentParser, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, number, says, target,
    text,
};
use crate::coding_agents::invocation::{Invocation, StartRequest};
use crate::model::TokenUsage;

pub(crate) fn invocation(request: &StartRequest<'_>) -> Invocation {
    let provider = request
        .provider
        .filter(|_| request.model.is_some_and(|model| !model.contains('/')));
    Invocation::new(&["-p", "--mode", "json"])
        .with_if(
            request.is_isolated(),
            &[
                "--no-extensions",
                "--no-skills",
                "--no-prompt-templates",
                "--no-themes",
            ],
        )
        .option("--provider", provider)
        .option("--model", request.model)
        .option("--thinking", request.effort.map(|effort| effort.word()))
        .with_if(!request.may_write(), &["--tools", "read,grep,find,ls"])
        .option("--session", request.session)
}

#[derive(Debug, Default)]
pub(crate) struct PiParser {
    calls: HashMap<String, Option<String>>,
}

impl AgentParser for PiParser {
    fn ignores(&self, line: &str) -> bool {
        line.starts_with(r#"{"type":"message_update""#)
    }

    fn event(&mut self, line: &Value) -> Vec<AgentEvent> {
        match text(line, "/type") {
            "session" => vec![AgentEvent::Session(text(line, "/id").to_owned())],
            "agent_start" | "turn_start" => vec![AgentEvent::Working],
            "message_end" if text(line, "/message/role") == "assistant" => message(line),
            "tool_execution_start" => {
                let arguments = line.get("args").unwrap_or(&Value::Null);
                let target = target(arguments, &["path", "file_path", "command"]);
                self.calls.insert(text(line, "/toolCallId").to_owned(), target);
                vec![AgentEvent::Working]
            }
            "tool_execution_end" => {
                let target = self.calls.remove(text(line, "/toolCallId")).flatten();
                vec![AgentEvent::Tool(tool(line, target))]
            }
            "agent_end" => vec![AgentEvent::Ended],
            "auto_retry_end" if line.get("success") == Some(&Value::Bool(false)) => {
                vec![AgentEvent::failed(text(line, "/finalError"))]
            }
            _ => Vec::new(),
        }
    }
}

fn message(line: &Value) -> Vec<AgentEvent> {
    let content = line.pointer("/message/content").and_then(Value::as_array);
    let texts = content.into_iter().flatten();
    let texts: Vec<&str> = texts
        .filter(|part| text(part, "/type") == "text")
        .map(|part| text(part, "/text"))
        .collect();
    let mut events = vec![
        AgentEvent::Usage(usage(line)),
        AgentEvent::Text(texts.join("\n\n")),
    ];
    match text(line, "/message/stopReason") {
        "error" => events.push(AgentEvent::failed(text(line, "/message/errorMessage"))),
        stopped @ ("aborted" | "length") => {
            events.push(AgentEvent::failed(format!("the model stopped: {stopped}")));
        }
        _ => {}
    }
    events
}

fn tool(line: &Value, target: Option<String>) -> ToolEnd {
    let tool = text(line, "/toolName");
    let kind = match tool {
        "write" | "edit" => ToolKind::Edit,
        "read" | "grep" | "find" | "ls" => ToolKind::Reading,
        _ => ToolKind::Command,
    };
    let reason = text(line, "/result/content/0/text").to_owned();
    let failed = line.get("isError") == Some(&Value::Bool(true));
    let result = if failed && says(&reason, &[&format!("tool {tool} not found")]) {
        ToolEnding::Denied(reason)
    } else if failed {
        ToolEnding::Failed(reason)
    } else {
        ToolEnding::Succeeded
    };
    ToolEnd {
        tool: tool.to_owned(),
        kind,
        target,
        result,
    }
}

/// Returns the tokens of a call. Cached tokens are not among the input.
fn usage(line: &Value) -> AgentUsage {
    let usage = line.pointer("/message/usage").unwrap_or(&Value::Null);
    let (read, written) = (number(usage, "/cacheRead"), number(usage, "/cacheWrite"));
    AgentUsage {
        tokens: TokenUsage {
            input: number(usage, "/input") + read + written,
            output: number(usage, "/output"),
            cached_input: read,
            cache_write: written,
        },
        cost: usage.pointer("/cost/total").and_then(Value::as_f64),
        scope: UsageScope::Call,
    }
}
