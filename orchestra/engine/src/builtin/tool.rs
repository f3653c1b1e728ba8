//! Tool stages: a shell command (Attractor 4.10).

use std::num::NonZeroU64;

use orchestra_core::Outcome;
use orchestra_graph::{Stage, format_duration};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::codergen::stored;
use super::command_values::CommandValues;
use super::environment::Environment;
use super::status;
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::into_outcome::error_chain;
use crate::process::{Exit, ProcessError, ShellCommand, ToolOutput};
use crate::run::stage::StageContext;
use crate::stage_end::Finished;
use crate::store::{StageFile, StoreError};

/// Maximum size in bytes of a tool's output in the context. The files hold more.
const OUTPUT: usize = 64 * 1024;
/// Maximum length in characters of the last line, or of a silent command, in a note.
const SHOWN: usize = 200;

/// The tool name under which commands are recorded.
const SHELL: &str = "shell";

pub(crate) struct Tool;

impl Handler for Tool {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { stored(&stage, run(&stage).await) })
    }
}

/// Returns the command that a stage executes.
pub(crate) fn command<'p>(node: Stage<'p>) -> Option<&'p str> {
    node.text("tool_command").filter(|text| !text.trim().is_empty())
}

async fn run(stage: &StageContext) -> Result<Finished, StoreError> {
    let node = stage.node();
    let Some(text) = command(node) else {
        return Ok(Outcome::fail_terminal("no `tool_command` is given").into());
    };
    let files = stage.run().files()?;
    let folder = stage.stage_dir()?;
    let stage_folder = stage.stage_folder();
    // First remove anything that an earlier tool may have planted at these paths.
    files.remove(stage_folder.as_ref(), StageFile::ToolOutput)?;
    files.remove(stage_folder.as_ref(), StageFile::ToolError)?;
    let prompt = node.prompt();
    let prompt = stage.run().redacted(&prompt);
    files.write(stage_folder.as_ref(), StageFile::Prompt, prompt.as_bytes())?;
    let timeout = node.duration("timeout");
    let settings = &stage.run().settings;
    let environment = match Environment::from_stage(stage) {
        Ok(environment) => environment,
        Err(refusal) => return Ok(Outcome::fail_terminal(refusal).into()),
    };
    let values = match CommandValues::from_stage(stage).await {
        Ok(values) => values,
        Err(refusal) => return Ok(Outcome::fail_terminal(refusal).into()),
    };
    let command = environment.give(ShellCommand::new(text)).of_stage(stage);
    let command = values.give(command);
    let mut command = command
        .variable("ORCHESTRA_RUN_DIR", files.folder())
        .variable("ORCHESTRA_STAGE_DIR", &folder)
        .variable("ORCHESTRA_RUN_ID", stage.run_id().to_string())
        .variable("ORCHESTRA_NODE_ID", node.id())
        .variable("ORCHESTRA_STAGE_KEY", stage.stage_key())
        .variable("ORCHESTRA_ATTEMPT", stage.attempt().to_string())
        .variable("ORCHESTRA_ATTEMPT_KEY", stage.attempt_key())
        .variable("ORCHESTRA_PROMPT_FILE", folder.join(StageFile::Prompt.name()))
        .stdout_file(folder.join(StageFile::ToolOutput.name()))
        .stderr_file(folder.join(StageFile::ToolError.name()))
        .capture_limit(OUTPUT)
        .redact(settings.redactor.clone())
        .timeout(timeout)
        .cancel(stage.cancellation());
    if let Some(folder) = stage.working_dir() {
        command = command.directory(folder);
    }
    let began = settings.clock.elapsed();
    let ran = settings.processes.run(command).await;
    let took = settings.clock.elapsed().saturating_sub(began);
    let output = match ran {
        Ok(output) => output,
        Err(error) => {
            stage.record_tool_call(SHELL, None, took, Some(&error_chain(&error)));
            return not_run(error).map(Finished::from);
        }
    };
    let known = known(stage, text, &output);
    stage.record_tool_call(SHELL, None, took, known.outcome.failure_reason.as_deref());
    if let Some(error) = output.file_error {
        return Err(StoreError::io("write the tool's output in", &folder, error));
    }
    if matches!(output.exit, Exit::TimedOut | Exit::Cancelled) {
        return Ok(known);
    }
    let written = status::read(&*files, stage_folder.as_ref(), node);
    let exited = matches!(output.exit, Exit::Code(_));
    Ok(known.replace(|known| match written {
        Ok(Some(written)) => status::merge(known, written),
        Ok(None) if node.flag("auto_status") && exited => status::automatic(),
        Ok(None) => known,
        Err(problem) => Outcome::fail(problem),
    }))
}

