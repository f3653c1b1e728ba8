//! Consistency checks of the MCP servers of a configuration.

use orchestra_graph::{Diagnostic, Span};

use crate::decode::Diagnostics;
use crate::http_address::{authority, host, is_loopback_host};
use crate::located::Located;
use crate::mcp::McpServer;
use crate::names::tool_name;
use crate::settings::Configuration;
use crate::suggestion::suggestion;
use crate::variable_names::variables;

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
    let Some(after_scheme) = plain.or_else(|| url.strip_prefix("https://")) else {
        diagnostics.value(
            format!("`{}` is not a valid address", url.value),
            url.span,
            "write an address that begins with `https://` or `http://`",
        );
        return;
    };
    let authority = authority(after_scheme);
    // The message does not repeat the address, which may hold a password.
    if authority.contains('@') {
        diagnostics.value(
            "the address holds a user name or a password",
            url.span,
            "put credentials into `headers_env`, which names variables with the values of headers",
        );
        return;
    }
    if authority.contains('\\') {
        diagnostics.value(
            "the host of the address contains `\\`",
            url.span,
            "write `/` before the path",
        );
        return;
    }
    if plain.is_some() && !is_loopback_host(host(authority)) && !server.headers_env.is_empty() {
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
    diagnostics.variable_name(&Located::new(variable.value.clone(), variable.span));
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
            let diagnostic = Diagnostic::from_rule(rule, message, tool.span);
            diagnostics.name(diagnostic, tool, suggestion(tool, &known));
        }
    }
}
