//! The tool `read-file`.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;

use super::confined::{Confined, shown};
use super::file_tool::FileCall;
use super::text::{self, is_binary};
use crate::tool::ToolError;

/// Maximum number of bytes that are shown of a line.
const MAX_LINE_BYTES: usize = 2_000;

/// A call of the tool `read-file`, which reads lines of a text file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFile {
    /// The file, relative to the working folder.
    path: String,
    /// The first line to read, from 1.
    offset: Option<u64>,
    /// How many lines to read at most.
    limit: Option<u64>,
}

impl FileCall for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Reads a text file. Each line comes behind its number and a tab, \
        which are not part of the file. Of a long file only a part is shown; the last line then says how \
        to read on.";
    const IS_READ_ONLY: bool = true;

    fn stage_file(&mut self) -> Option<&mut String> {
        Some(&mut self.path)
    }

    fn run(&self, folder: &Confined, stop: &CancellationToken, limit: usize) -> Result<String, ToolError> {
        let first = self.offset.unwrap_or(1).max(1);
        let most = self.limit.unwrap_or(u64::MAX);
        if most == 0 {
            return Err(ToolError::new("`limit` is 0, so there is nothing to read"));
        }
        let path = folder.inside(&self.path)?;
        let (file, metadata) = folder.file(&path)?;
        let mut file = BufReader::with_capacity(64 * 1024, file);
        let error = |error: io::Error| folder.error(&path, &error);
        if is_binary(file.fill_buf().map_err(error)?) {
            return Err(ToolError::new(format!(
                "`{}` is a binary file of {}; it is not shown",
                shown(&path),
                text::count(usize::try_from(metadata.len()).unwrap_or(usize::MAX), "byte")
            )));
        }
        // The last line, which describes the omitted part, needs space.
        let room = limit.saturating_sub(300);
        let mut page = Page::default();
        let mut total = 0_u64;
        while let Some(line) = next_line(&mut file, stop).map_err(error)? {
            total += 1;
            if total >= first && total - first < most {
                page.add(total, &line, room);
            }
        }
        Ok(page.finish(&path, first, total))
    }
}

/// The lines that are shown.
#[derive(Default)]
struct Page {
    text: String,
    last: u64,
    full: bool,
    replaced: bool,
}

impl Page {
    fn add(&mut self, number: u64, line: &Line, room: usize) {
        let content = String::from_utf8_lossy(&line.start);
        let more = match line.length - line.start.len() as u64 {
            0 => String::new(),
            more => format!(" [{more} more bytes in this line]"),
        };
        let shown = format!("{number}\t{content}{more}\n");
        self.full |= !self.text.is_empty() && self.text.len() + shown.len() > room;
        if !self.full {
            self.replaced |= matches!(content, std::borrow::Cow::Owned(_));
            self.text.push_str(&shown);
            self.last = number;
        }
    }

    fn finish(mut self, path: &Path, first: u64, total: u64) -> String {
        let name = shown(path);
        if total == 0 {
            return format!("[`{name}` is empty]");
        }
        if first > total {
            return format!("[`{name}` has only {total} lines; there is no line {first}]");
        }
        if self.replaced {
            self.text
                .push_str("[bytes that are not UTF-8 are shown as \u{fffd}]\n");
        }
        if self.last < total {
            let next = self.last + 1;
            self.text.push_str(&format!(
                "[lines {first} to {} of {total}; read on with `offset`: {next}]\n",
                self.last
            ));
        }
        self.text
    }
}

/// A line, of which only the part that is shown is stored.
struct Line {
    start: Vec<u8>,
    length: u64,
}

/// Returns the next line without its line end, or `None` at the end of the file.
fn next_line(file: &mut impl BufRead, stop: &CancellationToken) -> io::Result<Option<Line>> {
    let mut line = Line {
        start: Vec::new(),
        length: 0,
    };
    let mut any = false;
    loop {
        if stop.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        let chunk = match file.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        if chunk.is_empty() {
            break;
        }
        any = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let content = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        let room = MAX_LINE_BYTES.saturating_sub(line.start.len()).min(content.len());
        line.start
            .extend_from_slice(content.get(..room).unwrap_or_default());
        line.length += content.len() as u64;
        let used = content.len() + usize::from(end.is_some());
        file.consume(used);
        if end.is_some() {
            break;
        }
    }
    if line.length > line.start.len() as u64 {
        // A character cut in two would look like invalid UTF-8 in the file.
        while std::str::from_utf8(&line.start).is_err_and(|error| error.error_len().is_none()) {
            line.start.pop();
        }
    } else if line.start.last() == Some(&b'\r') {
        line.start.pop();
        line.length -= 1;
    }
    Ok(any.then_some(line))
}
