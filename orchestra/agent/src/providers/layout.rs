//! The order of the parts of an answer: some providers need their signed reasoning back at its original position.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::ToolCall;

/// The order of an answer's parts, stored in the `opaque` field of its message. Text and calls are stored in the
/// message; the layout contains only their positions.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Layout {
    /// The wire format of the parts; they are useless for another one.
    wire: String,
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Text {
        bytes: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    Call {
        index: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    #[serde(rename = "kept")]
    ProviderData(Value),
}

/// A part of an answer as it is sent back to its provider.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'m> {
    /// A piece of the text, with its signature.
    Text(&'m str, Option<&'m str>),
    /// A tool call, with its signature.
    Call(&'m ToolCall, Option<&'m str>),
    /// Data of the provider.
    ProviderData(&'m Value),
}

impl Layout {
    pub(super) fn new(wire: &str) -> Layout {
        Layout {
            wire: wire.to_owned(),
            parts: Vec::new(),
        }
    }

    /// Parses the layout in an opaque value. Returns `None` if it is missing or of another wire format.
    pub(super) fn parse(opaque: Option<&Value>, wire: &str) -> Option<Layout> {
        let layout = Layout::deserialize(opaque?).ok()?;
        (layout.wire == wire).then_some(layout)
    }

    pub(super) fn text(&mut self, text: &str, signature: Option<String>) {
        self.parts.push(Part::Text {
            bytes: text.len(),
            signature,
        });
    }

    pub(super) fn call(&mut self, index: usize, signature: Option<String>) {
        self.parts.push(Part::Call { index, signature });
    }

    pub(super) fn provider_data(&mut self, value: Value) {
        self.parts.push(Part::ProviderData(value));
    }

    /// Returns the value to store with the message, or `None` if it contains nothing beyond the message itself.
    pub(super) fn into_opaque(self) -> Option<Value> {
        let has_content = |part: &Part| match part {
            Part::Text { signature, .. } | Part::Call { signature, .. } => signature.is_some(),
            Part::ProviderData(_) => true,
        };
        if self.parts.iter().any(has_content) {
            serde_json::to_value(self).ok()
        } else {
            None
        }
    }

    /// Returns the parts of a message in their order. If the message was changed since, its text is one piece, after
    /// the data of the provider and before the calls.
    pub(super) fn pieces<'m>(&'m self, text: &'m str, calls: &'m [ToolCall]) -> Vec<Piece<'m>> {
        self.exact(text, calls)
            .unwrap_or_else(|| self.fallback(text, calls))
    }

    fn exact<'m>(&'m self, text: &'m str, calls: &'m [ToolCall]) -> Option<Vec<Piece<'m>>> {
        let (mut rest, mut next) = (text, 0);
        let mut pieces = Vec::new();
        for part in &self.parts {
            pieces.push(match part {
                Part::Text { bytes, signature } => {
                    let (piece, more) = rest.split_at_checked(*bytes)?;
                    rest = more;
                    Piece::Text(piece, signature.as_deref())
                }
                Part::Call { index, signature } if *index == next => {
                    next += 1;
                    Piece::Call(calls.get(*index)?, signature.as_deref())
                }
                Part::Call { .. } => return None,
                Part::ProviderData(value) => Piece::ProviderData(value),
            });
        }
        (rest.is_empty() && next == calls.len()).then_some(pieces)
    }

    fn fallback<'m>(&'m self, text: &'m str, calls: &'m [ToolCall]) -> Vec<Piece<'m>> {
        let provider_data = self.parts.iter().filter_map(|part| match part {
            Part::ProviderData(value) => Some(Piece::ProviderData(value)),
            _ => None,
        });
        let signature = |wanted: usize| {
            self.parts.iter().find_map(|part| match part {
                Part::Call { index, signature } if *index == wanted => signature.as_deref(),
                _ => None,
            })
        };
        let text = (!text.is_empty()).then_some(Piece::Text(text, None));
        let calls = calls.iter().enumerate();
        let calls = calls.map(|(index, call)| Piece::Call(call, signature(index)));
        provider_data.chain(text).chain(calls).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Arguments;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: "look".into(),
            arguments: Arguments::parse("{}"),
        }
    }

    #[test]
    fn parts_go_back_in_their_order_and_only_to_their_provider() {
        let mut layout = Layout::new("x");
        layout.provider_data(json!({"thinking": 1}));
        layout.text("ab", None);
        layout.call(0, Some("s".into()));
        layout.text("ä", None);
        let opaque = layout.into_opaque();
        assert_eq!(Layout::parse(opaque.as_ref(), "y"), None);
        let layout = Layout::parse(opaque.as_ref(), "x").unwrap();
        let calls = [call("1")];
        let data = json!({"thinking": 1});
        let expected = [
            Piece::ProviderData(&data),
            Piece::Text("ab", None),
            Piece::Call(&calls[0], Some("s")),
            Piece::Text("ä", None),
        ];
        assert_eq!(layout.pieces("abä", &calls), expected);
        // Redacted text may have another length, and calls may have been left out.
        let changed = [
            Piece::ProviderData(&data),
            Piece::Text("[secret]", None),
            Piece::Call(&calls[0], Some("s")),
        ];
        assert_eq!(layout.pieces("[secret]", &calls), changed);
        assert_eq!(
            layout.pieces("abä", &[])[..],
            [Piece::ProviderData(&data), Piece::Text("abä", None)]
        );
    }

    #[test]
    fn an_order_that_says_nothing_is_not_kept() {
        let mut layout = Layout::new("x");
        layout.text("ab", None);
        layout.call(0, None);
        assert_eq!(layout.into_opaque(), None);
    }
}
