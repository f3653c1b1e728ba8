//! The only place that writes to the terminal, and the one door for text of others: pipelines, tools, models, people
//! and files cannot send it control characters.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use orchestra_graph::render::visible;
use serde_json::json;

use crate::args::Common;
use crate::output::{Kind, Output, Stream};

/// The standard streams of the process.
static OUTPUT: Output = Output::new();

/// Where output goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Whether standard output carries JSON lines.
    pub(crate) json: bool,
    /// Whether only results and errors are written.
    pub(crate) quiet: bool,
    /// Whether standard error takes colours.
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

    /// Writes a result for people, to standard output.
    pub(crate) fn result(&self, text: &str) {
        push(Stream::Output, shown(text, self.color_of_results()), Kind::Result);
    }

    /// Writes a result as one line of JSON.
    pub(crate) fn object(&self, value: &serde_json::Value) {
        self.json_line(&value.to_string());
    }

    /// Writes a result that is a line of JSON already.
    pub(crate) fn json_line(&self, line: &str) {
        push(Stream::Output, escaped(line), Kind::Result);
    }

    /// Writes a result as a line of JSON, piece by piece.
    pub(crate) fn json_stream(&self, value: &impl serde::Serialize) -> Result<(), serde_json::Error> {
        let mut pieces = Pieces(Vec::new());
        serde_json::to_writer(&mut pieces, value)?;
        pieces.0.push(b'\n');
        pieces.flush().map_err(serde_json::Error::io)
    }

    /// Writes an event as a line of JSON.
    pub(crate) fn event(&self, line: &str) {
        push(Stream::Output, escaped(line), Kind::Progress);
    }

    /// Writes text that another program reads, such as a formatted file: exactly, except to a terminal.
    pub(crate) fn data(&self, text: &str) {
        match std::io::stdout().is_terminal() {
            true => self.result(text),
            false => push(Stream::Output, text.to_owned(), Kind::Result),
        }
    }

    /// Writes progress, to standard error, unless quiet.
    pub(crate) fn progress(&self, text: &str) {
        if !self.quiet {
            push(Stream::Error, shown(text, self.color), Kind::Progress);
        }
    }

    /// Writes a diagnostic or an error, to standard error.
    pub(crate) fn say(&self, text: &str) {
        push(Stream::Error, shown(text, self.color), Kind::Result);
    }

    /// Writes text in which colours were put by its renderer, to standard error.
    pub(crate) fn rendered(&self, text: &str) {
        push(Stream::Error, coloured(text, self.color), Kind::Result);
    }

    /// Writes a result in which colours were put by its renderer, to standard output.
    pub(crate) fn rendered_result(&self, text: &str) {
        push(
            Stream::Output,
            coloured(text, self.color_of_results()),
            Kind::Result,
        );
    }

    /// Writes text without a line end, to standard error: a prompt, or a piece of what a model says.
    pub(crate) fn write(&self, text: &str) {
        OUTPUT.push(Stream::Error, shown(text, self.color).into_bytes(), Kind::Result);
    }

    /// Writes a line over the one that the cursor is in, to standard error; nothing where the reader is behind.
    pub(crate) fn live_line(&self, text: &str) -> bool {
        let idle = OUTPUT.is_idle(Stream::Error);
        if idle {
            self.clear_line();
            self.write(text);
        }
        idle
    }

    /// Takes away the line that the cursor is in.
    pub(crate) fn clear_line(&self) {
        OUTPUT.push(Stream::Error, b"\r\x1b[2K".to_vec(), Kind::Result);
    }

    /// Marks text to be in a colour, where standard error takes colours.
    pub(crate) fn paint(&self, style: Paint, text: &str) -> String {
        match self.color {
            true => format!("{}{text}{END}", style.mark()),
            false => text.to_owned(),
        }
    }

    fn color_of_results(&self) -> bool {
        self.color && std::io::stdout().is_terminal()
    }

    /// Marks text to be in a colour, where standard output takes colours.
    pub(crate) fn paint_result(&self, style: Paint, text: &str) -> String {
        let color = self.color_of_results();
        Terminal { color, ..*self }.paint(style, text)
    }

    /// Lets threads write from now on, so that no reader can block who prints.
    pub(crate) fn detach(&self) {
        OUTPUT.detach(match self.json {
            true => left_out_of_json,
            false => left_out,
        });
    }

    /// Does not let the end of the program wait for a reader for long, since somebody asked it to end.
    pub(crate) fn hurry() {
        OUTPUT.hurry();
    }

    /// Waits until all is written, at most for so long, and for a moment only where somebody asked the program to end; returns whether it is.
    pub(crate) fn drain(patience: Option<Duration>) -> bool {
        OUTPUT.drain(patience)
    }

    /// Returns which stream could not be written, and why.
    pub(crate) fn failure() -> Option<(&'static str, String)> {
        OUTPUT.failure().map(|(stream, error)| (stream.name(), error))
    }
}

