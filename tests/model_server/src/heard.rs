//! What stands in a request, whatever its format: who said what, and which tools were run.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Request;
use crate::wire::Wire;

#[derive(Clone, Debug, PartialEq)]
enum Speaker {
    System,
    User,
    Assistant,
    /// The result of a tool, by its name.
    Tool(String),
}

/// The texts of a request.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What a stage is reported to do: the system prompt, the first message of a user, and the latest one.
    pub(crate) task: String,
    /// The body of the request, as JSON without white space.
    pub(crate) body: String,
    /// All that was said and all results of tools.
    pub(crate) all: String,
    /// What came since the model spoke last.
    pub(crate) last: String,
    /// The tools whose results came since the model spoke last.
    pub(crate) after: Vec<String>,
    /// Whether the model has said nothing yet.
    pub(crate) begins: bool,
}

impl Heard {
    pub(crate) fn in_request(request: &Request) -> Heard {
        let body = &request.body;
        let parts = match request.wire {
            Some(Wire::Anthropic) => anthropic(body),
            Some(Wire::OpenAi) => chat(body),
            Some(Wire::OpenAiResponses) => responses(body),
            Some(Wire::Gemini) => gemini(body),
            None => Vec::new(),
        };
        let spoke = parts
            .iter()
            .rposition(|(speaker, _)| *speaker == Speaker::Assistant);
        let since = parts.get(spoke.map_or(0, |at| at + 1)..).unwrap_or_default();
        let of_user = |(speaker, _): &&(Speaker, String)| *speaker == Speaker::User;
        let first_answer = parts
            .iter()
            .position(|(speaker, _)| *speaker == Speaker::Assistant);
        let opening = parts.iter().take(first_answer.unwrap_or(parts.len()));
        let latest = parts.iter().rev().find(of_user);
        Heard {
            body: body.to_string(),
            task: joined(opening.chain(latest)),
            all: joined(parts.iter()),
            last: joined(since.iter()),
            after: since
                .iter()
                .filter_map(|(speaker, _)| match speaker {
                    Speaker::Tool(name) => Some(name.clone()),
                    _ => None,
                })
                .collect(),
            begins: spoke.is_none(),
        }
    }
}

fn joined<'p>(parts: impl Iterator<Item = &'p (Speaker, String)>) -> String {
    let texts: Vec<&str> = parts.map(|(_, text)| text.as_str()).collect();
    texts.join("\n")
}

