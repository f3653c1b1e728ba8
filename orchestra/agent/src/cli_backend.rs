//! Coding agents that are programs of their own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::process::{Exit, ProcessError, ShellCommand, ToolOutput};
use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, StageContext, Usage};
use orchestra_graph::format_duration;
use serde_json::Value;

use crate::hooks::ToolHooks;
use crate::model::ReasoningEffort;
use crate::tools::{is_of_git, line_start};

/// How much of what a program writes is read.
const OUTPUT: usize = 16 * 1024 * 1024;
/// How many lines, and how many bytes, of its last words are told.
const LAST: (usize, usize) = (5, 1_500);
/// The file of the stage that holds the prompt.
const PROMPT_FILE: &str = "agent-prompt.md";

/// How a program gets its prompt.
///
/// ```
/// use orchestra_agent::{CliInput, CliSettings};
/// let settings = CliSettings::new(r#"my-agent --prompt-file "$ORCHESTRA_PROMPT_FILE""#).input(CliInput::File);
/// assert_ne!(settings, CliSettings::new("my-agent"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CliInput {
    /// By its standard input.
    #[default]
    Stdin,
    /// In a file, whose path is in `ORCHESTRA_PROMPT_FILE`.
    File,
}

/// What a program writes to its standard output.
///
/// ```
/// use orchestra_agent::{CliOutput, CliPointers};
/// assert_eq!(CliOutput::default(), CliOutput::Text);
/// assert_ne!(CliOutput::Json(CliPointers::default()), CliOutput::Text);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CliOutput {
    /// The answer itself.
    #[default]
    Text,
    /// One JSON document, or lines of which the last object counts.
    Json(CliPointers),
}

/// Where things stand in the JSON of a program, by JSON pointers (RFC 6901).
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
    /// The answer: `/result` unless set. What is no text is taken as JSON.
    pub result: String,
    /// Whether the program failed: `true` where it did, whatever its exit code.
    pub is_error: Option<String>,
    /// The number of tokens that were sent.
    pub input_tokens: Option<String>,
    /// The number of tokens that were answered.
    pub output_tokens: Option<String>,
    /// What it cost, in US dollars.
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

/// How a program is run that is a coding agent.
///
/// ```
/// use std::time::Duration;
/// use orchestra_agent::{CliInput, CliOutput, CliPointers, CliSettings};
/// let settings = CliSettings::new(r#"my-agent --model "$ORCHESTRA_MODEL" --print"#)
///     .output(CliOutput::Json(CliPointers::default()))
///     .timeout(Duration::from_secs(1_800))
///     .inherit_env(["MY_AGENT_KEY"]);
/// assert_eq!(settings.clone().input(CliInput::Stdin), settings);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct CliSettings {
    command: String,
    input: CliInput,
    output: CliOutput,
    timeout: Option<Duration>,
    grace: Option<Duration>,
    inherit_env: Vec<String>,
    working_dir: Option<PathBuf>,
}

impl CliSettings {
    /// A shell command that reads its prompt from the standard input and writes its answer as text.
    pub fn new(command: impl Into<String>) -> CliSettings {
        CliSettings {
            command: command.into(),
            input: CliInput::default(),
            output: CliOutput::default(),
            timeout: None,
            grace: None,
            inherit_env: Vec::new(),
            working_dir: None,
        }
    }

    /// Sets how the prompt comes to it.
    pub fn input(mut self, input: CliInput) -> CliSettings {
        self.input = input;
        self
    }

    /// Sets what it writes.
    pub fn output(mut self, output: CliOutput) -> CliSettings {
        self.output = output;
        self
    }

    /// Sets the time after which it is ended; the node's own `timeout` holds in any case.
    pub fn timeout(mut self, limit: Duration) -> CliSettings {
        self.timeout = Some(limit);
        self
    }

    /// Sets the time between the request to end and the end by force: 2 s unless set.
    pub fn grace(mut self, limit: Duration) -> CliSettings {
        self.grace = Some(limit);
        self
    }

    /// Lets it see more variables of the environment, by their names.
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> CliSettings {
        self.inherit_env = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the folder in which it works, if not that of the run.
    pub fn working_dir(mut self, folder: impl Into<PathBuf>) -> CliSettings {
        self.working_dir = Some(folder.into());
        self
    }
}

/// One stage that a program is asked to do.
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
    /// What it is asked.
    pub prompt: String,
    /// What it is told about itself; where there is some, it comes before the prompt, with an empty line between.
    pub system: String,
    /// The provider of the model.
    pub provider: Option<String>,
    /// The model, by the provider's own name for it.
    pub model: Option<String>,
    /// How long the model may think.
    pub effort: Option<ReasoningEffort>,
}

