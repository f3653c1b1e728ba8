//! A backend that runs a coding agent as an external program.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_config::{PromptInput, ReasoningEffort};
use orchestra_engine::process::{Exit, ProcessError, ShellCommand, ToolOutput};
use orchestra_engine::{
    BackendError, Budget, CodergenBackend, CodergenReply, CodergenRequest, ModelCall, StageContext,
    StageFile, Usage,
};
use orchestra_graph::format_duration;
use serde_json::Value;

use crate::hooks::ToolHooks;
use crate::tools::{error_line, is_of_git, line_start};

/// Maximum length of a program's output, in bytes.
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of lines of a program's last output that an error message contains.
const MAX_LAST_LINES: usize = 5;
/// Maximum length of a program's last output in an error message, in bytes.
const MAX_LAST_BYTES: usize = 1_500;
/// The file in the stage folder that contains the prompt.
const PROMPT_FILE: &str = "agent-prompt.md";

/// The format of a program's standard output.
///
/// ```
/// use orchestra_agent::{CliOutput, CliPointers};
/// assert_eq!(CliOutput::default(), CliOutput::Text);
/// assert_ne!(CliOutput::Json(CliPointers::default()), CliOutput::Text);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CliOutput {
    /// The answer as plain text.
    #[default]
    Text,
    /// A JSON document, or lines of which the last JSON object is used.
    Json(CliPointers),
}

/// JSON pointers (RFC 6901) to the values in the output of a program.
///
/// ```
/// use orchestra_agent::CliPointers;
/// let pointers = CliPointers {
///     input_tokens: Some("/usage/input_tokens".into()),
///     output_tokens: Some("/usage/output_tokens".into()),
///     cost: Some("/total_cost_usd".into()),
///     ..CliPointers::default()
/// };
/// assert_eq!(pointers.result, "/result");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliPointers {
    /// The answer, by default at `/result`. A value that is not a text is converted to JSON text.
    pub result: String,
    /// The error flag. If it is `true`, the program failed, regardless of its exit code.
    pub is_error: Option<String>,
    /// The number of input tokens.
    pub input_tokens: Option<String>,
    /// The number of output tokens.
    pub output_tokens: Option<String>,
    /// The cost in US dollars.
    pub cost: Option<String>,
}

impl Default for CliPointers {
    fn default() -> CliPointers {
        CliPointers {
            result: "/result".to_owned(),
            is_error: None,
            input_tokens: None,
            output_tokens: None,
            cost: None,
        }
    }
}

/// The settings of a coding agent that is run as a program.
///
/// ```
/// use std::time::Duration;
/// use orchestra_agent::{CliOutput, CliPointers, CliSettings, PromptInput};
/// let settings = CliSettings::new(r#"my-agent --model "$ORCHESTRA_MODEL" --print"#)
///     .output(CliOutput::Json(CliPointers::default()))
///     .timeout(Duration::from_secs(1_800))
///     .inherit_env(["MY_AGENT_KEY"]);
/// assert_eq!(settings.clone().input(PromptInput::Stdin), settings);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CliSettings {
    command: String,
    input: PromptInput,
    output: CliOutput,
    timeout: Option<Duration>,
    grace: Option<Duration>,
    inherit_env: Vec<String>,
    working_dir: Option<PathBuf>,
}

impl CliSettings {
    /// Creates settings for a shell command that reads its prompt from standard input and writes its answer as text.
    pub fn new(command: impl Into<String>) -> CliSettings {
        CliSettings {
            command: command.into(),
            input: PromptInput::Stdin,
            output: CliOutput::default(),
            timeout: None,
            grace: None,
            inherit_env: Vec::new(),
            working_dir: None,
        }
    }

    /// Sets the way in which the program receives its prompt.
    pub fn input(mut self, input: PromptInput) -> CliSettings {
        self.input = input;
        self
    }

    /// Sets the format of the program's output.
    pub fn output(mut self, output: CliOutput) -> CliSettings {
        self.output = output;
        self
    }

