//! OpenAI's Chat Completions API, which many providers support: builds requests and parses answers.

use std::collections::BTreeMap;

use orchestra_config::ProviderKind;
use serde_json::{Value, json};

use super::answer_schema::{ANSWER_NAME, openai_schema};
use super::call_error::{CallError, error_inside};
use super::capability::Gpt;
use super::events::Event;
use super::fields::{arguments_out, count_of, model_of, parsed, text_of, tool_text};
use super::http::ReplyParser;
use super::request::WireRequest;
use crate::model::{
    Arguments, Message, ModelErrorKind, ModelReply, ModelRequest, StopReason, TokenUsage, ToolCall,
};

const WIRE: &str = "openai";

/// Returns the body of the request.
pub(super) fn body(wire: &WireRequest<'_>) -> Value {
    let request = wire.request;
    let mut body = json!({"model": request.model, "messages": messages(request)});
    if wire.streamed {
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(limit) = wire.max_output {
        // Reasoning models reject the older name, and other servers do not know the newer one.
        let name = match wire.kind {
            ProviderKind::OpenAi => "max_completion_tokens",
            _ => "max_tokens",
        };
        body[name] = limit.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            }})
        });
        body["tools"] = tools.collect();
    }
    if let Some((schema, strict)) = openai_schema(wire) {
        let format = json!({"name": ANSWER_NAME, "schema": schema, "strict": strict});
        body["response_format"] = json!({"type": "json_schema", "json_schema": format});
    }
    // OpenRouter itself leaves out options that a model does not support.
    let routed = wire.kind == ProviderKind::OpenRouter;
    let gpt = Gpt::from_model(&request.model);
    if let Some(effort) = request.reasoning_effort {
        if routed {
            body["reasoning"] = json!({"effort": effort.word()});
        } else if gpt.effort {
            body["reasoning_effort"] = effort.word().into();
        }
    }
    if let Some(temperature) = request.temperature
        && (routed || gpt.temperature)
    {
        body["temperature"] = temperature.into();
    }
    body
}

fn messages(request: &ModelRequest) -> Vec<Value> {
    let mut all = Vec::new();
    if !request.system.trim().is_empty() {
        all.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        match message {
            Message::User { text } => all.push(json!({"role": "user", "content": text})),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => {
                if text.is_empty() && tool_calls.is_empty() {
                    continue;
                }
                let mut message = json!({"role": "assistant", "content": Value::Null});
                if !text.is_empty() {
                    message["content"] = text.as_str().into();
                }
                if !tool_calls.is_empty() {
                    message["tool_calls"] = tool_calls.iter().map(call_out).collect();
                }
                if let Some(details) = opaque.as_ref().filter(|opaque| opaque["wire"] == WIRE) {
                    message["reasoning_details"] = details["reasoning_details"].clone();
                }
                all.push(message);
            }
            Message::Tools { results } => all.extend(results.iter().map(|result| {
                let content = tool_text(result);
                json!({"role": "tool", "tool_call_id": result.id, "content": content})
            })),
        }
    }
    all
}

fn call_out(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {
        "name": call.name, "arguments": arguments_out(&call.arguments).to_string(),
    }})
}

