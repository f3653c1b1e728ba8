//! Anthropic's Messages API: builds requests and parses answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answer_schema::anthropic_schema;
use super::call_error::{CallError, error_inside};
use super::capability::{Claude, Thinking, thinking_budget};
use super::events::Event;
use super::fields::{arguments_out, model_of, parsed, text_of};
use super::http::ReplyParser;
use super::layout::{Layout, Piece};
use super::request::WireRequest;
use crate::model::{Arguments, Message, ModelReply, StopReason, TokenUsage, ToolCall};

const WIRE: &str = "anthropic";

/// Minimum thinking budget that the provider accepts, in tokens.
const MIN_BUDGET: u32 = 1_024;

/// Returns the maximum number of output tokens: the requested one, else the default plus the thinking budget.
pub(super) fn output_limit(wire: &WireRequest<'_>) -> u32 {
    let claude = Claude::from_model(&wire.request.model);
    wire.max_output.unwrap_or_else(|| {
        let thought = match (claude.thinking, wire.request.reasoning_effort) {
            (Thinking::No, _) | (_, None) => 0,
            (_, Some(effort)) => thinking_budget(effort),
        };
        claude.default_output + thought
    })
}

/// Returns the body of the request.
pub(super) fn body(wire: &WireRequest<'_>) -> Value {
    let request = wire.request;
    let limit = output_limit(wire);
    let mut messages = messages(&request.messages);
    let mut body = json!({"model": request.model, "max_tokens": limit});
    if wire.streamed {
        body["stream"] = true.into();
    }
    if !request.system.trim().is_empty() {
        body["system"] = json!([{"type": "text", "text": request.system}]);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
        });
        body["tools"] = tools.collect();
        // The next call of a conversation with tools reads the messages so far from the cache.
        let last = messages
            .last_mut()
            .and_then(|message| message["content"].as_array_mut());
        let system = body.get_mut("system").and_then(Value::as_array_mut);
        let ends = [system, last];
        for end in ends
            .into_iter()
            .flatten()
            .filter_map(|content| content.last_mut())
        {
            end["cache_control"] = json!({"type": "ephemeral"});
        }
    }
    body["messages"] = messages.into();
    if let Some(schema) = anthropic_schema(wire) {
        body["output_config"]["format"] = json!({"type": "json_schema", "schema": schema});
    }
    let claude = Claude::from_model(&request.model);
    let thinks = think(wire, claude, limit, &mut body);
    if let Some(temperature) = request.temperature
        && claude.temperature
        && !thinks
    {
        body["temperature"] = temperature.into();
    }
    body
}

/// Enables thinking if the request has an effort and the model supports it. Returns whether it is enabled.
fn think(wire: &WireRequest<'_>, claude: Claude, limit: u32, body: &mut Value) -> bool {
    let Some(effort) = wire.request.reasoning_effort else {
        return false;
    };
    match claude.thinking {
        Thinking::Adaptive => {
            body["thinking"] = json!({"type": "adaptive"});
            body["output_config"]["effort"] = effort.word().into();
            true
        }
        Thinking::Budget => {
            // Leave tokens for the answer.
            let budget = thinking_budget(effort).min(limit / 4 * 3);
            let may = budget >= MIN_BUDGET && !in_unsigned_turn(&wire.request.messages);
            if may {
                body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
            }
            may
        }
        Thinking::No => false,
    }
}

/// Returns whether the model called tools in this turn without signed thinking. Thinking cannot be enabled in the
/// middle of such a turn.
fn in_unsigned_turn(messages: &[Message]) -> bool {
    let turn = messages
        .iter()
        .rev()
        .take_while(|message| !matches!(message, Message::User { .. }));
    let unsigned = |message: &Message| match message {
        Message::Assistant {
            tool_calls, opaque, ..
        } => !tool_calls.is_empty() && Layout::parse(opaque.as_ref(), WIRE).is_none(),
        _ => false,
    };
    turn.into_iter().any(unsigned)
}

