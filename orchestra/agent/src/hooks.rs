//! Shell commands before and after each tool call of a model (Attractor 9.7).

use std::time::Duration;

use orchestra_engine::StageContext;
use orchestra_engine::process::{Exit, ShellCommand};
use orchestra_graph::table::Constant;
use orchestra_graph::{Stage, format_duration};
use serde_json::{Map, Value, json};

use crate::tool::ToolContext;
use crate::tools::{clipped, in_context};

/// Default time limit of a hook.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a hook's output that is included in a message, in bytes.
const MAX_OUTPUT_BYTES: usize = 2_000;

/// The shell commands that run before and after each tool call of a model (Attractor 9.7).
///
/// Both hooks run in the working folder. The data of the call is passed to them in environment variables and, as one
/// JSON object, on their standard input. None of it becomes part of a command.
///
/// | Variable | Field | Meaning |
/// |---|---|---|
/// | `ORCHESTRA_HOOK` | `hook` | `pre` or `post` |
/// | `ORCHESTRA_TOOL_NAME` | `tool` | the tool, as configurations write it: `read-file`, `backend:run-tests` |
/// | `ORCHESTRA_TOOL_CALL_ID` | `call_id` | the provider's id of the call |
/// | `ORCHESTRA_NODE_ID` | `node` | the node of the stage; outside of a run this and the following two are not set |
/// | `ORCHESTRA_RUN_ID` | `run` | the run |
/// | `ORCHESTRA_ATTEMPT_KEY` | `attempt_key` | the key of the attempt; unchanged if it is repeated after a crash |
/// | | `arguments` | the arguments of the call |
/// | `ORCHESTRA_TOOL_STATUS` | | after the call: `success` or `error` |
/// | | `result` | after the call: the text that the model reads; `null` if the tool failed |
/// | | `error` | after the call: the reason why the tool failed; else `null` |
/// | | `duration_ms` | after the call: the duration of the call in milliseconds |
///
/// If the pre hook fails or exceeds its time limit, the call is not made and the model reads the output of the hook.
/// The post hook changes nothing; its failure is only reported to those who follow the run. The time limit of both
/// hooks is one minute unless another one is set.
///
/// ```
/// use std::time::Duration;
/// use orchestra_agent::ToolHooks;
/// let hooks = ToolHooks::default().pre("./may-i.sh").timeout(Duration::from_secs(5));
/// assert!(!hooks.is_empty() && ToolHooks::default().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct ToolHooks {
    pre: Option<String>,
    post: Option<String>,
    timeout: Duration,
}

