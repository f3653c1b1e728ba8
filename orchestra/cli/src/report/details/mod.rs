//! The detailed report of one run: its path with all attempts, the reason of each transition, its usage, and its
//! present state.

mod print;
mod text;

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use orchestra_engine::{
    EventKind, EventLine, Owner, RunEvent, RunFolder, UnansweredQuestion, UnansweredQuestions, WithheldOption,
};
use orchestra_sessions::{
    NodeTotals, Session, SessionIndex, SessionStatus, StageRow, ToolCallRow, TransitionRow,
};
use serde::Serialize;
use serde_json::Value;

use crate::error::CliError;
use crate::report::branches::{BranchStates, branch_states};
use crate::report::rows::Rows;
use crate::report::session::{failed_at, with_present_status};
use crate::runs::Runs;
use crate::runs::stopped::StoppedRun;
use crate::terminal::format::{date_time, long_duration, now};

/// Maximum number of path entries without `--all`; the latest ones are shown.
const MAX_ENTRIES: usize = 200;

/// The complete report of a run.
#[derive(Serialize)]
pub(crate) struct RunDetails {
    #[serde(flatten)]
    session: Session,
    owner: Option<Owner>,
    path: Rows<StageRow>,
    transitions: Rows<TransitionRow>,
    tool_calls: Rows<ToolCallRow>,
    nodes: Vec<NodeTotals>,
    questions: Vec<QuestionReport>,
    /// The attempts that are in progress, or were interrupted.
    #[serde(skip)]
    open: Vec<StageRow>,
    /// The latest failed attempts.
    #[serde(skip)]
    failed: Vec<StageRow>,
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    warnings: VecDeque<WarningReport>,
    #[serde(skip_serializing_if = "BranchStates::is_empty")]
    workspace: BranchStates,
    /// The command that resumes the run, if it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
    /// The node at which the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
    /// The command that retries the run, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    /// The command that replays the run from before its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
}

/// A warning about a part of a stage's outcome that the engine dropped.
#[derive(Serialize)]
struct WarningReport {
    node: String,
    branch: Option<String>,
    code: String,
    message: String,
    keys: Vec<String>,
}

impl WarningReport {
    fn from_event(event: &RunEvent) -> Option<WarningReport> {
        match &event.kind {
            EventKind::StageWarning {
                node,
                branch,
                code,
                message,
                keys,
            } => Some(WarningReport {
                node: node.to_string(),
                branch: branch.clone(),
                code: code.clone(),
                message: message.clone(),
                keys: keys.clone(),
            }),
            _ => None,
        }
    }
}

/// A question that waits for an answer.
#[derive(Serialize)]
struct QuestionReport {
    node: String,
    branch: Option<String>,
    text: String,
    options: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<WithheldOption>,
    asked: String,
    deadline: Option<String>,
    default: Option<String>,
    /// The deadline in the form for people.
    #[serde(skip)]
    until: Option<String>,
}

impl QuestionReport {
    fn new(open: &UnansweredQuestion) -> QuestionReport {
        let question = &open.question;
        let default = question
            .options
            .iter()
            .find(|option| Some(&option.key) == question.default.as_ref());
        QuestionReport {
            node: open.node.to_string(),
            branch: open.branch.clone(),
            text: question.text.clone(),
            options: question.options.iter().map(ToString::to_string).collect(),
            withheld: question.withheld.clone(),
            asked: open.asked.to_string(),
            deadline: open.deadline().map(|deadline| deadline.to_string()),
            default: default.map(ToString::to_string),
            until: open
                .deadline()
                .zip(open.remaining(now()))
                .map(|(deadline, left)| {
                    let (deadline, left) = (date_time(deadline), long_duration(left));
                    format!("until {deadline} UTC, {left} left")
                }),
        }
    }
}

impl RunDetails {
    /// Reads the report of a run. Keeps only the latest warnings, unless `whole` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if the run folder or the index cannot be read.
    pub(crate) fn new(runs: &Runs, folder: &Path, whole: bool) -> Result<RunDetails, CliError> {
        let run = RunFolder::open(folder)?;
        let (index, name) = runs.index_of(folder)?;
        let index = Rc::new(index);
        let session = with_present_status(index.run(&name)?);
        let waits = matches!(
            session.status,
            SessionStatus::Running | SessionStatus::Paused | SessionStatus::Interrupted
        );
        let mut waiting = UnansweredQuestions::default();
        let mut warnings = VecDeque::new();
        let mut snapshot = None;
        run.each_event(|line| {
            match line.name() {
                Some("StageWarning") => {
                    warnings.extend(line.event().as_ref().and_then(WarningReport::from_event));
                }
                Some("SnapshotSaved") => {
                    snapshot = main_path_snapshot(line, &run.manifest().run).or(snapshot.take());
                }
                _ => {}
            }
            if !whole && warnings.len() > MAX_ENTRIES {
                warnings.pop_front();
            }
            if waits {
                waiting.apply_line(line);
            }
        })?;
        let workspace = match run.manifest().workspace {
            Some(_) => branch_states(run.manifest(), snapshot.as_ref()),
            None => BranchStates::new(),
        };
        let stopped = StoppedRun::in_folder(runs, Some(folder));
        let (resume, replay) = match session.status {
            SessionStatus::Paused | SessionStatus::Interrupted => (stopped.resume(), None),
            SessionStatus::Fail | SessionStatus::Cancelled => (
                None,
                stopped.replay(session.summary.code.as_deref(), session.summary.node.as_deref()),
            ),
            _ => (None, None),
        };
        Ok(RunDetails {
            owner: run.owner()?,
            nodes: index.node_totals(&name)?,
            open: index.open_stages(&name)?,
            failed: index.failed_stages(&name, MAX_ENTRIES)?,
            path: Rows::new(&index, &name, SessionIndex::stages_in, |row| row.seq),
            transitions: Rows::new(&index, &name, SessionIndex::transitions_in, |row| row.seq),
            tool_calls: Rows::new(&index, &name, SessionIndex::tool_calls_in, |row| row.seq),
            questions: waiting.iter().map(QuestionReport::new).collect(),
            warnings,
            workspace,
            resume,
            failed_at: failed_at(&session),
            retry: match session.status {
                SessionStatus::Fail => stopped.retry(session.summary.code.as_deref()),
                _ => None,
            },
            replay,
            session,
        })
    }
}

/// Returns the snapshot in a line if it is a snapshot of the main path of this run.
fn main_path_snapshot(line: EventLine<'_>, run: &str) -> Option<Value> {
    let event = line.event()?;
    match event.kind {
        EventKind::SnapshotSaved {
            branch: None,
            snapshot,
            ..
        } if *event.run == *run => Some(Value::clone(&snapshot)),
        _ => None,
    }
}
