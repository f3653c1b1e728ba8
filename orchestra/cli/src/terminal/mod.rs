//! The only module that writes to the terminal. All external text passes through it, so pipelines, tools, models,
//! people and files cannot send control characters to the terminal.

pub(crate) mod format;
mod output;
pub(crate) mod screen;
pub(crate) mod table;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use orchestra_graph::render::visible;
use serde_json::json;

use self::output::{Kind, Output, Stream};
use crate::args::Common;

/// The standard streams of the process.
static OUTPUT: Output = Output::new();

/// The destination and the format of output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// `true` if standard output carries JSON lines.
    pub(crate) json: bool,
    /// `true` if only results and errors are written.
    pub(crate) quiet: bool,
    /// `true` if standard error supports colours.
    pub(crate) color: bool,
}

impl Terminal {
    pub(crate) fn new(common: &Common) -> Terminal {
        let plain = common.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = !plain && !dumb && std::io::stderr().is_terminal();
        Terminal {
            json: common.json,
            quiet: common.quiet,
            color,
        }
    }

    /// Writes a result for people to standard output.
    pub(crate) fn result(&self, text: &str) {
        push(
            Stream::Output,
            sanitized(text, self.color_of_results()),
            Kind::Result,
        );
    }

    /// Writes a result as one line of JSON.
    pub(crate) fn object(&self, value: &serde_json::Value) {
        self.json_line(&value.to_string());
    }

    /// Writes a result that is already a line of JSON.
    pub(crate) fn json_line(&self, line: &str) {
        push(Stream::Output, escaped_json(line), Kind::Result);
    }

    /// Writes a result as a line of JSON in chunks.
    pub(crate) fn json_stream(&self, value: &impl serde::Serialize) -> Result<(), serde_json::Error> {
        let mut chunks = JsonChunks(Vec::new());
        serde_json::to_writer(&mut chunks, value)?;
        chunks.0.push(b'\n');
        chunks.flush().map_err(serde_json::Error::io)
    }

    /// Writes an event as a line of JSON.
    pub(crate) fn event(&self, line: &str) {
        push(Stream::Output, escaped_json(line), Kind::Progress);
    }

    /// Writes text for another program, such as a formatted file. The text is unchanged unless standard output is a
    /// terminal.
    pub(crate) fn data(&self, text: &str) {
        if std::io::stdout().is_terminal() {
            self.result(text)
        } else {
            push(Stream::Output, text.to_owned(), Kind::Result)
        }
    }

    /// Writes progress to standard error, unless quiet.
    pub(crate) fn progress(&self, text: &str) {
        if !self.quiet {
            push(Stream::Error, sanitized(text, self.color), Kind::Progress);
        }
    }

    /// Writes a diagnostic or an error to standard error.
    pub(crate) fn message(&self, text: &str) {
        push(Stream::Error, sanitized(text, self.color), Kind::Result);
    }

    /// Writes text that its renderer has coloured to standard error.
    pub(crate) fn rendered(&self, text: &str) {
        push(Stream::Error, sanitized_rendering(text, self.color), Kind::Result);
    }

    /// Writes a result that its renderer has coloured to standard output.
    pub(crate) fn rendered_result(&self, text: &str) {
        push(
            Stream::Output,
            sanitized_rendering(text, self.color_of_results()),
            Kind::Result,
        );
    }

    /// Writes text without a line ending to standard error, such as a prompt or a piece of a model's text.
    pub(crate) fn write(&self, text: &str) {
        OUTPUT.push(
            Stream::Error,
            sanitized(text, self.color).into_bytes(),
            Kind::Result,
        );
    }

    /// Replaces the current line on standard error. Does nothing and returns `false` if the reader lags behind.
    pub(crate) fn live_line(&self, text: &str) -> bool {
        let idle = OUTPUT.is_idle(Stream::Error);
        if idle {
            self.clear_line();
            self.write(text);
        }
        idle
    }

    /// Clears the current line.
    pub(crate) fn clear_line(&self) {
        OUTPUT.push(Stream::Error, b"\r\x1b[2K".to_vec(), Kind::Result);
    }

    /// Marks text to be coloured if standard error supports colours.
    pub(crate) fn paint(&self, style: Paint, text: &str) -> String {
        if self.color {
            format!("{}{text}{END}", style.mark())
        } else {
            text.to_owned()
        }
    }

    fn color_of_results(&self) -> bool {
        self.color && std::io::stdout().is_terminal()
    }

    /// Marks text to be coloured if standard output supports colours.
    pub(crate) fn paint_result(&self, style: Paint, text: &str) -> String {
        let color = self.color_of_results();
        Terminal { color, ..*self }.paint(style, text)
    }

    /// Moves all further writes to threads, so that no reader can block the caller.
    pub(crate) fn detach(&self) {
        OUTPUT.detach(if self.json {
            dropped_lines_json
        } else {
            dropped_lines
        });
    }

    /// Limits the time that the end of the program waits for a reader, after the program was asked to end.
    pub(crate) fn limit_drain() {
        OUTPUT.limit_drain();
    }

    /// Waits until everything is written, at most for `patience`. Without a limit, it waits for a short time only if
    /// the program was asked to end. Returns whether everything is written.
    pub(crate) fn drain(patience: Option<Duration>) -> bool {
        OUTPUT.drain(patience)
    }

    /// Returns the stream that could not be written, and the error.
    pub(crate) fn failure() -> Option<(&'static str, String)> {
        OUTPUT.failure().map(|(stream, error)| (stream.name(), error))
    }
}

/// Writes JSON in chunks.
struct JsonChunks(Vec<u8>);

/// The chunk size in bytes.
const CHUNK: usize = 64 << 10;

