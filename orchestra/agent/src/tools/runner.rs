//! Executes the tool calls of a model: with hooks around each call, and always with a result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use orchestra_engine::BackendError;
use orchestra_graph::{did_you_mean, format_duration};
use serde_json::{Map, Value};

use super::select::SelectedTools;
use super::{clipped, describe_parameters, text};
use crate::hooks::{HookedCall, ToolHooks};
use crate::model::{Arguments, ToolCall, ToolResult};
use crate::tool::{Tool, ToolContext, ToolError, ToolLease};

/// Default maximum number of calls of one answer that run concurrently.
const DEFAULT_PARALLEL: usize = 8;

/// Executes the tool calls of a model.
///
/// Every call has a result for the model. An unknown tool, invalid arguments, a hook that refuses the call, an error or
/// a panic of the tool, and a cancelled stage are reported as error results. A result is not longer than the
/// [limit](ToolContext::most_output) of the context. Each call is [recorded][record] in the run.
///
/// The calls of one answer run concurrently if all of their tools are [read-only](Tool::is_read_only), else one after
/// the other in the order of the calls.
///
/// [record]: orchestra_engine::StageContext::record_tool_call
///
/// ```
/// use orchestra_agent::{
///     Arguments, BuiltinTools, SelectedTools, ToolCall, ToolContext, ToolRegistry, ToolRunner, ToolSet, select,
/// };
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut registry = ToolRegistry::default();
/// BuiltinTools.register(&mut registry);
/// let tools = SelectedTools::new(select(&registry, &["glob"], &[], None)?);
/// let runner = ToolRunner::new(tools, ToolContext::new("."));
/// let call = |id: &str, name: &str, arguments: &str| ToolCall {
///     id: id.into(),
///     name: name.into(),
///     arguments: Arguments::parse(arguments),
/// };
/// let results = runner
///     .call_all(&[call("1", "glob", r#"{"pattern": "Cargo.toml"}"#), call("2", "glub", "{}")])
///     .await;
/// assert_eq!(results[0].content, "Cargo.toml\n[1 file]");
/// assert_eq!(results[1].content, "unknown tool `glub`; did you mean `glob`? The tools are: glob");
/// # Ok::<(), orchestra_agent::SelectError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ToolRunner {
    tools: SelectedTools,
    context: ToolContext,
    hooks: ToolHooks,
    parallel: usize,
    timeout: Option<Duration>,
}

impl ToolRunner {
    /// Creates a runner without hooks.
    pub fn new(tools: SelectedTools, context: ToolContext) -> ToolRunner {
        ToolRunner {
            tools,
            context,
            hooks: ToolHooks::default(),
            parallel: DEFAULT_PARALLEL,
            timeout: None,
        }
    }

    /// Sets the hooks of each call.
    pub fn hooks(mut self, hooks: ToolHooks) -> ToolRunner {
        self.hooks = hooks;
        self
    }

    /// Sets the maximum number of calls that run concurrently: 8 by default.
    pub fn parallel(mut self, limit: usize) -> ToolRunner {
        self.parallel = limit.max(1);
        self
    }

