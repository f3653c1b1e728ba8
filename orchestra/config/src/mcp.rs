//! The settings of MCP servers, whose tools models may call.

use crate::decode::{section, words};
use crate::located::{Located, Names};
use crate::timespan::Timespan;

words! {
    /// How long a process of an MCP server lives.
    ///
    /// ```
    /// use orchestra_config::McpScope;
    /// assert_eq!(McpScope::from_name("stage"), Some(McpScope::Stage));
    /// ```
    pub enum McpScope {
        /// As long as the run; all stages that work in the same folder share it.
        Run = "run",
        /// As long as one attempt of a stage.
        Stage = "stage",
    }
}

section! {
    /// A server of the Model Context Protocol, whose tools models may call as `SERVER:TOOL`.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"mcp_servers:\n  files: {command: [mcp-server-filesystem, .], tools: [read_text_file], read_only: [read_text_file]}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(!report.has_errors());
    /// assert!(configuration.tool_names().iter().any(|name| name == "files:read-text-file"));
    /// assert!(configuration.tool_is_read_only("files:read_text_file"));
    /// ```
    pub struct McpServer {
        /// The program and its arguments; no shell reads them.
        pub command: Vec<Located<String>>,
        /// The address of a server that is reached over HTTP.
        pub url: Option<Located<String>>,
        /// Headers of each request over HTTP, and the environment variables that hold their values.
        pub headers_env: Names<String>,
        /// The tools that models may call, each by its name.
        pub tools: Vec<Located<String>>,
        /// Those of the tools that change nothing, so that they may run beside others.
        pub read_only: Vec<Located<String>>,
        /// Names of environment variables that the program may see besides the usual ones.
        pub environment: Vec<Located<String>>,
        /// How long the server may take until it has started; 20 seconds by default.
        pub start_timeout: Option<Located<Timespan>>,
        /// How long a call may take; one minute by default.
        pub timeout: Option<Located<Timespan>>,
        /// How long a process of the server lives; by default as long as the run.
        pub scope: Option<Located<McpScope>>,
    }
}
