//! Gemini's generateContent API: builds requests and parses answers.

use serde_json::{Value, json};

use super::answer_schema::gemini_schema;
use super::call_error::{CallError, error_inside, excerpt};
use super::capability::gemini_thinking;
use super::events::Event;
use super::fields::{arguments_out, count_of, model_of, parsed, text_of};
use super::http::ReplyParser;
use super::layout::{Layout, Piece};
use super::request::WireRequest;
use crate::model::{Arguments, Message, ModelReply, StopReason, TokenUsage, ToolCall};

const WIRE: &str = "gemini";

/// Prefix of the ids that we give to calls without an id; such ids are not sent back to the provider.
const GENERATED_ID_PREFIX: &str = "unnamed_call_";

/// The signature that the provider accepts for a call of another model. It rejects a request without a signature.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// Returns the body of the request.
pub(super) fn body(wire: &WireRequest<'_>) -> Value {
    let request = wire.request;
    let signed = request.model.to_ascii_lowercase().starts_with("gemini-3");
    let mut body = json!({"contents": contents(&request.messages, signed)});
    if !request.system.trim().is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
        });
        body["tools"] = json!([{"functionDeclarations": tools.collect::<Vec<_>>()}]);
    }
    if let Some(limit) = wire.max_output {
        body["generationConfig"]["maxOutputTokens"] = limit.into();
    }
    if let Some(temperature) = request.temperature {
        body["generationConfig"]["temperature"] = temperature.into();
    }
    if let Some(schema) = gemini_schema(wire) {
        body["generationConfig"]["responseMimeType"] = "application/json".into();
        body["generationConfig"]["responseJsonSchema"] = schema;
    }
    let effort = request.reasoning_effort;
    if let Some(config) = effort.and_then(|effort| gemini_thinking(&request.model, effort, wire.max_output)) {
        body["generationConfig"]["thinkingConfig"] = config;
    }
    body
}

/// Converts the messages, leaving out empty ones. The provider requires tool results in a message of their own.
fn contents(messages: &[Message], signed: bool) -> Vec<Value> {
    let mut all = Vec::new();
    for message in messages {
        let (role, parts) = match message {
            Message::User { text } => ("user", vec![json!({"text": text})]),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => {
                let layout = Layout::parse(opaque.as_ref(), WIRE);
                let foreign = signed && layout.is_none();
                let layout = layout.unwrap_or_default();
                let pieces = layout.pieces(text, tool_calls).into_iter();
                let mut parts: Vec<Value> = pieces.filter_map(part).collect();
                let call = parts.iter_mut().find(|part| part.get("functionCall").is_some());
                if foreign && let Some(call) = call {
                    call["thoughtSignature"] = FOREIGN_CALL.into();
                }
                ("model", parts)
            }
            Message::Tools { results } => {
                let results = results.iter().map(|result| {
                    let field = if result.is_error { "error" } else { "output" };
                    let mut response = json!({"name": result.name, "response": {field: result.content}});
                    name_call(&mut response, &result.id);
                    json!({"functionResponse": response})
                });
                ("user", results.collect())
            }
        };
        if !parts.is_empty() {
            all.push(json!({"role": role, "parts": parts}));
        }
    }
    all
}

fn name_call(call: &mut Value, id: &str) {
    if !id.starts_with(GENERATED_ID_PREFIX) {
        call["id"] = id.into();
    }
}

fn part(piece: Piece<'_>) -> Option<Value> {
    let (mut part, signature) = match piece {
        Piece::Text("", None) | Piece::ProviderData(_) => return None,
        Piece::Text(text, signature) => (json!({"text": text}), signature),
        Piece::Call(call, signature) => {
            let mut out = json!({"name": call.name, "args": arguments_out(&call.arguments)});
            name_call(&mut out, &call.id);
            (json!({"functionCall": out}), signature)
        }
    };
    if let Some(signature) = signature {
        part["thoughtSignature"] = signature.into();
    }
    Some(part)
}

