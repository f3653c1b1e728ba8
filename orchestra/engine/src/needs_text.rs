//! What pipelines lack, in words. The page is written by `const fn`s, because a constant shows it.

use crate::handler::FieldType;
use crate::needs::{Lack, Lacks, NeedFault, Needs, Place};

/// Room for a page; what does not fit is left out.
const ROOM: usize = 16 << 10;
/// The most bytes of a source line that are shown before and behind a place.
const BEFORE: usize = 60;
const BEHIND: usize = 100;

/// A text of limited length that a constant can write.
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

    /// Adds a text, or nothing of it where it does not fit.
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

    /// What was written.
    pub(crate) const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

/// All faults, each with its place, source line and help.
pub(crate) const fn page(needs: &Needs<'_>, found: &Lacks<'_>) -> Page {
    let mut page = Page::new();
    page.push_all(&["the handlers do not fit `", needs.file, "`\n"]);
    let mut at = 0;
    while at < found.list.len() {
        if let Some((needs, lack)) = &found.list[at] {
            page.push_all(&["\nerror[", code(lack), "]: "]);
            message(&mut page, lack);
            snippet(&mut page, needs, place(lack));
            page.push("  = help: ");
            help(&mut page, lack);
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

/// One fault as a value, in the very same words.
pub(crate) fn fault(lack: &Lack<'_>) -> NeedFault {
    let words = |write: fn(&mut Page, &Lack<'_>)| {
        let mut page = Page::new();
        write(&mut page, lack);
        page.as_str().to_owned()
    };
    let place = place(lack);
    let (Lack::Kind { node }
    | Lack::Attribute { node, .. }
    | Lack::Type { node, .. }
    | Lack::Word { node, .. }) = lack;
    NeedFault {
        code: code(lack),
        node: node.id.to_owned(),
        line: place.line,
        column: place.column,
        message: words(message),
        help: words(help),
    }
}

const fn code(lack: &Lack<'_>) -> &'static str {
    match lack {
        Lack::Kind { .. } => "missing_handler",
        Lack::Attribute { .. } => "missing_attribute",
        Lack::Type { .. } => "attribute_value",
        Lack::Word { .. } => "outcome_never_returned",
    }
}

const fn place(lack: &Lack<'_>) -> Place {
    match lack {
        Lack::Kind { node } => node.kind_place,
        Lack::Attribute { node, .. } => node.place,
        Lack::Type { attribute, .. } => attribute.place,
        Lack::Word { need, .. } => need.place,
    }
}

const fn message(page: &mut Page, lack: &Lack<'_>) {
    match lack {
        Lack::Kind { node } => {
            page.push_all(&[
                "no handler for kind `",
                node.kind,
                "`, which node `",
                node.id,
                "` needs",
            ]);
        }
        Lack::Attribute { node, field } => {
            page.push_all(&["node `", node.id, "` lacks the attribute `", field.name]);
            page.push_all(&["` that the handler of `", node.kind, "` requires"]);
        }
        Lack::Type {
            node,
            attribute,
            expected,
        } => {
            page.push_all(&["attribute `", attribute.name, "` of node `", node.id, "` is `"]);
            page.push_all(&[shown(attribute.value), "`, but the handler of `", node.kind]);
            page.push_all(&["` reads ", described(*expected)]);
        }
        Lack::Word { need, node, .. } => {
            page.push_all(&["the edge to `", need.target, "` waits for the outcome "]);
            list(page, need.words, " or ");
            page.push_all(&[", which the handler of `", node.kind, "` never returns"]);
        }
    }
}

const fn help(page: &mut Page, lack: &Lack<'_>) {
    match lack {
        Lack::Kind { node } => {
            page.push_all(&["write a handler with `#[orchestra::handler(\"", node.kind]);
            page.push("\")]` and name it in `handlers = (..)`, or mend the node's `type`");
        }
        Lack::Attribute { node, field } => {
            page.push_all(&["write `", node.id, " [", field.name, "=", example(field.ty)]);
            page.push("]`, or make the handler's field an `Option`");
        }
        Lack::Type { expected, .. } => {
            page.push_all(&[
                "write ",
                described(*expected),
                ", such as `",
                example(*expected),
                "`",
            ]);
        }
        Lack::Word { words, .. } => {
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

/// A value short enough for one line.
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

/// The place, its source line and a caret under it; the line only where the place is known exactly.
const fn snippet(page: &mut Page, needs: &Needs<'_>, place: Place) {
    let mut width = 1;
    let mut line = place.line;
    while line >= 10 {
        width += 1;
        line /= 10;
    }
    page.push("\n");
    page.repeat(" ", width);
    page.push_all(&["--> ", needs.file, ":"]);
    page.number(place.line);
    page.push(":");
    page.number(place.column);
    page.push("\n");
    if place.length == 0 || place.offset as usize > needs.source.len() {
        return;
    }
    let bytes = needs.source.as_bytes();
    let at = place.offset as usize;
    let mut start = at;
    while start > 0 && bytes[start - 1] != b'\n' && at - start < BEFORE {
        start -= 1;
    }
    while !needs.source.is_char_boundary(start) {
        start += 1;
    }
    let mut end = at;
    while end < bytes.len() && bytes[end] != b'\n' && bytes[end] != b'\r' && end - at < BEHIND {
        end += 1;
    }
    while !needs.source.is_char_boundary(end) {
        end -= 1;
    }
    page.repeat(" ", width + 1);
    page.push("|\n");
    page.number(place.line);
    page.push(" | ");
    let indent = copy(page, bytes, start, at);
    let rest = copy(page, bytes, at, end);
    page.push("\n");
    page.repeat(" ", width + 1);
    page.push("| ");
    page.repeat(" ", indent);
    page.repeat("^", if place.length < rest { place.length } else { rest });
    page.push("\n");
    page.repeat(" ", width + 1);
    page.push("|\n");
}

/// Copies a part of a line, tabs as blanks, and counts its characters.
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