/// An answer that is being received.
pub(super) struct Answer {
    /// `true` if a stream must end with `[DONE]`; not every server sends it.
    strict: bool,
    text: String,
    calls: BTreeMap<u64, Call>,
    details: Vec<Value>,
    refused: bool,
    stop: Option<String>,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Answer {
    pub(super) fn new(kind: ProviderKind) -> Answer {
        Answer {
            strict: matches!(kind, ProviderKind::OpenAi | ProviderKind::OpenRouter),
            text: String::new(),
            calls: BTreeMap::new(),
            details: Vec::new(),
            refused: false,
            stop: None,
            usage: None,
            model: None,
        }
    }

    /// Applies new counts. The provider sends totals, so the last value replaces earlier ones.
    fn count(&mut self, usage: &Value) {
        if usage.is_object() {
            let details = &usage["prompt_tokens_details"];
            self.usage = Some(TokenUsage {
                input: count_of(usage, "prompt_tokens"),
                output: count_of(usage, "completion_tokens"),
                cached_input: count_of(details, "cached_tokens"),
                cache_write: count_of(details, "cache_write_tokens"),
            });
        }
    }

    /// Applies a message, or a delta of one.
    fn take(&mut self, message: &Value, on_text: &mut dyn FnMut(&str)) {
        for field in ["content", "refusal"] {
            let text = text_of(message, field);
            if !text.is_empty() {
                self.refused |= field == "refusal";
                self.text.push_str(text);
                on_text(text);
            }
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.call(call);
        }
        for detail in message["reasoning_details"].as_array().into_iter().flatten() {
            self.detail(detail);
        }
    }

    fn call(&mut self, piece: &Value) {
        let id = text_of(piece, "id");
        let last = self.calls.keys().next_back().copied();
        // A server that does not number its calls sends each one whole.
        let index = piece["index"].as_u64().unwrap_or_else(|| match last {
            Some(last) if id.is_empty() => last,
            last => last.map_or(0, |last| last.saturating_add(1)),
        });
        let call = self.calls.entry(index).or_default();
        let function = &piece["function"];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            text_of(function, "name").clone_into(&mut call.name);
        }
        match &function["arguments"] {
            Value::String(text) => call.arguments.push_str(text),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }

    /// Merges the pieces of one reasoning detail: appends texts, and replaces other fields.
    fn detail(&mut self, piece: &Value) {
        let same = |last: &&mut Value| {
            last.is_object() && last["index"] == piece["index"] && last["type"] == piece["type"]
        };
        let Some(last) = self.details.last_mut().filter(same) else {
            self.details.push(piece.clone());
            return;
        };
        for (field, value) in piece.as_object().into_iter().flatten() {
            match (field.as_str(), value) {
                ("text" | "summary" | "data", Value::String(more)) => {
                    let text = format!("{}{more}", text_of(last, field));
                    last[field] = text.into();
                }
                (_, Value::Null) => {}
                (_, value) => last[field] = value.clone(),
            }
        }
    }

    fn choice(
        &mut self,
        choice: &Value,
        message: &str,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), CallError> {
        if let Some(error) = error_inside(choice) {
            return Err(error);
        }
        self.take(&choice[message], on_text);
        if let Some(stop) = choice["finish_reason"].as_str() {
            self.stop = Some(stop.to_owned());
        }
        Ok(())
    }
}

impl ReplyParser for Answer {
    fn parse_body(&mut self, body: &Value) -> Result<(), CallError> {
        self.count(&body["usage"]);
        self.model = model_of(body, "model");
        let Some(choice) = body["choices"].get(0) else {
            return Err(CallError::malformed("the answer has no `choices`"));
        };
        if !choice["message"].is_object() {
            return Err(CallError::malformed("the answer has no `message`"));
        }
        self.choice(choice, "message", &mut |_| {})
    }

    fn parse_event(&mut self, event: &Event, on_text: &mut dyn FnMut(&str)) -> Result<bool, CallError> {
        if event.data.trim() == "[DONE]" {
            return Ok(true);
        }
        let data = parsed(&event.data)?;
        self.count(&data["usage"]);
        self.model = model_of(&data, "model").or(self.model.take());
        if let Some(error) = error_inside(&data) {
            return Err(error);
        }
        // The chunk with the usage has no choices.
        if let Some(choice) = data["choices"].get(0) {
            self.choice(choice, "delta", on_text)?;
        }
        Ok(false)
    }

    fn may_end(&self) -> bool {
        !self.strict && self.stop.is_some()
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    fn reply(&self) -> Result<ModelReply, CallError> {
        let Some(stop) = &self.stop else {
            return Err(CallError::malformed("the answer does not say why it ends"));
        };
        let mut reply = ModelReply::text(self.text.clone());
        for (count, call) in self.calls.values().enumerate() {
            if call.name.is_empty() {
                return Err(CallError::malformed("the answer calls a tool without a name"));
            }
            let id = if call.id.is_empty() {
                format!("call_{count}")
            } else {
                call.id.clone()
            };
            reply.tool_calls.push(ToolCall {
                id,
                name: call.name.clone(),
                arguments: Arguments::parse(&call.arguments),
            });
        }
        reply.stop = match stop.as_str() {
            // Some servers report an ordinary stop although they call tools.
            "stop" | "tool_calls" | "function_call" if !self.calls.is_empty() => StopReason::ToolCalls,
            "stop" if self.refused => StopReason::Refused,
            "stop" | "tool_calls" | "function_call" => StopReason::End,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refused,
            "error" => {
                return Err(CallError::new(
                    ModelErrorKind::Unavailable,
                    "the provider stopped in the middle of the answer, and gives no reason",
                ));
            }
            other => StopReason::Other(other.to_owned()),
        };
        reply.usage = self.usage;
        reply.model.clone_from(&self.model);
        if !self.details.is_empty() {
            reply.opaque = Some(json!({"wire": WIRE, "reasoning_details": self.details}));
        }
        Ok(reply)
    }
}
