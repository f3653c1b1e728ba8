//! The Model Context Protocol: tools of servers for the agents of a project, and pipelines as tools of other agents.
//!
//! # Glossary
//!
//! - **Server**: a program, or a service over HTTP, that offers tools by the protocol.
//! - **Lock file**: `orchestra.mcp.lock`, the tools of the servers as somebody has reviewed them. Models read these
//!   descriptions only, and a server whose tools differ is not used.
//! - **Elicitation**: a question of a server to a person. It becomes a question of the stage whose model called the tool.
//! - **Scope**: how long a process of a server lives: as long as the run, or as long as an attempt of a stage.
//!
//! # Modules, in reading order
//!
//! - `error`: the errors of servers.
//! - `sanitize`: removes characters that people do not see.
//! - `reviewed`: tools as they are locked, and their differences from those that a server offers.
//! - `form`: questions of servers as questions to people, and their answers.
//! - `lines`: a transport of JSON lines over blocking pipes, with limits.
//! - `process`: the process of a server.
//! - `http`: servers that are reached over HTTP.
//! - `verification`: the changes that a server reports, and the comparisons of its tools with the lock file.
//! - `watched`: a transport that reports changes of the tools.
//! - `handler`: what a server may ask of this program.
//! - `settings`: the settings of servers.
//! - `connection`: the connection to a server.
//! - `servers`: the servers of a project, their tools, and the processes of runs.
//! - `host`: what a server of pipelines needs of its program.
//! - `elicit`: asks the person of a client the questions of gates.
//! - `serve`: a server whose tools are pipelines.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connection;
mod elicit;
mod error;
mod form;
mod handler;
mod host;
mod http;
mod lines;
mod process;
mod reviewed;
mod sanitize;
mod serve;
mod servers;
mod settings;
mod verification;
mod watched;

pub use error::McpError;
pub use host::{Answered, HostFuture, PipelineHost, PipelineTool};
pub use serve::serve_pipelines;
pub use servers::McpServers;
