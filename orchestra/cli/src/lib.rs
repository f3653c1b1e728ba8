//! The `orchestra` program, and its command line for programs with compiled pipelines.
//!
//! `orchestra::main!(review, release)` gives a program the complete command line; its `main` calls [`main()`].
//!
//! # Glossary
//!
//! - **Entry** ([`Entry`]): a pipeline by name, with the function that begins its runs.
//! - **Runs folder**: the folder that contains all run folders, `.orchestra/runs` by default.
//! - **Owner**: the process that executes a run.
//! - **Gate**: a human gate, a stage that asks a person to choose an edge.
//! - **Console**: the interviewer that asks questions on the terminal.
//! - **Resume**: to continue a run that stopped, under its own id.
//! - **Retry**: to resume a failed run at the stage that failed.
//! - **Replay**: to start a new run from a checkpoint of another one.
//! - **Attach**: to follow a run that another process executes.
//! - **Worker**: a process that executes runs for a Restate server, which stores and distributes them.
//! - **Exit code**: the documented code of a command, such as 1 for a failed run.
//!
//! # Modules, in reading order
//!
//! - `args`: the commands and options.
//! - `commands`: the commands, one module each.
//!   - `served`: the pipelines of a project as a server offers them.
//!   - `follow`, `forward`: showing a run that another process executes, and forwarding its questions.
//!   - `on_restate`: the commands about runs on a Restate server.
//! - `error`: the errors that end a command, and the exit codes.
//! - `usage`: usage errors, help and the version.
//! - `project`: pipelines and their project.
//!   - `pipelines`: loading a pipeline from a file or from the program.
//!   - `parameters`: the values of `--set`.
//!   - `agents`: the project configuration and its agents.
//!   - `repositories`: the git repositories of a project.
//!   - `lock`: the lock file of a project and the texts that it pins.
//!   - `startable`: the check whether a run would start.
//!   - `pages`: the documentation pages of diagnostics.
//!   - `webhooks`: the webhooks of a project, with their secrets.
//!   - `workflows`: station workflows in the database of a project.
//! - `runs`: the runs folder, and finding runs by their names.
//!   - `session`: a run that this process executes.
//!   - `runtime`: the tokio runtime.
//!   - `signals`: signals that ask the program to end.
//!   - `indexing`: adding a run to the index.
//!   - `errors`: the errors of runs that cannot start or stop unexpectedly.
//!   - `stopped`: the commands that resume, retry or replay a stopped run.
//!   - `telemetry`: traces and metrics, if the environment requests them.
//!   - `tail`: following the events of a run of another process.
//! - `questions`: questions to people.
//!   - `console`: questions on the terminal.
//!   - `answers`: the answers of the command line, and automatic approval.
//! - `report`: what is printed about pipelines and runs.
//!   - `progress`: the progress display of a run; its `events` adds the lines of events.
//!   - `finish`: the report at the end of a run.
//!   - `details`: the detailed report of one run; its `print` writes the report as `text`, its `markdown` a
//!     summary.
//!   - `comparison`: the comparison of two runs as text.
//!   - `session`: what the list and the details of runs have in common.
//!   - `rows`: paged access to the index rows of a run.
//!   - `stages`: the names of attempts as they are shown.
//!   - `branches`: the branches of a run in its repositories.
//!   - `schema`: the JSON form of reports.
//!   - `annotations`: diagnostics as commands of a workflow runner.
//!   - `diagnostics`: printing diagnostics.
//! - `terminal`: safe output of text and JSON.
//!   - `output`: the writers of the standard streams.
//!   - `screen`: the screen that questions and progress share.
//!   - `table`: tables.
//!   - `format`: formatting of times, amounts and texts.
//! - `fuzzing`: entry points for fuzz tests.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod args;
mod commands;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod project;
mod questions;
mod report;
mod runs;
mod terminal;
mod usage;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use orchestra_engine::process::{
    forbid_inspection, raise_file_limit, run_as_subreaper, survive_file_size_limit,
};
use serde_json::json;

use crate::args::Cli;
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::report::finish::resume_line;
use crate::runs::signals::Signals;
use crate::terminal::format::indented;
use crate::terminal::{Paint, Terminal};

