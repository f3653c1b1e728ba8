//! `mcp lock`: records the tools of the MCP servers of a project, so that somebody reviews them.

use std::path::Path;

use orchestra_config::{CONFIGURATION_FILE, LockedMcpTool, MCP_LOCK_FILE, McpLock, Project};
use orchestra_engine::Disk;
use orchestra_graph::did_you_mean;
use orchestra_mcp::McpServers;
use serde_json::json;

use crate::args::{Format, McpLockArgs};
use crate::error::{CliError, Exit};
use crate::project::agents::with_slashes;
use crate::project::files::write_file;
use crate::project::root::find_above;
use crate::report::diagnostics::print_report;
use crate::runs::runtime::runtime;
use crate::terminal::Terminal;
use crate::terminal::format::count;

/// The result for one server.
struct Compared {
    server: String,
    /// The tools to record; `None` if the recorded ones stay.
    tools: Option<Vec<LockedMcpTool>>,
    message: String,
    differences: Vec<String>,
    is_refused: bool,
}

pub(crate) fn lock(args: &McpLockArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let project = find_project(args, terminal)?;
    let servers = McpServers::new(&project);
    let names: Vec<&str> = servers.names().collect();
    let Some(path) = project.mcp_lock_path() else {
        return Err(CliError::usage(
            "no_mcp_servers",
            "the configuration has no `mcp_servers`",
        ));
    };
    for server in &args.accept {
        if !names.contains(&server.as_str()) {
            let error = CliError::usage("mcp_unknown_server", format!("there is no MCP server `{server}`"));
            let near = did_you_mean(server, names.iter().copied());
            return Err(error.help(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the servers are {}", names.join(", ")),
            }));
        }
    }
    let before = match project.mcp_lock_file() {
        None => McpLock::default(),
        Some(Ok(lock)) => lock.clone(),
        Some(Err(error)) => {
            let message = format!("`{path}` cannot be read: {error}");
            let help = "restore it from version control, or delete it and lock the servers anew";
            return Err(CliError::usage("mcp_lock_invalid", message)
                .exit(Exit::Invalid)
                .help(help));
        }
    };
    let folder = std::env::current_dir()
        .map_err(|error| CliError::usage("working_folder", format!("there is no working folder: {error}")))?;
    let runtime = runtime()?;
    let mut results = Vec::new();
    for name in &names {
        let offered = runtime.block_on(servers.offered(name, &folder));
        let offered = offered
            .map_err(|error| CliError::usage(error.code(), error.to_string()).exit(Exit::RunFailed))?;
        results.push(compare(name, offered, &before, args));
    }
    let mut lock = before.clone();
    lock.retain(|server| names.contains(&server));
    for result in &mut results {
        if let Some(tools) = result.tools.take() {
            lock.set(&result.server, tools);
        }
    }
    if !args.check && (lock != before || project.mcp_lock_file().is_none()) {
        write_file(Path::new(path), lock.to_string().as_bytes())?;
    }
    let is_refused = results.iter().any(|result| result.is_refused);
    for result in results {
        print(&result, terminal);
    }
    if args.check && lock != before && !is_refused {
        terminal.message(&format!(
            "`{path}` has servers that the configuration lacks; run `orchestra mcp lock`"
        ));
        return Ok(Exit::Invalid);
    }
    Ok(if is_refused { Exit::Invalid } else { Exit::Ok })
}

/// Compares the tools that a server offers with those that are recorded.
fn compare(server: &str, offered: Vec<LockedMcpTool>, before: &McpLock, args: &McpLockArgs) -> Compared {
    let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    let names = format!("{}: {}", count(names.len(), "tool"), names.join(", "));
    let result = |message: String| Compared {
        server: server.to_owned(),
        tools: None,
        message,
        differences: Vec::new(),
        is_refused: false,
    };
    let Some(reviewed) = before.server(server) else {
        if args.check {
            return Compared {
                is_refused: true,
                ..result("not locked; run `orchestra mcp lock`".to_owned())
            };
        }
        return Compared {
            tools: Some(offered),
            ..result(format!("locked with {names}"))
        };
    };
    let differences = McpServers::differences(reviewed, &offered);
    if differences.is_empty() {
        return result(format!("unchanged, {names}"));
    }
    if args.accept.iter().any(|accepted| accepted == server) {
        let message = format!("accepted with {names}");
        return Compared {
            tools: Some(offered),
            differences,
            ..result(message)
        };
    }
    let message =
        format!("changed; `orchestra mcp lock --accept {server}` records the tools as they are now");
    Compared {
        differences,
        is_refused: true,
        ..result(message)
    }
}

fn print(result: &Compared, terminal: &Terminal) {
    if terminal.json {
        terminal.object(&json!({
            "schema": "orchestra.mcp_locked/1", "server": result.server, "message": result.message,
            "differences": result.differences, "refused": result.is_refused,
        }));
        return;
    }
    terminal.result(&format!("{}: {}", result.server, result.message));
    for difference in &result.differences {
        terminal.result(&format!("  {difference}"));
    }
}

/// Finds the configuration of the project.
fn find_project(args: &McpLockArgs, terminal: &Terminal) -> Result<Project, CliError> {
    let path = args.config.as_deref().map(with_slashes);
    let Some(path) = path.or_else(|| find_above("", CONFIGURATION_FILE)) else {
        let message =
            format!("there is no `{CONFIGURATION_FILE}` here, nor in a parent folder of the repository");
        return Err(CliError::usage("no_configuration", message).help("name it with `--config`"));
    };
    let project = Project::load(&path, &Disk);
    if project.report.has_errors() {
        let format = if terminal.json { Format::Json } else { Format::Text };
        print_report(terminal, &project.report, format);
        let message = format!("`{path}` is invalid, so `{MCP_LOCK_FILE}` is not written");
        return Err(CliError::usage("invalid_configuration", message).exit(Exit::Invalid));
    }
    Ok(project)
}
