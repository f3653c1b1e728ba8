//! The capture of an output stream: both ends in memory, the whole stream in a file, lines for display.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use super::output::{OutputStream, ProcessError};
use crate::redact::{RedactedStream, Redactor};

/// The number of bytes of one read.
pub(super) const CHUNK: usize = 64 * 1024;
/// Maximum length of a displayed line in bytes, unless a command sets another one.
pub(super) const SHOWN_LINE: usize = 8 * 1024;
/// Maximum length of [`super::ToolOutput::last_line`] in bytes.
const LAST_LINE: usize = 4 * 1024;

/// The callback for lines of output.
pub(super) type OnLine = Box<dyn FnMut(OutputStream, &str) + Send>;

/// An output stream of a tool.
pub(super) struct Sink {
    stream: OutputStream,
    kept: Kept,
    file: OutputFile,
    line: Vec<u8>,
    line_limit: usize,
    redacted: Option<RedactedStream>,
}

impl Sink {
    /// Creates a sink that keeps `limit` bytes in memory and writes up to `file_limit` bytes to the file.
    pub(super) fn create(
        stream: OutputStream,
        limit: usize,
        file: Option<&Path>,
        file_limit: u64,
        redactor: Option<&Redactor>,
    ) -> Result<Self, ProcessError> {
        Ok(Self {
            stream,
            kept: Kept::new(limit),
            file: OutputFile::create(file, file_limit)?,
            line: Vec::new(),
            line_limit: SHOWN_LINE,
            redacted: redactor.map(Redactor::stream),
        })
    }

    /// Sets the maximum length of a displayed line.
    pub(super) fn with_line_limit(mut self, bytes: usize) -> Self {
        self.line_limit = bytes;
        self
    }

    /// Processes the next bytes of the stream.
    pub(super) fn feed(&mut self, chunk: &[u8], on_line: &mut Option<OnLine>) {
        match &mut self.redacted {
            Some(redacted) => {
                let clean = redacted.push_bytes(chunk);
                self.take(&clean, on_line);
            }
            None => self.take(chunk, on_line),
        }
    }

    fn take(&mut self, chunk: &[u8], on_line: &mut Option<OnLine>) {
        self.kept.push(chunk);
        self.file.write(chunk);
        let Some(on_line) = on_line else { return };
        let mut rest = chunk;
        while !rest.is_empty() {
            // This is the fastest search for a byte in the standard library.
            let length = (&mut &*rest).skip_until(b'\n').unwrap_or(rest.len());
            let (piece, after) = rest.split_at(length);
            rest = after;
            let body = piece.strip_suffix(b"\n");
            let bytes = body.unwrap_or(piece);
            let room = self.line_limit.saturating_sub(self.line.len()).min(bytes.len());
            self.line.extend_from_slice(bytes.get(..room).unwrap_or_default());
            if body.is_some() {
                show(self.stream, &mut self.line, on_line);
            }
        }
    }

    /// Ends the stream. Shows a last line without a line feed, and assembles the text.
    pub(super) fn finish(mut self, on_line: &mut Option<OnLine>) -> Captured {
        if let Some(rest) = self.redacted.as_mut().map(RedactedStream::finish_bytes) {
            self.take(&rest, on_line);
        }
        if let (Some(on_line), false) = (on_line, self.line.is_empty()) {
            show(self.stream, &mut self.line, on_line);
        }
        self.kept.finish(self.file.error)
    }
}

fn show(stream: OutputStream, line: &mut Vec<u8>, on_line: &mut OnLine) {
    let text = String::from_utf8_lossy(line);
    on_line(stream, text.trim_end_matches('\r'));
    line.clear();
}

/// A finished stream.
pub(super) struct Captured {
    pub(super) text: String,
    pub(super) bytes: u64,
    pub(super) truncated: bool,
    pub(super) lossy: bool,
    pub(super) last_line: Option<String>,
    pub(super) file_error: Option<io::Error>,
}

/// The first and the last bytes of a stream.
struct Kept {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
}

