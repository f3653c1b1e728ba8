use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::answer::{Answer, Usage};

/// The format in which a provider is asked.
///
/// ```
/// use orchestra_model_server_tests::Wire;
/// assert_eq!(Wire::of_path("/v1/chat/completions"), Some(Wire::OpenAi));
/// assert_eq!(Wire::of_path("/index.html"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, which OpenRouter, Ollama and many others speak too.
    OpenAi,
    /// OpenAI's Responses, in which its newer models are asked; it has the base of Chat Completions.
    OpenAiResponses,
    /// Gemini's generateContent.
    Gemini,
}

impl Wire {
    /// The format that is spoken at a path.
    pub fn of_path(path: &str) -> Option<Wire> {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/messages") {
            Some(Wire::Anthropic)
        } else if path.ends_with("/chat/completions") {
            Some(Wire::OpenAi)
        } else if path.ends_with("/responses") {
            Some(Wire::OpenAiResponses)
        } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            Some(Wire::Gemini)
        } else {
            None
        }
    }

    /// The base that a provider of this format is given for a server at an address.
    pub(crate) fn base(self, address: SocketAddr) -> String {
        match self {
            Wire::Anthropic => format!("http://{address}"),
            Wire::OpenAi | Wire::OpenAiResponses => format!("http://{address}/v1"),
            Wire::Gemini => format!("http://{address}/v1beta"),
        }
    }

    /// An error as the format writes it. The code is the provider's word for the kind of error.
    pub(crate) fn error(self, status: u16, code: &str, message: &str) -> Value {
        match self {
            Wire::Anthropic => json!({"type": "error", "error": {"type": code, "message": message}}),
            Wire::OpenAi | Wire::OpenAiResponses => {
                json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
            }
            Wire::Gemini => json!({"error": {"code": status, "message": message, "status": code}}),
        }
    }

    /// An error as an event of a stream.
    pub(crate) fn error_event(self, code: &str, message: &str) -> (Option<&'static str>, String) {
        match self {
            Wire::Anthropic => (Some("error"), self.error(400, code, message).to_string()),
            Wire::OpenAiResponses => {
                let error = json!({"type": "error", "code": code, "message": message, "param": null});
                (Some("error"), error.to_string())
            }
            _ => (None, self.error(400, code, message).to_string()),
        }
    }

    /// A whole answer.
    pub(crate) fn whole(self, answer: &Answer) -> Value {
        match self {
            Wire::Anthropic => anthropic(answer),
            Wire::OpenAi => open_ai(answer),
            Wire::OpenAiResponses => responses(answer),
            Wire::Gemini => gemini(answer),
        }
    }

    /// A streamed answer: the events, each with its name where the format has names.
    pub(crate) fn events(self, answer: &Answer) -> Vec<(Option<&'static str>, String)> {
        match self {
            Wire::Anthropic => anthropic_events(answer),
            Wire::OpenAi => open_ai_events(answer),
            Wire::OpenAiResponses => responses_events(answer),
            Wire::Gemini => gemini_events(answer),
        }
    }
}

/// A text in two pieces, so that what is streamed has to be put together.
fn pieces(text: &str) -> Vec<&str> {
    let middle = text
        .char_indices()
        .nth(text.chars().count() / 2)
        .map_or(0, |(at, _)| at);
    let (first, second) = text.split_at(middle);
    [first, second]
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .collect()
}

fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn stop<'a>(answer: &'a Answer, calls: &'a str, end: &'a str) -> &'a str {
    match &answer.stop {
        Some(stop) => stop,
        None if answer.calls.is_empty() => end,
        None => calls,
    }
}

fn anthropic_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input - usage.cached - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

fn anthropic(answer: &Answer) -> Value {
    let mut content = Vec::new();
    if let Some(signature) = &answer.signature {
        content.push(json!({"type": "thinking", "thinking": "Let me see.", "signature": signature}));
    }
    if !answer.text.is_empty() {
        content.push(json!({"type": "text", "text": answer.text}));
    }
    for call in &answer.calls {
        content.push(json!({
            "type": "tool_use", "id": call.id, "name": call.name, "input": arguments(&call.arguments),
        }));
    }
    let mut reply = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "model", "content": content,
        "stop_reason": stop(answer, "tool_use", "end_turn"), "stop_sequence": null,
    });
    if let Some(usage) = answer.usage {
        reply["usage"] = anthropic_usage(usage);
    }
    reply
}

