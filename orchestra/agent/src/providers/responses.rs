//! OpenAI's Responses API, the only one in which its newer models reason and call tools. The provider stores nothing;
//! reasoning arrives encrypted and is sent back with the conversation.

use serde_json::{Value, json};

use super::answer_schema::{ANSWER_NAME, openai_schema};
use super::call_error::{CallError, error_inside};
use super::capability::Gpt;
use super::events::Event;
use super::fields::{arguments_out, count_of, model_of, parsed, text_of, tool_text};
use super::http::ReplyParser;
use super::layout::{Layout, Piece};
use super::request::WireRequest;
use crate::model::{Arguments, Message, ModelErrorKind, ModelReply, StopReason, TokenUsage, ToolCall};

const WIRE: &str = "openai-responses";

/// Returns the body of the request.
pub(super) fn body(wire: &WireRequest<'_>) -> Value {
    let request = wire.request;
    let mut body = json!({
        "model": request.model,
        "input": input(&request.messages),
        "store": false,
        "include": ["reasoning.encrypted_content"],
    });
    if wire.streamed {
        body["stream"] = true.into();
    }
    if !request.system.trim().is_empty() {
        body["instructions"] = request.system.as_str().into();
    }
    if let Some(limit) = wire.max_output {
        body["max_output_tokens"] = limit.into();
    }
    if let Some(effort) = request.reasoning_effort
        && Gpt::from_model(&request.model).effort
    {
        body["reasoning"] = json!({"effort": effort.word()});
    }
    if let Some((schema, strict)) = openai_schema(wire) {
        body["text"] = json!({"format": {
            "type": "json_schema", "name": ANSWER_NAME, "schema": schema, "strict": strict,
        }});
    }
    if !request.tools.is_empty() {
        // Strict mode is the default here, and would change the schema of a tool.
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn input(messages: &[Message]) -> Vec<Value> {
    let mut all = Vec::new();
    for message in messages {
        match message {
            Message::User { text } => all.push(json!({"role": "user", "content": text})),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => {
                let layout = Layout::parse(opaque.as_ref(), WIRE).unwrap_or_default();
                all.extend(layout.pieces(text, tool_calls).into_iter().filter_map(item));
            }
            Message::Tools { results } => all.extend(results.iter().map(|result| {
                json!({"type": "function_call_output", "call_id": result.id, "output": tool_text(result)})
            })),
        }
    }
    all
}

fn item(piece: Piece<'_>) -> Option<Value> {
    match piece {
        Piece::Text("", _) => None,
        Piece::Text(text, _) => Some(json!({"role": "assistant", "content": text})),
        Piece::ProviderData(value) => Some(value.clone()),
        Piece::Call(call, _) => Some(json!({
            "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": arguments_out(&call.arguments).to_string(),
        })),
    }
}

/// An answer that is being received.
#[derive(Default)]
pub(super) struct Answer {
    /// The items of the answer, in order.
    items: Vec<Value>,
    status: String,
    /// The reason why the answer is incomplete.
    reason: String,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

impl ReplyParser for Answer {
    fn parse_body(&mut self, body: &Value) -> Result<(), CallError> {
        let usage = &body["usage"];
        if usage.is_object() {
            let details = &usage["input_tokens_details"];
            self.usage = Some(TokenUsage {
                input: count_of(usage, "input_tokens"),
                output: count_of(usage, "output_tokens"),
                cached_input: count_of(details, "cached_tokens"),
                cache_write: count_of(details, "cache_write_tokens"),
            });
        }
        if let Some(error) = error_inside(body) {
            return Err(error);
        }
        self.model = model_of(body, "model");
        text_of(body, "status").clone_into(&mut self.status);
        text_of(&body["incomplete_details"], "reason").clone_into(&mut self.reason);
        // Not every server repeats the streamed items at the end of the stream.
        if let Some(items) = body["output"].as_array().filter(|items| !items.is_empty()) {
            self.items.clone_from(items);
        }
        Ok(())
    }

    fn parse_event(&mut self, event: &Event, on_text: &mut dyn FnMut(&str)) -> Result<bool, CallError> {
        let mut data = parsed(&event.data)?;
        match text_of(&data, "type") {
            "response.output_text.delta" | "response.refusal.delta" => on_text(text_of(&data, "delta")),
            "response.output_item.done" => self.items.push(data["item"].take()),
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.parse_body(&data["response"])?;
                return Ok(true);
            }
            "error" => {
                let error = error_inside(&data).or_else(|| error_inside(&json!({"error": data})));
                return Err(error.unwrap_or_else(|| {
                    CallError::malformed("the stream ends with an error without a word")
                }));
            }
            _ => {
                if let Some(error) = error_inside(&data) {
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    fn may_end(&self) -> bool {
        false
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    fn reply(&self) -> Result<ModelReply, CallError> {
        let mut reply = ModelReply::text("");
        let mut layout = Layout::new(WIRE);
        let mut refused = false;
        for item in &self.items {
            match text_of(item, "type") {
                "message" => {
                    let mut text = String::new();
                    for part in item["content"].as_array().into_iter().flatten() {
                        text.push_str(text_of(part, "text"));
                        let refusal = text_of(part, "refusal");
                        refused |= !refusal.is_empty();
                        text.push_str(refusal);
                    }
                    layout.text(&text, None);
                    reply.text.push_str(&text);
                }
                "function_call" => {
                    let (id, name) = (text_of(item, "call_id"), text_of(item, "name"));
                    if name.is_empty() || id.is_empty() {
                        return Err(CallError::malformed("the answer calls a tool without a name"));
                    }
                    layout.call(reply.tool_calls.len(), None);
                    reply.tool_calls.push(ToolCall {
                        id: id.to_owned(),
                        name: name.to_owned(),
                        arguments: Arguments::parse(text_of(item, "arguments")),
                    });
                }
                "reasoning" => {
                    // Keep only the fields that the provider accepts back.
                    let known = ["type", "id", "summary", "encrypted_content"];
                    let fields = item.as_object().into_iter().flatten();
                    let fields = fields.filter(|(name, _)| known.contains(&name.as_str()));
                    layout.provider_data(
                        fields
                            .map(|(name, value)| (name.clone(), value.clone()))
                            .collect(),
                    );
                }
                _ => {}
            }
        }
        reply.stop = match (self.status.as_str(), self.reason.as_str()) {
            ("completed", _) if !reply.tool_calls.is_empty() => StopReason::ToolCalls,
            ("completed", _) if refused => StopReason::Refused,
            ("completed", _) => StopReason::End,
            ("incomplete", "max_output_tokens") => StopReason::MaxTokens,
            ("incomplete", "content_filter") => StopReason::Refused,
            ("incomplete", other) => StopReason::Other(other.to_owned()),
            ("failed" | "cancelled", _) => {
                return Err(CallError::new(
                    ModelErrorKind::Unavailable,
                    "the provider stopped in the middle of the answer, and gives no reason",
                ));
            }
            _ => {
                return Err(CallError::malformed(
                    "the answer does not say whether it is complete",
                ));
            }
        };
        reply.usage = self.usage;
        reply.model.clone_from(&self.model);
        reply.opaque = layout.into_opaque();
        Ok(reply)
    }
}