impl Default for ToolHooks {
    fn default() -> ToolHooks {
        ToolHooks {
            pre: None,
            post: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

impl ToolHooks {
    /// Returns the hooks of the attributes `tool_hooks.pre` and `tool_hooks.post`. Attributes of the node override
    /// those of the graph; an empty attribute means no hook.
    pub fn from_stage(stage: &StageContext) -> ToolHooks {
        ToolHooks::of_node(stage.node())
    }

    pub(crate) fn of_node(node: Stage<'_>) -> ToolHooks {
        let command = |name: &str| {
            let of_graph = || {
                let value = node.pipeline().attribute(name);
                value.and_then(Constant::text).map(str::to_owned)
            };
            let of_node = node.text(name).map(str::to_owned);
            of_node.or_else(of_graph).filter(|text| !text.trim().is_empty())
        };
        ToolHooks {
            pre: command("tool_hooks.pre"),
            post: command("tool_hooks.post"),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Sets the command that runs before each call.
    pub fn pre(mut self, command: impl Into<String>) -> ToolHooks {
        self.pre = Some(command.into());
        self
    }

    /// Sets the command that runs after each call.
    pub fn post(mut self, command: impl Into<String>) -> ToolHooks {
        self.post = Some(command.into());
        self
    }

    /// Sets the time limit of a hook. A hook that exceeds it is killed and counts as failed.
    pub fn timeout(mut self, limit: Duration) -> ToolHooks {
        self.timeout = limit;
        self
    }

    /// Returns whether there are no hooks.
    pub fn is_empty(&self) -> bool {
        self.pre.is_none() && self.post.is_none()
    }

    /// Returns whether there is a command that runs before each call.
    pub(crate) fn has_pre(&self) -> bool {
        self.pre.is_some()
    }

    /// Runs the pre hook, if there is one.
    ///
    /// # Errors
    /// Returns the reason why the call must not be made.
    pub(crate) async fn before(&self, call: &HookedCall<'_>, context: &ToolContext) -> Result<(), String> {
        match &self.pre {
            Some(command) => self.run("pre", command, call, None, context).await,
            None => Ok(()),
        }
    }

    /// Runs the post hook, if there is one, after a call was made.
    ///
    /// # Errors
    /// Returns the reason why the hook failed.
    pub(crate) async fn after(
        &self,
        call: &HookedCall<'_>,
        result: Result<&str, &str>,
        took: Duration,
        context: &ToolContext,
    ) -> Result<(), String> {
        match &self.post {
            Some(command) => {
                self.run("post", command, call, Some((result, took)), context)
                    .await
            }
            None => Ok(()),
        }
    }

    async fn run(
        &self,
        hook: &str,
        command: &str,
        call: &HookedCall<'_>,
        ended: Option<(Result<&str, &str>, Duration)>,
        context: &ToolContext,
    ) -> Result<(), String> {
        let mut variables: Vec<(&str, String)> = vec![
            ("ORCHESTRA_HOOK", hook.to_owned()),
            ("ORCHESTRA_TOOL_NAME", call.tool.to_owned()),
            ("ORCHESTRA_TOOL_CALL_ID", call.id.to_owned()),
        ];
        let mut input = json!({
            "hook": hook,
            "tool": call.tool,
            "call_id": call.id,
            "arguments": call.arguments,
        });
        if let Some(stage) = context.stage() {
            input["node"] = stage.node().id().into();
            input["run"] = stage.run_id().to_string().into();
            input["attempt_key"] = stage.attempt_key().into();
            variables.push(("ORCHESTRA_NODE_ID", stage.node().id().to_owned()));
            variables.push(("ORCHESTRA_RUN_ID", stage.run_id().to_string()));
            variables.push(("ORCHESTRA_ATTEMPT_KEY", stage.attempt_key()));
        }
        if let Some((result, took)) = ended {
            input["result"] = result.ok().into();
            input["error"] = result.err().into();
            input["duration_ms"] = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into();
            let word = if result.is_ok() { "success" } else { "error" };
            variables.push(("ORCHESTRA_TOOL_STATUS", word.to_owned()));
        }
        let command = in_context(ShellCommand::new(command), context)
            .timeout(self.timeout)
            .capture_limit(MAX_OUTPUT_BYTES)
            .input(input.to_string());
        let command = variables.into_iter().fold(command, |command, (name, value)| {
            // The id comes from a provider and may contain NUL, with which no process can be started.
            command.variable(name, value.replace('\0', "\u{fffd}"))
        });
        let output = command.run().await.map_err(|error| error.to_string())?;
        let why = match output.exit {
            Exit::Code(0) => return Ok(()),
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("killed by signal {signal}"),
            Exit::TimedOut => format!("ended after {}, its time limit", format_duration(self.timeout)),
            _ => "cancelled".to_owned(),
        };
        let text = format!("{}\n{}", output.stdout.trim(), output.stderr.trim());
        Err(match text.trim() {
            "" => why,
            text => format!(
                "{why}: {}",
                clipped(text.to_owned(), MAX_OUTPUT_BYTES, "a hook should say less")
            ),
        })
    }
}

/// The tool call around which hooks run.
pub(crate) struct HookedCall<'c> {
    pub(crate) tool: &'c str,
    pub(crate) id: &'c str,
    pub(crate) arguments: &'c Map<String, Value>,
}
