//! A decoder of escapes: those of URLs, of JSON and source code, of HTML and of quoted-printable.

/// Maximum number of nested encodings, such as JSON within JSON.
const NESTED: usize = 8;
/// A byte that does not occur in UTF-8 and therefore in no secret.
const NO_TEXT: u8 = 0xFF;

/// The result of decoding the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// More bytes are needed.
    Wait,
    /// The first `length` bytes encode the first `count` of `bytes`.
    Bytes {
        bytes: [u8; 4],
        count: usize,
        length: usize,
    },
}

impl Decoded {
    fn one(byte: u8, length: usize) -> Decoded {
        Decoded::Bytes {
            bytes: [byte, 0, 0, 0],
            count: 1,
            length,
        }
    }

    fn nothing(length: usize) -> Decoded {
        Decoded::Bytes {
            bytes: [0; 4],
            count: 0,
            length,
        }
    }

    fn character(code: u32, length: usize) -> Decoded {
        let Some(character) = char::from_u32(code) else {
            return Decoded::one(NO_TEXT, length);
        };
        let mut bytes = [0; 4];
        let count = character.encode_utf8(&mut bytes).len();
        Decoded::Bytes { bytes, count, length }
    }
}

/// Returns whether an escape may begin with this byte.
#[inline]
pub(super) fn begins_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

/// Decodes the escape at the beginning of `text`, whose first byte [may begin one](begins_escape). Decodes nested
/// escapes at once. `last` is `true` if no text follows.
pub(super) fn escape(text: &[u8], last: bool) -> Decoded {
    let text = Text { bytes: text, last };
    let decoded = match text.bytes.first() {
        Some(b'%') => percent(&text),
        Some(b'\\') => backslash(&text),
        Some(b'&') => entity(&text),
        _ => Ok(None),
    };
    text.or_first(decoded)
}

/// Decodes the escape of quoted-printable at the beginning of `text`, which begins with `=`.
pub(super) fn quoted(text: &[u8], last: bool) -> Decoded {
    let text = Text { bytes: text, last };
    let quoted = || {
        if text.at(1)? == Some(b'\n') {
            return Ok(Some(Decoded::nothing(2)));
        }
        if text.at(1)? == Some(b'\r') && text.at(2)? == Some(b'\n') {
            return Ok(Some(Decoded::nothing(3)));
        }
        Ok(text.byte(1)?.map(|byte| Decoded::one(byte, 3)))
    };
    text.or_first(quoted())
}

/// The signal that more bytes are needed.
struct Wait;

/// A text whose end may not be known yet.
struct Text<'t> {
    bytes: &'t [u8],
    last: bool,
}

impl Text<'_> {
    fn or_first(&self, decoded: Result<Option<Decoded>, Wait>) -> Decoded {
        match decoded {
            Err(Wait) => Decoded::Wait,
            Ok(Some(decoded)) => decoded,
            Ok(None) => Decoded::one(self.bytes.first().copied().unwrap_or(NO_TEXT), 1),
        }
    }

    fn at(&self, position: usize) -> Result<Option<u8>, Wait> {
        match self.bytes.get(position) {
            None if !self.last => Err(Wait),
            found => Ok(found.copied()),
        }
    }

    fn is_at(&self, position: usize, word: &[u8]) -> Result<bool, Wait> {
        for (offset, byte) in word.iter().enumerate() {
            if self.at(position + offset)? != Some(*byte) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the value of a hexadecimal number with exactly this number of digits.
    fn hex(&self, position: usize, digits: usize) -> Result<Option<u32>, Wait> {
        let mut value = 0;
        for offset in 0..digits {
            let digit = self
                .at(position + offset)?
                .and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Ok(None) };
            value = value << 4 | digit;
        }
        Ok(Some(value))
    }

    fn byte(&self, position: usize) -> Result<Option<u8>, Wait> {
        Ok(self.hex(position, 2)?.and_then(|value| u8::try_from(value).ok()))
    }

    /// Returns the value of a number of at most `digits` digits, and the position after it.
    fn number(&self, from: usize, radix: u32, digits: usize) -> Result<Option<(u32, usize)>, Wait> {
        let (mut value, mut position) = (0u32, from);
        while position < from + digits {
            let digit = self
                .at(position)?
                .and_then(|byte| char::from(byte).to_digit(radix));
            let Some(digit) = digit else { break };
            value = value.saturating_mul(radix).saturating_add(digit);
            position += 1;
        }
        Ok((position > from).then_some((value, position)))
    }
}

/// Decodes `%41`, `%2541`, `%u0041`.
fn percent(text: &Text<'_>) -> Result<Option<Decoded>, Wait> {
    let mut from = 1;
    for _ in 0..NESTED {
        if !text.is_at(from, b"25")? || text.byte(from + 2)?.is_none() {
            break;
        }
        from += 2;
    }
    if text.at(from)? == Some(b'u') {
        let code = text.hex(from + 1, 4)?;
        return Ok(code.map(|code| Decoded::character(code, from + 5)));
    }
    Ok(text.byte(from)?.map(|byte| Decoded::one(byte, from + 2)))
}

