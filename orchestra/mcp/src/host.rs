//! What a server of pipelines needs of its program.

use std::future::Future;
use std::pin::Pin;

use orchestra_engine::{RunHandle, RunResult, SharedInterviewer};
use serde_json::{Map, Value};

/// A pipeline as a tool.
///
/// ```
/// use orchestra_mcp::PipelineTool;
/// let tool = PipelineTool {
///     name: "pipeline_release".to_owned(),
///     description: "Releases a version.".to_owned(),
///     input_schema: serde_json::json!({"type": "object", "properties": {"version": {"type": "string"}}}),
/// };
/// assert!(tool.name.starts_with("pipeline_"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineTool {
    /// The name of the tool.
    pub name: String,
    /// What a run of the pipeline does.
    pub description: String,
    /// The JSON schema of the inputs.
    pub input_schema: Value,
}

/// What an answer to a waiting run has led to.
///
/// ```
/// use orchestra_mcp::Answered;
/// assert!(matches!(Answered::Paused, Answered::Paused));
/// ```
#[derive(Debug)]
pub enum Answered {
    /// The run is paused and can be resumed.
    Paused,
    /// Another process executes the run, and goes on with it.
    Elsewhere,
    /// The run has ended.
    Ended(Box<RunResult>),
}

/// The future of a request to a [`PipelineHost`]. The error is a message for the client.
pub type HostFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The pipelines of a program and their runs.
///
/// ```
/// use orchestra_engine::{Engine, RunHandle, RunResult, SharedInterviewer};
/// use orchestra_graph::{Source, load};
/// use orchestra_mcp::{Answered, HostFuture, PipelineHost, PipelineTool};
/// use serde_json::{Map, Value, json};
///
/// /// One pipeline, whose runs are not stored.
/// struct Hello;
/// impl PipelineHost for Hello {
///     fn pipelines(&self) -> Vec<PipelineTool> {
///         let (name, description) = ("pipeline_hello".to_owned(), "Says hello.".to_owned());
///         vec![PipelineTool { name, description, input_schema: json!({"type": "object"}) }]
///     }
///     fn start<'a>(&'a self, _: &'a str, _: Map<String, Value>, asks: SharedInterviewer) -> HostFuture<'a, RunHandle> {
///         Box::pin(async move {
///             let text = "digraph hello { start -> exit }";
///             let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().ok_or("invalid")?;
///             let engine = Engine::builder().interviewer(asks).build().map_err(|error| error.to_string())?;
///             engine.start(pipeline, ()).await.map_err(|error| error.to_string())
///         })
///     }
///     fn resume<'a>(&'a self, _: &'a str, _: SharedInterviewer) -> HostFuture<'a, RunHandle> {
///         Box::pin(async { Err("runs are not stored".to_owned()) })
///     }
///     fn answer<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> HostFuture<'a, Answered> {
///         Box::pin(async { Err("no run waits".to_owned()) })
///     }
///     fn status<'a>(&'a self, _: Option<&'a str>) -> HostFuture<'a, Value> {
///         Box::pin(async { Ok(json!([])) })
///     }
///     fn report<'a>(&'a self, result: &'a RunResult) -> HostFuture<'a, Value> {
///         Box::pin(async { Ok(json!({"status": result.status.word()})) })
///     }
/// }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let request = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
///     "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}"#.replace('\n', " ") + "\n";
/// orchestra_mcp::serve_pipelines(Hello, std::io::Cursor::new(request), std::io::sink(), std::future::pending()).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait PipelineHost: Send + Sync + 'static {
    /// Returns the pipelines.
    fn pipelines(&self) -> Vec<PipelineTool>;

    /// Starts a run of the pipeline whose tool has this name.
    fn start<'a>(
        &'a self,
        tool: &'a str,
        inputs: Map<String, Value>,
        interviewer: SharedInterviewer,
    ) -> HostFuture<'a, RunHandle>;

    /// Resumes a paused run.
    fn resume<'a>(&'a self, run: &'a str, interviewer: SharedInterviewer) -> HostFuture<'a, RunHandle>;

    /// Answers the question of a gate of a run.
    fn answer<'a>(&'a self, run: &'a str, gate: &'a str, choice: &'a str) -> HostFuture<'a, Answered>;

    /// Returns the state of a run, or of all runs.
    fn status<'a>(&'a self, run: Option<&'a str>) -> HostFuture<'a, Value>;

    /// Returns the report on a run that has ended or was paused. It says how to answer the question for which the run
    /// waits.
    fn report<'a>(&'a self, result: &'a RunResult) -> HostFuture<'a, Value>;
}
