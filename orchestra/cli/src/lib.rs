//! The `orchestra` program, and the same commands for the pipelines that a program is compiled with.
//!
//! `orchestra::main!(review, release)` gives a program the whole command line; this crate is what it calls.

mod agents;
mod answers;
mod args;
mod commands;
mod console;
mod depth;
mod entry;
mod error;
mod finish;
#[doc(hidden)]
pub mod fuzzing;
mod going;
mod layout;
mod listing;
mod output;
mod parameters;
mod pipelines;
mod progress;
mod rows;
mod runs;
mod runtime;
mod signals;
mod startable;
mod tail;
mod terminal;
mod usage;
mod waiting;
mod workspace;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use orchestra_engine::process::{forbid_inspection, run_as_subreaper, survive_file_size_limit};
use serde_json::json;

use crate::args::Cli;
use crate::console::indented;
use crate::error::{CliError, Exit};
use crate::pipelines::Pipelines;
use crate::signals::Signals;
use crate::terminal::{Paint, Terminal};

pub use crate::entry::Entry;

/// The variable that lets debuggers and tracers at the program.
const DUMPABLE: &str = "ORCHESTRA_DUMPABLE";

/// Runs the command line of a program that is compiled with these pipelines; none for `orchestra` itself.
///
/// The exit code follows the contract: 0 ok, 1 the run failed, 2 wrong usage, 3 invalid pipeline, 4 credentials
/// missing, 5 it waits for a person and nobody can be asked, 6 a budget was reached, 7 another process owns the run,
/// 74 the output could not be written, 130 stopped from outside.
///
/// On Linux the process becomes the parent of all orphans among its descendants: see
/// [`run_as_subreaper`]; and other processes of the user can neither read its environment or memory nor trace it, unless
/// `ORCHESTRA_DUMPABLE=1` is set: see [`forbid_inspection`].
pub fn main(entries: Vec<Entry>) -> ExitCode {
    if std::env::var_os(DUMPABLE).is_none_or(|value| value != "1") {
        forbid_inspection();
    }
    survive_file_size_limit();
    // Handlers of a compiled pipeline may start processes of their own, which are theirs to end.
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
                Err(error) => tell(&error, &terminal),
            };
            (terminal, exit)
        }
        Err(error) => usage::refuse(&error),
    };
    ended(exit, &terminal).into()
}

/// Tells why a command ended otherwise than well.
fn tell(error: &CliError, terminal: &Terminal) -> Exit {
    if terminal.json {
        terminal.object(&json!({
            "schema": "orchestra.error/1", "code": error.code, "message": error.message, "help": error.advice(),
            "resume": error.resume,
        }));
    }
    let mark = terminal.paint(Paint::Bad, &format!("error[{}]", error.code));
    terminal.say(&format!("{mark}: {}", indented(&error.message)));
    if let Some(help) = error.advice() {
        terminal.say(&format!("  help: {}", indented(help)));
    }
    if let Some(command) = &error.resume {
        terminal.say(&finish::resume_line(terminal, command));
    }
    error.exit
}

/// Waits until the output is written, and tells where it cannot be.
fn ended(exit: Exit, terminal: &Terminal) -> Exit {
    let exit = match drained() {
        true => exit,
        false => exit.or(Exit::Cancelled),
    };
    let Some((stream, error)) = Terminal::failure() else {
        return exit;
    };
    let mark = terminal.paint(Paint::Bad, "error[output]");
    terminal.say(&format!("{mark}: cannot write {stream}: {error}"));
    Terminal::hurry();
    Terminal::drain(None);
    exit.or(Exit::Output)
}

/// How long the output is waited for before signals are listened to.
const SOON: Duration = Duration::from_millis(50);

/// Waits for the reader of the output, unless somebody asks the program to end; returns whether all is written.
fn drained() -> bool {
    if Terminal::drain(Some(SOON)) {
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
                () = signals.next() => Terminal::hurry(),
            }
        }
    })
}

/// The name under which the program was called.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path)
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "orchestra".to_owned())
}