    /// Sets the time limit of the program. The `timeout` of the node applies in any case.
    pub fn timeout(mut self, limit: Duration) -> CliSettings {
        self.timeout = Some(limit);
        self
    }

    /// Sets the time between the request to terminate and the forced termination: 2 s by default.
    pub fn grace(mut self, limit: Duration) -> CliSettings {
        self.grace = Some(limit);
        self
    }

    /// Lets the program inherit additional environment variables, given by their names.
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> CliSettings {
        self.inherit_env = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the folder in which the program works, if it is not that of the run.
    pub fn working_dir(mut self, folder: impl Into<PathBuf>) -> CliSettings {
        self.working_dir = Some(folder.into());
        self
    }
}

/// A stage that a program executes.
///
/// ```
/// use orchestra_agent::{CliCall, ReasoningEffort};
/// use orchestra_engine::CodergenRequest;
/// fn call(request: CodergenRequest) -> CliCall {
///     CliCall {
///         model: Some("small".into()),
///         effort: Some(ReasoningEffort::Low),
///         ..CliCall::new(request.stage, request.prompt)
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct CliCall {
    /// The stage.
    pub stage: StageContext,
    /// The prompt of the stage.
    pub prompt: String,
    /// The system prompt. If it is not empty, it precedes the prompt, separated by an empty line.
    pub system: String,
    /// The provider of the model.
    pub provider: Option<String>,
    /// The model, by its name at the provider.
    pub model: Option<String>,
    /// The reasoning effort of the model.
    pub effort: Option<ReasoningEffort>,
}

impl CliCall {
    /// Creates a call without settings of the model.
    pub fn new(stage: StageContext, prompt: impl Into<String>) -> CliCall {
        CliCall {
            stage,
            prompt: prompt.into(),
            system: String::new(),
            provider: None,
            model: None,
            effort: None,
        }
    }

    /// Returns what the program reads: the system prompt, if there is one, and the prompt.
    pub(crate) fn text(&self) -> String {
        match self.system.trim_end() {
            system if system.trim().is_empty() => self.prompt.clone(),
            system => format!("{system}\n\n{}", self.prompt),
        }
    }
}

/// A backend that runs any coding agent as a program, which has its own loop of model and tool calls.
///
/// The command is a shell command. No part of the prompt, the model or the node is inserted into it. It receives these
/// environment variables:
///
/// | Variable | Meaning |
/// |---|---|
/// | `ORCHESTRA_PROMPT_FILE` | the file that contains the prompt, with [`PromptInput::File`] |
/// | `ORCHESTRA_MODEL`, `ORCHESTRA_PROVIDER`, `ORCHESTRA_REASONING_EFFORT` | the settings of the stage; unset if not configured |
/// | `ORCHESTRA_NODE_ID`, `ORCHESTRA_RUN_ID` | the node and the run |
/// | `ORCHESTRA_ATTEMPT_KEY` | the key of the attempt, which stays the same if it is repeated after a crash |
/// | `ORCHESTRA_STAGE_DIR`, `ORCHESTRA_STATUS_FILE` | the folder of the stage, and the `status.json` in it |
/// | `ORCHESTRA_RUN_DIR` | the run folder, if there is one |
///
/// If the program writes the status file (Attractor appendix C), that file determines the outcome of the stage.
/// Otherwise the stage succeeds if the exit code is 0. Any other exit fails the stage, with the last lines of the
/// program's output. When the stage is cancelled or times out, all processes of the program are ended.
///
/// As a [`CodergenBackend`] it takes the model from the attributes `llm_model`, `llm_provider` and `reasoning_effort`
/// of the node.
///
/// ```
/// use orchestra_agent::{CliBackend, CliSettings};
/// use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let text = r#"digraph { start -> write -> exit; write [llm_model=small, prompt="Say hello."] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let agent = CliSettings::new(r#"echo "$ORCHESTRA_MODEL was asked: $(cat)""#);
/// let engine = Engine::builder().backend(CliBackend::new(agent)).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "small was asked: Say hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct CliBackend {
    settings: CliSettings,
}

