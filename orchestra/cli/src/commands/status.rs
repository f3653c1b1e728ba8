//! `status`: lists runs, or shows one run in detail.

use orchestra_engine::{RunFolder, Usage};
use orchestra_sessions::{RunFilter, Session, SessionStatus};
use serde::Serialize;

use crate::args::StatusArgs;
use crate::depth::Depth;
use crate::error::{CliError, Exit};
use crate::layout::{Cell, between, cost, long, moment, now, table, tokens};
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};

/// The JSON form of a report, with its schema.
#[derive(Serialize)]
pub(crate) struct Written<'a, T> {
    pub(crate) schema: &'static str,
    #[serde(flatten)]
    pub(crate) content: &'a T,
}

impl<T: Serialize> Written<'_, T> {
    /// Returns the report as one line of JSON.
    pub(crate) fn line(&self) -> String {
        // It contains only text and numbers, so serialization cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

pub(crate) fn status(args: &StatusArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    match &args.run {
        Some(name) => in_depth(&runs, name, args.all, terminal)?,
        None => list(&runs, args.limit, terminal)?,
    }
    Ok(Exit::Ok)
}

fn in_depth(runs: &Runs, name: &str, all: bool, terminal: &Terminal) -> Result<(), CliError> {
    let folder = runs.find(name)?;
    let depth = Depth::new(runs, &folder, terminal.json)?;
    if terminal.json {
        let content = &depth;
        let schema = SESSION;
        let written = terminal.json_stream(&Written { schema, content });
        written.map_err(|error| CliError::usage("session", error.to_string()).exit(Exit::RunFailed))
    } else {
        depth.print(runs, all, terminal)
    }
}

const SESSION: &str = "orchestra.session/1";

fn list(runs: &Runs, limit: Option<usize>, terminal: &Terminal) -> Result<(), CliError> {
    let filter = limit.map_or_else(RunFilter::all, |limit| RunFilter::all().limit(limit));
    let sessions = if runs.dir().is_dir() {
        runs.index()?.list(&filter)?
    } else {
        Vec::new()
    };
    let sessions = sessions.into_iter().map(stands);
    if terminal.json {
        for session in sessions {
            let failed_at = failed_at(&session);
            let content = &Listed { session, failed_at };
            let schema = SESSION;
            terminal.json_line(&Written { schema, content }.line());
        }
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = sessions.map(row).collect();
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
struct Listed {
    #[serde(flatten)]
    session: Session,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
}

/// Returns the node at which a run failed, or `None` if the run has not failed.
pub(crate) fn failed_at(session: &Session) -> Option<String> {
    let node = session.node.clone();
    node.filter(|_| session.status == SessionStatus::Fail)
}

/// Returns the session with its present status: an open run without an owner was interrupted.
pub(crate) fn stands(session: Session) -> Session {
    if !session.status.is_open() {
        return session;
    }
    let owner = RunFolder::open(&session.folder).and_then(|run| run.owner());
    match owner {
        Ok(None) => session.owner_is_gone(),
        // If the owner cannot be determined, the run may be in progress.
        _ => session,
    }
}

fn row(session: Session) -> Vec<Cell> {
    let word = if session.simulated {
        format!("{} (simulated)", session.name)
    } else {
        session.name.clone()
    };
    let Session { usage, .. } = session;
    vec![
        Cell::text(session.run.to_string()),
        Cell::text(word),
        Cell::text(session.status.word()).paint(paint(session.status)),
        Cell::text(session.started.map(moment).unwrap_or_default()),
        Cell::number(took(&session)),
        Cell::number(session.stages),
        Cell::number(session.checkpoints),
        Cell::number(tokens(usage)),
        Cell::number(cost(usage)),
    ]
}

/// Returns the duration of a run: until now, until its end, or until it stopped.
pub(crate) fn took(session: &Session) -> String {
    let end = match session.status {
        SessionStatus::Running => Some(now()),
        _ => session.ended.or(session.updated),
    };
    let (Some(from), Some(to)) = (session.started, end) else {
        return String::new();
    };
    long(between(from, to))
}

/// Returns the colour of a status.
pub(crate) fn paint(status: SessionStatus) -> Paint {
    match status {
        SessionStatus::Success => Paint::Good,
        SessionStatus::Fail => Paint::Bad,
        SessionStatus::Running | SessionStatus::Accepted => Paint::Bold,
        _ => Paint::Warn,
    }
}

/// Returns the model usage as text; empty if there is none.
pub(crate) fn used(usage: Usage) -> String {
    let parts = [
        Some(tokens(usage))
            .filter(|text| !text.is_empty())
            .map(|text| format!("{text} tokens")),
        Some(cost(usage)).filter(|text| !text.is_empty()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
