//! Bodies of model servers: events of a stream, or one JSON document.

use serde_json::Value;

use crate::Random;

/// Words and signs of event streams.
pub const WORDS: &[&str] = &[
    "data: ",
    "data:",
    "event: ",
    "id: 7",
    "retry: 1",
    ": comment",
    "\n",
    "\n\n",
    "\r\n\r\n",
    "\r",
    "[DONE]",
    "data: [DONE]\n\n",
    "{}",
    "\"delta\"",
    "null",
    "\"usage\"",
    "18446744073709551615",
    "-1",
    "\"index\":99999999",
    "\\u0000",
];

/// Events as text, with the ways of ending lines mixed.
pub fn stream(events: &[(&str, Value)], random: &mut Random) -> Vec<u8> {
    let end = *random.pick(&["\n", "\n", "\r\n", "\r"]);
    let mut text = String::new();
    for (name, data) in events {
        if random.chance(4) {
            text.push_str(": ping");
            text.push_str(end);
            text.push_str(end);
        }
        if !name.is_empty() {
            text.push_str(&format!("event: {name}{end}"));
        }
        let data = match data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.push_str(&format!("data:{}{data}{end}{end}", random.pick(&["", " "])));
    }
    text.into_bytes()
}
