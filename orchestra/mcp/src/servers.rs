//! The servers of a project, their tools, and the processes of runs.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use orchestra_agent::{PrepareFuture, Tool, ToolContext, ToolError, ToolFuture, ToolLease, ToolSpec};
use orchestra_config::{LockedMcpTool, McpScope, Project};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::connection::{Connection, fail_stage};
use crate::error::McpError;
use crate::settings::ServerSettings;

/// Number of times that a server is started again in the same place after it has ended.
const MAX_RESTARTS: u32 = 3;

/// The MCP servers of a project.
///
/// ```
/// use orchestra_config::Project;
/// use orchestra_mcp::McpServers;
/// let files = |path: &str, _: u64| match path {
///     "orchestra.yaml" => Ok(b"mcp_servers: {files: {command: [files], tools: [read]}}".to_vec()),
///     "orchestra.mcp.lock" => Ok(br#"{"schema": "orchestra.mcp.lock/1", "servers": {"files": [
///         {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}, "sha256": ""}]}}"#.to_vec()),
///     _ => Err(orchestra_graph::ReadError::Missing),
/// };
/// let servers = McpServers::new(&Project::load("orchestra.yaml", &files));
/// let tools = servers.tools();
/// assert_eq!((tools[0].group(), tools[0].spec().description.as_str()), (Some("files"), "Reads."));
/// ```
#[derive(Clone)]
pub struct McpServers {
    servers: Arc<[Arc<ServerSettings>]>,
}

impl McpServers {
    /// Returns the servers of a project. None of them is started.
    pub fn new(project: &Project) -> McpServers {
        McpServers {
            servers: ServerSettings::all(project).into_iter().map(Arc::new).collect(),
        }
    }

    /// Returns the tools that models may call, with the descriptions that were reviewed. A server starts when a stage
    /// that may call its tools begins.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for server in self.servers.iter() {
            for name in &server.tools {
                let mut locked = server.locked.iter().flatten();
                // The configuration is refused if the lock file lacks a tool.
                if let Some(locked) = locked.find(|locked| locked.name == *name) {
                    tools.push(Arc::new(McpTool::new(server, locked)));
                }
            }
        }
        tools
    }

    /// Returns the values of the environment variables that servers get, for
    /// [`EngineBuilder::secrets`](orchestra_engine::EngineBuilder::secrets).
    pub fn secrets(&self) -> Vec<String> {
        self.servers.iter().flat_map(|server| server.secrets()).collect()
    }

    /// Returns the names of the servers, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.name.as_str())
    }

    /// Starts a server, and returns all tools that it offers now, as they are locked. A program works in `directory`.
    ///
    /// # Errors
    /// There is no such server, or it cannot be started.
    pub async fn offered(&self, server: &str, directory: &Path) -> Result<Vec<LockedMcpTool>, McpError> {
        let Some(settings) = self.servers.iter().find(|known| known.name == server) else {
            return Err(McpError::UnknownServer {
                server: server.to_owned(),
            });
        };
        let connection = Connection::start(settings, directory, None).await?;
        connection.tools(settings.start_timeout).await
    }

    /// Returns the differences between the reviewed tools of a server and those that it offers, as phrases that name the
    /// tools.
    ///
    /// ```
    /// use orchestra_config::LockedMcpTool;
    /// use orchestra_mcp::McpServers;
    /// let added = LockedMcpTool { name: "remove".to_owned(), ..LockedMcpTool::default() };
    /// assert_eq!(McpServers::differences(&[], &[added]), ["the tool `remove` was added"]);
    /// ```
    pub fn differences(reviewed: &[LockedMcpTool], offered: &[LockedMcpTool]) -> Vec<String> {
        crate::reviewed::differences(reviewed, offered)
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// A place in which a server of a run works: its name, its folder and, if it belongs to a stage, the attempt.
type Key = (String, PathBuf, Option<String>);

/// The servers that stages of a run have started.
#[derive(Default)]
struct RunServers {
    slots: SyncMutex<HashMap<Key, Arc<Mutex<Slot>>>>,
}

/// A server in its place.
#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    restarts: u32,
}

impl RunServers {
    fn slot(&self, key: &Key) -> Arc<Mutex<Slot>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(key.clone()).or_default().clone()
    }
}

/// The right of a stage to a server of its own. Dropping it ends the server.
struct StageServer {
    servers: Arc<RunServers>,
    key: Key,
}

impl Drop for StageServer {
    fn drop(&mut self) {
        let mut slots = self.servers.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.remove(&self.key);
    }
}

/// A tool of a server.
struct McpTool {
    server: Arc<ServerSettings>,
    /// The name, as the server writes it.
    name: String,
    spec: ToolSpec,
    is_read_only: bool,
}

impl McpTool {
    fn new(server: &Arc<ServerSettings>, locked: &LockedMcpTool) -> McpTool {
        McpTool {
            spec: ToolSpec {
                name: locked.name.clone(),
                description: locked.description.clone(),
                parameters: locked.input_schema.clone(),
            },
            name: locked.name.clone(),
            is_read_only: server.read_only.contains(&locked.name),
            server: server.clone(),
        }
    }

    fn key(&self, context: &ToolContext) -> Key {
        let attempt = match self.server.scope {
            McpScope::Run => None,
            McpScope::Stage => context.stage().map(|stage| stage.attempt_key()),
        };
        (self.server.name.clone(), context.root().to_owned(), attempt)
    }

    /// Returns the connection to the server, which is started if it does not run.
    async fn connection(&self, context: &ToolContext) -> Result<Arc<Connection>, ToolError> {
        let Some(stage) = context.stage() else {
            return Err(ToolError::new(
                "the tool of an MCP server can only be called in a run",
            ));
        };
        let slot = stage.shared::<RunServers>().slot(&self.key(context));
        let mut slot = slot.lock().await;
        if let Some(connection) = slot
            .connection
            .as_ref()
            .filter(|connection| !connection.has_ended())
        {
            return Ok(connection.clone());
        }
        let restarts = slot
            .connection
            .take()
            .map_or(slot.restarts, |_| slot.restarts + 1);
        if restarts > MAX_RESTARTS {
            let server = &self.server.name;
            return Err(ToolError::new(format!(
                "the MCP server `{server}` has ended {restarts} times, and is not started again in this run"
            )));
        }
        slot.restarts = restarts;
        let started = Connection::start(&self.server, context.root(), Some(stage.ownership())).await;
        let connection = started.map_err(|error| fail_stage(&error, context))?;
        let verified = connection.verify(&self.server).await;
        verified.map_err(|error| fail_stage(&error, context))?;
        let connection = Arc::new(connection);
        slot.connection = Some(connection.clone());
        Ok(connection)
    }
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn group(&self) -> Option<&str> {
        Some(&self.server.name)
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext) -> PrepareFuture<'a> {
        Box::pin(async move {
            let lease = context
                .stage()
                .filter(|_| self.server.scope == McpScope::Stage)
                .map(|stage| {
                    let servers = stage.shared::<RunServers>();
                    let key = self.key(context);
                    Arc::new(StageServer { servers, key }) as ToolLease
                });
            let connection = self.connection(context).await?;
            connection.verify_if_changed(&self.server, context).await?;
            Ok(lease)
        })
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let connection = self.connection(&context).await?;
            connection
                .call(&self.server, &self.name, arguments, &context)
                .await
        })
    }
}