/// An answer that is being received.
#[derive(Default)]
pub(super) struct Answer {
    parts: Vec<Part>,
    stop: Option<String>,
    /// The provider's message about its stop reason.
    stop_message: String,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

enum Part {
    Text(String, Option<String>),
    Call(ToolCall, Option<String>),
}

impl Answer {
    /// Applies an answer or a chunk of one; both have the same format.
    fn take(&mut self, body: &Value, on_text: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        self.count(&body["usageMetadata"]);
        self.model = model_of(body, "modelVersion").or(self.model.take());
        if let Some(error) = error_inside(body) {
            return Err(error);
        }
        if body["promptFeedback"]["blockReason"].is_string() {
            self.stop = Some("BLOCKLIST".to_owned());
        }
        let candidate = &body["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, on_text);
        }
        if let Some(stop) = candidate["finishReason"].as_str() {
            self.stop = Some(stop.to_owned());
            text_of(candidate, "finishMessage").clone_into(&mut self.stop_message);
        }
        Ok(())
    }

    /// Applies new counts. The provider sends totals, so the last value replaces earlier ones.
    fn count(&mut self, usage: &Value) {
        let count = |field: &str| count_of(usage, field);
        if usage.is_object() {
            self.usage = Some(TokenUsage {
                input: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
                // Thinking tokens are counted separately.
                output: count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount")),
                cached_input: count("cachedContentTokenCount"),
                cache_write: 0,
            });
        }
    }

    fn part(&mut self, part: &Value, on_text: &mut dyn FnMut(&str)) {
        let signature = part["thoughtSignature"].as_str().map(str::to_owned);
        if let Some(call) = part.get("functionCall") {
            let count = self.parts.len();
            let id = match text_of(call, "id") {
                "" => format!("{GENERATED_ID_PREFIX}{count}"),
                id => id.to_owned(),
            };
            let arguments = match &call["args"] {
                Value::Object(fields) => Arguments::Object(fields.clone()),
                Value::Null => Arguments::parse(""),
                Value::String(text) => Arguments::parse(text),
                other => Arguments::parse(&other.to_string()),
            };
            let call = ToolCall {
                id,
                name: text_of(call, "name").to_owned(),
                arguments,
            };
            self.parts.push(Part::Call(call, signature));
            return;
        }
        if part["thought"] == true {
            return;
        }
        let Some(text) = part["text"].as_str() else {
            return;
        };
        if text.is_empty() && signature.is_none() {
            return;
        }
        if !text.is_empty() {
            on_text(text);
        }
        match self.parts.last_mut() {
            Some(Part::Text(last, signed @ None)) if signature.is_none() || text.is_empty() => {
                last.push_str(text);
                *signed = signature;
            }
            _ => self.parts.push(Part::Text(text.to_owned(), signature)),
        }
    }
}

impl ReplyParser for Answer {
    fn parse_body(&mut self, body: &Value) -> Result<(), CallError> {
        self.take(body, &mut |_| {})
    }

    fn parse_event(&mut self, event: &Event, on_text: &mut dyn FnMut(&str)) -> Result<bool, CallError> {
        let data = parsed(&event.data)?;
        self.take(&data, on_text)?;
        // Only the end of the stream marks the end of the answer.
        Ok(false)
    }

    fn may_end(&self) -> bool {
        self.stop.is_some()
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    fn reply(&self) -> Result<ModelReply, CallError> {
        let Some(stop) = &self.stop else {
            return Err(CallError::malformed("the answer does not say why it ends"));
        };
        let mut reply = ModelReply::text("");
        let mut layout = Layout::new(WIRE);
        for part in &self.parts {
            match part {
                Part::Text(text, signature) => {
                    reply.text.push_str(text);
                    layout.text(text, signature.clone());
                }
                Part::Call(call, signature) => {
                    if call.name.is_empty() {
                        return Err(CallError::malformed("the answer calls a tool without a name"));
                    }
                    layout.call(reply.tool_calls.len(), signature.clone());
                    reply.tool_calls.push(call.clone());
                }
            }
        }
        reply.stop = match stop.as_str() {
            "STOP" if !reply.tool_calls.is_empty() => StopReason::ToolCalls,
            "STOP" => StopReason::End,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY" | "RECITATION" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "SPII" => StopReason::Refused,
            // The model wrote an unreadable call, and the provider does not pass it on.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
                let message = excerpt(self.stop_message.as_bytes());
                return Err(CallError::malformed(format!(
                    "the model made a call of a tool that is none ({stop}); the provider says {message}"
                )));
            }
            other => StopReason::Other(other.to_owned()),
        };
        reply.usage = self.usage;
        reply.model.clone_from(&self.model);
        reply.opaque = layout.into_opaque();
        Ok(reply)
    }
}
