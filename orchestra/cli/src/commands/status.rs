//! `status`: lists runs, or shows one run in detail.

use orchestra_sessions::{RunFilter, Session};
use serde::Serialize;

use crate::args::{StatusArgs, Summary};
use crate::error::{CliError, Exit};
use crate::report::details::RunDetails;
use crate::report::schema::WithSchema;
use crate::report::session::{run_duration, status_paint};
use crate::runs::Runs;
use crate::terminal::Terminal;
use crate::terminal::format::{cost, date_time, tokens};
use crate::terminal::table::{Cell, table};

pub(crate) fn status(args: &StatusArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    match &args.run {
        Some(name) => show_details(&runs, name, args, terminal)?,
        None => list(&runs, args.limit, terminal)?,
    }
    Ok(Exit::Ok)
}

fn show_details(runs: &Runs, name: &str, args: &StatusArgs, terminal: &Terminal) -> Result<(), CliError> {
    let folder = runs.find(name)?;
    let details = RunDetails::new(runs, &folder)?;
    print_details(&details, runs, args, terminal)
}

/// Prints the report of a run.
pub(super) fn print_details(
    details: &RunDetails,
    runs: &Runs,
    args: &StatusArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    if terminal.json {
        let content = details;
        let schema = SESSION;
        let result = terminal.json_stream(&WithSchema { schema, content });
        result.map_err(|error| CliError::usage("session", error.to_string()).exit(Exit::RunFailed))
    } else if args.summary == Some(Summary::Markdown) {
        terminal.result(details.markdown()?.trim_end());
        Ok(())
    } else {
        details.print(runs, args.all, terminal)
    }
}

const SESSION: &str = "orchestra.session/1";

fn list(runs: &Runs, limit: Option<usize>, terminal: &Terminal) -> Result<(), CliError> {
    let filter = limit.map_or_else(RunFilter::all, |limit| RunFilter::all().limit(limit));
    let mut sessions = Vec::new();
    if runs.dir().is_dir() {
        let index = runs.index()?;
        let found = index.list(&filter)?.into_iter();
        sessions.extend(found.map(|session| index.with_present_status(session)));
    }
    if terminal.json {
        for session in sessions {
            let failed_at = session.failed_at().map(str::to_owned);
            let content = &ListedRun { session, failed_at };
            let schema = SESSION;
            terminal.json_line(&WithSchema { schema, content }.line());
        }
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = sessions.into_iter().map(row).collect();
    if rows.is_empty() {
        terminal.progress(&format!("there are no runs in `{}`", runs.dir().display()));
        return Ok(());
    }
    let head = [
        "RUN",
        "PIPELINE",
        "STATUS",
        "STARTED (UTC)",
        "TOOK",
        "STAGES",
        "CHECKPOINTS",
        "TOKENS",
        "COST",
    ];
    terminal.result(&table(terminal, &head, rows));
    Ok(())
}

/// A run in the list.
#[derive(Serialize)]
struct ListedRun {
    #[serde(flatten)]
    session: Session,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
}

fn row(session: Session) -> Vec<Cell> {
    let word = if session.simulated {
        format!("{} (simulated)", session.name)
    } else {
        session.name.clone()
    };
    let summary = &session.summary;
    vec![
        Cell::text(session.run.to_string()),
        Cell::text(word),
        Cell::text(session.status.word()).paint(status_paint(session.status)),
        Cell::text(summary.started.map(date_time).unwrap_or_default()),
        Cell::number(run_duration(&session)),
        Cell::number(summary.stages),
        Cell::number(summary.checkpoints),
        Cell::number(tokens(summary.usage)),
        Cell::number(cost(summary.usage)),
    ]
}
