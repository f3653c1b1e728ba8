//! Usage errors, help and the version.

use clap::error::ErrorKind;
use serde_json::json;

use crate::args::Common;
use crate::error::Exit;
use crate::terminal::Terminal;

/// Prints a usage error, or the requested help or version.
pub(crate) fn print(error: &clap::Error) -> (Terminal, Exit) {
    // The arguments could not be parsed, so look for the common options in the raw arguments.
    let words = std::env::args_os()
        .skip(1)
        .take_while(|word| word != "--")
        .collect::<Vec<_>>()
        .into_iter();
    let is_given = |options: &[&str]| {
        words
            .clone()
            .any(|word| options.iter().any(|option| word == *option))
    };
    let terminal = Terminal::new(&Common {
        json: is_given(&["--json"]),
        no_color: is_given(&["--no-color"]),
        quiet: is_given(&["--quiet", "-q"]),
    });
    let text = error.render().ansi().to_string();
    if !error.use_stderr() {
        terminal.rendered_result(text.trim_end());
        return (terminal, Exit::Ok);
    }
    if terminal.json {
        let (message, help) = message_and_help(error);
        terminal.object(&json!({
            "schema": "orchestra.error/1", "code": code(error.kind()), "message": message, "help": help,
            "resume": null,
        }));
    }
    terminal.rendered(text.trim_end());
    (terminal, Exit::Usage)
}

fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UnknownArgument => "unknown_argument",
        ErrorKind::InvalidSubcommand => "unknown_command",
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "missing_command"
        }
        ErrorKind::MissingRequiredArgument => "missing_argument",
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => "invalid_value",
        ErrorKind::NoEquals | ErrorKind::TooFewValues | ErrorKind::TooManyValues => "number_of_values",
        ErrorKind::WrongNumberOfValues => "number_of_values",
        ErrorKind::ArgumentConflict => "argument_conflict",
        ErrorKind::InvalidUtf8 => "invalid_utf8",
        _ => "usage",
    }
}

/// Returns the message of an error as one line, and the help text.
fn message_and_help(error: &clap::Error) -> (String, Option<String>) {
    let kind = error.kind();
    if code(kind) == "missing_command" {
        return (
            "the command is missing".to_owned(),
            Some("`--help` lists the commands".to_owned()),
        );
    }
    let text = error.render().to_string();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n").map(one_line).filter(|text| !text.is_empty());
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let help: Vec<String> = paragraphs
        .map(|text| text.strip_prefix("tip: ").map(str::to_owned).unwrap_or(text))
        .filter(|text| !text.starts_with("For more information"))
        .collect();
    (message, Some(help.join("; ")).filter(|help| !help.is_empty()))
}