/// Returns the outcome of a command as the engine observed it, regardless of a status file.
fn known(stage: &StageContext, text: &str, output: &ToolOutput) -> Finished {
    let last = output.last_line().unwrap_or_default();
    let message = reported_error(&output.stderr).unwrap_or(last);
    let failed = |what: String| match message {
        "" => Outcome::fail(what),
        message => Outcome::fail(format!("{what}: {message}")),
    };
    let (outcome, code) = match output.exit {
        Exit::Code(0) => {
            let shown = if last.is_empty() { text.trim() } else { last };
            let shown: String = shown.chars().take(SHOWN).collect();
            (Outcome::success().notes(shown), Some(0))
        }
        Exit::Code(code) => (failed(format!("exit code {code}")), Some(code)),
        // Shells report a signal as 128 plus its number.
        Exit::Signal(signal) => (failed(format!("killed by signal {signal}")), Some(128 + signal)),
        Exit::TimedOut => {
            let limit = format_duration(stage.node().duration("timeout").unwrap_or_default());
            (Outcome::fail(format!("timed out after {limit}")), None)
        }
        Exit::Cancelled => (Outcome::fail("cancelled"), None),
    };
    let mut outcome = outcome;
    if outcome.failure_reason.is_some() {
        let captured = [output.stdout.as_str(), output.stderr.as_str()].map(str::as_bytes);
        outcome.output_digest = Some(digest(code, captured));
    }
    Finished::from(outcome)
        .record("tool.output", output.stdout.as_str())
        .record("tool.exit_code", code.map_or(Value::Null, Value::from))
        .record("tool.last_line", last)
}

/// Returns a digest of an exit code and of the captured part of both streams (rule R10).
fn digest(code: Option<i32>, streams: [&[u8]; 2]) -> NonZeroU64 {
    let mut hash = Sha256::new();
    hash.update(code.unwrap_or_default().to_le_bytes());
    for stream in streams {
        hash.update((stream.len() as u64).to_le_bytes());
        hash.update(stream);
    }
    let bytes = hash.finalize().into_iter().take(8);
    let number = bytes.fold(0, |number: u64, byte| number << 8 | u64::from(byte));
    NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN)
}

/// Returns the line of a standard error that best says what failed: the last one that begins with `error:`, `error[` or
/// `fatal:`, because advice often follows it, as in the output of git; otherwise the last one that is not blank.
fn reported_error(text: &str) -> Option<&str> {
    let lines = || text.lines().rev().map(str::trim);
    let is_error = |line: &&str| {
        let line = line.as_bytes();
        ["error:", "error[", "fatal:"].iter().any(|word| {
            let start = line.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    lines()
        .find(is_error)
        .or_else(|| lines().find(|line| !line.is_empty()))
}

/// Converts the error of a command without a result. A file that cannot be created ends the run, anything else fails
/// the stage.
fn not_run(error: ProcessError) -> Result<Outcome, StoreError> {
    match error {
        ProcessError::CreateFile { path, source } => Err(StoreError::io("make", &path, source)),
        ProcessError::Directory { .. } | ProcessError::Variable { .. } => {
            Ok(Outcome::fail_terminal(error_chain(&error)))
        }
        other => Ok(Outcome::fail(error_chain(&other))),
    }
}
