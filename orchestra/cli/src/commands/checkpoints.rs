//! `checkpoints`: lists the checkpoints of a run from which a replay can start.

use orchestra_engine::{Durability, EventKind, RunEvent, RunFolder, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::status::Written;
use crate::args::CheckpointsArgs;
use crate::error::{CliError, Exit};
use crate::layout::{Cell, moment, table};
use crate::progress::{attempt, bracketed, named};
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};
use crate::workspace::short;

/// A checkpoint of a run.
#[derive(Debug, PartialEq, Serialize)]
struct Point {
    checkpoint: String,
    time: Timestamp,
    /// The node that had ended; `None` at the beginning.
    node: Option<String>,
    branch: Option<String>,
    visit: Option<u32>,
    attempt: Option<u32>,
    outcome: Option<String>,
    /// The name of the attempt that ended, which is also accepted as name of the checkpoint.
    name: Option<String>,
    /// The snapshot of the path's branches, if it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<Value>,
    /// The nodes that followed.
    next: Vec<String>,
    /// `true` if the run had ended there.
    #[serde(skip)]
    at_end: bool,
}

#[derive(Serialize)]
struct Points {
    run: String,
    checkpoints: Vec<Point>,
}

pub(crate) fn checkpoints(
    args: &CheckpointsArgs,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let run = RunFolder::open(&folder)?;
    let mut points = Reached::default();
    // Without a journal there is no checkpoint to replay from.
    if run.manifest().durability != Durability::None {
        run.each_event(|line| {
            if line.name().is_some_and(|name| TELLING.contains(&name))
                && let Some(event) = line.event()
            {
                points.event(&event);
            }
        })?;
    }
    let points = points.points;
    if terminal.json {
        let content = &Points {
            run: run.manifest().run.clone(),
            checkpoints: points,
        };
        let schema = "orchestra.checkpoint_list/1";
        terminal.json_line(&Written { schema, content }.line());
        return Ok(Exit::Ok);
    }
    if points.is_empty() {
        terminal.progress("the run has no checkpoints: it keeps no journal, or has not begun");
        return Ok(Exit::Ok);
    }
    // Commits contain this name as their checkpoint.
    let in_repositories = run.manifest().workspace.is_some();
    let rows = points.iter().map(|point| {
        let name = point.node.as_deref().unwrap_or("(the beginning)");
        let again = attempt(point.visit.unwrap_or(1), point.attempt.unwrap_or(1));
        vec![
            Cell::text(&point.checkpoint),
            Cell::text(moment(point.time)),
            Cell::text(format!("{name}{again}")),
            Cell::text(point.branch.as_deref().map(bracketed).unwrap_or_default()),
            Cell::text(point.outcome.clone().unwrap_or_default()),
            Cell::text(point.name.clone().filter(|_| in_repositories).unwrap_or_default()),
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
    if let Some(last) = last_to_replay(&points) {
        let replay = runs.command("replay", &folder, &["--checkpoint", &last.checkpoint]);
        terminal.progress("");
        terminal.progress(&format!(
            "replay from one with: {}",
            terminal.paint(Paint::Bold, &replay)
        ));
    }
    Ok(Exit::Ok)
}

/// Returns the last checkpoint from which stages remain to be executed. There are none at the end of the run, even if
/// the run was retried later.
fn last_to_replay(points: &[Point]) -> Option<&Point> {
    points.iter().rfind(|point| !point.at_end)
}

/// Returns the commits in a snapshot, each with the name of its repository.
fn commits(snapshot: Option<&Value>) -> String {
    let repositories = snapshot.and_then(Value::as_object).into_iter().flatten();
    let commit = |(name, state): (&String, &Value)| {
        let sha = state["git_sha"].as_str().unwrap_or_default();
        format!("{name} {}", short(sha))
    };
    repositories.map(commit).collect::<Vec<_>>().join(" ")
}

/// Returns the name of an attempt, such as `build#2/1`, `fan#1:left/build#1/1` or `restart-1/build#1/1`.
fn attempt_name(restarts: u32, branch: Option<&str>, node: &str, visit: u32, attempt: u32) -> String {
    let restart = match restarts {
        0 => String::new(),
        restarts => format!("restart-{restarts}/"),
    };
    let branch = branch.map(|branch| format!("{branch}/")).unwrap_or_default();
    format!("{restart}{branch}{node}#{visit}/{attempt}")
}

/// The events that describe checkpoints.
const TELLING: [&str; 10] = [
    "PipelineStarted",
    "StageCompleted",
    "StageFailed",
    "SnapshotSaved",
    "PipelineRestarted",
    "CheckpointSaved",
    "StageStarted",
    "PipelineCompleted",
    "PipelineFailed",
    "PipelineCancelled",
];

/// The checkpoints that the events describe.
#[derive(Default)]
struct Reached {
    points: Vec<Point>,
    ended: Option<Point>,
    saved: Option<Value>,
    restarts: u32,
}

impl Reached {
    fn event(&mut self, event: &RunEvent) {
        let Reached {
            points,
            ended,
            saved,
            restarts,
        } = self;
        let of = |node: Option<String>, branch: &Option<String>| Point {
            checkpoint: String::new(),
            time: event.time,
            node,
            branch: branch.clone(),
            visit: None,
            attempt: None,
            outcome: None,
            name: None,
            workspace: None,
            next: Vec::new(),
            at_end: false,
        };
        match &event.kind {
            EventKind::PipelineStarted { .. } if points.is_empty() => points.push(Point {
                checkpoint: "cp_000000".to_owned(),
                ..of(None, &None)
            }),
            EventKind::StageCompleted {
                node,
                branch,
                visit,
                attempt,
                outcome,
                ..
            } => {
                *ended = Some(Point {
                    visit: Some(*visit),
                    attempt: Some(*attempt),
                    name: Some(attempt_name(*restarts, branch.as_deref(), node, *visit, *attempt)),
                    outcome: Some(outcome.word().to_owned()),
                    ..of(Some(node.to_string()), branch)
                });
            }
            EventKind::StageFailed {
                node,
                branch,
                visit,
                attempt,
                ..
            } => {
                *ended = Some(Point {
                    visit: Some(*visit),
                    attempt: Some(*attempt),
                    name: Some(attempt_name(*restarts, branch.as_deref(), node, *visit, *attempt)),
                    outcome: Some("fail".to_owned()),
                    ..of(Some(node.to_string()), branch)
                });
            }
            EventKind::SnapshotSaved { snapshot, .. } => *saved = Some(Value::clone(snapshot)),
            EventKind::PipelineRestarted { restart, .. } => *restarts = *restart,
            EventKind::CheckpointSaved { node, checkpoint } if !checkpoint.is_empty() => {
                let mut point = ended.take().unwrap_or_else(|| of(Some(node.to_string()), &None));
                // Transitions that wait for nothing share the checkpoint of the previous step.
                let shared = points.pop_if(|last| last.checkpoint == *checkpoint);
                let before = shared.and_then(|shared| shared.workspace);
                point.workspace = saved.take().or(before);
                points.push(Point {
                    checkpoint: checkpoint.clone(),
                    time: event.time,
                    ..point
                });
            }
            EventKind::StageStarted {
                node,
                branch,
                repeat: false,
                ..
            } if ended.is_none() => {
                let name = named(branch.as_deref(), node);
                let goes_on = |last: &&mut Point| !last.at_end && !last.next.contains(&name);
                if let Some(last) = points.last_mut().filter(goes_on) {
                    last.next.push(name);
                }
            }
            EventKind::PipelineCompleted { .. }
            | EventKind::PipelineFailed { .. }
            | EventKind::PipelineCancelled { .. } => {
                if let Some(last) = points.last_mut() {
                    last.at_end = true;
                }
            }
            _ => {}
        }
    }
}
