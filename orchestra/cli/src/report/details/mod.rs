//! The detailed report of one run: its path with all attempts, the reason of each transition, its usage, and its
//! present state.

mod markdown;
mod print;
mod text;

use std::path::Path;
use std::rc::Rc;

use orchestra_engine::{Owner, RunFolder};
use orchestra_sessions::{
    NodeTotals, QuestionRow, Session, SessionError, SessionIndex, SessionStatus, StageRow, ToolCallRow,
    TransitionRow, WarningRow,
};
use serde::Serialize;

use crate::error::CliError;
use crate::report::branches::{BranchStates, branch_states};
use crate::report::rows::Rows;
use crate::runs::Runs;
use crate::runs::stopped::StoppedRun;

/// Maximum number of path entries without `--all`; the latest ones are shown.
const MAX_ENTRIES: usize = 200;

/// The complete report of a run.
#[derive(Serialize)]
pub(crate) struct RunDetails {
    #[serde(flatten)]
    session: Session,
    owner: Option<Owner>,
    /// The server that has the run, if no folder does.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    path: Rows<StageRow>,
    transitions: Rows<TransitionRow>,
    tool_calls: Rows<ToolCallRow>,
    nodes: Vec<NodeTotals>,
    questions: Vec<QuestionRow>,
    /// The attempts that are in progress, or were interrupted.
    #[serde(skip)]
    open: Vec<StageRow>,
    /// The latest failed attempts.
    #[serde(skip)]
    failed: Vec<StageRow>,
    warnings: Rows<WarningRow>,
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

impl RunDetails {
    /// Reads the report of a run.
    ///
    /// # Errors
    ///
    /// Returns an error if the run folder or the index cannot be read.
    pub(crate) fn new(runs: &Runs, folder: &Path) -> Result<RunDetails, CliError> {
        let run = RunFolder::open(folder)?;
        let (index, name) = runs.index_of(folder)?;
        let index = Rc::new(index);
        let session = index.with_present_status(index.run(&name)?);
        let workspace = match run.manifest().workspace {
            Some(_) => branch_states(run.manifest(), session.snapshot.as_ref()),
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
            workspace,
            resume,
            retry: match session.status {
                SessionStatus::Fail => stopped.retry(session.summary.code.as_deref()),
                _ => None,
            },
            replay,
            ..RunDetails::from_index(&index, &name, session)?
        })
    }

    /// Reads the rows of a run, without what depends on its folder.
    fn from_index(
        index: &Rc<SessionIndex>,
        name: &str,
        session: Session,
    ) -> Result<RunDetails, SessionError> {
        Ok(RunDetails {
            owner: None,
            server: None,
            nodes: index.node_totals(name)?,
            open: index.open_stages(name)?,
            failed: index.failed_stages(name, MAX_ENTRIES)?,
            path: Rows::new(index, name, SessionIndex::stages_in, |row| row.seq),
            transitions: Rows::new(index, name, SessionIndex::transitions_in, |row| row.seq),
            tool_calls: Rows::new(index, name, SessionIndex::tool_calls_in, |row| row.seq),
            questions: session.questions(),
            warnings: Rows::new(index, name, SessionIndex::warnings_in, |row| row.seq),
            workspace: BranchStates::new(),
            resume: None,
            failed_at: session.failed_at().map(str::to_owned),
            retry: None,
            replay: None,
            session,
        })
    }
}

/// The state of a run on a server, as far as its events do not tell it.
#[cfg(feature = "restate")]
pub(crate) struct ServerState {
    pub(crate) url: String,
    /// The status of a run that has not ended.
    pub(crate) status: Option<SessionStatus>,
    /// The reason for which no worker can go on with the run.
    pub(crate) parked: Option<String>,
    /// The command that resumes the run.
    pub(crate) resume: String,
}

#[cfg(feature = "restate")]
impl RunDetails {
    /// Reads the report of a run on a server from an index of its events.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub(crate) fn on_server(
        index: SessionIndex,
        run: &str,
        state: ServerState,
    ) -> Result<RunDetails, CliError> {
        let index = Rc::new(index);
        let mut session = index.run(run)?;
        // The folder is that of the index alone.
        session.folder = std::path::PathBuf::new();
        if let Some(status) = state.status
            && status != session.status
        {
            (session.status, session.summary.reason) = (status, None);
        }
        if let Some(reason) = state.parked {
            session.status = SessionStatus::Interrupted;
            session.summary.reason = Some(reason);
        }
        let can_resume = matches!(session.status, SessionStatus::Paused | SessionStatus::Interrupted);
        Ok(RunDetails {
            server: Some(state.url),
            resume: can_resume.then_some(state.resume),
            ..RunDetails::from_index(&index, run, session)?
        })
    }
}
