//! The updates of a session, as events.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::coding_agents::event::{
    AgentEvent, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, number, target, text,
};
use crate::model::TokenUsage;

/// Maximum number of tool calls that are followed at a time.
const MAX_CALLS: usize = 1_024;

/// Reads the updates of a session.
#[derive(Default)]
pub(super) struct Updates {
    /// The tool calls that were announced and have not ended.
    calls: BTreeMap<String, Call>,
    /// The cost of the session so far, in US dollars.
    pub(super) cost: Option<f64>,
}

/// A tool call, as far as it is known. Each message may tell a part of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    name: String,
    kind: Option<String>,
    target: Option<String>,
    /// Whether its denial was reported.
    is_denied: bool,
}

impl Call {
    fn merge(&mut self, call: &Value) {
        for pointer in ["/name", "/title"] {
            let name = text(call, pointer);
            if !name.is_empty() && (self.name.is_empty() || pointer == "/name") {
                name.clone_into(&mut self.name);
            }
        }
        let kind = text(call, "/kind");
        if !kind.is_empty() {
            self.kind = Some(kind.to_owned());
        }
        let file = ["/locations/0/path", "/content/0/path"]
            .into_iter()
            .map(|pointer| text(call, pointer))
            .find(|path| !path.is_empty());
        let argument = call
            .get("rawInput")
            .and_then(|input| target(input, &["command", "filePath", "filepath", "file_path", "path"]));
        if let Some(found) = file.map(str::to_owned).or(argument) {
            self.target = Some(found);
        }
    }

    fn end(&self, result: ToolEnding) -> AgentEvent {
        let kind = match self.kind.as_deref() {
            Some("edit" | "delete" | "move") => ToolKind::Edit,
            Some("read" | "search" | "think" | "fetch") => ToolKind::Reading,
            _ => ToolKind::Command,
        };
        AgentEvent::Tool(ToolEnd {
            tool: self.name.clone(),
            kind,
            target: self.target.clone(),
            result,
        })
    }
}

impl Updates {
    /// Returns the events of the parameters of `session/update`.
    pub(super) fn events(&mut self, params: &Value) -> Vec<AgentEvent> {
        let Some(update) = params.get("update") else {
            return Vec::new();
        };
        match text(update, "/sessionUpdate") {
            "agent_message_chunk" => vec![AgentEvent::Piece(text(update, "/content/text").to_owned())],
            "tool_call" | "tool_call_update" => self.tool(update).into_iter().collect(),
            "usage_update" if text(update, "/cost/currency") == "USD" => {
                self.cost = update.pointer("/cost/amount").and_then(Value::as_f64);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the events of a tool call that is announced, works on or ends.
    fn tool(&mut self, update: &Value) -> Vec<AgentEvent> {
        let id = text(update, "/toolCallId").to_owned();
        let is_new = !self.calls.contains_key(&id);
        let call = self.call(&id, update);
        let result = match text(update, "/status") {
            "completed" => ToolEnding::Succeeded,
            "failed" => ToolEnding::Failed(said(update)),
            // What the model said before a tool call is not its answer.
            _ if is_new => return vec![AgentEvent::Working],
            _ => return Vec::new(),
        };
        self.calls.remove(&id);
        if call.is_denied && result != ToolEnding::Succeeded {
            return Vec::new();
        }
        vec![AgentEvent::Working, call.end(result)]
    }

    /// Returns what is known about a tool call, with what a message says about it.
    fn call(&mut self, id: &str, update: &Value) -> Call {
        if self.calls.len() >= MAX_CALLS {
            self.calls.pop_first();
        }
        let call = self.calls.entry(id.to_owned()).or_default();
        call.merge(update);
        call.clone()
    }

    /// Returns the description of the tool call that an agent asks permission for.
    pub(super) fn asked(&mut self, call: &Value) -> Asked {
        let known = self.call(text(call, "/toolCallId"), call);
        let title = text(call, "/title");
        let title = if title.is_empty() { &known.name } else { title };
        let command = call.get("rawInput").and_then(|input| target(input, &["command"]));
        Asked {
            title: title.to_owned(),
            target: known
                .target
                .clone()
                .filter(|target| !title.contains(target.as_str())),
            command: command.filter(|command| !title.contains(command.as_str())),
            changes: changes(call),
        }
    }

    /// Returns the events of a tool call that was denied.
    pub(super) fn deny(&mut self, call: &Value, reason: &str) -> Vec<AgentEvent> {
        let id = text(call, "/toolCallId").to_owned();
        let known = self.call(&id, call);
        if let Some(call) = self.calls.get_mut(&id) {
            call.is_denied = true;
        }
        vec![
            AgentEvent::Working,
            known.end(ToolEnding::Denied(reason.to_owned())),
        ]
    }
}

/// What an agent asks permission for.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) title: String,
    pub(super) target: Option<String>,
    pub(super) command: Option<String>,
    /// The changes of files: path, earlier text and new text.
    pub(super) changes: Vec<(String, String, String)>,
}

/// Returns the changes of files that a tool call contains.
fn changes(call: &Value) -> Vec<(String, String, String)> {
    let contents = call.get("content").and_then(Value::as_array);
    let diffs = contents
        .into_iter()
        .flatten()
        .filter(|content| text(content, "/type") == "diff");
    let parts = |diff: &Value| {
        let part = |pointer| text(diff, pointer).to_owned();
        (part("/path"), part("/oldText"), part("/newText"))
    };
    diffs.map(parts).collect()
}

/// Returns the text that a tool call ended with.
fn said(update: &Value) -> String {
    let content = text(update, "/content/0/content/text");
    if content.is_empty() {
        text(update, "/rawOutput/error").to_owned()
    } else {
        content.to_owned()
    }
}

/// Returns the tokens of a turn that its response reports.
pub(super) fn turn_usage(response: &Value, cost: Option<f64>) -> Option<AgentUsage> {
    let tokens = match response.get("usage").filter(|usage| usage.is_object()) {
        Some(usage) => {
            let known = |pointer| number(usage, pointer);
            let output = known("/outputTokens").saturating_add(known("/thoughtTokens"));
            let cached = known("/cachedReadTokens");
            // The total contains cached tokens, which some agents leave out of the input.
            let input = known("/totalTokens").saturating_sub(output);
            TokenUsage {
                input: input.max(known("/inputTokens")),
                output,
                cached_input: cached,
                cache_write: known("/cachedWriteTokens"),
            }
        }
        // The field of Gemini CLI.
        None => {
            let count = response.pointer("/_meta/quota/token_count")?;
            TokenUsage {
                input: number(count, "/input_tokens"),
                output: number(count, "/output_tokens"),
                ..TokenUsage::default()
            }
        }
    };
    Some(AgentUsage {
        tokens,
        cost,
        scope: UsageScope::Program,
    })
}
