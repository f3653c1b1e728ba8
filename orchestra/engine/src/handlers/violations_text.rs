//! The messages for unmet requirements of pipelines. `const fn`s write the page, because a constant shows it.

use crate::handlers::kinds::FieldType;
use crate::handlers::requirements::{PipelineRequirements, SourceLocation, UnmetRequirement};
use crate::handlers::violations::{Violation, Violations};

/// The capacity of a page in bytes. Text that does not fit is left out.
const ROOM: usize = 16 << 10;
/// Maximum number of bytes of a source line that are shown before and after a position.
const BEFORE: usize = 60;
const BEHIND: usize = 100;

/// A text of limited length that can be written in a constant.
pub(crate) struct Page {
    bytes: [u8; ROOM],
    length: usize,
}

impl Page {
    const fn new() -> Page {
        Page {
            bytes: [0; ROOM],
            length: 0,
        }
    }

    /// Adds a text. Adds nothing if the text does not fit.
    const fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    const fn push_bytes(&mut self, text: &[u8]) {
        if self.length + text.len() > ROOM {
            return;
        }
        let mut at = 0;
        while at < text.len() {
            self.bytes[self.length] = text[at];
            self.length += 1;
            at += 1;
        }
    }

    const fn push_all(&mut self, texts: &[&str]) {
        let mut at = 0;
        while at < texts.len() {
            self.push(texts[at]);
            at += 1;
        }
    }

    const fn number(&mut self, number: u32) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.push_bytes(&[b'0' + (number % 10) as u8]);
    }

    const fn repeat(&mut self, text: &str, times: u32) {
        let mut at = 0;
        while at < times {
            self.push(text);
            at += 1;
        }
    }

    /// Returns the text.
    pub(crate) const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

/// Writes all violations, each with its position, source line and help.
pub(crate) const fn page(requirements: &PipelineRequirements<'_>, found: &Violations<'_>) -> Page {
    let mut page = Page::new();
    page.push_all(&["the handlers do not fit `", requirements.file, "`\n"]);
    let mut at = 0;
    while at < found.list.len() {
        if let Some((requirements, violation)) = &found.list[at] {
            page.push_all(&["\nerror[", code(violation), "]: "]);
            message(&mut page, violation);
            snippet(&mut page, requirements, location(violation));
            page.push("  = help: ");
            help(&mut page, violation);
            page.push("\n");
        }
        at += 1;
    }
    if found.count > found.list.len() {
        page.push("\n... and ");
        page.number((found.count - found.list.len()) as u32);
        page.push(" more\n");
    }
    page
}

/// Converts a violation into a value with the same message.
pub(crate) fn error(violation: &Violation<'_>) -> UnmetRequirement {
    let words = |write: fn(&mut Page, &Violation<'_>)| {
        let mut page = Page::new();
        write(&mut page, violation);
        page.as_str().to_owned()
    };
    let location = location(violation);
    let (Violation::Kind { node }
    | Violation::Attribute { node, .. }
    | Violation::Type { node, .. }
    | Violation::Word { node, .. }) = violation;
    UnmetRequirement {
        code: code(violation),
        node: node.id.to_owned(),
        line: location.line,
        column: location.column,
        message: words(message),
        help: words(help),
    }
}

