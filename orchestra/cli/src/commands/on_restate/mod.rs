//! The commands about runs on a Restate server: those with `--on`, `export` and `sync`.

mod control;
pub(super) mod errors;
pub(super) mod export;
mod followed;
mod options;
mod run;
pub(super) mod server_runs;
mod status;

use crate::args::Command;
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::terminal::Terminal;

/// Performs a command if it is about a run on a server.
pub(super) fn dispatch(
    command: &Command,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Option<Result<Exit, CliError>> {
    Some(match command {
        Command::Run(args) => run::run(args, args.server.on.as_deref()?, program, pipelines, terminal),
        Command::Resume(args) => run::resume(args, args.server.on.as_deref()?, program, terminal),
        Command::Attach(args) => run::attach(args, args.server.on.as_deref()?, program, terminal),
        Command::Status(args) => status::status(args, args.server.on.as_deref()?, program, terminal),
        Command::Answer(args) => control::answer(args, args.server.on.as_deref()?, program, terminal),
        Command::Pause(args) => control::pause(args, args.server.on.as_deref()?, program, terminal),
        Command::Cancel(args) => control::cancel(args, args.server.on.as_deref()?, program, terminal),
        _ => return None,
    })
}