impl CodergenBackend for CliBackend {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let text = |name: &str| request.stage.node().text(name).map(str::to_owned);
        let effort = text("reasoning_effort").and_then(|word| ReasoningEffort::from_name(&word));
        let (provider, model) = (text("llm_provider"), text("llm_model"));
        let call = CliCall {
            provider,
            model,
            effort,
            ..CliCall::new(request.stage, request.prompt)
        };
        self.answer(call).await
    }
}

impl CliBackend {
    /// Creates a backend that runs a program.
    pub fn new(settings: CliSettings) -> CliBackend {
        CliBackend { settings }
    }

    /// Runs the program for a stage. Dropping the future ends the program.
    ///
    /// # Errors
    /// Returns an error if the program cannot be run, fails, takes too long, or writes invalid output, or if the stage
    /// has `tool_hooks.pre`, which cannot run around the tool calls of a program.
    pub async fn answer(&self, call: CliCall) -> Result<CodergenReply, BackendError> {
        self.check_hooks(&call.stage)?;
        let command = self.prepare(ShellCommand::new(&self.settings.command), &call)?;
        let began = call.stage.elapsed();
        let output = command.run().await.map_err(|error| self.start_error(error))?;
        let (answer, usage) = parse_output(&self.settings.output, &output.stdout, &output.stderr);
        let answer = self.check_exit(&output).and(answer);
        let mut made = ModelCall::new(
            call.provider.clone().unwrap_or_default(),
            call.model.clone().unwrap_or_default(),
            call.stage.elapsed().saturating_sub(began),
        );
        made.program = true;
        made.usage = usage.unwrap_or_default();
        let error = answer.as_ref().err();
        made.error = error.map(|error| error_line(&error.message));
        made.error_code = error.and_then(|error| error.code.clone());
        call.stage.record_model_call(made);
        match (answer, usage) {
            (Ok(text), Some(usage)) => Ok(CodergenReply::from(text).used(usage)),
            (Ok(text), None) => Ok(text.into()),
            (Err(error), usage) => {
                // The usage of a failed attempt counts as well.
                call.stage.record_usage(usage.unwrap_or_default());
                Err(error)
            }
        }
    }

    /// Returns an error if the stage has a hook that would have to run before the tool calls of the program.
    pub(crate) fn check_hooks(&self, stage: &StageContext) -> Result<(), BackendError> {
        if !ToolHooks::from_stage(stage).has_pre() {
            return Ok(());
        }
        let message =
            "`tool_hooks.pre` does not run around the tool calls of a program; use the backend `agent`";
        Err(BackendError::terminal(message).code("backend_capability"))
    }

    /// Returns the folder in which the program works for a stage. Returns `None` for that of this process.
    pub(crate) fn folder(&self, stage: &StageContext) -> Option<PathBuf> {
        match (&self.settings.working_dir, stage.workplace()) {
            (Some(folder), None) => Some(folder.clone()),
            _ => stage.working_dir().map(Path::to_owned),
        }
    }

