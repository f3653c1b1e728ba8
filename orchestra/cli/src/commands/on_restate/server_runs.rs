//! The runs on a Restate server, and the commands for them.

use std::path::Path;

use orchestra_engine::RunId;
use orchestra_restate::{Admin, Blobs, Client, ClientError};

use super::errors::{blob_error, client_error};
use crate::args::{RUNS, RunsDir, ServerOptions};
use crate::error::CliError;
use crate::runs::shell_quoted;

/// Opens the store of large values that was requested, or that beside the folder of runs.
pub(in crate::commands) fn open_blobs(runs: &RunsDir, requested: Option<&Path>) -> Result<Blobs, CliError> {
    let opened = match requested.and_then(Path::to_str) {
        Some(location) => Blobs::open(location),
        None => Blobs::in_folder(&runs.blobs(requested)),
    };
    opened.map_err(|error| blob_error(&error))
}

/// The runs on a Restate server.
#[derive(Clone)]
pub(super) struct ServerRuns {
    pub(super) client: Client,
    program: String,
    /// The options with which another command finds the same runs.
    options: Vec<String>,
}

impl ServerRuns {
    /// Creates the client of a server.
    pub(super) fn new(
        on: &str,
        options: &ServerOptions,
        runs: &RunsDir,
        program: &str,
    ) -> Result<ServerRuns, CliError> {
        check_url("--on", on)?;
        let blobs = open_blobs(runs, options.blobs.as_deref())?;
        let client = Client::new(on, blobs).map_err(|error| client_error(&error, program))?;
        let mut words = vec!["--on".to_owned(), client.url().to_owned()];
        if let Some(blobs) = &options.blobs {
            words.extend(["--blobs".to_owned(), blobs.to_string_lossy().into_owned()]);
        } else if runs.dir != Path::new(RUNS) {
            words.extend(["--runs".to_owned(), runs.dir.to_string_lossy().into_owned()]);
        }
        Ok(ServerRuns {
            client,
            program: program.to_owned(),
            options: words,
        })
    }

    /// Returns the id of a run that the command line names.
    pub(super) fn id(&self, name: &str) -> Result<RunId, CliError> {
        let id = RunId::new(name);
        id.map_err(|error| CliError::usage("run_id", error.to_string()))
    }

    /// Returns a command of this program for a run, quoted for a shell.
    pub(super) fn command(&self, verb: &str, run: &str, arguments: &[&str]) -> String {
        let words = [self.program.as_str(), verb, run];
        let words = words.iter().chain(arguments).copied();
        let words = words.chain(self.options.iter().map(String::as_str));
        words.map(shell_quoted).collect::<Vec<_>>().join(" ")
    }

    /// Converts the error of a request.
    pub(super) fn error(&self, error: &ClientError) -> CliError {
        client_error(error, &self.program)
    }

    /// Creates the client of the administration.
    pub(super) fn admin(&self, url: &str) -> Result<Admin, CliError> {
        check_url("--admin", url)?;
        Admin::new(url).map_err(|error| self.error(&error))
    }
}

/// Refuses what is not the address of a server.
pub(in crate::commands) fn check_url(option: &str, url: &str) -> Result<(), CliError> {
    let rest = url.strip_prefix("http://").or(url.strip_prefix("https://"));
    let is_url = rest.is_some_and(|rest| {
        !rest.is_empty() && !rest.starts_with('/') && !rest.contains(|c: char| c.is_whitespace())
    });
    if is_url {
        return Ok(());
    }
    Err(CliError::usage(
        "server_url",
        format!("`{option} {}` is not the address of a server", url.escape_debug()),
    )
    .help(format!("write a complete URL: `{option} http://127.0.0.1:8080`")))
}
