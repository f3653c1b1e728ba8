//! Codex.
//!
//! Its events do not contain commands and patches that its sandbox denied. They are in its log, which is written to the
//! standard error at the level that `RUST_LOG` sets. The commands of its model get only the core variables of the
//! environment, so they do not see its key.

use serde_json::Value;

use crate::coding_agents::event::{
    AgentEvent, AgentParser, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, number, says, text,
};
use crate::coding_agents::invocation::{Invocation, StartRequest};
use crate::model::TokenUsage;

/// The log that reports denied tool calls.
const LOG: &str = "error,codex_otel.log_only=info";

pub(crate) fn invocation(request: &StartRequest<'_>) -> Invocation {
    let sandbox = if request.may_write() {
        r#"sandbox_mode="workspace-write""#
    } else {
        r#"sandbox_mode="read-only""#
    };
    let effort = request
        .effort
        .map(|effort| format!(r#"model_reasoning_effort="{effort}""#));
    Invocation::new(&["exec"])
        .option("resume", request.session)
        .with(&["--json", "--skip-git-repo-check"])
        .with_if(request.is_isolated(), &["--ignore-user-config", "--ignore-rules"])
        .with(&[
            "-c",
            sandbox,
            "-c",
            r#"approval_policy="never""#,
            "-c",
            r#"shell_environment_policy.inherit="core""#,
            "-c",
            "shell_environment_policy.ignore_default_excludes=false",
        ])
        .option("-c", effort.as_deref())
        .option("-m", request.model)
        .with(&["-"])
        .variable("RUST_LOG", LOG)
}

#[derive(Debug, Default)]
pub(crate) struct CodexParser {
    /// The calls whose denial was reported, without their command.
    denied: Vec<String>,
    /// `true` while the lines belong to an entry of the log that is not for people.
    in_log: bool,
}

impl AgentParser for CodexParser {
    fn event(&mut self, line: &Value) -> Vec<AgentEvent> {
        let item = line.get("item").unwrap_or(&Value::Null);
        match text(line, "/type") {
            "thread.started" => vec![AgentEvent::Session(text(line, "/thread_id").to_owned())],
            "turn.started" => vec![AgentEvent::Working],
            "item.started" if !matches!(text(item, "/type"), "agent_message" | "reasoning") => {
                vec![AgentEvent::Working]
            }
            "item.completed" => completed(item),
            "turn.completed" => vec![AgentEvent::Usage(usage(line)), AgentEvent::Ended],
            "turn.failed" => vec![AgentEvent::failed(text(line, "/error/message"))],
            "error" => vec![AgentEvent::Trouble(text(line, "/message").to_owned())],
            _ => Vec::new(),
        }
    }

    fn error_line(&mut self, line: &str) -> Option<Vec<AgentEvent>> {
        if is_log_entry(line) {
            self.in_log = line.contains(" INFO ");
        }
        if let Some((_, error)) = line.split_once("codex_core::tools::router: error=")
            && says(error, &["rejected", "reject command"])
        {
            let (tool, kind) = if error.starts_with("patch") {
                ("apply_patch", ToolKind::Edit)
            } else {
                ("exec_command", ToolKind::Command)
            };
            return Some(vec![denied(tool, kind, error)]);
        }
        if !self.in_log {
            return None;
        }
        let call = field(line, "call_id");
        if line.contains(r#"event.name="codex.sandbox_outcome""#) && line.contains(" outcome=denied ") {
            self.denied.extend(call.map(str::to_owned));
            let tool = field(line, "tool_name").unwrap_or("exec_command");
            return Some(vec![denied(tool, ToolKind::Command, "the sandbox denied it")]);
        }
        if line.contains(r#"event.name="codex.tool_result""#)
            && let Some(at) = self.denied.iter().position(|known| Some(known.as_str()) == call)
        {
            self.denied.remove(at);
            return Some(command(line).map(AgentEvent::DeniedTarget).into_iter().collect());
        }
        Some(Vec::new())
    }
}

fn denied(tool: &str, kind: ToolKind, reason: &str) -> AgentEvent {
    AgentEvent::Tool(ToolEnd {
        tool: tool.to_owned(),
        kind,
        target: None,
        result: ToolEnding::Denied(reason.to_owned()),
    })
}

/// Returns whether a line begins an entry of the log: it begins with a date and a time.
fn is_log_entry(line: &str) -> bool {
    let mut bytes = line.bytes();
    let year = bytes.by_ref().take(4).filter(u8::is_ascii_digit).count();
    year == 4 && bytes.next() == Some(b'-') && line.as_bytes().get(10) == Some(&b'T')
}

/// Returns the value of a field of an entry of the log.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, after) = line.split_once(&format!(" {name}="))?;
    after.split_whitespace().next()
}

/// Returns the command of an entry of the log.
fn command(line: &str) -> Option<String> {
    let (_, arguments) = line.split_once(" arguments=")?;
    let mut values = serde_json::Deserializer::from_str(arguments).into_iter::<Value>();
    let arguments = values.next()?.ok()?;
    arguments.get("cmd")?.as_str().map(str::to_owned)
}

fn completed(item: &Value) -> Vec<AgentEvent> {
    let status = text(item, "/status");
    let result = |reason: String| match status {
        "declined" => ToolEnding::Denied("it was declined".to_owned()),
        "failed" => ToolEnding::Failed(reason),
        _ => ToolEnding::Succeeded,
    };
    let tool = |tool: &str, kind, target: &str, reason: String| ToolEnd {
        tool: tool.to_owned(),
        kind,
        target: (!target.is_empty()).then(|| target.to_owned()),
        result: result(reason),
    };
    let ends = match text(item, "/type") {
        "agent_message" => return vec![AgentEvent::Text(text(item, "/text").to_owned())],
        "command_execution" => {
            let reason = format!("exit code {}", item.get("exit_code").unwrap_or(&Value::Null));
            vec![tool("command", ToolKind::Command, text(item, "/command"), reason)]
        }
        "file_change" => {
            let changes = item.get("changes").and_then(Value::as_array);
            let paths = changes.into_iter().flatten().map(|change| text(change, "/path"));
            let failed = || "the patch does not fit".to_owned();
            paths
                .map(|path| tool("file_change", ToolKind::Edit, path, failed()))
                .collect()
        }
        "mcp_tool_call" => {
            let reason = text(item, "/error/message").to_owned();
            vec![tool(text(item, "/tool"), ToolKind::Command, "", reason)]
        }
        "web_search" => vec![tool(
            "web_search",
            ToolKind::Reading,
            text(item, "/query"),
            String::new(),
        )],
        _ => Vec::new(),
    };
    ends.into_iter().map(AgentEvent::Tool).collect()
}

fn usage(line: &Value) -> AgentUsage {
    AgentUsage {
        tokens: TokenUsage {
            input: number(line, "/usage/input_tokens"),
            output: number(line, "/usage/output_tokens"),
            cached_input: number(line, "/usage/cached_input_tokens"),
            cache_write: number(line, "/usage/cache_write_input_tokens"),
        },
        cost: None,
        scope: UsageScope::Session,
    }
}