    /// Sets the time limit of a call, not including its hooks: none by default. `shell` and configured commands have
    /// their own limits.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> ToolRunner {
        self.timeout = limit.into();
        self
    }

    /// Returns the tools, with their names for the model.
    pub fn tools(&self) -> &SelectedTools {
        &self.tools
    }

    /// Prepares the tools for the stage of the context.
    ///
    /// # Errors
    /// Returns the error of the first tool that cannot be used.
    pub(crate) async fn prepare(&self) -> Result<Vec<ToolLease>, ToolError> {
        let mut leases = Vec::new();
        for name in self.tools.names() {
            if let Some(tool) = self.tools.get(name) {
                leases.extend(tool.prepare(&self.context).await?);
            }
        }
        Ok(leases)
    }

    /// Takes the error with which a tool ended the stage.
    pub(crate) fn take_interruption(&self) -> Option<BackendError> {
        self.context.take_interruption()
    }

    /// Executes the calls of one answer. The results are in the order of the calls.
    ///
    /// Dropping the future ends the running calls.
    pub async fn call_all(&self, calls: &[ToolCall]) -> Vec<ToolResult> {
        let read_only = |call: &ToolCall| self.tools.get(&call.name).is_none_or(|tool| tool.is_read_only());
        let parallel = if calls.iter().all(read_only) {
            self.parallel
        } else {
            1
        };
        // Collect into a list; a stream that maps with a closure does not compile for every lifetime of the callers.
        let calls: Vec<_> = calls.iter().map(|call| self.call(call).boxed()).collect();
        stream::iter(calls).buffered(parallel).collect().await
    }

    /// Executes one call.
    pub async fn call(&self, call: &ToolCall) -> ToolResult {
        let name = self.tools.configured_name(&call.name).unwrap_or(&call.name);
        let began = Instant::now();
        let result = match self.tools.get(&call.name) {
            Some(tool) => self.call_with_hooks(name, tool, call).await,
            None => Err(self.unknown(&call.name)),
        };
        let took = began.elapsed();
        if let Some(stage) = self.context.stage() {
            let error = result
                .as_ref()
                .err()
                .map(|error| text::error_line(&error.message));
            stage.record_tool_call(name, Some(&call.id), took, error.as_deref());
        }
        let is_error = result.is_err();
        ToolResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content: result.unwrap_or_else(|error| error.message),
            is_error,
        }
    }

    /// Executes a call with its hooks.
    async fn call_with_hooks(
        &self,
        name: &str,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
    ) -> Result<String, ToolError> {
        if self.context.cancellation().is_cancelled() {
            return Err(cancelled());
        }
        let arguments = match &call.arguments {
            Arguments::Object(arguments) => arguments,
            Arguments::Malformed { problem, .. } => {
                let expected = describe_parameters(&tool.spec().parameters);
                return Err(ToolError::new(format!(
                    "the arguments are not a JSON object: {problem}. Call again with a JSON object that holds: {expected}"
                )));
            }
        };
        let hooked = HookedCall {
            tool: name,
            id: &call.id,
            arguments,
        };
        if let Err(why) = self.hooks.before(&hooked, &self.context).await {
            let cancelled_now = self.context.cancellation().is_cancelled();
            self.log(&format!(
                "the call of `{name}` was not made: its hook `tool_hooks.pre` failed: {why}"
            ));
            return Err(if cancelled_now {
                cancelled()
            } else {
                ToolError::new(format!(
                    "the call was not made, because a check before it failed: {why}"
                ))
            });
        }
        let began = Instant::now();
        let result = self.call_with_limits(tool, arguments.clone()).await;
        let took = began.elapsed();
        self.after(name, &hooked, &result, took).await;
        result
    }

    async fn after(
        &self,
        name: &str,
        call: &HookedCall<'_>,
        result: &Result<String, ToolError>,
        took: Duration,
    ) {
        let shown = result
            .as_ref()
            .map(String::as_str)
            .map_err(|error| error.message.as_str());
        if let Err(why) = self.hooks.after(call, shown, took, &self.context).await {
            self.log(&format!(
                "behind the call of `{name}` its hook `tool_hooks.post` failed: {why}"
            ));
        }
    }

    /// Executes a call with the time limit and cancellation of the runner. A panic becomes an error, and a long result
    /// is clipped.
    async fn call_with_limits(
        &self,
        tool: &Arc<dyn Tool>,
        arguments: Map<String, Value>,
    ) -> Result<String, ToolError> {
        let limit = self.context.most_output();
        let context = self.context.clone();
        // A tool may also panic before it returns a future.
        let call = AssertUnwindSafe(async move { tool.call(arguments, context).await }).catch_unwind();
        let result = tokio::select! {
            biased;
            result = call => result,
            () = self.context.cancellation().cancelled() => return Err(cancelled()),
            limit = elapsed(self.timeout) => {
                let limit = format_duration(limit);
                return Err(ToolError::new(format!("the tool did not end within {limit}, and was given up")));
            }
        };
        let clip = |text| clipped(text, limit, "ask for less at once");
        match result {
            Ok(Ok(output)) => Ok(clip(output.text)),
            // A tool that ends itself when its stage is cancelled may be faster than the branch above.
            Ok(Err(_)) if self.context.cancellation().is_cancelled() => Err(cancelled()),
            Ok(Err(error)) => Err(ToolError::new(clip(error.message))),
            Err(payload) => {
                let message = payload.downcast_ref::<String>().map(String::as_str);
                let message = message.or_else(|| payload.downcast_ref::<&str>().copied());
                let message = message.unwrap_or("it said nothing more");
                Err(ToolError::new(clip(format!("the tool panicked: {message}"))))
            }
        }
    }

    fn unknown(&self, name: &str) -> ToolError {
        let (shown, _) = text::line_start(name, 100);
        let near = did_you_mean(name, self.tools.names());
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        let end = if near.is_empty() { "." } else { "" };
        let names: Vec<&str> = self.tools.names().collect();
        ToolError::new(if names.is_empty() {
            format!("unknown tool `{shown}`, nor any other")
        } else {
            format!(
                "unknown tool `{shown}`{near}{end} The tools are: {}",
                names.join(", ")
            )
        })
    }

    fn log(&self, message: &str) {
        match self.context.stage() {
            Some(stage) => stage.log(message),
            None => tracing::info!("{message}"),
        }
    }
}

/// Waits for a time limit and returns it. Waits forever if there is none.
async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

fn cancelled() -> ToolError {
    ToolError::new("cancelled")
}
