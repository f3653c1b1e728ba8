//! The options of `mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Lints, RunsDir};

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: McpCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Start the MCP servers of the project, and record their tools in `orchestra.mcp.lock` for review
    Lock(McpLockArgs),
    /// Serve pipelines as tools of the Model Context Protocol, on standard input and output
    Serve(McpServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpLockArgs {
    /// Write nothing, and fail if a server is not locked or offers other tools
    #[arg(long, conflicts_with = "accept")]
    pub(crate) check: bool,
    /// Replace the recorded tools of this server by those that it offers now
    #[arg(long, value_name = "SERVER")]
    pub(crate) accept: Vec<String>,
    /// The project configuration [default: `orchestra.yaml` here or in a parent folder of the repository]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct McpServeArgs {
    /// The pipelines
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) lints: Lints,
    /// The project configuration [default: the nearest `orchestra.yaml` in the folder of each pipeline or a parent]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}