/// Decodes `\u0041`, `\u{41}`, `\x41`, `\101`, `\n`, `\"`. A run of backslashes counts as one, because each further
/// encoding doubles them. The backslashes of a secret itself are dropped by the same rule.
fn backslash(text: &Text<'_>) -> Result<Option<Decoded>, Wait> {
    let mut run = 0;
    while run < 2 * NESTED && text.at(run)? == Some(b'\\') {
        run += 1;
    }
    let escaped = match text.at(run)? {
        Some(b'u' | b'x') if text.at(run + 1)? == Some(b'{') => match text.number(run + 2, 16, 8)? {
            Some((code, end)) if text.at(end)? == Some(b'}') => Some(Decoded::character(code, end + 1)),
            _ => None,
        },
        Some(b'u') => match text.hex(run + 1, 4)? {
            Some(high @ 0xD800..0xDC00) => Some(surrogates(text, high, run + 5)?),
            code => code.map(|code| Decoded::character(code, run + 5)),
        },
        Some(b'U') => text
            .hex(run + 1, 8)?
            .map(|code| Decoded::character(code, run + 9)),
        Some(b'x') => text.byte(run + 1)?.map(|byte| Decoded::one(byte, run + 3)),
        Some(b'0'..=b'3') => match text.number(run, 8, 3)? {
            Some((value, end)) if end == run + 3 => {
                u8::try_from(value).ok().map(|byte| Decoded::one(byte, end))
            }
            _ => None,
        },
        Some(b'n' | b'r' | b'\n' | b'\r') => Some(Decoded::one(b'\n', run + 1)),
        Some(b't') => Some(Decoded::one(b'\t', run + 1)),
        Some(b'b') => Some(Decoded::one(8, run + 1)),
        Some(b'f') => Some(Decoded::one(12, run + 1)),
        _ => None,
    };
    Ok(Some(escaped.unwrap_or(Decoded::nothing(run))))
}

/// Returns the character whose first surrogate ends at `end`.
fn surrogates(text: &Text<'_>, high: u32, end: usize) -> Result<Decoded, Wait> {
    let mut position = end;
    while position < end + 2 * NESTED && text.at(position)? == Some(b'\\') {
        position += 1;
    }
    if position > end
        && text.at(position)? == Some(b'u')
        && let Some(low @ 0xDC00..0xE000) = text.hex(position + 1, 4)?
    {
        let code = 0x10000 + ((high - 0xD800) << 10 | (low - 0xDC00));
        return Ok(Decoded::character(code, position + 5));
    }
    Ok(Decoded::one(NO_TEXT, end))
}

/// Decodes `&#65;`, `&#x41;`, `&quot;`, `&amp;quot;`.
fn entity(text: &Text<'_>) -> Result<Option<Decoded>, Wait> {
    const NAMES: [(&[u8], u8); 9] = [
        (b"quot;", b'"'),
        (b"apos;", b'\''),
        (b"lt;", b'<'),
        (b"gt;", b'>'),
        (b"plus;", b'+'),
        (b"equals;", b'='),
        (b"sol;", b'/'),
        (b"num;", b'#'),
        (b"nbsp;", b' '),
    ];
    let mut from = 1;
    while from < 1 + 4 * NESTED && text.is_at(from, b"amp;")? {
        from += 4;
    }
    if text.at(from)? == Some(b'#') {
        let number = match text.at(from + 1)? {
            Some(b'x' | b'X') => text.number(from + 2, 16, 8)?,
            _ => text.number(from + 1, 10, 8)?,
        };
        if let Some((code, end)) = number {
            let closed = usize::from(text.at(end)? == Some(b';'));
            return Ok(Some(Decoded::character(code, end + closed)));
        }
    }
    for (name, byte) in NAMES {
        if text.is_at(from, name)? {
            return Ok(Some(Decoded::one(byte, from + name.len())));
        }
    }
    Ok(Some(Decoded::one(b'&', from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> String {
        let (mut rest, mut written) = (text.as_bytes(), Vec::new());
        while let Some(first) = rest.first() {
            let decoded = if begins_escape(*first) {
                escape(rest, true)
            } else {
                Decoded::one(*first, 1)
            };
            let Decoded::Bytes { bytes, count, length } = decoded else {
                panic!("waits at the end of {text}");
            };
            written.extend_from_slice(&bytes[..count]);
            rest = &rest[length..];
        }
        String::from_utf8_lossy(&written).into_owned()
    }

    #[test]
    fn escapes_are_decoded_also_within_each_other() {
        for (text, expected) in [
            ("%41%6a%6A", "Ajj"),
            ("%2541%252541", "AA"),
            ("100% %4 %zz %", "100% %4 %zz %"),
            (r"\u0041\\u0041\\\\u0041\u{41}\x41\101\U00000041", "AAAAAAA"),
            (r"\ud83d\ude00\\ud83d\\ude00", "😀😀"),
            (r"\ud83dx", "\u{FFFD}x"),
            (r#"a\"b\\\"c\/d\ e"#, r#"a"b"c/d e"#),
            (r"a\nb\\nc", "a\nb\nc"),
            ("&#65;&#x41;&#65&amp;#65;&quot;&amp;lt;&amp;", "AAAA\"<&"),
            ("a & b &c; &#; &", "a & b &c; &#; &"),
        ] {
            assert_eq!(decoded(text), expected, "{text}");
        }
    }

    #[test]
    fn what_may_go_on_is_waited_for() {
        for text in [
            "%",
            "%4",
            "%25",
            "\\",
            "\\u00",
            "\\ud83d",
            "\\ud83d\\u",
            "&",
            "&#",
            "&#6",
            "&am",
        ] {
            assert_eq!(escape(text.as_bytes(), false), Decoded::Wait, "{text}");
            assert_ne!(escape(text.as_bytes(), true), Decoded::Wait, "{text}");
        }
        assert_eq!(quoted(b"=4", false), Decoded::Wait);
        assert_eq!(quoted(b"=4", true), Decoded::one(b'=', 1));
        assert_eq!(quoted(b"=\r\n", true), Decoded::nothing(3));
    }
}