/// Takes JSON, and writes it in pieces.
struct Pieces(Vec<u8>);

/// How large a piece is.
const PIECE: usize = 64 << 10;

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        // Only what stands before the last character of ASCII is surely whole.
        let ascii = self
            .0
            .iter()
            .rposition(u8::is_ascii)
            .filter(|_| self.0.len() >= PIECE);
        if let Some(at) = ascii {
            let rest = self.0.split_off(at + 1);
            self.flush()?;
            self.0 = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.0);
        let text = String::from_utf8_lossy(&bytes);
        OUTPUT.push(Stream::Output, escaped(&text).into_bytes(), Kind::Result);
        Ok(())
    }
}

fn push(stream: Stream, mut line: String, kind: Kind) {
    line.push('\n');
    OUTPUT.push(stream, line.into_bytes(), kind);
}

fn left_out(_: Stream, lines: u64) -> Vec<u8> {
    format!(".. {lines} lines were left out, because nobody read them; the run folder has all events\n")
        .into_bytes()
}

fn left_out_of_json(stream: Stream, lines: u64) -> Vec<u8> {
    if stream == Stream::Error {
        return left_out(stream, lines);
    }
    let object = json!({
        "schema": "orchestra.left_out/1", "lines": lines,
        "message": "nobody read them; `events.jsonl` in the run folder has all events",
    });
    format!("{object}\n").into_bytes()
}

/// Stands at the end of text in a colour. Such characters stand in no text, and what a pipeline or a tool writes with
/// them can at most choose among the colours of [`Paint`].
const END: char = '\u{fddf}';

/// Makes text harmless for a terminal: what would move its cursor, command it or reorder text is made visible. Colours
/// are put where they are marked.
fn shown(text: &str, color: bool) -> String {
    let mut shown = String::with_capacity(text.len() + 1);
    let mut painted = false;
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            END if color => {
                painted = false;
                shown.push_str("\x1b[0m");
            }
            _ => match Paint::of_mark(character).filter(|_| color) {
                Some(style) => {
                    painted = true;
                    shown.push_str(&format!("\x1b[{}m", style.code()));
                }
                None => shown.push(visible(character).unwrap_or(character)),
            },
        }
    }
    if painted {
        shown.push_str("\x1b[0m");
    }
    shown
}

/// Makes rendered text harmless, and keeps the colours in it where they are wanted.
fn coloured(text: &str, color: bool) -> String {
    let mut parts = text.split('\x1b');
    let mut result = shown(parts.next().unwrap_or_default(), false);
    for part in parts {
        let codes = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        match codes {
            Some((codes, rest)) if codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => {
                if color {
                    result.push_str(&format!("\x1b[{codes}m"));
                }
                result.push_str(&shown(rest, false));
            }
            _ => result.push_str(&shown(&format!("\x1b{part}"), false)),
        }
    }
    result
}

/// Escapes in a line of JSON what would command a terminal; a reader of JSON finds the same text.
fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len() + 1);
    for character in line.chars() {
        // All others that `visible` knows stand in strings only, since JSON has no such character elsewhere.
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

/// How text is shown.
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

    /// Returns the character that stands before text in this colour.
    const fn mark(self) -> char {
        match self {
            Paint::Good => '\u{fdd0}',
            Paint::Bad => '\u{fdd1}',
            Paint::Warn => '\u{fdd2}',
            Paint::Dim => '\u{fdd3}',
            Paint::Bold => '\u{fdd4}',
        }
    }

    fn of_mark(mark: char) -> Option<Paint> {
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
                shown(HOSTILE, color),
                "a␛]52;c;eA==␇b\u{fffd}2Jc\u{fffd}d␍e␡f\u{fffd}\u{fffd}g\n\th"
            );
        }
        assert_eq!(coloured(HOSTILE, true), shown(HOSTILE, false));
    }

    #[test]
    fn colours_are_put_where_they_are_marked_and_end() {
        let bold = Terminal {
            json: false,
            quiet: false,
            color: true,
        }
        .paint(Paint::Bold, "x");
        assert_eq!(shown(&bold, true), "\x1b[1mx\x1b[0m");
        assert_eq!(shown(&bold, false), "\u{fffd}x\u{fffd}");
        assert_eq!(shown("\u{fdd1}x", true), "\x1b[1;31mx\x1b[0m");
        let rendered = "\x1b[1;31mx\x1b[0m\x1b[2J";
        assert_eq!(coloured(rendered, true), "\x1b[1;31mx\x1b[0m␛[2J");
        assert_eq!(coloured(rendered, false), "x␛[2J");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = json!({"text": HOSTILE});
        let line = escaped(&value.to_string());
        assert!(line.chars().all(|c| visible(c).is_none()), "{line:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }
}
