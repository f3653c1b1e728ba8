//! Rust code as text. Procedural macros run unoptimised; text that rustc lexes is far cheaper than individual tokens.

use std::fmt::Write as _;

use orchestra_graph::table::Constant;

/// A buffer for generated Rust code.
#[derive(Default)]
pub(crate) struct Code {
    pub(crate) text: String,
}

impl Code {
    pub(crate) fn push(&mut self, text: &str) -> &mut Code {
        self.text.push_str(text);
        self
    }

    /// Writes a string literal.
    pub(crate) fn string(&mut self, text: &str) -> &mut Code {
        let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
        if text.bytes().all(plain) {
            self.text.push('"');
            self.text.push_str(text);
            self.text.push('"');
        } else {
            let _ = write!(self.text, "{text:?}");
        }
        self
    }

    /// Writes a number, or any other value whose display form is valid code.
    pub(crate) fn show(&mut self, value: impl std::fmt::Display) -> &mut Code {
        let _ = write!(self.text, "{value}");
        self
    }

    /// Writes a raw byte string. The characters must be ASCII other than the quotation mark and the carriage return.
    pub(crate) fn raw_bytes(&mut self, characters: &[u8]) -> &mut Code {
        self.text.push_str("br\"");
        self.text
            .push_str(std::str::from_utf8(characters).unwrap_or_default());
        self.text.push('"');
        self
    }

    /// Writes a doc comment. The text must be a single line.
    pub(crate) fn doc(&mut self, text: &str) -> &mut Code {
        self.text.push_str("\n/// ");
        self.text.push_str(text);
        self.text.push('\n');
        self
    }

    /// Writes a list of string literals, each followed by a comma.
    pub(crate) fn strings<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) -> &mut Code {
        for text in texts {
            self.string(text).push(",");
        }
        self
    }
}

/// Returns a floating-point literal.
fn float(number: f64) -> String {
    if number.is_finite() {
        format!("{number:?}")
    } else {
        // Parsed values are finite; this keeps the code valid even if a transform produces other values.
        "0.0".to_owned()
    }
}

/// Returns a duration in milliseconds, at most `u64::MAX`.
fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the Rust type of a constant with this value.
pub(crate) fn type_of(value: Constant<&str>) -> &'static str {
    match value {
        Constant::String(_) => "&'static str",
        Constant::Integer(_) => "i64",
        Constant::Float(_) => "f64",
        Constant::Boolean(_) => "bool",
        Constant::Duration(_) => "::core::time::Duration",
    }
}

/// Writes the value of a constant.
pub(crate) fn value(code: &mut Code, value: Constant<&str>) {
    match value {
        Constant::String(text) => code.string(text),
        Constant::Integer(number) => code.show(number),
        Constant::Float(number) => code.push(&float(number)),
        Constant::Boolean(value) => code.show(value),
        Constant::Duration(duration) => code
            .push("::core::time::Duration::from_millis(")
            .show(millis(duration))
            .push(")"),
    };
}
