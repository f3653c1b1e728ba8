//! The commands, one module each.

mod attach;
mod check;
mod check_locked;
mod checkpoints;
mod cleanup;
mod compare;
mod compile;
mod control;
mod explain;
mod explore;
mod fmt;
mod follow;
mod forward;
mod graph;
mod init;
mod lock;
#[cfg(feature = "lsp")]
mod lsp;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "restate")]
mod on_restate;
mod paths;
#[cfg(any(feature = "restate", feature = "server"))]
mod pipeline_files;
mod resume;
mod run;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "restate")]
mod serve_restate;
#[cfg(any(feature = "mcp", feature = "restate", feature = "server"))]
mod served;
mod stations;
mod status;
mod sweep;
mod unfinished;

use crate::args::{Cli, Command};
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::terminal::Terminal;

pub(crate) fn dispatch(
    cli: Cli,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    #[cfg(feature = "restate")]
    if let Some(done) = on_restate::dispatch(&cli.command, program, pipelines, terminal) {
        return done;
    }
    match cli.command {
        Command::Check(args) => check::check(&args, program, pipelines, terminal),
        Command::Compile(args) => compile::compile(&args, pipelines, terminal),
        Command::Run(args) => run::run(&args, program, pipelines, terminal),
        Command::Resume(args) => resume::resume(&args, program, pipelines, terminal),
        Command::Replay(args) => resume::replay(&args, program, pipelines, terminal),
        Command::Status(args) => status::status(&args, program, terminal),
        Command::Compare(args) => compare::compare(&args, program, terminal),
        Command::Checkpoints(args) => checkpoints::checkpoints(&args, program, terminal),
        Command::Answer(args) => control::answer(&args, program, terminal),
        Command::Pause(args) => control::pause(&args, program, terminal),
        Command::Cancel(args) => control::cancel(&args, program, terminal),
        Command::Cleanup(args) => cleanup::cleanup(&args, program, terminal),
        Command::Attach(args) => attach::attach(&args, program, terminal),
        Command::Graph(args) => graph::graph(&args, program, pipelines, terminal),
        Command::Explore(args) => explore::explore(&args, pipelines, terminal),
        Command::Lock(args) => lock::lock(&args, program, terminal),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::mcp(&args, program, pipelines, terminal),
        Command::Explain(args) => explain::explain(&args, terminal),
        Command::Fmt(args) => fmt::fmt(&args, pipelines, terminal),
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::serve(args, program, pipelines, terminal),
        #[cfg(feature = "restate")]
        Command::Export(args) => on_restate::export::export(&args, program, terminal),
        #[cfg(feature = "restate")]
        Command::Sync(args) => on_restate::export::sync(&args, program, terminal),
        #[cfg(feature = "restate")]
        Command::ServeRestate(args) => serve_restate::serve_restate(&args, program, pipelines, terminal),
        Command::Stations(args) => stations::stations(&args, program, terminal),
        #[cfg(feature = "lsp")]
        Command::Lsp { .. } => lsp::lsp(),
        Command::Init(args) => init::init(&args, program, terminal),
        Command::Completions { shell } => {
            let mut command = <Cli as clap::CommandFactory>::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, program, &mut script);
            terminal.data(String::from_utf8_lossy(&script).trim_end());
            Ok(Exit::Ok)
        }
        Command::Man(args) => man::man(&args, program, terminal),
    }
}
