//! The tool `edit-file`.

use std::io::Read as _;
use std::ops::Range;

use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;

use super::confined::{Confined, shown};
use super::file_tool::FileCall;
use super::text::{self, is_binary};
use crate::tool::ToolError;

/// Maximum size of a file that can be edited, in bytes. Larger files are hardly sources.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of line numbers that a message lists.
const MAX_LINE_NUMBERS: usize = 10;

/// A call of the tool `edit-file`, which replaces parts of a file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditFile {
    /// The file, relative to the working folder.
    path: String,
    /// The replacements, made one after the other; if one cannot be made, none is.
    edits: Vec<Edit>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The text to replace, exactly as it stands in the file, with all white space. It must occur exactly once; take
    /// in lines around it until it does.
    old_text: String,
    /// The text to put there.
    new_text: String,
    /// Whether all places are to be replaced, where there are several.
    #[serde(default)]
    replace_all: bool,
}

impl FileCall for EditFile {
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "Replaces pieces of a text file, each given by its exact text. \
        Either all edits are made or none.";
    const IS_READ_ONLY: bool = false;

    fn run(&self, folder: &Confined, _: &CancellationToken, _: usize) -> Result<String, ToolError> {
        let path = folder.inside(&self.path)?;
        let name = shown(&path);
        if self.edits.is_empty() {
            return Err(ToolError::new("`edits` is empty; give at least one replacement"));
        }
        folder.writable(&path)?;
        let (file, metadata) = folder.file(&path)?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(ToolError::new(format!(
                "`{name}` is larger than {} MiB, too large to be edited",
                MAX_FILE_BYTES >> 20
            )));
        }
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| folder.error(&path, &error))?;
        if is_binary(&bytes) {
            return Err(ToolError::new(format!(
                "`{name}` is a binary file; it is not edited"
            )));
        }
        let before = String::from_utf8(bytes)
            .map_err(|_| ToolError::new(format!("`{name}` is not UTF-8, so it is not edited")))?;
        let mut content = before.clone();
        let mut replaced = Vec::new();
        for (at, edit) in self.edits.iter().enumerate() {
            let lines = apply(&mut content, edit).map_err(|what| {
                let which = match self.edits.len() {
                    1 => String::new(),
                    count => format!("edit {} of {count}: ", at + 1),
                };
                ToolError::new(format!("{which}{what} (`{name}` is unchanged)"))
            })?;
            replaced.push(lines);
        }
        if content == before {
            return Ok(format!("`{name}` is unchanged: the edits make no difference"));
        }
        folder.replace(&path, content.as_bytes())?;
        let count = text::count(replaced.iter().map(Vec::len).sum(), "replacement");
        let lines: Vec<String> = replaced.iter().map(|lines| numbers(lines)).collect();
        Ok(format!("`{name}` is changed: {count}, at {}", lines.join("; ")))
    }
}

/// Applies one edit. Returns the line numbers of the replacements.
fn apply(content: &mut String, edit: &Edit) -> Result<Vec<usize>, String> {
    if edit.old_text.is_empty() {
        return Err(
            "`old_text` is empty; say which text to replace, or write the file with `write_file`".to_owned(),
        );
    }
    let (mut old, mut new) = (edit.old_text.clone(), edit.new_text.clone());
    let mut positions = find(content, &old);
    if positions.is_empty() && content.contains("\r\n") && old.contains('\n') && !old.contains('\r') {
        // Models write line feeds, so convert them to the line ends of the file.
        old = old.replace('\n', "\r\n");
        new = new.replace('\n', "\r\n");
        positions = find(content, &old);
    }
    let lines: Vec<usize> = positions
        .iter()
        .map(|position| line_of(content, position.start))
        .collect();
    match positions.as_slice() {
        [] => Err(missing(content, &edit.old_text)),
        [_, _, ..] if !edit.replace_all => Err(format!(
            "`old_text` occurs {} times, at {}; take in more of the lines around it, or set `replace_all`",
            positions.len(),
            numbers(&lines)
        )),
        _ => {
            *content = content.replace(&old, &new);
            Ok(lines)
        }
    }
}

fn find(content: &str, text: &str) -> Vec<Range<usize>> {
    content
        .match_indices(text)
        .map(|(at, found)| at..at + found.len())
        .collect()
}

fn line_of(content: &str, at: usize) -> usize {
    content
        .as_bytes()
        .iter()
        .take(at)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Formats line numbers: `line 3`, `lines 3, 8 and 12`.
fn numbers(lines: &[usize]) -> String {
    let shown: Vec<String> = lines
        .iter()
        .take(MAX_LINE_NUMBERS)
        .map(usize::to_string)
        .collect();
    match shown.as_slice() {
        [one] => format!("line {one}"),
        many if lines.len() > MAX_LINE_NUMBERS => format!("lines {}, and more", many.join(", ")),
        [rest @ .., last] => format!("lines {} and {last}", rest.join(", ")),
        [] => "no line".to_owned(),
    }
}

/// Returns an error message for a missing text. It shows where the text occurs with different white space, or where its
/// first line occurs.
fn missing(content: &str, text: &str) -> String {
    let wanted: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let lines: Vec<(usize, &str)> = content
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let Some(first) = wanted.first() else {
        return "`old_text` is nothing but white space, and does not occur".to_owned();
    };
    let alike = lines
        .windows(wanted.len())
        .find(|window| window.iter().map(|(_, line)| *line).eq(wanted.iter().copied()));
    if let Some(window) = alike
        && let (Some((from, _)), Some((to, _))) = (window.first(), window.last())
    {
        let exact: Vec<&str> = content.lines().skip(from - 1).take(to - from + 1).collect();
        let exact = exact.join("\n");
        let (exact, left_out) = text::line_start(&exact, 2_000);
        let more = if left_out > 0 { " .." } else { "" };
        return format!(
            "`old_text` does not occur; but for white space, it stands at {}, where the file has exactly:\n{exact}{more}\n",
            if from == to {
                format!("line {from}")
            } else {
                format!("lines {from} to {to}")
            }
        );
    }
    match lines.iter().find(|(_, line)| line.contains(first)) {
        Some((line, _)) => format!(
            "`old_text` does not occur; its first line stands at line {line}, but what follows differs; read the file \
             again from there"
        ),
        None => "`old_text` does not occur, not even its first line; read the file again".to_owned(),
    }
}
