//! `mcp`: the tools of MCP servers, and pipelines as such tools.

mod lock;

use crate::args::{McpArgs, McpCommand};
use crate::error::{CliError, Exit};
use crate::terminal::Terminal;

pub(crate) fn mcp(args: &McpArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    match &args.command {
        McpCommand::Lock(args) => lock::lock(args, terminal),
    }
}
