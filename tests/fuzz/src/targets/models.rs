//! What models and coding agents answer.

use std::path::Path;

use orchestra_agent::fuzzing::{model_answer, program_answer};
use orchestra_agent::{CliOutput, CliPointers, ModelError, ModelReply, ProviderKind};
use serde_json::{Value, json};

use super::{Target, chance_of, no_corpus};
use crate::Random;
use crate::generate::{json, sse, word};

/// The formats: provider, model, folder of its recorded answers.
const FORMATS: &[(ProviderKind, &str, &str)] = &[
    (ProviderKind::Anthropic, "claude-opus-4-6", "anthropic"),
    (ProviderKind::OpenAi, "gpt-4o", "openai"),
    (ProviderKind::OpenAi, "gpt-5.4", "responses"),
    (ProviderKind::Gemini, "gemini-3-pro", "gemini"),
    (ProviderKind::OpenRouter, "x/y", "openrouter"),
    (ProviderKind::OpenAiCompatible, "any", "openai"),
];

fn recordings(file: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../orchestra/agent/tests/recordings");
    let read = |(at, (_, _, name)): (usize, &(ProviderKind, &str, &str))| {
        let path = folder.join(name).join(file);
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        [&[b'0' + at as u8], &bytes[..]].concat()
    };
    FORMATS.iter().enumerate().map(read).collect()
}

/// The format that the first byte of an input names, and the rest.
fn format(input: &[u8]) -> (ProviderKind, &'static str, &[u8]) {
    let (kind, model, _) = FORMATS[format_of(input)];
    (kind, model, input.get(1..).unwrap_or_default())
}

fn name(input: &[u8]) -> &'static str {
    FORMATS[format_of(input)].2
}

fn format_of(input: &[u8]) -> usize {
    usize::from(input.first().copied().unwrap_or(b'0').wrapping_sub(b'0')) % FORMATS.len()
}

type Read = (Result<ModelReply, ModelError>, String);

fn read(input: &[u8], content_type: &str, pieces: &[&[u8]]) -> Read {
    let (kind, model, _) = format(input);
    let mut streamed = String::new();
    let reply = model_answer(kind, model, content_type, pieces, &mut |text| {
        streamed.push_str(text)
    });
    (reply, streamed)
}

/// An answer that is read can be kept, and what a tool is called by is there.
fn check_answer((reply, _): &Read) {
    match reply {
        Ok(reply) => {
            let complete = |call: &orchestra_agent::ToolCall| !call.name.is_empty() && !call.id.is_empty();
            assert!(reply.tool_calls.iter().all(complete), "{reply:?}");
            let kept = serde_json::to_value(reply).expect("it is data");
            let again: ModelReply = serde_json::from_value(kept).expect("it is what was kept");
            assert_eq!(&again, reply);
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && said.len() < 4_000, "{said}");
        }
    }
}

/// Streams of events: however the bytes are cut into pieces, the answer and the text that is shown meanwhile are the same.
pub(super) const MODEL_STREAM: Target = Target {
    name: "model_stream",
    run: model_stream,
    generate: a_stream,
    corpus: || recordings("reply.sse"),
    words: sse::WORDS,
    suite: 1_500,
    share: 1,
};

