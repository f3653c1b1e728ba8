//! `export` and `sync`: copies of runs on a Restate server as run folders.

use orchestra_restate::{ExportError, Exporter};
use serde_json::json;

use super::server_runs::ServerRuns;
use crate::args::{ExportArgs, SyncArgs};
use crate::error::{CliError, Exit};
use crate::project::pipelines::run_transforms;
use crate::terminal::format::count;
use crate::terminal::{Paint, Terminal};

pub(in crate::commands) fn export(
    args: &ExportArgs,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = ServerRuns::new(&args.server.on, &args.server.options(), &args.runs, program)?;
    let id = runs.id(&args.run)?;
    let folder = args.runs.dir.join(&*id);
    let exporter = Exporter::new(runs.client.clone()).transforms(run_transforms());
    let exported = crate::runs::runtime::runtime()?.block_on(exporter.export(&id, folder));
    let exported = exported.map_err(|error| export_error(&runs, &error))?;
    if terminal.json {
        terminal.object(&json!({
            "schema": "orchestra.export_result/1", "run": id, "folder": exported.folder, "changed": exported.changed,
            "events": exported.events, "ended": exported.has_ended, "server": runs.client.url(),
        }));
        return Ok(Exit::Ok);
    }
    let events = count(usize::try_from(exported.events).unwrap_or(usize::MAX), "event");
    let folder = exported.folder.display();
    terminal.result(&match exported.changed {
        true => format!("{id}: exported to {folder} ({events})"),
        false => format!("{id}: nothing has changed since it was exported to {folder} ({events})"),
    });
    Ok(Exit::Ok)
}

pub(in crate::commands) fn sync(
    args: &SyncArgs,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = ServerRuns::new(&args.server.on, &args.server.options(), &args.runs, program)?;
    let admin = runs.admin(&args.admin)?;
    let exporter = Exporter::new(runs.client.clone()).transforms(run_transforms());
    let synced = crate::runs::runtime::runtime()?.block_on(exporter.sync(&admin, &args.runs.dir));
    let report = synced.map_err(|error| export_error(&runs, &error))?;
    let exit = if report.failed.is_empty() {
        Exit::Ok
    } else {
        Exit::RunFailed
    };
    let failed = report
        .failed
        .iter()
        .map(|(run, error)| (run, export_error(&runs, error)));
    if terminal.json {
        let failed =
            failed.map(|(run, error)| json!({ "run": run, "code": error.code, "message": error.message }));
        terminal.object(&json!({
            "schema": "orchestra.sync_result/1", "exported": report.exported, "unchanged": report.unchanged,
            "failed": failed.collect::<Vec<_>>(), "server": runs.client.url(),
        }));
        return Ok(exit);
    }
    for (run, error) in failed {
        let mark = terminal.paint(Paint::Bad, "error");
        terminal.message(&format!("{mark}: `{run}` is not exported: {}", error.message));
    }
    terminal.result(&format!(
        "{} exported to {}, {} unchanged",
        count(report.exported.len(), "run"),
        args.runs.dir.display(),
        report.unchanged
    ));
    Ok(exit)
}

fn export_error(runs: &ServerRuns, error: &ExportError) -> CliError {
    let converted = |code: &'static str| CliError::usage(code, error.to_string()).exit(Exit::RunFailed);
    match error {
        ExportError::Client(error) => runs.error(error),
        ExportError::Folder(error) => converted(error.code()).exit(Exit::from_store_error(error)),
        ExportError::Pipeline { .. } => converted("pipeline"),
        ExportError::Unsettled { .. } => converted("unsettled"),
        _ => converted("state"),
    }
}