fn anthropic_events(answer: &Answer) -> Vec<(Option<&'static str>, String)> {
    let mut events = Vec::new();
    let mut add = |name: &'static str, mut data: Value| {
        data["type"] = name.into();
        events.push((Some(name), data.to_string()));
    };
    let mut start = json!({"message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "model", "content": [],
        "stop_reason": null, "stop_sequence": null,
    }});
    if let Some(usage) = answer.usage {
        start["message"]["usage"] = anthropic_usage(Usage { output: 1, ..usage });
    }
    add("message_start", start);
    add("ping", json!({}));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        add(
            "content_block_start",
            json!({"index": index, "content_block": start}),
        );
        for delta in deltas {
            add("content_block_delta", json!({"index": index, "delta": delta}));
        }
        add("content_block_stop", json!({"index": index}));
        index += 1;
    };
    if let Some(signature) = &answer.signature {
        let thinking = json!({"type": "thinking_delta", "thinking": "Let me see."});
        let signed = json!({"type": "signature_delta", "signature": signature});
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![thinking, signed],
        );
    }
    if !answer.text.is_empty() {
        let deltas = pieces(&answer.text)
            .into_iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}));
        block(json!({"type": "text", "text": ""}), deltas.collect());
    }
    for call in &answer.calls {
        let deltas = pieces(&call.arguments)
            .into_iter()
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        block(start, deltas.collect());
    }
    let stop = stop(answer, "tool_use", "end_turn");
    let mut delta = json!({"delta": {"stop_reason": stop, "stop_sequence": null}});
    if let Some(usage) = answer.usage {
        delta["usage"] = json!({"output_tokens": usage.output});
    }
    add("message_delta", delta);
    add("message_stop", json!({}));
    events
}

fn open_ai_usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn open_ai(answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text, "refusal": null});
    if answer.text.is_empty() {
        message["content"] = Value::Null;
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({
                "id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        message["tool_calls"] = calls.collect();
    }
    if let Some(signature) = &answer.signature {
        message["reasoning_details"] =
            json!([{"type": "reasoning.encrypted", "data": signature, "index": 0}]);
    }
    let mut reply = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "model",
        "choices": [{
            "index": 0, "message": message, "finish_reason": stop(answer, "tool_calls", "stop"),
        }],
    });
    if let Some(usage) = answer.usage {
        reply["usage"] = open_ai_usage(usage);
    }
    reply
}

fn open_ai_events(answer: &Answer) -> Vec<(Option<&'static str>, String)> {
    let mut events = Vec::new();
    let mut add = |choices: Value, usage: Option<Usage>| {
        let mut chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "model", "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = open_ai_usage(usage);
        }
        events.push((None, chunk.to_string()));
    };
    let choice = |delta: Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    add(choice(json!({"role": "assistant", "content": ""})), None);
    if let Some(signature) = &answer.signature {
        for piece in pieces(signature) {
            let details = json!([{"type": "reasoning.encrypted", "data": piece, "index": 0}]);
            add(choice(json!({"reasoning_details": details})), None);
        }
    }
    for piece in pieces(&answer.text) {
        add(choice(json!({"content": piece})), None);
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let start = json!({
            "index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""},
        });
        add(choice(json!({"tool_calls": [start]})), None);
        for piece in pieces(&call.arguments) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            add(choice(json!({"tool_calls": [more]})), None);
        }
    }
    let stop = stop(answer, "tool_calls", "stop");
    add(json!([{"index": 0, "delta": {}, "finish_reason": stop}]), None);
    if answer.usage.is_some() {
        add(json!([]), answer.usage);
    }
    events.push((None, "[DONE]".to_owned()));
    events
}

