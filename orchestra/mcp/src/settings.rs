//! The settings of servers, from the configuration and the lock file.

use std::time::Duration;

use orchestra_config::{LockedMcpTool, McpScope, McpServer, Project};

use crate::error::McpError;
use crate::http::ServerAddress;

/// Default time limit for the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Default time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a server.
pub(crate) struct ServerSettings {
    pub(crate) name: String,
    pub(crate) target: Target,
    /// The names of the tools that models may call.
    pub(crate) tools: Vec<String>,
    pub(crate) read_only: Vec<String>,
    pub(crate) start_timeout: Duration,
    pub(crate) timeout: Duration,
    pub(crate) scope: McpScope,
    /// All tools of the server as they were reviewed; `None` if they were not.
    pub(crate) locked: Option<Vec<LockedMcpTool>>,
}

/// Where a server is.
pub(crate) enum Target {
    /// A program that is started.
    Program {
        arguments: Vec<String>,
        environment: Vec<String>,
    },
    /// An address.
    Address(Address),
}

/// The address of a server, and the variables that hold the values of its headers.
pub(crate) struct Address {
    url: String,
    headers_env: Vec<(String, String)>,
}

impl Address {
    /// Returns the address with the values of its headers.
    pub(crate) fn resolved(&self, server: &str) -> Result<ServerAddress, McpError> {
        let headers = self.headers_env.iter().map(|(header, variable)| {
            let value = std::env::var(variable).map_err(|_| McpError::MissingVariable {
                server: server.to_owned(),
                variable: variable.clone(),
            })?;
            Ok((header.clone(), value))
        });
        Ok(ServerAddress {
            url: self.url.clone(),
            headers: headers.collect::<Result<_, McpError>>()?,
        })
    }
}

impl ServerSettings {
    /// Returns the settings of the servers of a project.
    pub(crate) fn all(project: &Project) -> Vec<ServerSettings> {
        let servers = project.configuration.mcp_servers.iter();
        servers
            .map(|(name, server)| {
                let locked = project.mcp_lock().and_then(|lock| lock.server(name));
                ServerSettings::new(name, &server.value, locked)
            })
            .collect()
    }

    fn new(name: &str, server: &McpServer, locked: Option<&[LockedMcpTool]>) -> ServerSettings {
        let texts = |list: &[orchestra_config::Located<String>]| -> Vec<String> {
            list.iter().map(|text| text.value.clone()).collect()
        };
        let time = |set: &Option<orchestra_config::Located<orchestra_config::Timespan>>, default| {
            set.as_ref().map_or(default, |set| set.value.0)
        };
        let target = match &server.url {
            Some(url) => Target::Address(Address {
                url: url.value.clone(),
                headers_env: server
                    .headers_env
                    .iter()
                    .map(|(header, variable)| (header.clone(), variable.value.clone()))
                    .collect(),
            }),
            None => Target::Program {
                arguments: texts(&server.command),
                environment: texts(&server.environment),
            },
        };
        ServerSettings {
            name: name.to_owned(),
            target,
            tools: texts(&server.tools),
            read_only: texts(&server.read_only),
            start_timeout: time(&server.start_timeout, START_TIMEOUT),
            timeout: time(&server.timeout, TIMEOUT),
            scope: server.scope.as_ref().map_or(McpScope::Run, |scope| scope.value),
            locked: locked.map(<[LockedMcpTool]>::to_vec),
        }
    }

    /// Returns the values of the variables that the server gets; they are secret.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let names: Vec<&String> = match &self.target {
            Target::Program { environment, .. } => environment.iter().collect(),
            Target::Address(address) => address.headers_env.iter().map(|(_, variable)| variable).collect(),
        };
        let values = names.into_iter().filter_map(|name| std::env::var(name).ok());
        values.filter(|value| !value.is_empty()).collect()
    }
}
