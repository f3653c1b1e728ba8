//! The tool `grep`.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;

use super::confined::{Confined, shown};
use super::file_tool::FileCall;
use super::text;
use super::walk::{Ended, Pattern, files};
use crate::tool::ToolError;

/// Maximum number of bytes that are shown of a line.
const MAX_LINE_BYTES: usize = 500;
/// Maximum number of lines around a match.
const MAX_CONTEXT_LINES: usize = 20;
/// Maximum size of a compiled expression, in bytes.
const MAX_EXPRESSION_BYTES: usize = 4 * 1024 * 1024;
/// Maximum length of a line that is searched, in bytes.
const MAX_SEARCHED_LINE_BYTES: usize = 16 * 1024 * 1024;

/// A call of the tool `grep`, which searches files with a regular expression.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grep {
    /// The regular expression, for one line, in the syntax of Rust's `regex` and ripgrep.
    pattern: String,
    /// The file or folder to look in, relative to the working folder; all of it unless given.
    path: Option<String>,
    /// Which files to look into, such as `*.rs` or `src/**/*.toml`; all unless given.
    glob: Option<String>,
    /// Whether capitals and small letters mean the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines around each match to show: 0 unless given, 20 at most.
    context: Option<usize>,
    /// Whether only the names of the files are wanted, with the number of matching lines in each.
    #[serde(default)]
    files_only: bool,
}

impl FileCall for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Finds the lines that a regular expression matches. A match is shown \
        as `path:line:text`, a line around it as `path-line-text`. Binary files, and files that git \
        ignores, are left out; links are not followed.";
    const IS_READ_ONLY: bool = true;

    fn stage_file(&mut self) -> Option<&mut String> {
        self.path.as_mut()
    }

    fn run(&self, folder: &Confined, stop: &CancellationToken, limit: usize) -> Result<String, ToolError> {
        let start = folder.start(self.path.as_deref())?;
        let matcher = matcher(&self.pattern, self.ignore_case)?;
        let only = self.glob.as_deref().map(Pattern::new).transpose()?;
        let context = self.context.unwrap_or(0).min(MAX_CONTEXT_LINES);
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(LineTerminator::crlf())
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_SEARCHED_LINE_BYTES))
            .binary_detection(BinaryDetection::quit(0))
            .build();
        // The last line, a summary, needs space.
        let mut report = Report {
            text: String::new(),
            room: limit.saturating_sub(300),
            names_only: self.files_only,
            lines: 0,
            files: 0,
            full: false,
        };
        let mut unread = Vec::new();
        let ended = files(folder, &start, stop, &mut |path| {
            if only.as_ref().is_some_and(|only| !only.matches(path)) {
                return ControlFlow::Continue(());
            }
            let name = shown(path);
            let mut found = Found {
                report: &mut report,
                name: &name,
                lines: 0,
                stop,
            };
            let searched = in_file(folder, path, &mut searcher, &matcher, &mut found);
            let lines = found.lines;
            if let Err(error) = searched {
                unread.push(format!("{name}: {error}"));
            }
            report.end_of_file(&name, lines);
            if report.full {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if stop.is_cancelled() {
            return Err(ToolError::new("cancelled"));
        }
        Ok(report.finish(&self.pattern, ended, &unread))
    }
}

fn matcher(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, ToolError> {
    let made = RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .crlf(true)
        .size_limit(MAX_EXPRESSION_BYTES)
        .dfa_size_limit(MAX_EXPRESSION_BYTES)
        .build(pattern);
    made.map_err(|error| {
        ToolError::new(format!(
            "`{pattern}` is not a regular expression for one line: {error}. Signs with a meaning, such as `(`, `[`, `{{`, \
             `.` and `*`, are written with a backslash where they mean themselves"
        ))
    })
}

fn in_file(
    folder: &Confined,
    path: &Path,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    found: &mut Found<'_>,
) -> Result<(), String> {
    let (file, _) = folder.walked_file(path).map_err(|error| error.message)?;
    searcher
        .search_reader(matcher, file, found)
        .map_err(|error| error.to_string())
}

/// The report of all matches.
struct Report {
    text: String,
    room: usize,
    names_only: bool,
    lines: usize,
    files: usize,
    full: bool,
}

impl Report {
    fn add(&mut self, line: &str) {
        if self.text.len() + line.len() > self.room {
            self.full = true;
        } else {
            self.text.push_str(line);
        }
    }

    fn end_of_file(&mut self, name: &str, lines: usize) {
        if lines > 0 {
            self.files += 1;
            self.lines += lines;
            if self.names_only {
                self.add(&format!("{name}: {}\n", text::count(lines, "line")));
            }
        }
    }

    fn finish(self, pattern: &str, ended: Ended, unread: &[String]) -> String {
        let mut text = self.text;
        let counts = format!(
            "{} in {}",
            text::count(self.lines, "matching line"),
            text::count(self.files, "file")
        );
        if self.full {
            text.push_str(&format!(
                "[{counts}, and there are more; narrow the search by `path`, `glob` or `pattern`, or ask for \
                 `files_only`]\n"
            ));
        } else if ended == Ended::TooMany {
            text.push_str(&format!(
                "[{counts} so far; the folder is too large to be looked through, so look in a `path`]\n"
            ));
        } else if self.lines == 0 {
            text.push_str(&format!("no line matches `{pattern}`\n"));
        } else {
            text.push_str(&format!("[{counts}]\n"));
        }
        if let Some(first) = unread.first() {
            let count = text::count(unread.len(), "file");
            let (first, _) = text::line_start(first, 150);
            text.push_str(&format!("[{count} could not be searched to the end: {first}]\n"));
        }
        text
    }
}

/// The matches in one file.
struct Found<'f> {
    report: &'f mut Report,
    name: &'f str,
    lines: usize,
    stop: &'f CancellationToken,
}

impl Found<'_> {
    fn add(&mut self, bytes: &[u8], number: Option<u64>, sign: char) -> bool {
        if !self.report.names_only {
            let line = String::from_utf8_lossy(bytes);
            let (shown, left_out) = text::line_start(line.trim_end_matches(['\n', '\r']), MAX_LINE_BYTES);
            let more = if left_out > 0 {
                format!(" [{left_out} more bytes]")
            } else {
                String::new()
            };
            let number = number.unwrap_or(0);
            self.report
                .add(&format!("{}{sign}{number}{sign}{shown}{more}\n", self.name));
        }
        !self.report.full && !self.stop.is_cancelled()
    }
}

impl Sink for Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let go_on = self.add(found.bytes(), found.line_number(), ':');
        self.lines += usize::from(go_on);
        Ok(go_on)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.add(line.bytes(), line.line_number(), '-'))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if !self.report.names_only {
            self.report.add("--\n");
        }
        Ok(!self.report.full)
    }
}
