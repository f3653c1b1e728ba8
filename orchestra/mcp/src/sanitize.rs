//! Removes characters from the texts of servers that people do not see and that models read.

/// Removes control characters, except line feeds and tabs, and characters without a shape: zero-width characters, marks
/// that change the direction of text, variation selectors and tags.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|c| is_visible(*c)).collect()
}

fn is_visible(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        c if c.is_control() => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}

/// Removes such characters from all texts of a JSON value.
pub(crate) fn visible_json(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(visible(text)),
        Value::Array(items) => items.iter().map(visible_json).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (visible(key), visible_json(value)))
            .collect(),
        other => other.clone(),
    }
}

/// Returns the first characters of a text on one line, for a message.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let line: String = visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}..", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed_and_others_kept() {
        let hidden = "a\u{200b}b\u{202e}c\u{e0041}d\u{1b}[31me\u{0}\rf\n\tg\u{feff}é漢🎼";
        assert_eq!(visible(hidden), "abcd[31mef\n\tgé漢🎼");
        let schema = serde_json::json!({"de\u{200b}s": ["x\u{2066}"]});
        assert_eq!(visible_json(&schema), serde_json::json!({"des": ["x"]}));
        assert_eq!(shortened("a\n b\u{7}  c", 3), "a b..");
    }
}