pub use orchestra_engine::Entry;

/// The variable that allows debuggers and tracers to inspect the program.
const DUMPABLE: &str = "ORCHESTRA_DUMPABLE";

/// Runs the command line of a program with these compiled pipelines; none for `orchestra` itself.
///
/// The exit codes are: 0 ok, 1 the run failed, 2 wrong usage, 3 invalid pipeline, 4 credentials missing, 5 the run
/// waits for a person and nobody can be asked, 6 a limit was reached, 7 another process owns the run, 74 the output
/// could not be written, 130 stopped from outside.
///
/// On Linux, the process adopts all orphans among its descendants; see [`run_as_subreaper`]. Other processes of the
/// user can neither read its environment or memory nor trace it, unless `ORCHESTRA_DUMPABLE=1` is set; see
/// [`forbid_inspection`].
pub fn main(entries: Vec<Entry>) -> ExitCode {
    if std::env::var_os(DUMPABLE).is_none_or(|value| value != "1") {
        forbid_inspection();
    }
    survive_file_size_limit();
    raise_file_limit();
    // Handlers of a compiled pipeline may start their own processes, which they must end themselves.
    let strays = entries.is_empty();
    run_as_subreaper(strays, || command_line(entries))
}

fn command_line(entries: Vec<Entry>) -> ExitCode {
    let program = program();
    let mut command = Cli::command().name(program.clone()).bin_name(program.clone());
    if !entries.is_empty() {
        let names: Vec<&str> = entries.iter().map(Entry::name).collect();
        command = command.before_help(format!("Compiled pipelines: {}", names.join(", ")));
    }
    let (terminal, exit) = match command
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => {
            let terminal = Terminal::new(&cli.common);
            let exit = match commands::dispatch(cli, &program, &Pipelines { entries }, &terminal) {
                Ok(exit) => exit,
                Err(error) => print_error(&error, &terminal),
            };
            (terminal, exit)
        }
        Err(error) => usage::print(&error),
    };
    finish_output(exit, &terminal).into()
}

/// Prints the error of a command.
fn print_error(error: &CliError, terminal: &Terminal) -> Exit {
    if terminal.json {
        terminal.object(&json!({
            "schema": "orchestra.error/1", "code": error.code, "message": error.message, "help": error.advice(),
            "resume": error.resume,
        }));
    }
    let mark = terminal.paint(Paint::Bad, &format!("error[{}]", error.code));
    terminal.message(&format!("{mark}: {}", indented(&error.message)));
    if let Some(help) = error.advice() {
        terminal.message(&format!("  help: {}", indented(help)));
    }
    if let Some(command) = &error.resume {
        terminal.message(&resume_line(terminal, command));
    }
    error.exit
}

/// Waits until the output is written, and prints an error if it cannot be written.
fn finish_output(exit: Exit, terminal: &Terminal) -> Exit {
    let exit = if drain_output() {
        exit
    } else {
        exit.or(Exit::Cancelled)
    };
    let Some((stream, error)) = Terminal::failure() else {
        return exit;
    };
    let mark = terminal.paint(Paint::Bad, "error[output]");
    terminal.message(&format!("{mark}: cannot write {stream}: {error}"));
    Terminal::limit_drain();
    Terminal::drain(None);
    exit.or(Exit::Output)
}

/// Time to wait for the output before signals are handled.
const SIGNAL_DELAY: Duration = Duration::from_millis(50);

/// Waits for the reader of the output. A signal shortens the wait. Returns whether everything is written.
fn drain_output() -> bool {
    if Terminal::drain(Some(SIGNAL_DELAY)) {
        return true;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else {
        return Terminal::drain(None);
    };
    runtime.block_on(async {
        let mut signals = Signals::new();
        let mut written = pin!(orchestra_engine::beside(|| Terminal::drain(None)));
        loop {
            tokio::select! {
                written = &mut written => return written.unwrap_or(false),
                () = signals.next() => Terminal::limit_drain(),
            }
        }
    })
}

/// Returns the name under which the program was called.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path)
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "orchestra".to_owned())
}