const fn code(violation: &Violation<'_>) -> &'static str {
    match violation {
        Violation::Kind { .. } => "missing_handler",
        Violation::Attribute { .. } => "missing_attribute",
        Violation::Type { .. } => "attribute_value",
        Violation::Word { .. } => "outcome_never_returned",
    }
}

const fn location(violation: &Violation<'_>) -> SourceLocation {
    match violation {
        Violation::Kind { node } => node.kind_location,
        Violation::Attribute { node, .. } => node.location,
        Violation::Type { attribute, .. } => attribute.location,
        Violation::Word { need, .. } => need.location,
    }
}

const fn message(page: &mut Page, violation: &Violation<'_>) {
    match violation {
        Violation::Kind { node } => {
            page.push_all(&[
                "no handler for kind `",
                node.kind,
                "`, which node `",
                node.id,
                "` needs",
            ]);
        }
        Violation::Attribute { node, field } => {
            page.push_all(&["node `", node.id, "` lacks the attribute `", field.name]);
            page.push_all(&["` that the handler of `", node.kind, "` requires"]);
        }
        Violation::Type {
            node,
            attribute,
            expected,
        } => {
            page.push_all(&["attribute `", attribute.name, "` of node `", node.id, "` is `"]);
            page.push_all(&[shown(attribute.value), "`, but the handler of `", node.kind]);
            page.push_all(&["` reads ", described(*expected)]);
        }
        Violation::Word { need, node, .. } => {
            page.push_all(&["the edge to `", need.target, "` waits for the outcome "]);
            list(page, need.words, " or ");
            page.push_all(&[", which the handler of `", node.kind, "` never returns"]);
        }
    }
}

const fn help(page: &mut Page, violation: &Violation<'_>) {
    match violation {
        Violation::Kind { node } => {
            page.push_all(&["write a handler with `#[orchestra::handler(\"", node.kind]);
            page.push("\")]` and name it in `handlers = (..)`, or correct the node's `type`");
        }
        Violation::Attribute { node, field } => {
            page.push_all(&["write `", node.id, " [", field.name, "=", example(field.ty)]);
            page.push("]`, or make the handler's field an `Option`");
        }
        Violation::Type { expected, .. } => {
            page.push_all(&[
                "write ",
                described(*expected),
                ", such as `",
                example(*expected),
                "`",
            ]);
        }
        Violation::Word { words, .. } => {
            page.push("the handler returns ");
            list(page, words, ", ");
            if !words.is_empty() {
                page.push(" and ");
            }
            page.push("`fail`; wait for one of these, or add the word to the handler's outcomes");
        }
    }
}

const fn list(page: &mut Page, words: &[&str], between: &str) {
    let mut at = 0;
    while at < words.len() {
        if at > 0 {
            page.push(between);
        }
        page.push_all(&["`", words[at], "`"]);
        at += 1;
    }
}

const fn described(ty: FieldType) -> &'static str {
    match ty {
        FieldType::String => "text",
        FieldType::Integer => "a whole number",
        FieldType::Float => "a number",
        FieldType::Boolean => "`true` or `false`",
        FieldType::Duration => "a duration",
        FieldType::Any => "any value",
    }
}

const fn example(ty: FieldType) -> &'static str {
    match ty {
        FieldType::String | FieldType::Any => "\"..\"",
        FieldType::Integer => "3",
        FieldType::Float => "0.5",
        FieldType::Boolean => "true",
        FieldType::Duration => "15m",
    }
}

/// Returns the beginning of a value, short enough for one line.
const fn shown(value: &str) -> &str {
    const LONGEST: usize = 60;
    let bytes = value.as_bytes();
    let mut end = 0;
    while end < bytes.len() && end < LONGEST && bytes[end] != b'\n' {
        end += 1;
    }
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.split_at(end).0
}

/// Writes a position, with its source line and a caret below it if the position is known exactly.
const fn snippet(page: &mut Page, requirements: &PipelineRequirements<'_>, location: SourceLocation) {
    let mut width = 1;
    let mut line = location.line;
    while line >= 10 {
        width += 1;
        line /= 10;
    }
    page.push("\n");
    page.repeat(" ", width);
    page.push_all(&["--> ", requirements.file, ":"]);
    page.number(location.line);
    page.push(":");
    page.number(location.column);
    page.push("\n");
    if location.length == 0 || location.offset as usize > requirements.source.len() {
        return;
    }
    let bytes = requirements.source.as_bytes();
    let at = location.offset as usize;
    let mut start = at;
    while start > 0 && bytes[start - 1] != b'\n' && at - start < BEFORE {
        start -= 1;
    }
    while !requirements.source.is_char_boundary(start) {
        start += 1;
    }
    let mut end = at;
    while end < bytes.len() && bytes[end] != b'\n' && bytes[end] != b'\r' && end - at < BEHIND {
        end += 1;
    }
    while !requirements.source.is_char_boundary(end) {
        end -= 1;
    }
    page.repeat(" ", width + 1);
    page.push("|\n");
    page.number(location.line);
    page.push(" | ");
    let indent = copy(page, bytes, start, at);
    let rest = copy(page, bytes, at, end);
    page.push("\n");
    page.repeat(" ", width + 1);
    page.push("| ");
    page.repeat(" ", indent);
    page.repeat(
        "^",
        if location.length < rest {
            location.length
        } else {
            rest
        },
    );
    page.push("\n");
    page.repeat(" ", width + 1);
    page.push("|\n");
}

/// Copies a part of a line, with tabs as blanks. Returns the number of its characters.
const fn copy(page: &mut Page, bytes: &[u8], start: usize, end: usize) -> u32 {
    let mut characters = 0;
    let mut at = start;
    while at < end {
        let byte = if bytes[at] == b'\t' { b' ' } else { bytes[at] };
        page.push_bytes(&[byte]);
        // Bytes that continue a character begin with the bits `10`.
        if byte & 0xc0 != 0x80 {
            characters += 1;
        }
        at += 1;
    }
    characters
}