fn model_stream(input: &[u8]) {
    let (_, _, body) = format(input);
    let whole = read(input, "text/event-stream", &[body]);
    check_answer(&whole);
    let mut random = chance_of(input);
    for most in [1, 2, 40] {
        let mut pieces = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((1 + random.below(most)).min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        let cut = read(input, "text/event-stream", &pieces);
        match (&whole.0, &cut.0) {
            (Ok(whole), Ok(cut)) => assert_eq!(whole, cut, "in pieces of at most {most} bytes"),
            (Err(whole), Err(cut)) => assert_eq!(
                whole.to_string(),
                cut.to_string(),
                "in pieces of at most {most} bytes"
            ),
            _ => panic!(
                "in pieces of at most {most} bytes: {:?}, and whole {:?}",
                cut.0, whole.0
            ),
        }
        assert_eq!(
            whole.1, cut.1,
            "the text shown, in pieces of at most {most} bytes"
        );
    }
    // In Responses an item that is done says its text once more, and that counts.
    if let Ok(reply) = &whole.0
        && name(input) != "responses"
    {
        // Blocks may come in another order than that of the answer.
        let sorted = |text: &str| {
            let mut all: Vec<char> = text.chars().collect();
            all.sort_unstable();
            all
        };
        assert_eq!(
            sorted(&reply.text),
            sorted(&whole.1),
            "the text of the answer, and what was shown of it"
        );
    }
}

/// Events of the format that its first byte names.
fn a_stream(random: &mut Random) -> Vec<u8> {
    let at = random.below(FORMATS.len());
    let mut events: Vec<(&str, Value)> = Vec::new();
    match FORMATS[at].2 {
        "anthropic" => {
            events.push((
                "message_start",
                json!({"type": "message_start", "message": {"usage": usage(random)}}),
            ));
            for index in 0..random.below(4) {
                let call = random.chance(40);
                let begin = if call {
                    json!({"type": "tool_use", "id": format!("t{index}"), "name": "read_file", "input": {}})
                } else {
                    json!({"type": "text", "text": ""})
                };
                let index = if random.chance(5) {
                    json!(random.number())
                } else {
                    json!(index)
                };
                events.push((
                    "",
                    json!({"type": "content_block_start", "index": index, "content_block": begin}),
                ));
                for _ in 0..random.below(4) {
                    let delta = if call {
                        json!({"type": "input_json_delta", "partial_json": word(random)})
                    } else {
                        json!({"type": "text_delta", "text": word(random)})
                    };
                    events.push((
                        "",
                        json!({"type": "content_block_delta", "index": index, "delta": delta}),
                    ));
                }
                events.push(("", json!({"type": "content_block_stop", "index": index})));
            }
            let stop = *random.pick(&["end_turn", "tool_use", "max_tokens", "refusal", "odd"]);
            events.push((
                "",
                json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage(random)}),
            ));
            events.push(("message_stop", json!({"type": "message_stop"})));
        }
        "responses" => {
            for index in 0..random.below(4) {
                let item = if random.chance(40) {
                    json!({"type": "function_call", "call_id": format!("c{index}"), "name": "f", "arguments": word(random)})
                } else {
                    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": word(random)}]})
                };
                events.push((
                    "",
                    json!({"type": "response.output_item.added", "output_index": index, "item": item}),
                ));
                events.push(("", json!({"type": "response.output_text.delta", "output_index": index, "delta": word(random)})));
                events.push((
                    "",
                    json!({"type": "response.output_item.done", "output_index": index, "item": item}),
                ));
            }
            let status = *random.pick(&["completed", "incomplete", "failed"]);
            events.push(("", json!({"type": format!("response.{status}"), "response": {"status": status, "output": [], "usage": usage(random)}})));
        }
        "gemini" => {
            for _ in 0..random.below(5) {
                let part = if random.chance(30) {
                    json!({"functionCall": {"name": "f", "args": json::value(random, 2)}})
                } else {
                    json!({"text": word(random), "thought": random.chance(20)})
                };
                events.push((
                    "",
                    json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]}),
                ));
            }
            let finish = *random.pick(&["STOP", "MAX_TOKENS", "SAFETY", "ODD"]);
            events.push(("", json!({"candidates": [{"finishReason": finish, "index": 0}], "usageMetadata": {"promptTokenCount": random.number()}})));
        }
        _ => {
            for index in 0..random.below(5) {
                let delta = if random.chance(40) {
                    json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "type": "function",
                        "function": {"name": "f", "arguments": word(random)}}]})
                } else {
                    json!({"content": word(random)})
                };
                events.push((
                    "",
                    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
                ));
            }
            let finish = *random.pick(&["stop", "tool_calls", "length", "content_filter", "odd"]);
            events.push((
                "",
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
            ));
            events.push(("", json!({"choices": [], "usage": usage(random)})));
            events.push(("", json!("[DONE]")));
        }
    }
    for (_, event) in &mut events {
        if random.chance(5) {
            json::vary(event, random);
        }
    }
    if random.chance(10) {
        let keep = random.below(events.len());
        events.truncate(keep);
    }
    [vec![b'0' + at as u8], sse::stream(&events, random)].concat()
}

fn usage(random: &mut Random) -> Value {
    let count = |random: &mut Random| match random.below(12) {
        0 => json!(random.number()),
        1 => json!(u64::MAX),
        2 => json::value(random, 3),
        _ => json!(random.below(5_000)),
    };
    let names = [
        "input_tokens",
        "output_tokens",
        "prompt_tokens",
        "completion_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "total_tokens",
    ];
    let some: Vec<&str> = names.into_iter().filter(|_| random.chance(60)).collect();
    some.into_iter()
        .map(|name| (name.to_owned(), count(random)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Answers that come as a whole.
pub(super) const MODEL_BODY: Target = Target {
    name: "model_body",
    run: |input| check_answer(&read(input, "application/json", &[format(input).2])),
    generate: |random| {
        let all = recordings("reply.json");
        let file = random.pick(&all);
        let mut body: Value = serde_json::from_slice(&file[1..]).expect("a recording");
        for _ in 0..random.below(5) {
            json::vary(&mut body, random);
        }
        [&file[..1], body.to_string().as_bytes()].concat()
    },
    corpus: || recordings("reply.json"),
    words: json::WORDS,
    suite: 3_000,
    share: 1,
};

/// The output of a coding agent: text, or JSON in which pointers find the answer and what it used.
pub(super) const PROGRAM_OUTPUT: Target = Target {
    name: "program_output",
    run: program_output,
    generate: |random| {
        let mut value = json!({"result": word(random), "is_error": random.chance(20), "usage": {"input_tokens": random.number(),
            "output_tokens": 3}, "total_cost_usd": random.pick(&[0.0, -1.0, 1e300, 0.25])});
        for _ in 0..random.below(3) {
            json::vary(&mut value, random);
        }
        format!(
            "{}{value}{}",
            random.pick(&["", "noise\n", "{\"a\":1}\n"]),
            random.pick(&["", "\n", "\n{cut", "\nbye\n"])
        )
        .into_bytes()
    },
    corpus: no_corpus,
    words: json::WORDS,
    suite: 5_000,
    share: 1,
};

fn program_output(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (answer, used) = program_answer(&CliOutput::Text, &text, "");
    assert_eq!(answer.ok().as_deref(), Some(text.trim_end()));
    assert_eq!(used, None);
    let pointers = CliPointers {
        is_error: Some("/is_error".into()),
        input_tokens: Some("/usage/input_tokens".into()),
        output_tokens: Some("/usage/output_tokens".into()),
        cost: Some("/total_cost_usd".into()),
        ..CliPointers::default()
    };
    let (answer, _) = program_answer(&CliOutput::Json(pointers), &text, "it failed\u{1b}[2J");
    if let Err(error) = answer {
        let said = error.to_string();
        assert!(said.len() < 2_000, "the message has {} bytes", said.len());
    }
}
