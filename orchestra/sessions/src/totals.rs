//! The totals of all runs of some pipeline files.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_engine::Usage;
use rusqlite::Connection;
use serde::Serialize;

use crate::database::DatabaseError;
use crate::folders::Folders;
use crate::query;
use crate::rows::{EdgeCount, Session, SessionStatus, millis};
use crate::tables::{self, Columns, SESSION};

/// The totals of all runs of some pipeline files, simulated ones included.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{SessionIndex, SessionStatus};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let files = vec!["hello.dot".to_owned()];
/// let totals = SessionIndex::open(runs_dir)?.totals(&[files])?;
/// assert_eq!((totals[0].runs(), totals[0].statuses[&SessionStatus::Success]), (1, 1));
/// assert_eq!((totals[0].edges[0].taken, totals[0].nodes.len()), (1, 2));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunTotals {
    /// The number of runs with each status. A status without runs has no entry.
    pub statuses: BTreeMap<SessionStatus, u64>,
    /// The number of simulated runs.
    pub simulated: u64,
    /// How often the edges were tested and taken, sorted by their nodes. An edge that was neither has no row.
    pub edges: Vec<EdgeCount>,
    /// The totals of the nodes, sorted by their ids. A node without attempts has no row.
    pub nodes: Vec<NodeSum>,
    /// The open runs, whose present status the index does not know.
    #[serde(skip)]
    pub(crate) open: Vec<Session>,
}

impl RunTotals {
    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Counts a run with another status.
    pub(crate) fn change_status(&mut self, from: SessionStatus, to: SessionStatus) {
        if from == to {
            return;
        }
        if let Some(count) = self.statuses.get_mut(&from) {
            *count = count.saturating_sub(1);
        }
        *self.statuses.entry(to).or_default() += 1;
        self.statuses.retain(|_, count| *count > 0);
    }
}

/// The totals of the attempts at a node in several runs.
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
/// let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// for run in ["first", "second"] {
///     engine.start(pipeline.clone(), ()).run_id(run).await?.wait().await?;
/// }
/// let totals = SessionIndex::open(runs_dir)?.totals(&[vec!["hello.dot".to_owned()]])?;
/// let exit = &totals[0].nodes[0];
/// assert_eq!((exit.node.as_str(), exit.visits, exit.failures), ("exit", 2, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NodeSum {
    /// The node.
    pub node: String,
    /// The number of visits on all execution paths.
    pub visits: u64,
    /// The number of attempts that began.
    pub attempts: u64,
    /// The number of failed attempts.
    pub failures: u64,
    /// The total duration of all attempts; serialized as `duration_ms`.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub duration: Duration,
    /// The model usage of all attempts.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Selects the runs of a list of files, which is the first parameter as JSON.
const OF_FILES: &str = "file IN (SELECT value FROM json_each(?1))";

/// Returns the totals of the runs of some files.
pub(crate) fn read(
    connection: &Connection,
    folders: &Folders,
    files: &[String],
) -> Result<RunTotals, DatabaseError> {
    // A list of texts can always be serialized.
    let files = serde_json::to_string(files).unwrap_or_default();
    let mut totals = RunTotals {
        edges: edges(connection, &files)?,
        nodes: nodes(connection, &files)?,
        ..RunTotals::default()
    };
    let sql = format!("SELECT status, count(*), sum(simulated) FROM runs WHERE {OF_FILES} GROUP BY status");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([&files], |row| {
        let mut next = Columns::new(row);
        Ok((next.word(SessionStatus::parse)?, next.count()?, next.count()?))
    })?;
    for row in rows {
        let (status, runs, simulated) = row?;
        totals.statuses.insert(status, runs);
        totals.simulated += simulated;
    }
    let sql = format!("SELECT {SESSION} FROM runs WHERE {OF_FILES} AND status IN ('accepted', 'running')");
    let mut statement = connection.prepare_cached(&sql)?;
    for row in statement.query_map([&files], tables::session)? {
        totals.open.push(query::with_folder(folders, row?));
    }
    Ok(totals)
}

fn edges(connection: &Connection, files: &str) -> Result<Vec<EdgeCount>, DatabaseError> {
    let sql = format!(
        "SELECT origin, edge, sum(tested), sum(held), sum(taken) FROM edge_counts \
         WHERE run IN (SELECT run FROM runs WHERE {OF_FILES}) GROUP BY origin, edge ORDER BY origin, edge"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([files], query::edge_count)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn nodes(connection: &Connection, files: &str) -> Result<Vec<NodeSum>, DatabaseError> {
    let sql = format!(
        "SELECT node, sum(attempt = 1 AND repeat = 0), count(*), sum(error IS NOT NULL), sum(coalesce(duration, 0)), \
         sum(input_tokens), sum(output_tokens), sum(cost_micros) FROM stages \
         WHERE run IN (SELECT run FROM runs WHERE {OF_FILES}) GROUP BY node ORDER BY node"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([files], |row| {
        let mut next = Columns::new(row);
        Ok(NodeSum {
            node: next.next()?,
            visits: next.count()?,
            attempts: next.count()?,
            failures: next.count()?,
            duration: Duration::from_micros(next.count()?),
            usage: next.usage()?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