impl Write for JsonChunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        // Only the text up to the last ASCII character is certainly complete UTF-8.
        if self.0.len() >= CHUNK
            && let Some(at) = self.0.iter().rposition(u8::is_ascii)
        {
            let rest = self.0.split_off(at + 1);
            self.flush()?;
            self.0 = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.0);
        let text = String::from_utf8_lossy(&bytes);
        OUTPUT.push(Stream::Output, escaped_json(&text).into_bytes(), Kind::Result);
        Ok(())
    }
}

fn push(stream: Stream, mut line: String, kind: Kind) {
    line.push('\n');
    OUTPUT.push(stream, line.into_bytes(), kind);
}

fn dropped_lines(_: Stream, lines: u64) -> Vec<u8> {
    format!(".. {lines} lines were left out, because nobody read them; the run folder has all events\n")
        .into_bytes()
}

fn dropped_lines_json(stream: Stream, lines: u64) -> Vec<u8> {
    if stream == Stream::Error {
        return dropped_lines(stream, lines);
    }
    let object = json!({
        "schema": "orchestra.left_out/1", "lines": lines,
        "message": "nobody read them; `events.jsonl` in the run folder has all events",
    });
    format!("{object}\n").into_bytes()
}

/// The mark at the end of coloured text. Ordinary text does not contain these noncharacters. A pipeline or tool that
/// writes them can only select one of the colours of [`Paint`].
const END: char = '\u{fddf}';

/// Makes text harmless for a terminal: characters that move the cursor, send commands or reorder text are made visible.
/// Colour marks are replaced by colours.
fn sanitized(text: &str, color: bool) -> String {
    let mut safe = String::with_capacity(text.len() + 1);
    let mut painted = false;
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            END if color => {
                painted = false;
                safe.push_str("\x1b[0m");
            }
            _ => match Paint::from_mark(character) {
                Some(style) if color => {
                    painted = true;
                    safe.push_str(&format!("\x1b[{}m", style.code()));
                }
                _ => safe.push(visible(character).unwrap_or(character)),
            },
        }
    }
    if painted {
        safe.push_str("\x1b[0m");
    }
    safe
}

/// Makes rendered text harmless. Keeps its colours if `color` is set.
fn sanitized_rendering(text: &str, color: bool) -> String {
    let mut parts = text.split('\x1b');
    let mut result = sanitized(parts.next().unwrap_or_default(), false);
    for part in parts {
        let codes = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        match codes {
            Some((codes, rest)) if codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => {
                if color {
                    result.push_str(&format!("\x1b[{codes}m"));
                }
                result.push_str(&sanitized(rest, false));
            }
            _ => result.push_str(&sanitized(&format!("\x1b{part}"), false)),
        }
    }
    result
}

/// Escapes the characters in a line of JSON that could command a terminal. A JSON parser reads the same text.
fn escaped_json(line: &str) -> String {
    let mut text = String::with_capacity(line.len() + 1);
    for character in line.chars() {
        // All other characters that `visible` replaces occur in JSON strings only.
        match visible(character) {
            Some(_) if character != '\t' && character != '\n' && character != '\r' => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => text.push(character),
        }
    }
    text
}

/// The style of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Bad,
    Warn,
    Dim,
    Bold,
}

impl Paint {
    const ALL: [Paint; 5] = [Paint::Good, Paint::Bad, Paint::Warn, Paint::Dim, Paint::Bold];

    const fn code(self) -> &'static str {
        match self {
            Paint::Good => "32",
            Paint::Bad => "1;31",
            Paint::Warn => "33",
            Paint::Dim => "2",
            Paint::Bold => "1",
        }
    }

    /// Returns the mark before text in this style.
    const fn mark(self) -> char {
        match self {
            Paint::Good => '\u{fdd0}',
            Paint::Bad => '\u{fdd1}',
            Paint::Warn => '\u{fdd2}',
            Paint::Dim => '\u{fdd3}',
            Paint::Bold => '\u{fdd4}',
        }
    }

    fn from_mark(mark: char) -> Option<Paint> {
        Paint::ALL.into_iter().find(|paint| paint.mark() == mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b]52;c;eA==\x07b\u{9b}2Jc\u{202e}d\re\u{7f}f\u{feff}\u{e0041}g\n\th";

    #[test]
    fn text_cannot_command_a_terminal() {
        for color in [false, true] {
            assert_eq!(
                sanitized(HOSTILE, color),
                "a␛]52;c;eA==␇b\u{fffd}2Jc\u{fffd}d␍e␡f\u{fffd}\u{fffd}g\n\th"
            );
        }
        assert_eq!(sanitized_rendering(HOSTILE, true), sanitized(HOSTILE, false));
    }

    #[test]
    fn colours_are_put_where_they_are_marked_and_end() {
        let bold = Terminal {
            json: false,
            quiet: false,
            color: true,
        }
        .paint(Paint::Bold, "x");
        assert_eq!(sanitized(&bold, true), "\x1b[1mx\x1b[0m");
        assert_eq!(sanitized(&bold, false), "\u{fffd}x\u{fffd}");
        assert_eq!(sanitized("\u{fdd1}x", true), "\x1b[1;31mx\x1b[0m");
        let rendered = "\x1b[1;31mx\x1b[0m\x1b[2J";
        assert_eq!(sanitized_rendering(rendered, true), "\x1b[1;31mx\x1b[0m␛[2J");
        assert_eq!(sanitized_rendering(rendered, false), "x␛[2J");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = json!({"text": HOSTILE});
        let line = escaped_json(&value.to_string());
        assert!(line.chars().all(|c| visible(c).is_none()), "{line:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }
}