impl Kept {
    fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Self {
            head: Vec::new(),
            head_limit,
            tail: VecDeque::new(),
            tail_limit: limit - head_limit,
            total: 0,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.total = self.total.saturating_add(chunk.len() as u64);
        let room = self.head_limit.saturating_sub(self.head.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(room);
        self.head.extend_from_slice(first);
        // If a chunk is longer than the tail, only its last bytes remain.
        let rest = rest.split_at(rest.len().saturating_sub(self.tail_limit)).1;
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    fn finish(mut self, file_error: Option<io::Error>) -> Captured {
        let bytes = self.total;
        let truncated = bytes > (self.head.len() + self.tail.len()) as u64;
        if !truncated {
            self.head.extend(&self.tail);
            let (text, lossy) = decode(self.head);
            let last_line = last_line(&text);
            return Captured {
                text,
                bytes,
                truncated,
                lossy,
                last_line,
                file_error,
            };
        }
        // Drop a character that the gap cuts, so that it does not look like invalid output of the tool.
        self.head.truncate(whole_characters(&self.head));
        let broken = self
            .tail
            .iter()
            .take(3)
            .take_while(|byte| is_continuation(**byte))
            .count();
        self.tail.drain(..broken);
        let dropped = bytes - (self.head.len() + self.tail.len()) as u64;
        let (mut text, head_lossy) = decode(self.head);
        let (tail, tail_lossy) = decode(self.tail.into());
        // The note between the halves is not output, so search only the tail for the last line.
        let last_line = last_line(&tail);
        text.push_str(&format!("\n[... {dropped} bytes dropped ...]\n"));
        text.push_str(&tail);
        Captured {
            text,
            bytes,
            truncated,
            lossy: head_lossy || tail_lossy,
            last_line,
            file_error,
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the length of `bytes` without an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    for (position, byte) in bytes.iter().rev().take(4).enumerate() {
        if is_continuation(*byte) {
            continue;
        }
        let needed = match byte {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        return if needed > position + 1 {
            bytes.len() - position - 1
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

/// Returns the text, and whether invalid UTF-8 was replaced.
fn decode(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}

/// Returns the last line that is not blank, trimmed and cut to [`LAST_LINE`] bytes.
fn last_line(text: &str) -> Option<String> {
    let line = text.rsplit('\n').map(str::trim).find(|line| !line.is_empty())?;
    Some(line.get(..line.floor_char_boundary(LAST_LINE))?.to_owned())
}

/// The file that receives a stream, up to a limit.
struct OutputFile {
    file: Option<File>,
    limit: u64,
    left: u64,
    error: Option<io::Error>,
}

impl OutputFile {
    fn create(path: Option<&Path>, limit: u64) -> Result<Self, ProcessError> {
        let file = path.map(open).transpose()?;
        Ok(Self {
            file,
            limit,
            left: limit,
            error: None,
        })
    }

    fn write(&mut self, chunk: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(chunk.len());
        let mut result = file.write_all(chunk.get(..fits).unwrap_or_default());
        self.left -= fits as u64;
        let full = fits < chunk.len();
        if full && result.is_ok() {
            result = writeln!(
                file,
                "\n[the rest is not written: the file limit is {} bytes]",
                self.limit
            );
        }
        // The tool continues without its file. Its result counts, and the error is reported with it.
        if full || result.is_err() {
            self.file = None;
            self.error = result.err();
        }
    }
}

fn open(path: &Path) -> Result<File, ProcessError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // Do not follow a link that an earlier tool may have planted at this path.
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // A pipe without a reader must not block either.
        options
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .mode(0o600);
    }
    let opened = options.open(path).and_then(|file| {
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is not a regular file"))
        }
    });
    opened.map_err(|source| ProcessError::CreateFile {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(limit: usize, chunks: &[&[u8]]) -> Captured {
        let mut kept = Kept::new(limit);
        for chunk in chunks {
            kept.push(chunk);
        }
        kept.finish(None)
    }

    #[test]
    fn short_output_is_kept_whole() {
        let captured = keep(10, &[b"abc", b"defghij"]);
        assert_eq!(
            (captured.text.as_str(), captured.bytes, captured.truncated),
            ("abcdefghij", 10, false)
        );
    }

    #[test]
    fn long_output_keeps_both_ends_and_counts_the_middle() {
        let captured = keep(8, &[b"abcdef", b"0123456789", b"wxyz"]);
        assert_eq!(captured.text, "abcd\n[... 12 bytes dropped ...]\nwxyz");
        assert!(captured.truncated && !captured.lossy);
        assert_eq!(captured.last_line.as_deref(), Some("wxyz"));
    }

    #[test]
    fn nothing_kept_has_no_last_line() {
        let captured = keep(0, &[b"abc\n"]);
        assert_eq!(captured.text, "\n[... 4 bytes dropped ...]\n");
        assert_eq!(captured.last_line, None);
    }

    #[test]
    fn a_character_cut_by_the_gap_is_not_a_fault() {
        for limit in 0..40 {
            let captured = keep(limit, &["aä€😀".repeat(9).as_bytes()]);
            assert!(!captured.lossy, "limit {limit}: {}", captured.text);
            assert!(!captured.text.contains('\u{FFFD}'));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_said() {
        let captured = keep(100, &[b"a\xFFb"]);
        assert_eq!((captured.text.as_str(), captured.lossy), ("a\u{FFFD}b", true));
    }

    #[test]
    fn the_last_line_is_trimmed_and_bounded() {
        assert_eq!(last_line("one\n two \r\n \n\n").as_deref(), Some("two"));
        assert_eq!(last_line(" \n"), None);
        assert_eq!(last_line(&"€".repeat(3000)).map(|line| line.len()), Some(4095));
    }

    #[test]
    fn lines_reach_the_display_whole_and_bounded() {
        let (send, lines) = std::sync::mpsc::channel();
        let mut on_line: Option<OnLine> = Some(Box::new(move |_, line| {
            let _ = send.send(line.to_owned());
        }));
        let mut sink = Sink::create(OutputStream::Stdout, 10, None, 0, None).unwrap();
        for chunk in [&b"a"[..], b"b\r\nc\n\n", &[b'x'; 3 * SHOWN_LINE], b"\nend"] {
            sink.feed(chunk, &mut on_line);
        }
        sink.finish(&mut on_line);
        drop(on_line);
        let lines: Vec<String> = lines.iter().collect();
        assert_eq!(lines, ["ab", "c", "", "x".repeat(SHOWN_LINE).as_str(), "end"]);
    }
}