/// Converts the messages. Consecutive messages of one role are merged, and empty ones are left out.
fn messages(messages: &[Message]) -> Vec<Value> {
    let mut all: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, content) = match message {
            Message::User { text } => ("user", Vec::from_iter(text_block(text))),
            Message::Assistant {
                text,
                tool_calls,
                opaque,
            } => {
                let layout = Layout::parse(opaque.as_ref(), WIRE).unwrap_or_default();
                let pieces = layout.pieces(text, tool_calls).into_iter();
                ("assistant", pieces.filter_map(block).collect())
            }
            Message::Tools { results } => {
                let results = results.iter().map(|result| {
                    let mut block =
                        json!({"type": "tool_result", "tool_use_id": result.id, "content": result.content});
                    if result.is_error {
                        block["is_error"] = true.into();
                    }
                    block
                });
                ("user", results.collect())
            }
        };
        match all.last_mut() {
            _ if content.is_empty() => {}
            Some((last, blocks)) if *last == role => blocks.extend(content),
            _ => all.push((role, content)),
        }
    }
    let all = all.into_iter();
    all.map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn block(piece: Piece<'_>) -> Option<Value> {
    match piece {
        Piece::Text(text, _) => text_block(text),
        Piece::ProviderData(value) => Some(value.clone()),
        Piece::Call(call, _) => Some(json!({
            "type": "tool_use", "id": call.id, "name": call.name, "input": arguments_out(&call.arguments),
        })),
    }
}

/// An answer that is being received.
#[derive(Default)]
pub(super) struct Answer {
    /// The blocks by their index and, because a server may use an index repeatedly, a running number.
    blocks: BTreeMap<(u64, usize), Block>,
    stop: Option<String>,
    counts: Counts,
    model: Option<String>,
}

enum Block {
    Text(String),
    Thinking {
        thinking: String,
        signature: String,
    },
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// A block that is sent back unchanged.
    RedactedThinking(Value),
}

#[derive(Default)]
struct Counts {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
}

impl Counts {
    /// Applies new counts. The provider sends totals, so the last value replaces earlier ones.
    fn take(&mut self, usage: &Value) {
        for (field, count) in [
            ("input_tokens", &mut self.input),
            ("cache_read_input_tokens", &mut self.cache_read),
            ("cache_creation_input_tokens", &mut self.cache_write),
            ("output_tokens", &mut self.output),
        ] {
            *count = usage.get(field).and_then(Value::as_u64).or(*count);
        }
    }
}

impl Block {
    fn parse(block: &Value) -> Option<Block> {
        let text = |field: &str| text_of(block, field).to_owned();
        match text_of(block, "type") {
            "text" => Some(Block::Text(text("text"))),
            "thinking" => Some(Block::Thinking {
                thinking: text("thinking"),
                signature: text("signature"),
            }),
            "redacted_thinking" => Some(Block::RedactedThinking(block.clone())),
            "tool_use" => {
                let input = match block.get("input") {
                    // In a stream the input follows in deltas.
                    Some(Value::Object(fields)) if fields.is_empty() => String::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                Some(Block::Call {
                    id: text("id"),
                    name: text("name"),
                    input,
                })
            }
            _ => None,
        }
    }
}

impl Answer {
    fn delta(&mut self, data: &Value, on_text: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        let delta = &data["delta"];
        let block = data["index"].as_u64().and_then(|index| {
            let of_index = self.blocks.range_mut((index, 0)..=(index, usize::MAX));
            of_index.map(|(_, block)| block).next_back()
        });
        match (text_of(delta, "type"), block) {
            ("text_delta", Some(Block::Text(text))) => {
                let more = text_of(delta, "text");
                text.push_str(more);
                on_text(more);
            }
            ("input_json_delta", Some(Block::Call { input, .. })) => {
                input.push_str(text_of(delta, "partial_json"));
            }
            ("thinking_delta", Some(Block::Thinking { thinking, .. })) => {
                thinking.push_str(text_of(delta, "thinking"));
            }
            ("signature_delta", Some(Block::Thinking { signature, .. })) => {
                signature.push_str(text_of(delta, "signature"));
            }
            ("text_delta" | "input_json_delta", _) => {
                return Err(CallError::malformed("a piece of the stream belongs to no block"));
            }
            // Kinds that were not requested, such as citations.
            _ => {}
        }
        Ok(())
    }
}

impl ReplyParser for Answer {
    fn parse_body(&mut self, body: &Value) -> Result<(), CallError> {
        self.counts.take(&body["usage"]);
        self.model = model_of(body, "model");
        let Some(content) = body["content"].as_array() else {
            return Err(CallError::malformed("the answer has no `content`"));
        };
        let blocks = content.iter().filter_map(Block::parse);
        self.blocks = (0..).map(|index| (index, 0)).zip(blocks).collect();
        self.stop = body["stop_reason"].as_str().map(str::to_owned);
        Ok(())
    }

