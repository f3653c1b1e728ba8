//! Claude Code.
//!
//! It reports denied tool calls as results with an error, those that need a permission also at the end. It would retry
//! rejected credentials for 45 s unless `CLAUDE_CODE_MAX_RETRIES` says otherwise.

use std::collections::HashMap;

use serde_json::Value;

use crate::coding_agents::event::{
    AgentEvent, AgentParser, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, number, says, target,
    text,
};
use crate::coding_agents::invocation::{Invocation, StartRequest};
use crate::model::TokenUsage;

/// The phrases of results of calls that were not allowed.
const DENIALS: [&str; 5] = [
    "no such tool available",
    "requested permissions",
    "granted it yet",
    "has been denied",
    "permission to use",
];

pub(crate) fn invocation(request: &StartRequest<'_>) -> Invocation {
    let reads = !request.may_write();
    let option = |name: &str, value: Option<&str>| value.map(|value| format!("--{name}={value}"));
    let options = [
        option("model", request.model),
        option("effort", request.effort.map(|effort| effort.word())),
        option("resume", request.session),
    ];
    let mut invocation = Invocation::new(&["-p", "--output-format=stream-json", "--verbose"])
        .with_if(request.is_isolated(), &["--setting-sources="])
        .with_if(request.is_isolated() || reads, &["--strict-mcp-config"])
        .with_if(reads, &["--tools=Read,Grep,Glob"])
        .with_if(!reads, &["--permission-mode=acceptEdits", "--allowedTools=Bash"])
        .variable("CLAUDE_CODE_MAX_RETRIES", "1")
        .variable("DISABLE_AUTOUPDATER", "1");
    invocation.arguments.extend(options.into_iter().flatten());
    invocation
}

/// A tool call that has begun.
#[derive(Clone, Debug)]
struct Call {
    tool: String,
    target: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct ClaudeParser {
    calls: HashMap<String, Call>,
    /// The calls whose denial was reported.
    denied: Vec<String>,
}

impl AgentParser for ClaudeParser {
    fn event(&mut self, line: &Value) -> Vec<AgentEvent> {
        let is_subagent = line
            .get("parent_tool_use_id")
            .is_some_and(|parent| !parent.is_null());
        let content = line.pointer("/message/content").and_then(Value::as_array);
        let content = content.map(Vec::as_slice).unwrap_or_default();
        match (text(line, "/type"), text(line, "/subtype")) {
            ("system", "init") => vec![AgentEvent::Session(text(line, "/session_id").to_owned())],
            ("system", "api_retry") => vec![AgentEvent::Trouble(format!(
                "{} {}",
                number(line, "/error_status"),
                text(line, "/error")
            ))],
            ("assistant", _) => content
                .iter()
                .filter_map(|part| self.said(part, is_subagent))
                .collect(),
            ("user", _) => content.iter().filter_map(|part| self.result(part)).collect(),
            ("result", _) => self.end(line),
            _ => Vec::new(),
        }
    }
}

impl ClaudeParser {
    fn said(&mut self, part: &Value, is_subagent: bool) -> Option<AgentEvent> {
        match text(part, "/type") {
            "text" if !is_subagent => Some(AgentEvent::Text(text(part, "/text").to_owned())),
            "tool_use" => {
                let input = part.get("input").unwrap_or(&Value::Null);
                let call = Call {
                    tool: text(part, "/name").to_owned(),
                    target: target(input, &["file_path", "notebook_path", "command", "path"]),
                };
                self.calls.insert(text(part, "/id").to_owned(), call);
                Some(AgentEvent::Working)
            }
            _ => None,
        }
    }

    fn result(&mut self, part: &Value) -> Option<AgentEvent> {
        if text(part, "/type") != "tool_result" {
            return None;
        }
        let id = text(part, "/tool_use_id");
        let call = self.calls.get(id)?.clone();
        let reason = match part.get("content") {
            Some(Value::String(reason)) => reason.clone(),
            _ => text(part, "/content/0/text").to_owned(),
        };
        let failed = part.get("is_error") == Some(&Value::Bool(true));
        let result = if failed && says(&reason, &DENIALS) {
            self.denied.push(id.to_owned());
            ToolEnding::Denied(reason)
        } else if failed {
            ToolEnding::Failed(reason)
        } else {
            ToolEnding::Succeeded
        };
        Some(end_of(call, result))
    }

    fn end(&mut self, line: &Value) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        let denials = line.get("permission_denials").and_then(Value::as_array);
        for denial in denials.into_iter().flatten() {
            if self.denied.iter().any(|id| id == text(denial, "/tool_use_id")) {
                continue;
            }
            let input = denial.get("tool_input").unwrap_or(&Value::Null);
            let call = Call {
                tool: text(denial, "/tool_name").to_owned(),
                target: target(input, &["file_path", "notebook_path", "command", "path"]),
            };
            let reason = "it needs a permission that was not granted".to_owned();
            events.push(end_of(call, ToolEnding::Denied(reason)));
        }
        events.push(AgentEvent::Usage(usage(line)));
        let failed = line.get("is_error") != Some(&Value::Bool(false)) || text(line, "/subtype") != "success";
        let stopped = matches!(text(line, "/stop_reason"), "max_tokens" | "refusal");
        if failed || stopped {
            let reasons = [
                text(line, "/result"),
                text(line, "/errors/0"),
                text(line, "/subtype"),
            ];
            let reason = if failed {
                reasons
                    .into_iter()
                    .find(|reason| !reason.is_empty())
                    .unwrap_or_default()
                    .to_owned()
            } else {
                format!("the model stopped: {}", text(line, "/stop_reason"))
            };
            let status = u16::try_from(number(line, "/api_error_status"));
            let status = status.ok().filter(|status| *status > 0);
            events.push(AgentEvent::Failed { reason, status });
        } else {
            events.push(AgentEvent::Text(text(line, "/result").to_owned()));
            events.push(AgentEvent::Ended);
        }
        events
    }
}

fn end_of(call: Call, result: ToolEnding) -> AgentEvent {
    let kind = match call.tool.as_str() {
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => ToolKind::Edit,
        "Bash" => ToolKind::Command,
        tool if tool.starts_with("mcp__") => ToolKind::Command,
        _ => ToolKind::Reading,
    };
    AgentEvent::Tool(ToolEnd {
        tool: call.tool,
        kind,
        target: call.target,
        result,
    })
}

/// Returns the tokens. Those that were read from or written to a cache are not among `input_tokens`.
fn usage(line: &Value) -> AgentUsage {
    let read = number(line, "/usage/cache_read_input_tokens");
    let written = number(line, "/usage/cache_creation_input_tokens");
    AgentUsage {
        tokens: TokenUsage {
            input: number(line, "/usage/input_tokens") + read + written,
            output: number(line, "/usage/output_tokens"),
            cached_input: read,
            cache_write: written,
        },
        cost: line.get("total_cost_usd").and_then(Value::as_f64),
        scope: UsageScope::Program,
    }
}