/// The text of a content, which is a text or a list of blocks.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<String> = blocks.iter().map(text).collect();
            texts.join("\n")
        }
        Value::Object(block) => block.get("text").map(text).unwrap_or_default(),
        _ => String::new(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn speaker(role: &Value) -> Speaker {
    match role.as_str() {
        Some("assistant" | "model") => Speaker::Assistant,
        Some("system" | "developer") => Speaker::System,
        _ => Speaker::User,
    }
}

fn anthropic(body: &Value) -> Vec<(Speaker, String)> {
    let mut parts = vec![(Speaker::System, text(&body["system"]))];
    let mut tools = BTreeMap::new();
    for message in list(&body["messages"]) {
        let speaker = speaker(&message["role"]);
        if let Value::String(text) = &message["content"] {
            parts.push((speaker.clone(), text.clone()));
        }
        for block in list(&message["content"]) {
            match block["type"].as_str() {
                Some("tool_use") => {
                    tools.insert(word(&block["id"]), word(&block["name"]));
                    parts.push((Speaker::Assistant, block["input"].to_string()));
                }
                Some("tool_result") => {
                    let name = tools.get(&word(&block["tool_use_id"])).cloned();
                    parts.push((Speaker::Tool(name.unwrap_or_default()), text(&block["content"])));
                }
                _ => parts.push((speaker.clone(), text(block))),
            }
        }
    }
    parts
}

fn chat(body: &Value) -> Vec<(Speaker, String)> {
    let mut parts = Vec::new();
    let mut tools = BTreeMap::new();
    for message in list(&body["messages"]) {
        if message["role"] == "tool" {
            let name = tools.get(&word(&message["tool_call_id"])).cloned();
            parts.push((Speaker::Tool(name.unwrap_or_default()), text(&message["content"])));
            continue;
        }
        parts.push((speaker(&message["role"]), text(&message["content"])));
        for call in list(&message["tool_calls"]) {
            tools.insert(word(&call["id"]), word(&call["function"]["name"]));
            parts.push((Speaker::Assistant, word(&call["function"]["arguments"])));
        }
    }
    parts
}

fn responses(body: &Value) -> Vec<(Speaker, String)> {
    let mut parts = vec![(Speaker::System, text(&body["instructions"]))];
    let mut tools = BTreeMap::new();
    if let Value::String(text) = &body["input"] {
        parts.push((Speaker::User, text.clone()));
    }
    for item in list(&body["input"]) {
        match item["type"].as_str() {
            Some("function_call") => {
                tools.insert(word(&item["call_id"]), word(&item["name"]));
                parts.push((Speaker::Assistant, word(&item["arguments"])));
            }
            Some("function_call_output") => {
                let name = tools.get(&word(&item["call_id"])).cloned();
                parts.push((Speaker::Tool(name.unwrap_or_default()), text(&item["output"])));
            }
            _ => parts.push((speaker(&item["role"]), text(&item["content"]))),
        }
    }
    parts
}

fn gemini(body: &Value) -> Vec<(Speaker, String)> {
    let mut parts = vec![(Speaker::System, text(&body["systemInstruction"]["parts"]))];
    for content in list(&body["contents"]) {
        for part in list(&content["parts"]) {
            if let Some(call) = part.get("functionCall") {
                parts.push((Speaker::Assistant, call["args"].to_string()));
            } else if let Some(result) = part.get("functionResponse") {
                let name = word(&result["name"]);
                parts.push((Speaker::Tool(name), result["response"].to_string()));
            } else {
                parts.push((speaker(&content["role"]), text(part)));
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One conversation in each format: a task, a call of a tool, and what came of it.
    fn conversations() -> [(Wire, Value); 4] {
        let anthropic = json!({
            "system": [{"type": "text", "text": "You mend."}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Mend the sum."}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "shell", "input": {"command": "ls"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sum.sh"}]},
            ],
        });
        let chat = json!({"messages": [
            {"role": "system", "content": "You mend."},
            {"role": "user", "content": "Mend the sum."},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "function": {"name": "shell", "arguments": "{\"command\":\"ls\"}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "sum.sh"},
        ]});
        let responses = json!({"instructions": "You mend.", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Mend the sum."}]},
            {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{\"command\":\"ls\"}"},
            {"type": "function_call_output", "call_id": "c", "output": "sum.sh"},
        ]});
        let gemini = json!({
            "systemInstruction": {"parts": [{"text": "You mend."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Mend the sum."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "shell", "args": {"command": "ls"}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "shell", "response": {"output": "sum.sh"}}}]},
            ],
        });
        [
            (Wire::Anthropic, anthropic),
            (Wire::OpenAi, chat),
            (Wire::OpenAiResponses, responses),
            (Wire::Gemini, gemini),
        ]
    }

    #[test]
    fn a_conversation_reads_alike_in_each_format() {
        for (wire, body) in conversations() {
            let heard = Heard::in_request(&Request {
                method: "POST".into(),
                path: String::new(),
                headers: Vec::new(),
                body,
                wire: Some(wire),
                streamed: false,
            });
            assert!(
                heard.task.starts_with("You mend.\nMend the sum."),
                "{wire:?}: {heard:?}"
            );
            assert!(!heard.task.contains("sum.sh"), "{wire:?}: {heard:?}");
            assert!(
                heard.last.contains("sum.sh") && !heard.last.contains("Mend"),
                "{wire:?}: {heard:?}"
            );
            assert!(
                heard.all.contains("\"ls\"") && heard.all.contains("sum.sh"),
                "{wire:?}: {heard:?}"
            );
            assert_eq!(
                (heard.after, heard.begins),
                (vec!["shell".to_owned()], false),
                "{wire:?}"
            );
        }
    }
}
