//! `orchestra.mcp.lock`: the tools of MCP servers as they were reviewed, with its parser and its writer.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the lock file of MCP servers, which is beside the configuration.
///
/// ```
/// assert_eq!(orchestra_config::MCP_LOCK_FILE, "orchestra.mcp.lock");
/// ```
pub const MCP_LOCK_FILE: &str = "orchestra.mcp.lock";

/// The schema of the file.
const SCHEMA: &str = "orchestra.mcp.lock/1";

/// The comment at the top of the file.
const HEAD: &str = "\
# The tools of the MCP servers of this project, as they were reviewed. Keep this file in version control. `orchestra mcp
# lock` writes it; do not edit it. A run stops if a server offers other tools, or describes one of them in other words.
";

/// The content of a lock file: all tools of each locked server.
///
/// The file is JSON after comment lines that begin with `#`. Writing is deterministic: servers and tools are sorted by
/// name.
///
/// ```
/// use orchestra_config::{LockedMcpTool, McpLock};
/// let tool = LockedMcpTool {
///     name: "read_text_file".to_owned(),
///     description: "Reads a file.".to_owned(),
///     input_schema: serde_json::json!({"type": "object"}),
///     sha256: "00".to_owned(),
/// };
/// let mut lock = McpLock::default();
/// lock.set("files", vec![tool.clone()]);
/// let text = lock.to_string();
/// assert_eq!(McpLock::parse(&text), Ok(lock.clone()));
/// assert_eq!(lock.tool("files", "read_text_file"), Some(&tool));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpLock {
    servers: BTreeMap<String, Vec<LockedMcpTool>>,
}

/// A tool of a server as it was locked.
///
/// ```
/// use orchestra_config::LockedMcpTool;
/// assert_eq!(LockedMcpTool::default().name, "");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedMcpTool {
    /// The name, as the server writes it.
    pub name: String,
    /// The description, without invisible characters. Models read it.
    pub description: String,
    /// The JSON schema of the arguments. Models read it.
    pub input_schema: Value,
    /// The SHA-256 of the name, the description and the schema as the server sends them, in hexadecimal digits.
    pub sha256: String,
}

/// An error in the lock file of MCP servers, with its position.
///
/// ```
/// let error = orchestra_config::McpLock::parse("# comment\n{\"schema\": 1}").unwrap_err();
/// assert_eq!((error.line, error.column > 1), (2, true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpLockError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The problem.
    pub message: String,
}

impl fmt::Display for McpLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for McpLockError {}

/// The JSON of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    servers: BTreeMap<String, Vec<LockedMcpTool>>,
}

impl McpLock {
    /// Parses the text of a lock file.
    ///
    /// # Errors
    /// Returns an error if the text is not a lock file of this version.
    pub fn parse(text: &str) -> Result<McpLock, McpLockError> {
        let mut comments = 0;
        let mut rest = text;
        while let Some(line) = rest.strip_prefix('#') {
            comments += 1;
            rest = line.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let document: Document = serde_json::from_str(rest).map_err(|error| {
            let message = error.to_string();
            // The position is a part of the message, and is a field here.
            let message = message.split(" at line ").next().unwrap_or_default();
            McpLockError {
                line: error.line().max(1) + comments,
                column: error.column().max(1),
                message: message.to_owned(),
            }
        })?;
        if document.schema != SCHEMA {
            return Err(McpLockError {
                line: comments + 1,
                column: 1,
                message: format!("the schema is `{}`, expected `{SCHEMA}`", document.schema),
            });
        }
        let mut lock = McpLock::default();
        for (server, tools) in document.servers {
            lock.set(server, tools);
        }
        Ok(lock)
    }

    /// Sets the tools of a server.
    pub fn set(&mut self, server: impl Into<String>, mut tools: Vec<LockedMcpTool>) {
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        self.servers.insert(server.into(), tools);
    }

    /// Keeps only the servers with these names.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.servers.retain(|server, _| is_kept(server));
    }

    /// Returns the tools of a server, sorted by name. Returns `None` if the server is not locked.
    pub fn server(&self, name: &str) -> Option<&[LockedMcpTool]> {
        self.servers.get(name).map(Vec::as_slice)
    }

    /// Returns a tool of a server by the name that the server gives it.
    pub fn tool(&self, server: &str, name: &str) -> Option<&LockedMcpTool> {
        self.server(server)?.iter().find(|tool| tool.name == name)
    }
}

impl fmt::Display for McpLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = Document {
            schema: SCHEMA.to_owned(),
            servers: self.servers.clone(),
        };
        let text = serde_json::to_string_pretty(&document).map_err(|_| fmt::Error)?;
        writeln!(f, "{HEAD}{text}")
    }
}
