//! Invalid answers of providers must neither cause a panic nor count as answers.

use orchestra_config::ProviderKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::events::Event;
use super::http::ReplyParser;
use super::{anthropic, gemini, openai, responses};

const FORMATS: [&str; 4] = ["anthropic", "openai", "responses", "gemini"];

fn parser(format: &str) -> Box<dyn ReplyParser> {
    match format {
        "anthropic" => Box::<anthropic::Answer>::default(),
        "openai" => Box::new(openai::Answer::new(ProviderKind::OpenAiCompatible)),
        "responses" => Box::<responses::Answer>::default(),
        _ => Box::<gemini::Answer>::default(),
    }
}

/// Returns a recorded answer: the whole body, and the data of its stream events.
fn recorded(format: &str) -> (Value, Vec<String>) {
    let folder = format!("{}/tests/recordings/{format}", env!("CARGO_MANIFEST_DIR"));
    let whole = std::fs::read_to_string(format!("{folder}/reply.json")).unwrap();
    let stream = std::fs::read_to_string(format!("{folder}/reply.sse")).unwrap();
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    (
        serde_json::from_str(&whole).unwrap(),
        data.map(str::to_owned).collect(),
    )
}

/// Replaces one value inside another value, or sets it to null.
fn spoil(value: &mut Value, at: &mut usize, with: Option<&Value>) {
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    for inner in inner {
        if *at == 0 {
            *inner = with.cloned().unwrap_or_default();
            *at = usize::MAX;
            return;
        }
        *at -= 1;
        spoil(inner, at, with);
        if *at == usize::MAX {
            return;
        }
    }
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        Just(json!([[], {}, null])),
        Just(json!({"type": "text", "text": 7, "error": "odd"})),
        Just(json!(u64::MAX)),
        Just(json!(-1)),
        Just(json!(0.5)),
        Just(json!(true)),
        "\\PC{0,8}".prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Any answer is parsed or rejected, and a parsed one survives serialization.
    #[test]
    fn an_odd_answer_is_read_or_refused(format in 0..FORMATS.len(), at in 0_usize..80, with in prop::option::of(anything())) {
        let (mut body, _) = recorded(FORMATS[format]);
        spoil(&mut body, &mut { at }, with.as_ref());
        let mut parser = parser(FORMATS[format]);
        if parser.parse_body(&body).is_ok() && let Ok(reply) = parser.reply() {
            prop_assert!(reply.tool_calls.iter().all(|call| !call.name.is_empty() && !call.id.is_empty()));
            let again = serde_json::to_value(&reply).unwrap();
            prop_assert_eq!(serde_json::from_value::<crate::ModelReply>(again).unwrap(), reply);
        }
    }

    /// The same for a stream with missing, duplicate, truncated or modified events.
    #[test]
    fn an_odd_stream_is_read_or_refused(
        format in 0..FORMATS.len(),
        changes in prop::collection::vec((0_usize..40, 0_u8..4, 0_usize..30, anything()), 1..4),
    ) {
        let (_, mut events) = recorded(FORMATS[format]);
        for (position, change, at, with) in changes {
            let position = position % events.len();
            match change {
                0 => drop(events.remove(position)),
                1 => events.insert(position, events[position].clone()),
                2 => {
                    let cut = events[position].floor_char_boundary(at);
                    events[position].truncate(cut);
                }
                _ => if let Ok(mut data) = serde_json::from_str::<Value>(&events[position]) {
                    spoil(&mut data, &mut { at }, Some(&with));
                    events[position] = data.to_string();
                },
            }
            if events.is_empty() { return Ok(()); }
        }
        let mut parser = parser(FORMATS[format]);
        let mut streamed = String::new();
        let mut complete = false;
        for data in events {
            let event = Event { name: String::new(), data };
            match parser.parse_event(&event, &mut |text| streamed.push_str(text)) {
                Ok(done) => complete = done,
                Err(_) => return Ok(()),
            }
            if complete { break; }
        }
        if (complete || parser.may_end()) && let Ok(reply) = parser.reply() {
            prop_assert!(reply.tool_calls.iter().all(|call| !call.name.is_empty() && !call.id.is_empty()));
        }
    }

    /// No prefix of a stream counts as a complete answer.
    #[test]
    fn no_beginning_of_a_stream_is_an_answer(format in 0..FORMATS.len(), share in 0.0..1.0_f64) {
        let (_, events) = recorded(FORMATS[format]);
        // OpenAI's stream marks its end twice, and Gemini's last event is its only end.
        let end = if FORMATS[format] == "openai" { events.len() - 3 } else { events.len() - 1 };
        let mut parser = parser(FORMATS[format]);
        for data in events.into_iter().take((share * (end + 1) as f64) as usize) {
            let event = Event { name: String::new(), data };
            let complete = parser.parse_event(&event, &mut |_| {}).unwrap();
            prop_assert!(!complete);
        }
        prop_assert!(!parser.may_end() || parser.reply().is_err());
    }
}
