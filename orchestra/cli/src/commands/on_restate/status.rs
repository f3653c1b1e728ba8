//! `status` of a run on a Restate server.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use orchestra_engine::{RunEvent, RunFile, RunId};
use orchestra_restate::{ClientError, Phase, RemoteStatus};
use orchestra_sessions::{SessionIndex, SessionStatus};
use serde_json::json;

use super::super::status::print_details;
use super::server_runs::ServerRuns;
use crate::args::StatusArgs;
use crate::error::{CliError, Exit};
use crate::report::details::{RunDetails, ServerState};
use crate::runs::Runs;
use crate::terminal::Terminal;

pub(super) fn status(
    args: &StatusArgs,
    on: &str,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let Some(name) = &args.run else {
        return Err(
            CliError::usage("missing_argument", "`status --on` needs the id of a run")
                .help("the page of the server lists its objects `OrchestraRun`"),
        );
    };
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let id = runs.id(name)?;
    let (status, parked, events) = crate::runs::runtime::runtime()?.block_on(async {
        let events = runs.client.events(&id, 0).await;
        let events = events.map_err(|error| runs.error(&error))?;
        match runs.client.status(&id).await {
            Ok(status) => {
                let parked = status.parked.clone();
                Ok((Some(status), parked, events))
            }
            Err(ClientError::Refused { code, message, .. }) if code == "run_parked" => {
                Ok((None, Some(message), events))
            }
            Err(error) => Err(runs.error(&error)),
        }
    })?;
    // The index computes the report from the events in a folder.
    let folder = tempfile::tempdir().map_err(unwritable)?;
    write_run(folder.path(), &id, status.as_ref(), &events).map_err(unwritable)?;
    let index = SessionIndex::open(folder.path())?;
    let state = ServerState {
        url: runs.client.url().to_owned(),
        status: status.as_ref().and_then(|status| match status.phase {
            Phase::Running => Some(SessionStatus::Running),
            Phase::Paused(_) => Some(SessionStatus::Paused),
            Phase::Ended(_) => None,
        }),
        parked,
        resume: runs.command("resume", &id, &[]),
    };
    let details = RunDetails::on_server(index, &id, state)?;
    print_details(&details, &Runs::new(&args.runs, program), args, terminal)?;
    Ok(Exit::Ok)
}

/// Writes the events of a run as those of a run folder.
fn write_run(
    runs: &Path,
    id: &RunId,
    status: Option<&RemoteStatus>,
    events: &[RunEvent],
) -> std::io::Result<()> {
    let folder = runs.join(&**id);
    fs::create_dir(&folder)?;
    // The name and the goal are in the first event.
    let manifest = json!({
        "run": id, "file": status.map(|status| &status.pipeline), "started": status.map(|status| status.began),
    });
    fs::write(RunFile::Manifest.path(&folder), manifest.to_string())?;
    let mut lines = String::new();
    for event in events {
        // Events contain only text and numbers, so serialization cannot fail.
        let _ = writeln!(lines, "{}", serde_json::to_string(event).unwrap_or_default());
    }
    fs::write(RunFile::Events.path(&folder), lines)
}

fn unwritable(error: std::io::Error) -> CliError {
    CliError::usage("store_io", format!("cannot write a temporary folder: {error}")).exit(Exit::RunFailed)
}
