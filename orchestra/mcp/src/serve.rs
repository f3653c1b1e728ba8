//! A server whose tools are pipelines.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use orchestra_engine::{Canceller, RunHandle, RunResult, SharedInterviewer};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, ServiceExt as _};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::elicit::Elicitation;
use crate::host::{Answered, PipelineHost};
use crate::lines::LineTransport;

/// Time in which runs must have paused when the client has gone.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(15);
/// The reason of the pause of a run whose client has gone.
const CLIENT_GONE: &str = "the client of the protocol has closed the connection";
/// The reason of the pause of a run whose server is stopped.
const STOPPED: &str = "the server of the protocol was stopped";
/// The reason of the pause of a run whose call was cancelled.
const CALL_CANCELLED: &str = "the client of the protocol has cancelled the call";

/// Serves pipelines as tools of the Model Context Protocol until the input ends or `stop` is ready. Then the runs that were
/// started are paused.
///
/// The tools are one for each pipeline, `run_status`, and `answer`. A call of a pipeline starts a run and waits until it
/// ends or waits for a person. A gate asks the person of the client, if the client offers that: only an accepted form
/// with a listed choice is an answer. Otherwise the run stays paused, and the result says how to answer.
///
/// # Errors
/// The threads that read and write cannot be started, or the client does not speak the protocol.
pub async fn serve_pipelines(
    host: impl PipelineHost,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut stop = std::pin::pin!(stop);
    let runs = Arc::new(ActiveRuns::default());
    let paused = runs.clone();
    let (transport, _) = LineTransport::start(input, output, move || paused.pause_all(CLIENT_GONE))?;
    let server = Server {
        host: Arc::new(host),
        runs: runs.clone(),
    };
    let begun = tokio::select! {
        begun = server.serve(transport) => begun,
        () = &mut stop => return Ok(()),
    };
    let service = match begun {
        Ok(service) => service,
        // A client that closes the connection at once has done nothing wrong.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    let mut count = runs.count.subscribe();
    let mut waiting = std::pin::pin!(service.waiting());
    let ended = tokio::select! {
        ended = &mut waiting => ended.map(drop).map_err(io::Error::other),
        () = stop => Ok(()),
    };
    // After the end of the input, the runs are paused already.
    runs.pause_all(STOPPED);
    // A run that cannot stop is left as a crash leaves it: its journal has the completed work.
    let _ = tokio::time::timeout(PAUSE_TIMEOUT, count.wait_for(|count| *count == 0)).await;
    ended
}

/// The runs of the calls that are being executed.
struct ActiveRuns {
    cancellers: Mutex<Vec<(u64, Canceller)>>,
    next: Mutex<u64>,
    count: watch::Sender<usize>,
    /// The reason to pause runs, also those that start later.
    pause: OnceLock<&'static str>,
}

impl Default for ActiveRuns {
    fn default() -> ActiveRuns {
        ActiveRuns {
            cancellers: Mutex::default(),
            next: Mutex::default(),
            count: watch::Sender::new(0),
            pause: OnceLock::new(),
        }
    }
}

impl ActiveRuns {
    fn add(self: &Arc<Self>, canceller: Canceller) -> ActiveRun {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        let mut cancellers = self.cancellers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = self.pause.get() {
            canceller.pause(*reason);
        }
        cancellers.push((*next, canceller));
        self.count.send_modify(|count| *count += 1);
        ActiveRun {
            runs: self.clone(),
            number: *next,
        }
    }

    fn pause_all(&self, reason: &'static str) {
        let reason = self.pause.get_or_init(|| reason);
        let cancellers = self.cancellers.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, canceller) in cancellers.iter() {
            canceller.pause(*reason);
        }
    }
}

