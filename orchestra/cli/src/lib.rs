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
mod going;
mod layout;
mod listing;
mod parameters;
mod pipelines;
mod progress;
mod runs;
mod signals;
mod startable;
mod tail;
mod terminal;
mod waiting;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use serde_json::json;

use crate::args::Cli;
use crate::error::Exit;
use crate::pipelines::Pipelines;
use crate::terminal::{Paint, Terminal};

pub use crate::entry::Entry;

/// Runs the command line of a program that is compiled with these pipelines; none for `orchestra` itself.
///
/// The exit code follows the contract: 0 ok, 1 the run failed, 2 wrong usage, 3 invalid pipeline, 4 credentials
/// missing, 5 it waits for a person and nobody can be asked, 6 a budget was reached, 7 another process owns the run,
/// 130 stopped from outside.
pub fn main(entries: Vec<Entry>) -> ExitCode {
    let program = program();
    let mut command = Cli::command().name(program.clone()).bin_name(program.clone());
    if !entries.is_empty() {
        let names: Vec<&str> = entries.iter().map(Entry::name).collect();
        command = command.before_help(format!("Compiled pipelines: {}", names.join(", ")));
    }
    let cli = match command
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, misuse to standard error; a closed pipe is no fault.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Ok.into()
            };
        }
    };
    let terminal = Terminal::new(&cli.common);
    match commands::dispatch(cli, &program, &Pipelines { entries }, &terminal) {
        Ok(exit) => exit.into(),
        Err(error) => {
            if terminal.json {
                terminal.object(&json!({
                    "schema": "orchestra.error/1", "code": error.code, "message": error.message, "help": error.help,
                    "resume": error.resume,
                }));
            }
            terminal.say(&format!(
                "{}: {error}",
                terminal.paint(Paint::Bad, &format!("error[{}]", error.code))
            ));
            if let Some(help) = &error.help {
                terminal.say(&format!("  help: {help}"));
            }
            if let Some(command) = &error.resume {
                terminal.say(&finish::resume_line(&terminal, command));
            }
            error.exit.into()
        }
    }
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
