//! `checkpoints`: lists the checkpoints of a run from which a replay can start.

use orchestra_engine::{Durability, ReplayPoint, ReplayPoints, RunFolder, branch_label};
use serde::Serialize;
use serde_json::Value;

use crate::args::CheckpointsArgs;
use crate::error::{CliError, Exit};
use crate::report::branches::short_sha;
use crate::report::schema::WithSchema;
use crate::report::stages::attempt_suffix;
use crate::runs::Runs;
use crate::terminal::format::date_time;
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

#[derive(Serialize)]
struct CheckpointList<'p> {
    run: &'p str,
    checkpoints: &'p [ReplayPoint],
}

pub(crate) fn checkpoints(
    args: &CheckpointsArgs,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let run = RunFolder::open(&folder)?;
    let mut points = ReplayPoints::default();
    // Without a journal there is no checkpoint to replay from.
    if run.manifest().durability != Durability::None {
        run.each_event(|line| points.apply_line(line))?;
    }
    if terminal.json {
        let content = &CheckpointList {
            run: &run.manifest().run,
            checkpoints: points.list(),
        };
        let schema = "orchestra.checkpoint_list/1";
        terminal.json_line(&WithSchema { schema, content }.line());
        return Ok(Exit::Ok);
    }
    if points.list().is_empty() {
        terminal.progress("the run has no checkpoints: it keeps no journal, or has not begun");
        return Ok(Exit::Ok);
    }
    // Commits contain this name as their checkpoint.
    let in_repositories = run.manifest().workspace.is_some();
    let rows = points.list().iter().map(|point| {
        let name = point.node.as_deref().unwrap_or("(the beginning)");
        let attempt = point.name.as_deref().unwrap_or_default();
        let suffix = attempt_suffix(point.visit.unwrap_or(1), point.attempt.unwrap_or(1));
        vec![
            Cell::text(&point.checkpoint),
            Cell::text(date_time(point.time)),
            Cell::text(format!("{name}{suffix}")),
            Cell::text(point.branch.as_deref().map(branch_label).unwrap_or_default()),
            Cell::text(point.outcome.clone().unwrap_or_default()),
            Cell::text(if in_repositories { attempt } else { "" }),
            Cell::text(commits(point.workspace.as_ref())),
            Cell::text(point.next.join(", ")),
        ]
    });
    let head = [
        "CHECKPOINT",
        "TIME (UTC)",
        "ENDED",
        "BRANCH",
        "OUTCOME",
        "NAME",
        "COMMITS",
        "NEXT",
    ];
    terminal.result(&table(terminal, &head, rows.collect()));
    if let Some(last) = points.last_to_replay() {
        let replay = runs.command("replay", &folder, &["--checkpoint", &last.checkpoint]);
        terminal.progress("");
        terminal.progress(&format!(
            "replay from one with: {}",
            terminal.paint(Paint::Bold, &replay)
        ));
    }
    Ok(Exit::Ok)
}

/// Returns the commits in a snapshot, each with the name of its repository.
fn commits(snapshot: Option<&Value>) -> String {
    let repositories = snapshot.and_then(Value::as_object).into_iter().flatten();
    let commit = |(name, state): (&String, &Value)| {
        let sha = state["git_sha"].as_str().unwrap_or_default();
        format!("{name} {}", short_sha(sha))
    };
    repositories.map(commit).collect::<Vec<_>>().join(" ")
}