fn responses(answer: &Answer) -> Value {
    let mut output = Vec::new();
    if let Some(signature) = &answer.signature {
        output
            .push(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": signature}));
    }
    if !answer.text.is_empty() {
        let content = json!([{"type": "output_text", "text": answer.text, "annotations": []}]);
        output.push(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content,
        }));
    }
    for call in &answer.calls {
        output.push(json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": "completed",
        }));
    }
    let mut reply = json!({
        "id": "resp_1", "object": "response", "created_at": 1, "model": "model", "error": null,
        "status": "completed", "incomplete_details": null, "output": output,
    });
    // A reason to stop is one for an answer that is not complete.
    if let Some(reason) = &answer.stop {
        reply["status"] = "incomplete".into();
        reply["incomplete_details"] = json!({"reason": reason});
    }
    if let Some(usage) = answer.usage {
        reply["usage"] = json!({
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        });
    }
    reply
}

fn responses_events(answer: &Answer) -> Vec<(Option<&'static str>, String)> {
    let whole = responses(answer);
    let mut events = Vec::new();
    let mut add = |name: &'static str, mut data: Value| {
        data["type"] = name.into();
        data["sequence_number"] = events.len().into();
        events.push((Some(name), data.to_string()));
    };
    let mut begun = whole.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    add("response.created", json!({"response": begun}));
    for (index, item) in whole["output"].as_array().into_iter().flatten().enumerate() {
        let with_index =
            |field: &str, value: Value| json!({"output_index": index, "item_id": item["id"], field: value});
        add(
            "response.output_item.added",
            with_index("item", json!({"type": item["type"], "id": item["id"]})),
        );
        let (name, text) = match item["type"].as_str() {
            Some("message") => ("response.output_text.delta", answer.text.as_str()),
            Some("function_call") => (
                "response.function_call_arguments.delta",
                item["arguments"].as_str().unwrap_or_default(),
            ),
            _ => ("", ""),
        };
        for piece in pieces(text) {
            add(name, with_index("delta", piece.into()));
        }
        add("response.output_item.done", with_index("item", item.clone()));
    }
    let end = if answer.stop.is_some() {
        "response.incomplete"
    } else {
        "response.completed"
    };
    add(end, json!({"response": whole}));
    events
}

fn gemini_usage(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        // Reasoning is counted apart from what is answered; both came out.
        "thoughtsTokenCount": usage.output / 2,
        "candidatesTokenCount": usage.output - usage.output / 2,
        "totalTokenCount": usage.input + usage.output,
    })
}

fn gemini_chunk(parts: &[Value], stop: Option<&str>, usage: Option<Usage>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(stop) = stop {
        candidate["finishReason"] = stop.into();
    }
    let mut reply = json!({"candidates": [candidate], "modelVersion": "model", "responseId": "r1"});
    if let Some(usage) = usage {
        reply["usageMetadata"] = gemini_usage(usage);
    }
    reply
}

fn gemini_calls(answer: &Answer) -> Vec<Value> {
    let mut calls: Vec<Value> = answer
        .calls
        .iter()
        .map(|call| json!({"functionCall": {"name": call.name, "args": arguments(&call.arguments)}}))
        .collect();
    if let (Some(signature), Some(first)) = (&answer.signature, calls.first_mut()) {
        first["thoughtSignature"] = signature.as_str().into();
    }
    calls
}

fn gemini(answer: &Answer) -> Value {
    let mut parts = Vec::new();
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text}));
    }
    parts.extend(gemini_calls(answer));
    gemini_chunk(&parts, Some(stop(answer, "STOP", "STOP")), answer.usage)
}

fn gemini_events(answer: &Answer) -> Vec<(Option<&'static str>, String)> {
    // Each chunk says what was used up to there.
    let early = answer.usage.map(|usage| Usage { output: 1, ..usage });
    let mut chunks: Vec<Value> = pieces(&answer.text)
        .into_iter()
        .map(|piece| gemini_chunk(&[json!({"text": piece})], None, early))
        .collect();
    for call in gemini_calls(answer) {
        chunks.push(gemini_chunk(&[call], None, early));
    }
    let stop = stop(answer, "STOP", "STOP");
    chunks.push(gemini_chunk(&[json!({"text": ""})], Some(stop), answer.usage));
    chunks
        .into_iter()
        .map(|chunk| (None, chunk.to_string()))
        .collect()
}
