//! What pages and programs read about runs: the same rows as those of `orchestra status`.

use std::collections::BTreeMap;

use orchestra_engine::{Owner, RunFolder};
use orchestra_sessions::{QuestionRow, RunUpdate, Session, SessionStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::{App, valid_id};
use crate::error::ApiError;

/// Number of rows of each kind in an update.
const ROWS: usize = 1_000;

/// A run in the list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedRun {
    #[serde(flatten)]
    session: Session,
    /// The node at which the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
}

pub(crate) fn listed_run(session: Session) -> ListedRun {
    ListedRun {
        failed_at: session.failed_at().map(str::to_owned),
        session,
    }
}

/// What changed in a run, with everything that a page shows about it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunReport {
    /// Always `orchestra.run/1`.
    schema: &'static str,
    #[serde(flatten)]
    pub(crate) update: RunUpdate,
    /// The node at which the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
    /// Who executes the run: this `server`, another `process`, or nobody.
    executed_by: Option<&'static str>,
    /// The process that executes the run.
    owner: Option<Owner>,
    /// The questions that wait for an answer, the oldest first.
    questions: Vec<QuestionRow>,
    /// The commands with which people work on the run in a terminal, by what they do.
    commands: BTreeMap<&'static str, String>,
}

impl RunReport {
    pub(crate) fn position(&self) -> u64 {
        self.update.position
    }

    pub(crate) fn has_more(&self) -> bool {
        self.update.more
    }
}

/// Returns what changed in a run after a position.
pub(crate) async fn run_update(app: &App, run: &str, since: u64) -> Result<RunReport, ApiError> {
    let id = valid_id(run)?;
    let is_own = app.own_run(run).is_some();
    let project = app.project.clone();
    let report = app.index(move |index| {
        let mut update = index.update(&id, since, ROWS)?;
        let owner = RunFolder::open(&update.run.folder).and_then(|run| run.owner());
        let owner = owner.ok().flatten();
        let present = index.with_present_status(update.run.clone());
        if present.summary.events > update.run.summary.events {
            // The run has ended meanwhile, and its rows belong to its status.
            update = index.update(&id, since, ROWS)?;
        } else {
            update.run = present;
        }
        Ok(RunReport {
            schema: "orchestra.run/1",
            failed_at: update.run.failed_at().map(str::to_owned),
            executed_by: match &owner {
                _ if is_own => Some("server"),
                Some(_) => Some("process"),
                None => None,
            },
            owner,
            questions: update.run.questions(),
            commands: project.commands(&update.run),
            update,
        })
    });
    let report = report.await?;
    if *report.update.run.run == *run {
        Ok(report)
    } else {
        Err(ApiError::not_found("run", run))
    }
}

/// A question of one of all runs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Gate {
    #[serde(flatten)]
    question: QuestionRow,
    /// The name of the pipeline.
    name: String,
    /// The goal of the pipeline; may be empty.
    goal: String,
    /// The status of the run.
    status: SessionStatus,
}

/// Returns the questions that wait for an answer, the oldest first, of all runs as the index knows them.
pub(crate) async fn open_gates(app: &App) -> Result<Vec<Gate>, ApiError> {
    let sessions = app.index(|index| {
        let asking = index.asking()?.into_iter();
        let present = asking.map(|session| index.with_present_status(session));
        Ok(present.collect::<Vec<_>>())
    });
    let mut gates: Vec<Gate> = Vec::new();
    for session in sessions.await? {
        gates.extend(session.questions().into_iter().map(|question| Gate {
            question,
            name: session.name.clone(),
            goal: session.goal.clone(),
            status: session.status,
        }));
    }
    gates.sort_by_key(|gate| gate.question.asked.as_millis());
    Ok(gates)
}