    /// Adds to a command what a program gets for a stage: its prompt, variables, folder and limits.
    pub(crate) fn prepare(
        &self,
        command: ShellCommand,
        call: &CliCall,
    ) -> Result<ShellCommand, BackendError> {
        let (settings, stage) = (&self.settings, &call.stage);
        let no_folder = |error: String| {
            BackendError::terminal(format!("the program cannot be given its files: {error}"))
                .code("cli_files")
        };
        let folder = stage.stage_dir().map_err(|error| no_folder(error.to_string()))?;
        let prompt = call.text();
        let mut command = command
            .of_stage(stage)
            .variable("ORCHESTRA_NODE_ID", stage.node().id())
            .variable("ORCHESTRA_RUN_ID", stage.run_id().to_string())
            .variable("ORCHESTRA_ATTEMPT_KEY", stage.attempt_key())
            .variable("ORCHESTRA_STAGE_DIR", &folder)
            .variable("ORCHESTRA_STATUS_FILE", folder.join(StageFile::Status.name()))
            .timeout(settings.timeout)
            .capture_limit(MAX_OUTPUT_BYTES)
            .redact(stage.redactor().cloned())
            .cancel(stage.cancellation());
        command = match settings.input {
            PromptInput::Stdin => command.input(prompt),
            PromptInput::File => {
                let path = folder.join(PROMPT_FILE);
                write_new(&path, &prompt).map_err(|error| no_folder(error.to_string()))?;
                command.variable("ORCHESTRA_PROMPT_FILE", path)
            }
        };
        for (name, value) in [
            ("ORCHESTRA_MODEL", call.model.as_deref()),
            ("ORCHESTRA_PROVIDER", call.provider.as_deref()),
            (
                "ORCHESTRA_REASONING_EFFORT",
                call.effort.map(ReasoningEffort::word),
            ),
        ] {
            if let Some(value) = value {
                command = command.variable(name, value);
            }
        }
        if let Some(folder) = stage.run_dir() {
            command = command.variable("ORCHESTRA_RUN_DIR", folder);
        }
        if let Some(folder) = self.folder(stage) {
            command = command.directory(folder);
        }
        if let Some(grace) = settings.grace {
            command = command.grace(grace);
        }
        let names = settings.inherit_env.iter().filter(|name| !is_of_git(name));
        Ok(names.fold(command, |command, name| command.inherit(name)))
    }

    /// Returns the error of a program that could not be run.
    pub(crate) fn start_error(&self, error: ProcessError) -> BackendError {
        let source = std::error::Error::source(&error);
        let message = source.map_or(error.to_string(), |cause| format!("{error}: {cause}"));
        let failure = match error {
            ProcessError::Directory { .. } | ProcessError::Variable { .. } => BackendError::terminal(message),
            _ => BackendError::retryable(message),
        };
        failure.code("cli_not_run")
    }

    /// Returns an error unless the program ended with exit code 0.
    pub(crate) fn check_exit(&self, output: &ToolOutput) -> Result<(), BackendError> {
        let with_last_lines = |what| with_last_lines(what, &output.stdout, &output.stderr);
        let (what, code) = match output.exit {
            Exit::Code(0) => return Ok(()),
            // The exit codes of the shell for a command that is missing or cannot be executed.
            Exit::Code(code @ (126 | 127)) => {
                let message = with_last_lines(format!("the program cannot be run: exit code {code}"));
                return Err(BackendError::terminal(message).code("cli_not_found"));
            }
            Exit::Code(code) => (format!("the program failed: exit code {code}"), "cli_failed"),
            Exit::Signal(signal) => (format!("the program was killed by signal {signal}"), "cli_failed"),
            Exit::TimedOut => {
                let limit = format_duration(self.settings.timeout.unwrap_or_default());
                (format!("the program did not end within {limit}"), "cli_timeout")
            }
            _ => ("the program was cancelled".to_owned(), "cli_cancelled"),
        };
        Err(BackendError::retryable(with_last_lines(what)).code(code))
    }
}

/// Writes a new file. First removes an existing file, which an earlier agent may have created; links are not followed.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Adds the last lines of a program's standard error or, if that is empty, of its standard output.
fn with_last_lines(what: String, stdout: &str, stderr: &str) -> String {
    let output = match stderr.trim() {
        "" => stdout.trim(),
        stderr => stderr,
    };
    let mut lines: Vec<&str> = output.lines().rev().take(MAX_LAST_LINES).collect();
    lines.reverse();
    let lines = lines.join("\n");
    match line_start(&lines, MAX_LAST_BYTES) {
        ("", _) => what,
        (start, 0) => format!("{what}: {start}"),
        (start, _) => format!("{what}: {start} .."),
    }
}

