//! Reading the lock file of MCP servers.

use orchestra_graph::{ChildReader, ReadError, Source, Span};

use crate::files::{FileUse, folder_of, join};
use crate::mcp_lock::{MCP_LOCK_FILE, McpLock, McpLockError};
use crate::tree::MAX_BYTES;

/// The lock file of the MCP servers of a project.
#[derive(Clone, Debug)]
pub(crate) struct ProjectLock {
    pub(crate) path: String,
    /// The file; `None` if it does not exist.
    pub(crate) file: Option<LockText>,
}

/// The text of a lock file, and its content.
#[derive(Clone, Debug)]
pub(crate) struct LockText {
    pub(crate) source: Source,
    pub(crate) lock: Result<McpLock, McpLockError>,
}

impl ProjectLock {
    /// Reads the lock file beside a configuration.
    pub(crate) fn read(configuration: &str, reader: &dyn ChildReader) -> ProjectLock {
        let path = join(folder_of(configuration), MCP_LOCK_FILE);
        let file = match reader.read(&path, MAX_BYTES) {
            Err(ReadError::Missing) => None,
            Err(ReadError::TooLong(length)) => Some(LockText::unreadable(
                &path,
                format!("it has {length} bytes, and may have {MAX_BYTES}"),
            )),
            Err(ReadError::Other(why)) => Some(LockText::unreadable(&path, why)),
            Ok(bytes) => Some(match String::from_utf8(bytes) {
                Ok(text) => LockText {
                    lock: McpLock::parse(&text),
                    source: Source::new(path.as_str(), text.as_str()),
                },
                Err(_) => LockText::unreadable(&path, "it is not UTF-8".to_owned()),
            }),
        };
        ProjectLock { path, file }
    }

    pub(crate) fn file_use(&self) -> FileUse {
        FileUse {
            path: self.path.clone(),
            found: self.file.is_some(),
        }
    }
}

impl LockText {
    fn unreadable(path: &str, message: String) -> LockText {
        LockText {
            source: Source::new(path, ""),
            lock: Err(McpLockError {
                line: 1,
                column: 1,
                message,
            }),
        }
    }
}

/// Returns the span of the character at which an error was found.
pub(crate) fn position(source: &Source, error: &McpLockError) -> Span {
    let text = source.text();
    let lines = text.split_inclusive('\n').take(error.line.saturating_sub(1));
    let line: usize = lines.map(str::len).sum();
    let mut at = (line + error.column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let length = text.get(at..).and_then(|rest| rest.chars().next());
    let end = at + length.map_or(0, char::len_utf8);
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span::new(number(at), number(end))
}
