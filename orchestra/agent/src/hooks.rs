//! Shell commands before and after each tool call of a model (Attractor 9.7).

use std::time::Duration;

use orchestra_engine::StageContext;
use orchestra_engine::process::{Exit, ShellCommand};
use orchestra_graph::table::Constant;
use orchestra_graph::{Stage, format_duration};
use serde_json::{Map, Value, json};

use crate::tool::ToolContext;
use crate::tools::{clipped, in_context};

/// How long a hook may take unless something else is set.
const USUAL: Duration = Duration::from_secs(60);
/// How many bytes of what a hook said are repeated.
const SHOWN: usize = 2_000;

/// The shell commands around each tool call of a model (Attractor 9.7).
///
/// Both run in the working folder. What they may want to know stands in their environment and, as one JSON object, on
/// their standard input; nothing of it becomes a part of a command.
///
/// | Variable | Field | What it is |
/// |---|---|---|
/// | `ORCHESTRA_HOOK` | `hook` | `pre` or `post` |
/// | `ORCHESTRA_TOOL_NAME` | `tool` | the tool, as configurations write it: `read-file`, `backend:run-tests` |
/// | `ORCHESTRA_TOOL_CALL_ID` | `call_id` | the provider's name for the call |
/// | `ORCHESTRA_NODE_ID` | `node` | the stage's node; outside of a run neither this nor what follows is there |
/// | `ORCHESTRA_RUN_ID` | `run` | the run |
/// | `ORCHESTRA_ATTEMPT_KEY` | `attempt_key` | the attempt, by a key that is the same when it is repeated after a crash |
/// | | `arguments` | what the model passes to the tool |
/// | `ORCHESTRA_TOOL_STATUS` | | after the call: `success` or `error` |
/// | | `result` | after the call: what the model reads; `null` where the tool failed |
/// | | `error` | after the call: why the tool failed; else `null` |
/// | | `duration_ms` | after the call: how long it took |
///
/// A call whose first hook fails, or takes too long, is not made: the model reads what the hook said. The second hook
/// changes nothing; that it failed is told to those who follow the run. Both are ended after a minute, unless another
/// limit is set.
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
            timeout: USUAL,
        }
    }
}

impl ToolHooks {
    /// What `tool_hooks.pre` and `tool_hooks.post` say; the node's own attributes win over those of the graph, and an
    /// empty one is none.
    pub fn of(stage: &StageContext) -> ToolHooks {
        ToolHooks::of_node(stage.node())
    }

    pub(crate) fn of_node(node: Stage<'_>) -> ToolHooks {
        let said = |name: &str| {
            let of_graph = || match node.pipeline().attribute(name) {
                Some(Constant::String(text)) => Some(text.to_string()),
                _ => None,
            };
            let of_node = node.text(name).map(str::to_owned);
            of_node.or_else(of_graph).filter(|text| !text.trim().is_empty())
        };
        ToolHooks {
            pre: said("tool_hooks.pre"),
            post: said("tool_hooks.post"),
            timeout: USUAL,
        }
    }

    /// Sets the command before each call.
    pub fn pre(mut self, command: impl Into<String>) -> ToolHooks {
        self.pre = Some(command.into());
        self
    }

    /// Sets the command after each call.
    pub fn post(mut self, command: impl Into<String>) -> ToolHooks {
        self.post = Some(command.into());
        self
    }

    /// Sets the time after which a hook is ended, which is a failure.
    pub fn timeout(mut self, limit: Duration) -> ToolHooks {
        self.timeout = limit;
        self
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.pre.is_none() && self.post.is_none()
    }

    /// Returns whether there is a command before each call.
    pub(crate) fn guards(&self) -> bool {
        self.pre.is_some()
    }

    /// Asks whether a call may be made.
    ///
    /// # Errors
    /// Says why not.
    pub(crate) async fn before(&self, call: &HookedCall<'_>, context: &ToolContext) -> Result<(), String> {
        match &self.pre {
            Some(command) => self.run("pre", command, call, None, context).await,
            None => Ok(()),
        }
    }

    /// Tells of a call that was made.
    ///
    /// # Errors
    /// Says why the hook failed.
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
        came: Option<(Result<&str, &str>, Duration)>,
        context: &ToolContext,
    ) -> Result<(), String> {
        let mut variables: Vec<(&str, String)> = vec![
            ("ORCHESTRA_HOOK", hook.to_owned()),
            ("ORCHESTRA_TOOL_NAME", call.tool.to_owned()),
            ("ORCHESTRA_TOOL_CALL_ID", call.id.to_owned()),
        ];
        let mut told = json!({
            "hook": hook,
            "tool": call.tool,
            "call_id": call.id,
            "arguments": call.arguments,
        });
        if let Some(stage) = context.stage() {
            told["node"] = stage.node().id().into();
            told["run"] = stage.run_id().to_string().into();
            told["attempt_key"] = stage.attempt_key().into();
            variables.push(("ORCHESTRA_NODE_ID", stage.node().id().to_owned()));
            variables.push(("ORCHESTRA_RUN_ID", stage.run_id().to_string()));
            variables.push(("ORCHESTRA_ATTEMPT_KEY", stage.attempt_key()));
        }
        if let Some((result, took)) = came {
            told["result"] = result.ok().into();
            told["error"] = result.err().into();
            told["duration_ms"] = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into();
            let word = if result.is_ok() { "success" } else { "error" };
            variables.push(("ORCHESTRA_TOOL_STATUS", word.to_owned()));
        }
        let command = in_context(ShellCommand::new(command), context)
            .timeout(self.timeout)
            .capture_limit(SHOWN)
            .input(told.to_string());
        let command = variables.into_iter().fold(command, |command, (name, value)| {
            // What a provider made up must not keep the hook from being run.
            command.variable(name, value.replace('\0', "\u{fffd}"))
        });
        let output = command.run().await.map_err(|fault| fault.to_string())?;
        let why = match output.exit {
            Exit::Code(0) => return Ok(()),
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(signal) => format!("killed by signal {signal}"),
            Exit::TimedOut => format!("ended after {}, its time limit", format_duration(self.timeout)),
            _ => "cancelled".to_owned(),
        };
        let said = format!("{}\n{}", output.stdout.trim(), output.stderr.trim());
        Err(match said.trim() {
            "" => why,
            said => format!(
                "{why}: {}",
                clipped(said.to_owned(), SHOWN, "a hook should say less")
            ),
        })
    }
}

/// The call around which hooks run.
pub(crate) struct HookedCall<'c> {
    pub(crate) tool: &'c str,
    pub(crate) id: &'c str,
    pub(crate) arguments: &'c Map<String, Value>,
}
