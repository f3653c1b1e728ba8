//! The settings of MCP servers, whose tools models may call, and their consistency checks.

use orchestra_graph::Span;

use crate::check::{variable_name, variables};
use crate::decode::{Diagnostics, section, words};
use crate::located::{Located, Names};
use crate::names::tool_name;
use crate::settings::Configuration;
use crate::suggestion::suggestion;
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

/// Headers that belong to the protocol.
const PROTOCOL_HEADERS: &[&str] = &[
    "accept",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// Reports servers that cannot be reached, and settings that contradict each other.
pub(crate) fn check_servers(configuration: &Configuration, diagnostics: &mut Diagnostics) {
    for (name, server) in &configuration.mcp_servers {
        check_name(configuration, name, server.span, diagnostics);
        check_address(name, server, diagnostics);
        check_tools(server, diagnostics);
        variables(&server.environment, diagnostics);
        for timeout in [&server.start_timeout, &server.timeout].into_iter().flatten() {
            if timeout.value.is_zero() {
                diagnostics.value(
                    "no server answers in no time",
                    timeout.span,
                    "write a time such as `20s`",
                );
            }
        }
    }
}

fn check_name(configuration: &Configuration, name: &str, span: Span, diagnostics: &mut Diagnostics) {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(is_sign) {
        diagnostics.value(
            format!("`{name}` is not a valid name of a server"),
            span,
            "use letters, digits, `-` and `_`, at most 32",
        );
    }
    let same = |known: &&String| tool_name(known) == tool_name(name);
    let repositories = configuration.workspace.repos.keys();
    let others = configuration
        .mcp_servers
        .keys()
        .take_while(|other| *other != name);
    if let Some(repository) = repositories.clone().find(same) {
        diagnostics.value(
            format!("the server `{name}` has the name of the repository `{repository}`"),
            span,
            format!("rename one of them: the tools of both would be called `{name}:TOOL`"),
        );
    }
    if let Some(other) = others.into_iter().find(same) {
        diagnostics.value(
            format!("the servers `{other}` and `{name}` differ only in `-` and `_`"),
            span,
            "rename one of them",
        );
    }
}

fn check_address(name: &str, server: &Located<McpServer>, diagnostics: &mut Diagnostics) {
    let program = server.command.first();
    match (program, &server.url) {
        (None, None) => diagnostics.value(
            format!("the server `{name}` has neither a command nor an address"),
            server.span,
            "add `command: [PROGRAM, ARGUMENT]`, or `url: https://..`",
        ),
        (Some(_), Some(url)) => diagnostics.value(
            format!("the server `{name}` has a command and an address"),
            url.span,
            "take one of them away",
        ),
        _ => {}
    }
    if let Some(program) = program.filter(|program| program.trim().is_empty()) {
        diagnostics.value("the program has no name", program.span, "name a program");
    }
    for argument in server.command.iter().filter(|argument| argument.contains('\0')) {
        diagnostics.value(
            "an argument cannot contain a NUL character",
            argument.span,
            "take it away",
        );
    }
    if let Some(url) = &server.url {
        check_url(url, server, diagnostics);
    }
    if let (None, Some(header)) = (&server.url, server.headers_env.values().next()) {
        diagnostics.value(
            "`headers_env` means nothing to a program",
            header.span,
            "take it away, or pass the variables with `environment`",
        );
    }
    if let (Some(_), Some(variable)) = (&server.url, server.environment.first()) {
        diagnostics.value(
            "`environment` means nothing to a server that is reached over HTTP",
            variable.span,
            "take it away, or send the variables with `headers_env`",
        );
    }
    for (header, variable) in &server.headers_env {
        check_header(header, variable, diagnostics);
    }
}

fn check_url(url: &Located<String>, server: &McpServer, diagnostics: &mut Diagnostics) {
    let plain = url.strip_prefix("http://");
    if plain.is_none() && !url.starts_with("https://") {
        diagnostics.value(
            format!("`{}` is not a valid address", url.value),
            url.span,
            "write an address that begins with `https://` or `http://`",
        );
    }
    let authority = plain.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_local = |authority: &str| {
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => authority.split(':').next(),
        };
        matches!(host, Some("localhost" | "127.0.0.1" | "::1"))
    };
    if authority.is_some_and(|authority| !is_local(authority)) && !server.headers_env.is_empty() {
        diagnostics.value(
            "the headers would be sent without encryption",
            url.span,
            "write `https://`, or an address of this machine",
        );
    }
}

fn check_header(header: &str, variable: &Located<String>, diagnostics: &mut Diagnostics) {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if header.is_empty() || !header.bytes().all(is_sign) {
        diagnostics.value(
            format!("`{header}` is not a valid name of a header"),
            variable.span,
            "use letters, digits and `-`",
        );
    }
    if PROTOCOL_HEADERS.contains(&header.to_ascii_lowercase().as_str()) {
        diagnostics.value(
            format!("the protocol itself sets the header `{header}`"),
            variable.span,
            "take it away",
        );
    }
    variable_name(&Located::new(variable.value.clone(), variable.span), diagnostics);
}

fn check_tools(server: &Located<McpServer>, diagnostics: &mut Diagnostics) {
    for (at, tool) in server.tools.iter().enumerate() {
        if tool.contains(['*', '?']) {
            diagnostics.value(
                format!("`{}` is a pattern, and each tool is named by itself", tool.value),
                tool.span,
                "write the names of the tools; `orchestra mcp lock` lists them",
            );
        } else if tool.is_empty() || tool.contains([':', ',']) || tool.chars().any(char::is_whitespace) {
            diagnostics.value(
                format!("`{}` is not a name of a tool", tool.value),
                tool.span,
                "write a name without blanks, `,` and `:`, as the server does",
            );
        }
        let before = server.tools.get(..at).unwrap_or_default();
        if let Some(same) = before.iter().find(|before| tool_name(before) == tool_name(tool)) {
            let message = if same.value == tool.value {
                format!("the tool `{}` is named twice", tool.value)
            } else {
                format!("`{}` and `{}` differ only in `-` and `_`", same.value, tool.value)
            };
            diagnostics.value(message, tool.span, "take one of them away");
        }
    }
    let known: Vec<&str> = server.tools.iter().map(|tool| tool.as_str()).collect();
    for tool in &server.read_only {
        if !known.contains(&tool.as_str()) {
            let message = format!("`{}` is not one of `tools`", tool.value);
            let rule = diagnostics.rules.value;
            let diagnostic = orchestra_graph::Diagnostic::from_rule(rule, message, tool.span);
            diagnostics.name(diagnostic, tool, suggestion(tool, &known));
        }
    }
}

impl Configuration {
    /// Returns the MCP server and the name of the tool that a name such as `files:read-text-file` stands for, as the
    /// server writes it. Returns `None` for other names.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"mcp_servers: {files: {command: [files], tools: [read_text_file]}}";
    /// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
    /// let found = configuration.mcp_tool("files:read-text-file").expect("it is configured");
    /// assert_eq!((found.0, found.2), ("files", "read_text_file"));
    /// assert!(configuration.mcp_tool("read-file").is_none());
    /// ```
    pub fn mcp_tool(&self, name: &str) -> Option<(&str, &McpServer, &str)> {
        let name = tool_name(name);
        let (wanted, tool) = name.split_once(':')?;
        let (server, settings) = self
            .mcp_servers
            .iter()
            .find(|(server, _)| tool_name(server) == wanted)?;
        let tool = settings.tools.iter().find(|known| tool_name(known) == tool)?;
        Some((server, &settings.value, tool))
    }
}