/// A run that is being executed.
struct ActiveRun {
    runs: Arc<ActiveRuns>,
    number: u64,
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        let mut cancellers = self
            .runs
            .cancellers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        cancellers.retain(|(number, _)| *number != self.number);
        self.runs
            .count
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

struct Server<H> {
    host: Arc<H>,
    runs: Arc<ActiveRuns>,
}

impl<H: PipelineHost> Server<H> {
    /// Executes a call. The error is a message for the client.
    async fn execute(
        &self,
        tool: &str,
        mut arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, String> {
        let interviewer = || {
            SharedInterviewer::new(Elicitation {
                peer: context.peer.clone(),
            })
        };
        match tool {
            "run_status" => {
                let run = optional_text(&mut arguments, "run")?;
                no_others(&arguments)?;
                self.host.status(run.as_deref()).await
            }
            "answer" => {
                let run = text(&mut arguments, "run")?;
                let gate = text(&mut arguments, "gate")?;
                let choice = text(&mut arguments, "choice")?;
                no_others(&arguments)?;
                match self.host.answer(&run, &gate, &choice).await? {
                    Answered::Paused => {
                        let handle = self.host.resume(&run, interviewer()).await?;
                        self.follow(handle, context).await
                    }
                    Answered::Ended(result) => self.host.report(&result).await,
                    Answered::Elsewhere => Ok(json!({
                        "run": run, "answered": true,
                        "note": "another process executes the run; `run_status` shows how it goes on",
                    })),
                }
            }
            _ => {
                let handle = self.host.start(tool, arguments, interviewer()).await?;
                self.follow(handle, context).await
            }
        }
    }

    /// Waits until a run ends or is paused. A cancelled call pauses it.
    async fn follow(&self, handle: RunHandle, context: &RequestContext<RoleServer>) -> Result<Value, String> {
        let canceller = handle.canceller();
        let active = self.runs.add(handle.canceller());
        let progress = report_progress(&handle, context.peer.clone(), context.meta.get_progress_token());
        // The run goes on while the call is cancelled, so that its pause is recorded.
        let ended = tokio::spawn(async move {
            let _active = active;
            handle.wait().await
        });
        let mut ended = std::pin::pin!(ended);
        let result = tokio::select! {
            result = &mut ended => result,
            () = context.ct.cancelled() => {
                canceller.pause(CALL_CANCELLED);
                ended.await
            }
        };
        if let Some(progress) = progress {
            progress.abort();
        }
        let result: RunResult = result
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        self.host.report(&result).await
    }

    fn tools(&self) -> Vec<Tool> {
        let described = |name: &str, description: &str, schema: &Value, is_read_only: bool| {
            let schema = schema.as_object().cloned().unwrap_or_default();
            let tool = Tool::new(name.to_owned(), description.to_owned(), Arc::new(schema));
            tool.with_annotations(ToolAnnotations::new().read_only(is_read_only))
        };
        let mut tools: Vec<Tool> = self
            .host
            .pipelines()
            .iter()
            .map(|pipeline| {
                described(
                    &pipeline.name,
                    &pipeline.description,
                    &pipeline.input_schema,
                    false,
                )
            })
            .collect();
        let run = json!({"type": "string", "description": "The id of the run"});
        tools.push(described(
            "run_status",
            "Returns the state of a run, with the question for which it waits; without a run, lists the latest runs.",
            &json!({"type": "object", "properties": {"run": run}, "additionalProperties": false}),
            true,
        ));
        tools.push(described(
            "answer",
            "Answers the question for which a run waits, and goes on with the run. The answer is a decision of a person: \
             ask the person, and pass on what they choose.",
            &json!({
                "type": "object",
                "properties": {
                    "run": run,
                    "gate": {"type": "string", "description": "The gate that asks"},
                    "choice": {"type": "string", "description": "The key of the choice"},
                },
                "required": ["run", "gate", "choice"],
                "additionalProperties": false,
            }),
            false,
        ));
        tools
    }
}

/// Reports each stage of a run to a client that wants to know the progress of its call.
fn report_progress(
    handle: &RunHandle,
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
) -> Option<tokio::task::JoinHandle<()>> {
    let token = token?;
    let mut events = handle.events();
    Some(tokio::spawn(async move {
        let mut count = 0.0;
        while let Some(event) = events.recv().await {
            let orchestra_engine::EventKind::StageStarted { stage, .. } = &event.kind else {
                continue;
            };
            count += 1.0;
            let progress = ProgressNotificationParam::new(token.clone(), count);
            let progress = progress.with_message(format!("stage {}", stage.node));
            // A client that has gone wants to know nothing.
            let _ = peer.notify_progress(progress).await;
        }
    }))
}

fn optional_text(arguments: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match arguments.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("`{name}` is not a text: {other}")),
    }
}

fn text(arguments: &mut Map<String, Value>, name: &str) -> Result<String, String> {
    let found = optional_text(arguments, name)?.filter(|text| !text.is_empty());
    found.ok_or_else(|| format!("`{name}` is missing"))
}

fn no_others(arguments: &Map<String, Value>) -> Result<(), String> {
    match arguments.keys().next() {
        Some(other) => Err(format!("unknown argument `{other}`")),
        None => Ok(()),
    }
}

impl<H: PipelineHost> ServerHandler for Server<H> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("orchestra", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Each `pipeline_` tool starts a run of a pipeline and waits until it ends or waits for a person. A run that \
                 waits is paused; `answer` answers its question and goes on with it.",
            )
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        // Later versions have no requests of servers, by which gates ask.
        Cow::Borrowed(ProtocolVersion::known_up_to(
            &ProtocolVersion::LATEST_WITH_INITIALIZE,
        ))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        if !self.tools().iter().any(|tool| tool.name == name) {
            return Err(ErrorData::invalid_params(format!("unknown tool `{name}`"), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let result = match self.execute(name, arguments, &context).await {
            Ok(value) => CallToolResult::success(vec![ContentBlock::text(format!("{value:#}"))]),
            Err(message) => CallToolResult::error(vec![ContentBlock::text(message)]),
        };
        Ok(result.into())
    }
}
