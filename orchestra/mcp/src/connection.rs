//! The connection to a server: its start, the comparison of its tools with the lock file, and the calls.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use orchestra_agent::{ToolContext, ToolError, ToolOutput};
use orchestra_config::LockedMcpTool;
use orchestra_engine::{BackendError, RunOwnership, error_chain};
use orchestra_graph::format_duration;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{DynamicTransportError, Transport};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Map, Value};

use crate::error::McpError;
use crate::handler::{Calls, Handler};
use crate::http;
use crate::process::{ServerCommand, ServerProcess};
use crate::reviewed::{differences, locked};
use crate::sanitize::{shortened, visible};
use crate::settings::{ServerSettings, Target};
use crate::verification::Verification;
use crate::watched::Watched;

/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 1_000;

/// A connection to a server. Dropping it ends the server.
pub(crate) struct Connection {
    server: String,
    timeout: Duration,
    service: RunningService<RoleClient, Handler>,
    calls: Arc<Calls>,
    verification: Arc<Verification>,
    process: Option<ServerProcess>,
}

impl Connection {
    /// Starts a server and waits until it speaks the protocol. Its tools are not compared yet.
    pub(crate) async fn start(
        settings: &ServerSettings,
        directory: &std::path::Path,
        run: Option<RunOwnership>,
    ) -> Result<Connection, McpError> {
        let server = || settings.name.clone();
        let failed = |reason: String| McpError::Start {
            server: server(),
            reason,
        };
        let calls = Arc::<Calls>::default();
        let verification = Arc::<Verification>::default();
        let handler = Handler {
            server: server(),
            calls: calls.clone(),
        };
        let (service, process) = match &settings.target {
            Target::Program {
                arguments,
                environment,
            } => {
                let command = ServerCommand {
                    arguments: arguments.clone(),
                    environment: environment.clone(),
                    directory: directory.to_owned(),
                };
                let program = arguments.first().map_or("", String::as_str);
                let (process, transport) = ServerProcess::start(&command, run)
                    .map_err(|error| failed(not_started(program, &error)))?;
                let served = serve(settings, handler, transport, &verification).await;
                let service = served.map_err(|error| match (error, process.end()) {
                    (McpError::Start { server, .. }, Some(reason)) => McpError::Start { server, reason },
                    (error, _) => error,
                })?;
                (service, Some(process))
            }
            Target::Address(address) => {
                let address = address.resolved(&settings.name)?;
                let transport = http::transport(&address).map_err(failed)?;
                (serve(settings, handler, transport, &verification).await?, None)
            }
        };
        Ok(Connection {
            server: server(),
            timeout: settings.timeout,
            service,
            calls,
            verification,
            process,
        })
    }

    /// Returns whether the server can no longer be called.
    pub(crate) fn has_ended(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed() || self.end().is_some()
    }

    fn end(&self) -> Option<String> {
        self.process.as_ref().and_then(ServerProcess::end)
    }

    /// Returns the tools that the server offers, as they are locked.
    pub(crate) async fn tools(&self, limit: Duration) -> Result<Vec<LockedMcpTool>, McpError> {
        let failed = |reason: String| McpError::Start {
            server: self.server.clone(),
            reason,
        };
        let listed = tokio::time::timeout(limit, async {
            let mut tools = Vec::new();
            let mut cursor = None;
            loop {
                let page = rmcp::model::PaginatedRequestParams::default().with_cursor(cursor);
                let page = self.service.list_tools(Some(page)).await?;
                tools.extend(page.tools.iter().map(locked));
                cursor = page.next_cursor;
                if cursor.is_none() || tools.len() > MAX_TOOLS {
                    return Ok::<_, ServiceError>(tools);
                }
            }
        });
        let tools = match listed.await {
            Err(_) => {
                return Err(McpError::StartTimeout {
                    server: self.server.clone(),
                    limit,
                });
            }
            Ok(Err(error)) => {
                let reason = self.end().unwrap_or_else(|| service_reason(&error));
                return Err(failed(format!("it does not list its tools: {reason}")));
            }
            Ok(Ok(tools)) => tools,
        };
        if tools.len() > MAX_TOOLS {
            return Err(failed(format!("it has more than {MAX_TOOLS} tools")));
        }
        Ok(tools)
    }

    /// Compares the tools of the server with those that were reviewed, at the start and when the server has said that they
    /// have changed. Nothing is called until they are those that were reviewed.
    pub(crate) async fn verify(&self, settings: &ServerSettings) -> Result<(), McpError> {
        let Some(reviewed) = &settings.locked else {
            return Err(McpError::NotLocked {
                server: self.server.clone(),
            });
        };
        let compare = async {
            let offered = self.tools(settings.start_timeout).await?;
            let differences = differences(reviewed, &offered);
            if differences.is_empty() {
                return Ok(());
            }
            Err(McpError::Changed {
                server: self.server.clone(),
                differences,
            })
        };
        self.verification.verify(compare).await
    }