/// Returns the answer that a program wrote, and the usage that it reported.
pub(crate) fn parse_output(
    form: &CliOutput,
    stdout: &str,
    stderr: &str,
) -> (Result<String, BackendError>, Option<Usage>) {
    let CliOutput::Json(pointers) = form else {
        return (Ok(stdout.trim_end().to_owned()), None);
    };
    let found = last_object(stdout);
    let used = found.as_ref().and_then(|found| usage(pointers, found));
    let wrong =
        |what: String| BackendError::retryable(with_last_lines(what, stdout, stderr)).code("cli_output");
    (result(pointers, found.as_ref(), wrong), used)
}

/// Returns the JSON of a program: its whole output, or the last line that is an object.
fn last_object(text: &str) -> Option<Value> {
    if let Ok(whole) = serde_json::from_str(text) {
        return Some(whole);
    }
    let mut lines = text
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| line.starts_with('{'));
    lines.find_map(|line| serde_json::from_str(line).ok())
}

fn result(
    pointers: &CliPointers,
    found: Option<&Value>,
    wrong: impl FnOnce(String) -> BackendError,
) -> Result<String, BackendError> {
    let Some(found) = found else {
        return Err(wrong("the program was to write JSON, and did not".to_owned()));
    };
    let answer = found.pointer(&pointers.result);
    let failed = pointers
        .is_error
        .as_ref()
        .and_then(|pointer| found.pointer(pointer));
    if failed == Some(&Value::Bool(true)) {
        let reason = answer.and_then(Value::as_str).unwrap_or_default();
        let (reason, _) = line_start(reason, MAX_LAST_BYTES);
        return Err(
            BackendError::retryable(format!("the program says that it failed: {reason}")).code("cli_failed"),
        );
    }
    match answer {
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err(BackendError::retryable("the program gave an empty answer").code("cli_empty"))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Null) | None => Err(wrong(format!(
            "the JSON of the program has no answer at `{}`",
            pointers.result
        ))),
        Some(other) => Ok(other.to_string()),
    }
}

/// Returns the usage that a program reported, or `None` if it reported none.
fn usage(pointers: &CliPointers, found: &Value) -> Option<Usage> {
    let at = |pointer: &Option<String>| found.pointer(pointer.as_deref()?);
    let tokens = |pointer| at(pointer).and_then(Value::as_u64);
    let (input, output) = (tokens(&pointers.input_tokens), tokens(&pointers.output_tokens));
    let cost = at(&pointers.cost)
        .and_then(Value::as_f64)
        .filter(|cost| *cost >= 0.0);
    if input.is_none() && output.is_none() && cost.is_none() {
        return None;
    }
    Some(Usage {
        input_tokens: input.unwrap_or(0),
        output_tokens: output.unwrap_or(0),
        cost_micros: Budget::micros_of_dollars(cost.unwrap_or(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_json_is_all_or_the_last_object() {
        assert_eq!(last_object("{\"a\":\n 1}\n"), Some(json!({"a": 1})));
        assert_eq!(
            last_object("{\"a\":1}\nnoise\n  {\"a\":2}\n{cut"),
            Some(json!({"a": 2}))
        );
        assert_eq!(last_object("noise"), None);
    }

    #[test]
    fn usage_is_what_is_reported() {
        let pointers = CliPointers {
            input_tokens: Some("/u/in".to_owned()),
            cost: Some("/cost".to_owned()),
            ..CliPointers::default()
        };
        let reported = usage(&pointers, &json!({"u": {"in": 900}, "cost": 0.0125})).unwrap();
        assert_eq!(
            (
                reported.input_tokens,
                reported.output_tokens,
                reported.cost_micros
            ),
            (900, 0, 12_500)
        );
        assert_eq!(usage(&pointers, &json!({"u": {"in": "many"}, "cost": -1})), None);
    }
}
