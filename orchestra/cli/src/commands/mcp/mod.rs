//! `mcp`: the tools of MCP servers, and pipelines as such tools.

mod lock;
mod serve;

use crate::args::{McpArgs, McpCommand};
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::terminal::Terminal;

pub(crate) fn mcp(
    args: &McpArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    match &args.command {
        McpCommand::Lock(args) => lock::lock(args, terminal),
        McpCommand::Serve(args) => serve::serve(args, program, pipelines, terminal),
    }
}
