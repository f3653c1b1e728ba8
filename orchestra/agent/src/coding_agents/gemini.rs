//! Gemini CLI.

use std::collections::HashMap;

use serde_json::Value;

use crate::coding_agents::event::{
    AgentEvent, AgentParser, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, number, says, target,
    text,
};
use crate::coding_agents::invocation::{Invocation, StartRequest};
use crate::model::TokenUsage;

/// The tools that change nothing in the folder of the agent.
const READING: &[&str] = &[
    "activate_skill",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    "get_internal_docs",
    "glob",
    "google_web_search",
    "grep_search",
    "list_directory",
    "read_file",
    "read_many_files",
    "search_file_content",
    "update_topic",
    "web_fetch",
    "write_todos",
];

pub(crate) fn invocation(request: &StartRequest<'_>) -> Invocation {
    let mode = if request.may_write() { "yolo" } else { "plan" };
    Invocation::new(&["-o", "stream-json", "--skip-trust", "--approval-mode", mode])
        .with_if(
            request.is_isolated(),
            &["--extensions=none", "--allowed-mcp-server-names=none"],
        )
        .option("-m", request.model)
        .option("--resume", request.session)
}

#[derive(Debug, Default)]
pub(crate) struct GeminiParser {
    calls: HashMap<String, (String, Option<String>)>,
}

impl AgentParser for GeminiParser {
    fn event(&mut self, line: &Value) -> Vec<AgentEvent> {
        match text(line, "/type") {
            "init" => vec![AgentEvent::Session(text(line, "/session_id").to_owned())],
            "message" if text(line, "/role") == "assistant" => {
                let content = text(line, "/content").to_owned();
                let is_piece = line.get("delta") == Some(&Value::Bool(true));
                vec![if is_piece {
                    AgentEvent::Piece(content)
                } else {
                    AgentEvent::Text(content)
                }]
            }
            "tool_use" => {
                let parameters = line.get("parameters").unwrap_or(&Value::Null);
                let target = target(parameters, &["file_path", "command", "path"]);
                let call = (text(line, "/tool_name").to_owned(), target);
                self.calls.insert(text(line, "/tool_id").to_owned(), call);
                vec![AgentEvent::Working]
            }
            "tool_result" => self.result(line).into_iter().collect(),
            "error" if text(line, "/severity") != "warning" => {
                vec![AgentEvent::Trouble(text(line, "/message").to_owned())]
            }
            "result" => {
                let end = if text(line, "/status") == "success" {
                    AgentEvent::Ended
                } else {
                    AgentEvent::failed(text(line, "/error/message"))
                };
                vec![AgentEvent::Usage(usage(line)), end]
            }
            _ => Vec::new(),
        }
    }
}

impl GeminiParser {
    fn result(&mut self, line: &Value) -> Option<AgentEvent> {
        let (tool, target) = self.calls.remove(text(line, "/tool_id"))?;
        let reason = text(line, "/error/message").to_owned();
        let kind = match tool.as_str() {
            "write_file" | "replace" => ToolKind::Edit,
            tool if READING.contains(&tool) => ToolKind::Reading,
            _ => ToolKind::Command,
        };
        let is_denied = matches!(
            text(line, "/error/type"),
            "policy_violation" | "tool_not_registered"
        ) || says(&reason, &["denied by policy", "rejected by the user"]);
        let result = match text(line, "/status") {
            "error" if is_denied => ToolEnding::Denied(reason),
            "error" => ToolEnding::Failed(reason),
            _ => ToolEnding::Succeeded,
        };
        Some(AgentEvent::Tool(ToolEnd {
            tool,
            kind,
            target,
            result,
        }))
    }
}

/// Returns the tokens. The total contains tokens of reasoning that are not among the output tokens.
fn usage(line: &Value) -> AgentUsage {
    let input = number(line, "/stats/input_tokens");
    let rest = number(line, "/stats/total_tokens").saturating_sub(input);
    AgentUsage {
        tokens: TokenUsage {
            input,
            output: number(line, "/stats/output_tokens").max(rest),
            cached_input: number(line, "/stats/cached"),
            cache_write: 0,
        },
        cost: None,
        scope: UsageScope::Program,
    }
}