    /// Compares the tools again if the server has said that they have changed.
    pub(crate) async fn verify_if_changed(
        &self,
        settings: &ServerSettings,
        context: &ToolContext,
    ) -> Result<(), ToolError> {
        if self.has_ended() {
            return Ok(());
        }
        self.verify(settings)
            .await
            .map_err(|error| fail_stage(&error, context))
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        settings: &ServerSettings,
        tool: &str,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.verify_if_changed(settings, context).await?;
        let active = self.calls.begin(context);
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments);
        let result = tokio::select! {
            result = self.service.call_tool(params) => result,
            () = self.elapsed() => {
                let limit = format_duration(self.timeout);
                return Err(ToolError::new(format!(
                    "the MCP server `{}` has not answered in {limit}; the call was cancelled",
                    self.server
                )));
            }
        };
        drop(active);
        self.verify_if_changed(settings, context).await?;
        match result {
            Ok(result) => text(&result),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Waits for the time limit of a call. The time in which a person is asked does not count.
    async fn elapsed(&self) {
        let mut asking = self.calls.asking();
        loop {
            // The sender lives as long as this connection.
            let _ = asking.wait_for(|number| *number == 0).await;
            tokio::select! {
                () = tokio::time::sleep(self.timeout) => return,
                _ = asking.wait_for(|number| *number > 0) => {}
            }
        }
    }

    fn error(&self, error: &ServiceError) -> ToolError {
        let server = &self.server;
        match error {
            ServiceError::McpError(error) => ToolError::new(visible(&error.message)),
            _ => match self.end() {
                Some(reason) => ToolError::new(format!(
                    "the MCP server `{server}` ended during the call: {reason}"
                )),
                None => ToolError::new(format!(
                    "the call of the MCP server `{server}` failed: {}",
                    service_reason(error)
                )),
            },
        }
    }
}

/// Ends the stage of a call, because its server is not the one that was reviewed or cannot be used.
pub(crate) fn fail_stage(error: &McpError, context: &ToolContext) -> ToolError {
    context.interrupt(BackendError::terminal(error.to_string()).code(error.code()));
    ToolError::new(error.to_string())
}

async fn serve<T>(
    settings: &ServerSettings,
    handler: Handler,
    transport: T,
    verification: &Arc<Verification>,
) -> Result<RunningService<RoleClient, Handler>, McpError>
where
    T: Transport<RoleClient> + 'static,
{
    let transport = Watched {
        inner: transport,
        verification: verification.clone(),
    };
    let limit = settings.start_timeout;
    match tokio::time::timeout(limit, handler.serve(transport)).await {
        Err(_) => Err(McpError::StartTimeout {
            server: settings.name.clone(),
            limit,
        }),
        Ok(Err(error)) => Err(McpError::Start {
            server: settings.name.clone(),
            reason: match &error {
                ClientInitializeError::TransportError { error, .. } => transport_reason(error),
                error => shortened(&error.to_string(), 300),
            },
        }),
        Ok(Ok(service)) => Ok(service),
    }
}

fn service_reason(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => transport_reason(error),
        error => shortened(&error.to_string(), 300),
    }
}

/// Returns why nothing can be sent to a server, such as that the connection was refused. The text of the error itself names
/// types of the program, and not the cause.
fn transport_reason(error: &DynamicTransportError) -> String {
    let sent: &(dyn Error + 'static) = &*error.error;
    let sent = match sent.downcast_ref() {
        Some(StreamableHttpError::<reqwest::Error>::Client(error)) => error,
        _ => sent,
    };
    shortened(&error_chain(sent), 300)
}

/// Returns the result of a call as text for a model.
fn text(result: &CallToolResult) -> Result<ToolOutput, ToolError> {
    let mut parts: Vec<String> = result.content.iter().map(block_text).collect();
    if parts.is_empty()
        && let Some(content) = &result.structured_content
    {
        parts.push(format!("{content:#}"));
    }
    let text = visible(&parts.join("\n"));
    if result.is_error == Some(true) {
        Err(ToolError::new(if text.trim().is_empty() {
            "the tool failed without a message".to_owned()
        } else {
            text
        }))
    } else if text.is_empty() {
        Ok("done".into())
    } else {
        Ok(text.into())
    }
}

fn block_text(block: &ContentBlock) -> String {
    let unshown = |kind: &str, mime: &str, length: usize| {
        format!("[{kind} {mime}, {length} bytes in base64, not shown]")
    };
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => unshown("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => unshown("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.name, link.uri),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => unshown(uri, mime_type.as_deref().unwrap_or_default(), blob.len()),
            _ => "[resource, not shown]".to_owned(),
        },
        _ => "[content of another kind, not shown]".to_owned(),
    }
}

/// Returns why a program was not started.
fn not_started(program: &str, error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        return format!(
            "the program `{program}` is not in `PATH`; install it, or correct the server's `command`"
        );
    }
    format!("`{program}`: {error}")
}