impl CliCall {
    /// A call without a word on models.
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
}

/// A backend that runs any coding agent as a program: the whole loop of model and tools is the program's own.
///
/// The command is one of the shell. Nothing of the prompt, the model or the node becomes a part of it; it finds
///
/// | Variable | What it is |
/// |---|---|
/// | `ORCHESTRA_PROMPT_FILE` | the file that holds the prompt, with [`CliInput::File`] |
/// | `ORCHESTRA_MODEL`, `ORCHESTRA_PROVIDER`, `ORCHESTRA_REASONING_EFFORT` | what was chosen for the stage; not set where nothing was |
/// | `ORCHESTRA_NODE_ID`, `ORCHESTRA_RUN_ID` | the node and the run |
/// | `ORCHESTRA_ATTEMPT_KEY` | a key that is the same when the attempt is repeated after a crash |
/// | `ORCHESTRA_STAGE_DIR`, `ORCHESTRA_STATUS_FILE` | the folder of the stage, and the `status.json` in it |
/// | `ORCHESTRA_RUN_DIR` | the run folder, where there is one |
///
/// Where the program writes the status file (Attractor appendix C), this says how the stage ended; else it succeeded
/// where the program ends with the exit code 0. Any other exit fails the stage, with the last lines of what it said.
/// When the stage is cancelled or out of time, nothing of the program stays behind.
///
/// As a [`CodergenBackend`] it takes the model from the node's `llm_model`, `llm_provider` and `reasoning_effort`.
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
/// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
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
        let effort = text("reasoning_effort").and_then(|word| word.parse().ok());
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
    /// A backend that runs a program.
    pub fn new(settings: CliSettings) -> CliBackend {
        CliBackend { settings }
    }

    /// Has a stage done. Dropping the future ends the program.
    ///
    /// # Errors
    /// The program cannot be run, fails, takes too long, or does not write what it should; or the stage has
    /// `tool_hooks.pre`, which cannot run around the tool calls of a program.
    pub async fn answer(&self, call: CliCall) -> Result<CodergenReply, BackendError> {
        if ToolHooks::of(&call.stage).guards() {
            let told =
                "`tool_hooks.pre` does not run around the tool calls of a program; use the backend `agent`";
            return Err(BackendError::terminal(told).code("backend_capability"));
        }
        let command = self.command(&call)?;
        let output = command.run().await.map_err(not_run)?;
        let (written, usage) = written(&self.settings.output, &output.stdout, &output.stderr);
        let answered = self.exited(&output).and(written);
        match (answered, usage) {
            (Ok(text), Some(usage)) => Ok(CodergenReply::from(text).used(usage)),
            (Ok(text), None) => Ok(text.into()),
            (Err(error), usage) => {
                // What a failed attempt used counts as well.
                call.stage.record_usage(usage.unwrap_or_default());
                Err(error)
            }
        }
    }

    fn command(&self, call: &CliCall) -> Result<ShellCommand, BackendError> {
        let (settings, stage) = (&self.settings, &call.stage);
        let no_folder = |fault: String| {
            BackendError::terminal(format!("the program cannot be given its files: {fault}"))
                .code("cli_files")
        };
        let folder = stage.stage_dir().map_err(|fault| no_folder(fault.to_string()))?;
        let prompt = match call.system.trim().is_empty() {
            true => call.prompt.clone(),
            false => format!("{}\n\n{}", call.system.trim_end(), call.prompt),
        };
        let mut command = ShellCommand::new(&settings.command)
            .of_stage(stage)
            .variable("ORCHESTRA_NODE_ID", stage.node().id())
            .variable("ORCHESTRA_RUN_ID", stage.run_id().to_string())
            .variable("ORCHESTRA_ATTEMPT_KEY", stage.attempt_key())
            .variable("ORCHESTRA_STAGE_DIR", &folder)
            .variable("ORCHESTRA_STATUS_FILE", folder.join("status.json"))
            .timeout(settings.timeout)
            .capture_limit(OUTPUT)
            .redact(stage.redactor().cloned())
            .cancel(stage.cancellation());
        command = match settings.input {
            CliInput::Stdin => command.input(prompt),
            CliInput::File => {
                let path = folder.join(PROMPT_FILE);
                fresh(&path, &prompt).map_err(|fault| no_folder(fault.to_string()))?;
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
        let own = settings
            .working_dir
            .as_deref()
            .filter(|_| stage.workplace().is_none());
        if let Some(folder) = own.or(stage.working_dir()) {
            command = command.directory(folder);
        }
        if let Some(grace) = settings.grace {
            command = command.grace(grace);
        }
        let names = settings.inherit_env.iter().filter(|name| !is_of_git(name));
        Ok(names.fold(command, |command, name| command.inherit(name)))
    }

    /// Whether the program ended as one does that is content.
    fn exited(&self, output: &ToolOutput) -> Result<(), BackendError> {
        let with_last_words = |what| with_last_words(what, &output.stdout, &output.stderr);
        let (what, code) = match output.exit {
            Exit::Code(0) => return Ok(()),
            // What the shell says of a command that is not there, or cannot be run.
            Exit::Code(code @ (126 | 127)) => {
                let said = with_last_words(format!("the program cannot be run: exit code {code}"));
                return Err(BackendError::terminal(said).code("cli_not_found"));
            }
            Exit::Code(code) => (format!("the program failed: exit code {code}"), "cli_failed"),
            Exit::Signal(signal) => (format!("the program was killed by signal {signal}"), "cli_failed"),
            Exit::TimedOut => {
                let limit = format_duration(self.settings.timeout.unwrap_or_default());
                (format!("the program did not end within {limit}"), "cli_timeout")
            }
            _ => ("the program was cancelled".to_owned(), "cli_cancelled"),
        };
        Err(BackendError::retryable(with_last_words(what)).code(code))
    }
}

/// Writes a new file. What an earlier agent may have planted at its place goes first; a link is not followed.
fn fresh(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
        _ => {}
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn not_run(error: ProcessError) -> BackendError {
    let source = std::error::Error::source(&error);
    let told = source.map_or(error.to_string(), |cause| format!("{error}: {cause}"));
    let made = match error {
        ProcessError::Directory { .. } | ProcessError::Variable { .. } => BackendError::terminal(told),
        _ => BackendError::retryable(told),
    };
    made.code("cli_not_run")
}

/// Adds the last lines of what a program said, of its errors if there are any.
fn with_last_words(what: String, stdout: &str, stderr: &str) -> String {
    let said = match stderr.trim() {
        "" => stdout.trim(),
        said => said,
    };
    let mut lines: Vec<&str> = said.lines().rev().take(LAST.0).collect();
    lines.reverse();
    let lines = lines.join("\n");
    match line_start(&lines, LAST.1) {
        ("", _) => what,
        (start, 0) => format!("{what}: {start}"),
        (start, _) => format!("{what}: {start} .."),
    }
}

/// The answer that a program wrote, and what it says that it used.
pub(crate) fn written(
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
        |what: String| BackendError::retryable(with_last_words(what, stdout, stderr)).code("cli_output");
    (result(pointers, found.as_ref(), wrong), used)
}

/// The JSON of a program: all that it wrote, or the last line that is an object.
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
        let said = answer.and_then(Value::as_str).unwrap_or_default();
        let (said, _) = line_start(said, LAST.1);
        return Err(
            BackendError::retryable(format!("the program says that it failed: {said}")).code("cli_failed"),
        );
    }
    match answer {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Null) | None => Err(wrong(format!(
            "the JSON of the program has no answer at `{}`",
            pointers.result
        ))),
        Some(other) => Ok(other.to_string()),
    }
}

/// What the program says that it used; `None` where it says nothing of the sort.
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
        // A cast keeps within what the number can hold.
        cost_micros: (cost.unwrap_or(0.0) * 1_000_000.0).round() as u64,
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
    fn usage_is_what_is_told() {
        let pointers = CliPointers {
            input_tokens: Some("/u/in".to_owned()),
            cost: Some("/cost".to_owned()),
            ..CliPointers::default()
        };
        let told = usage(&pointers, &json!({"u": {"in": 900}, "cost": 0.0125})).unwrap();
        assert_eq!(
            (told.input_tokens, told.output_tokens, told.cost_micros),
            (900, 0, 12_500)
        );
        assert_eq!(usage(&pointers, &json!({"u": {"in": "many"}, "cost": -1})), None);
    }
}
