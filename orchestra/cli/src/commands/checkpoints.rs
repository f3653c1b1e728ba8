//! `checkpoints`: lists the checkpoints of a run from which a replay can start.

use orchestra_engine::{Durability, EventKind, RunEvent, RunFolder, StageRef, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::args::CheckpointsArgs;
use crate::error::{CliError, Exit};
use crate::report::branches::short_sha;
use crate::report::schema::WithSchema;
use crate::report::stages::{attempt_suffix, branch_name, stage_ref_name};
use crate::runs::Runs;
use crate::terminal::format::date_time;
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

/// A checkpoint of a run.
#[derive(Debug, PartialEq, Serialize)]
struct Checkpoint {
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
struct CheckpointList {
    run: String,
    checkpoints: Vec<Checkpoint>,
}

pub(crate) fn checkpoints(
    args: &CheckpointsArgs,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let run = RunFolder::open(&folder)?;
    let mut points = CheckpointCollector::default();
    // Without a journal there is no checkpoint to replay from.
    if run.manifest().durability != Durability::None {
        run.each_event(|line| {
            if line.name().is_some_and(|name| CHECKPOINT_EVENTS.contains(&name))
                && let Some(event) = line.event()
            {
                points.event(&event);
            }
        })?;
    }
    let points = points.points;
    if terminal.json {
        let content = &CheckpointList {
            run: run.manifest().run.clone(),
            checkpoints: points,
        };
        let schema = "orchestra.checkpoint_list/1";
        terminal.json_line(&WithSchema { schema, content }.line());
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
        let attempt = point.name.as_deref().unwrap_or_default();
        let suffix = attempt_suffix(point.visit.unwrap_or(1), point.attempt.unwrap_or(1));
        vec![
            Cell::text(&point.checkpoint),
            Cell::text(date_time(point.time)),
            Cell::text(format!("{name}{suffix}")),
            Cell::text(point.branch.as_deref().map(branch_name).unwrap_or_default()),
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
fn last_to_replay(points: &[Checkpoint]) -> Option<&Checkpoint> {
    points.iter().rfind(|point| !point.at_end)
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

/// Returns the name of an attempt, such as `build#2/1`, `fan#1:left/build#1/1` or `restart-1/build#1/1`.
fn attempt_name(restarts: u32, stage: &StageRef) -> String {
    match restarts {
        0 => stage.to_string(),
        restarts => format!("restart-{restarts}/{stage}"),
    }
}

/// The events that describe checkpoints.
const CHECKPOINT_EVENTS: [&str; 10] = [
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
struct CheckpointCollector {
    points: Vec<Checkpoint>,
    ended: Option<Checkpoint>,
    saved: Option<Value>,
    restarts: u32,
}

impl CheckpointCollector {
    fn event(&mut self, event: &RunEvent) {
        let CheckpointCollector {
            points,
            ended,
            saved,
            restarts,
        } = self;
        let checkpoint_at = |node: Option<String>, branch: &Option<String>| Checkpoint {
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
        let restarts_before = *restarts;
        let ended_at = |stage: &StageRef, outcome: &str| Checkpoint {
            visit: Some(stage.visit),
            attempt: Some(stage.attempt),
            name: Some(attempt_name(restarts_before, stage)),
            outcome: Some(outcome.to_owned()),
            ..checkpoint_at(Some(stage.node.to_string()), &stage.branch)
        };
        match &event.kind {
            EventKind::PipelineStarted { .. } if points.is_empty() => points.push(Checkpoint {
                checkpoint: "cp_000000".to_owned(),
                ..checkpoint_at(None, &None)
            }),
            EventKind::StageCompleted { stage, outcome, .. } => {
                *ended = Some(ended_at(stage, outcome.word()));
            }
            EventKind::StageFailed { stage, .. } => *ended = Some(ended_at(stage, "fail")),
            EventKind::SnapshotSaved { snapshot, .. } => *saved = Some(Value::clone(snapshot)),
            EventKind::PipelineRestarted { restart, .. } => *restarts = *restart,
            EventKind::CheckpointSaved { node, checkpoint } if !checkpoint.is_empty() => {
                let mut point = ended
                    .take()
                    .unwrap_or_else(|| checkpoint_at(Some(node.to_string()), &None));
                // Transitions that wait for nothing share the checkpoint of the previous step.
                let shared = points.pop_if(|last| last.checkpoint == *checkpoint);
                let before = shared.and_then(|shared| shared.workspace);
                point.workspace = saved.take().or(before);
                points.push(Checkpoint {
                    checkpoint: checkpoint.clone(),
                    time: event.time,
                    ..point
                });
            }
            EventKind::StageStarted { stage, repeat: false } if ended.is_none() => {
                let name = stage_ref_name(stage);
                let awaits_stage = |last: &&mut Checkpoint| !last.at_end && !last.next.contains(&name);
                if let Some(last) = points.last_mut().filter(awaits_stage) {
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
