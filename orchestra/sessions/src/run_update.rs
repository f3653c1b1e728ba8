//! What changed in a run since a position in its events.

use orchestra_engine::RunId;
use rusqlite::Connection;
use serde::Serialize;

use crate::database::DatabaseError;
use crate::folders::Folders;
use crate::query;
use crate::question_row::WarningRow;
use crate::rows::{EdgeCount, NodeTotals, Page, Session, StageRow, ToolCallRow, TransitionRow};

/// The rows of a run that are new or changed after a position in its events, with its present totals. All parts belong
/// to the same moment.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let index = SessionIndex::open(runs_dir)?;
/// let all = index.update("nightly", 0, 1_000)?;
/// assert_eq!((all.stages.len(), all.nodes.len(), all.whole, all.more), (2, 2, true, false));
/// let nothing = index.update("nightly", all.position, 1_000)?;
/// assert!(nothing.stages.is_empty() && !nothing.whole);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunUpdate {
    /// The run.
    pub run: Session,
    /// The position after these rows: the sequence number of an event.
    pub position: u64,
    /// `true` if the rows replace all rows that the caller has.
    pub whole: bool,
    /// `true` if there are more rows after the position.
    pub more: bool,
    /// The stage attempts that began or changed.
    pub stages: Vec<StageRow>,
    /// The new transitions.
    pub transitions: Vec<TransitionRow>,
    /// The new tool calls.
    pub tool_calls: Vec<ToolCallRow>,
    /// The new warnings.
    pub warnings: Vec<WarningRow>,
    /// The totals of all nodes with attempts.
    pub nodes: Vec<NodeTotals>,
    /// The counts of all edges that were tested or taken.
    pub edges: Vec<EdgeCount>,
}

/// Reads an update with about `most` rows of each kind. All changes of one event belong to the same update.
pub(crate) fn read(
    connection: &Connection,
    folders: &Folders,
    run: &RunId,
    since: u64,
    most: usize,
) -> Result<RunUpdate, DatabaseError> {
    let session = query::session(connection, folders, run)?;
    let events = session.summary.events;
    let whole = since == 0 || since > events;
    let after = if whole { 0 } else { since };
    let most = most.max(1);
    let page = Page::After { seq: after, most };
    let mut stages = query::changed_stages(connection, run, after, most)?;
    let mut transitions = query::transitions(connection, run, page)?;
    let mut tool_calls = query::tool_calls(connection, run, page)?;
    let mut warnings = query::warnings(connection, run, page)?;
    let cut = [
        (stages.len(), stages.iter().map(|row| row.changed).max()),
        (transitions.len(), transitions.last().map(|row| row.seq)),
        (tool_calls.len(), tool_calls.last().map(|row| row.seq)),
        (warnings.len(), warnings.last().map(|row| row.seq)),
    ];
    let cut = cut.into_iter().filter(|(length, _)| *length >= most);
    let position = cut.filter_map(|(_, last)| last).min().unwrap_or(events);
    stages.retain(|row| row.changed <= position);
    transitions.retain(|row| row.seq <= position);
    tool_calls.retain(|row| row.seq <= position);
    warnings.retain(|row| row.seq <= position);
    Ok(RunUpdate {
        nodes: query::node_totals(connection, run, session.status)?,
        edges: query::edge_counts(connection, run)?,
        run: session,
        position,
        whole,
        more: position < events,
        stages,
        transitions,
        tool_calls,
        warnings,
    })
}
