//! The tool `shell`.

use std::sync::LazyLock;
use std::time::Duration;

use orchestra_engine::process::{Exit, ShellCommand, ToolOutput};
use orchestra_graph::{GIT_VARIABLES, format_duration};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{arguments, text};
use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

/// Default time limit of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time limit of a command.
const MAX_TIMEOUT: Duration = Duration::from_secs(1_800);

const DESCRIPTION: &str = "Runs a command in the working folder, and gives its exit code and both outputs. \
    It finds no input, and nothing of it stays behind when it ends. Of a long output the middle is left \
    out.";

/// The tool `shell`, which runs a command.
pub(crate) struct Shell;

static SCHEMA: LazyLock<Value> = LazyLock::new(arguments::schema_of::<Arguments>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command, as the shell (`sh -c`) reads it.
    command: String,
    /// After how many seconds the command is ended: 120 unless given, 1800 at most.
    timeout_seconds: Option<u64>,
}

impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "shell".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: Value::clone(&SCHEMA),
        }
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = arguments::read(&SCHEMA, arguments)?;
            if arguments.command.contains('\0') {
                return Err(ToolError::new("the command holds a NUL character"));
            }
            let limit = match arguments.timeout_seconds {
                Some(0) => return Err(ToolError::new("`timeout_seconds` is 0, so nothing could be done")),
                Some(seconds) => Duration::from_secs(seconds).min(MAX_TIMEOUT),
                None => DEFAULT_TIMEOUT,
            };
            let command = in_context(ShellCommand::new(arguments.command), &context).timeout(limit);
            finished(command, limit, context.most_output())
                .await
                .map(Into::into)
        })
    }
}

/// Applies the working folder, the environment, the redaction and the cancellation of a call to a command.
pub(crate) fn in_context(command: ShellCommand, context: &ToolContext) -> ShellCommand {
    let names = context.inherited_env().iter().filter(|name| !is_of_git(name));
    let command = names.fold(command, |command, name| command.inherit(name.as_str()));
    let command = match context.stage() {
        Some(stage) => command.of_stage(stage),
        None => command,
    };
    // The output is sent to the provider of the model, so redact it.
    let redactor = context.stage().and_then(|stage| stage.redactor().cloned());
    command
        .redact(redactor)
        .directory(context.root())
        .cancel(context.cancellation().clone())
}

/// Returns whether a variable could make git use a repository other than that of the command's folder.
pub(crate) fn is_of_git(name: &str) -> bool {
    GIT_VARIABLES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Runs a command. Returns its output as text for a model; any exit other than code 0 is an error.
pub(crate) async fn finished(
    command: ShellCommand,
    limit: Duration,
    most: usize,
) -> Result<String, ToolError> {
    // The captured parts of both streams together fit into the result.
    let each = most.saturating_sub(600) / 2;
    let output = command.capture_limit(each).run().await.map_err(|error| {
        let source = std::error::Error::source(&error);
        let cause = source.map_or_else(String::new, |cause| format!(": {cause}"));
        ToolError::new(format!("{error}{cause}"))
    })?;
    let report = report(&output, limit);
    match output.exit {
        Exit::Code(0) => Ok(report),
        _ => Err(ToolError::new(report)),
    }
}

/// Describes how a command ended, with its output.
fn report(output: &ToolOutput, limit: Duration) -> String {
    let mut report = match output.exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::TimedOut => format!("ended after {}, its time limit", format_duration(limit)),
        Exit::Cancelled => "cancelled".to_owned(),
        _ => "ended".to_owned(),
    };
    for (name, stream, bytes) in [
        ("standard output", &output.stdout, output.stdout_bytes),
        ("standard error output", &output.stderr, output.stderr_bytes),
    ] {
        if bytes > 0 {
            let bytes = text::count(usize::try_from(bytes).unwrap_or(usize::MAX), "byte");
            report.push_str(&format!(
                "\n--- {name} ({bytes}) ---\n{}",
                stream.trim_end_matches('\n')
            ));
        }
    }
    if output.stdout_bytes + output.stderr_bytes == 0 {
        report.push_str("\nno output");
    }
    if output.truncated {
        report.push_str(
            "\n[of the output only the ends are shown; to see all of it, send it to a file and read that in parts]",
        );
    }
    if output.lossy {
        report.push_str("\n[bytes that are not UTF-8 are shown as \u{fffd}]");
    }
    report
}
