//! The words of the language: identifiers, keys and keywords. Also, texts shortened for messages.

/// Returns whether a byte is a letter, a digit, the underscore or part of a non-ASCII character. An invalid id with
/// such characters is thus one token.
pub(crate) fn is_word_start(byte: u8) -> bool {
    WORD_BYTES[byte as usize]
}

const WORD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte == b'_' as usize || byte >= 0x80;
        byte += 1;
    }
    table
};

/// Returns whether a text is an identifier of the language (Attractor 2.2).
pub fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.as_bytes()[0].is_ascii_digit()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns whether a word needs quotes as the id of a node, because it is a keyword: as the first id of a statement, or
/// behind an arrow.
pub(crate) fn is_keyword(word: &str, is_first: bool) -> bool {
    let keywords = ["subgraph", "graph", "node", "edge"];
    let keywords = keywords.get(..if is_first { 4 } else { 1 }).unwrap_or_default();
    keywords.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// Returns whether a text is an attribute key: identifiers joined by dots.
pub(crate) fn is_key(text: &str) -> bool {
    text.split('.').all(is_identifier)
}

/// Returns a text shortened to fit into one line of a message.
pub(crate) fn shorten(text: &str) -> String {
    const MAX: usize = 60;
    let mut shown: String = text
        .chars()
        .take(MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX).is_some() {
        shown.push_str("..");
    }
    shown
}