    fn parse_event(&mut self, event: &Event, on_text: &mut dyn FnMut(&str)) -> Result<bool, CallError> {
        let data = parsed(&event.data)?;
        match text_of(&data, "type") {
            "message_start" => {
                self.counts.take(&data["message"]["usage"]);
                self.model = model_of(&data["message"], "model");
            }
            "content_block_start" => {
                let block = Block::parse(&data["content_block"]);
                if let (Some(index), Some(block)) = (data["index"].as_u64(), block) {
                    if let Block::Text(text) = &block
                        && !text.is_empty()
                    {
                        on_text(text);
                    }
                    let same = self.blocks.range((index, 0)..=(index, usize::MAX)).count();
                    self.blocks.insert((index, same), block);
                }
            }
            "content_block_delta" => self.delta(&data, on_text)?,
            "message_delta" => {
                self.counts.take(&data["usage"]);
                if let Some(stop) = data["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                }
            }
            "message_stop" => return Ok(true),
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
        let counts = &self.counts;
        counts.input.or(counts.output)?;
        let (read, write) = (counts.cache_read.unwrap_or(0), counts.cache_write.unwrap_or(0));
        Some(TokenUsage {
            // The provider counts tokens read from or written to the cache separately.
            input: counts
                .input
                .unwrap_or(0)
                .saturating_add(read)
                .saturating_add(write),
            output: counts.output.unwrap_or(0),
            cached_input: read,
            cache_write: write,
        })
    }

    fn reply(&self) -> Result<ModelReply, CallError> {
        let Some(stop) = &self.stop else {
            return Err(CallError::malformed("the answer does not say why it ends"));
        };
        let mut reply = ModelReply::text("");
        let mut layout = Layout::new(WIRE);
        for block in self.blocks.values() {
            match block {
                Block::Text(text) => {
                    reply.text.push_str(text);
                    layout.text(text, None);
                }
                Block::Thinking { thinking, signature } => {
                    layout.provider_data(
                        json!({"type": "thinking", "thinking": thinking, "signature": signature}),
                    );
                }
                Block::RedactedThinking(value) => layout.provider_data(value.clone()),
                Block::Call { id, name, input } => {
                    if name.is_empty() || id.is_empty() {
                        return Err(CallError::malformed("the answer calls a tool without a name"));
                    }
                    layout.call(reply.tool_calls.len(), None);
                    reply.tool_calls.push(ToolCall {
                        id: id.clone(),
                        name: name.clone(),
                        arguments: Arguments::parse(input),
                    });
                }
            }
        }
        reply.stop = match stop.as_str() {
            "end_turn" | "stop_sequence" => StopReason::End,
            "tool_use" => StopReason::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "refusal" => StopReason::Refused,
            other => StopReason::Other(other.to_owned()),
        };
        reply.usage = self.usage();
        reply.model.clone_from(&self.model);
        reply.opaque = layout.into_opaque();
        Ok(reply)
    }
}
