//! The errors of servers.

use std::time::Duration;

use orchestra_graph::format_duration;

/// The error of a server that cannot be used.
///
/// ```
/// use orchestra_mcp::McpError;
/// let error = McpError::Changed {
///     server: "files".to_owned(),
///     differences: vec!["the tool `remove` was added".to_owned()],
/// };
/// assert_eq!(error.code(), "mcp_changed");
/// assert!(error.to_string().contains("orchestra mcp lock --accept files"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The server cannot be started, or does not speak the protocol.
    #[error("the MCP server `{server}` cannot be started: {reason}")]
    Start {
        /// The name of the server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The server took too long to start.
    #[error("the MCP server `{server}` has not started in {}; `start_timeout` allows more", format_duration(*limit))]
    StartTimeout {
        /// The name of the server.
        server: String,
        /// The time limit.
        limit: Duration,
    },
    /// The server offers other tools than those that were reviewed.
    #[error(
        "the MCP server `{server}` differs from `orchestra.mcp.lock`: {}; review it with `orchestra mcp lock --accept {server}`",
        differences.join(", ")
    )]
    Changed {
        /// The name of the server.
        server: String,
        /// The differences, each with the name of a tool.
        differences: Vec<String>,
    },
    /// The tools of the server were never reviewed.
    #[error("the tools of the MCP server `{server}` are not locked; run `orchestra mcp lock`")]
    NotLocked {
        /// The name of the server.
        server: String,
    },
    /// The environment lacks a variable with the value of a header.
    #[error("the environment variable `{variable}`, which the MCP server `{server}` needs, is not set")]
    MissingVariable {
        /// The name of the server.
        server: String,
        /// The name of the variable.
        variable: String,
    },
    /// The configuration has no server of this name.
    #[error("the configuration has no MCP server `{server}`")]
    UnknownServer {
        /// The name.
        server: String,
    },
}

impl McpError {
    /// Returns the code of the error, which becomes the `failure_code` of a stage.
    pub const fn code(&self) -> &'static str {
        match self {
            McpError::Start { .. } => "mcp_start",
            McpError::StartTimeout { .. } => "mcp_start_timeout",
            McpError::Changed { .. } => "mcp_changed",
            McpError::NotLocked { .. } => "mcp_not_locked",
            McpError::MissingVariable { .. } => "mcp_variable",
            McpError::UnknownServer { .. } => "mcp_unknown_server",
        }
    }
}
