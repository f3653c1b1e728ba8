//! Numbers for monitoring, over all runs of the index.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_engine::{STAGE_DURATION_BUCKETS, Usage};
use rusqlite::Connection;

use crate::database::DatabaseError;
use crate::rows::SessionStatus;
use crate::tables::Columns;

/// The number of buckets of a histogram: one for each limit, and one for all longer durations.
const BUCKETS: usize = STAGE_DURATION_BUCKETS.len() + 1;

/// Numbers for monitoring, over all runs of the index except simulated ones.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{SessionIndex, SessionStatus, StageSeries};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let metrics = SessionIndex::open(runs_dir)?.metrics()?;
/// assert_eq!(metrics.runs[&("hello".to_owned(), SessionStatus::Success)], 1);
/// let exit = StageSeries::new("hello", "exit", "success");
/// assert_eq!(metrics.stages[&exit].count(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexMetrics {
    /// The number of runs of each pipeline with each status, as of their last events.
    pub runs: BTreeMap<(String, SessionStatus), u64>,
    /// The durations of the stage attempts that ended. A replay counts those that it made itself.
    pub stages: BTreeMap<StageSeries, DurationHistogram>,
    /// The usage of models, by provider and model. The model is empty if neither the run nor the provider named it.
    pub models: BTreeMap<(String, String), Usage>,
}

/// The stage attempts that are counted together.
///
/// ```
/// use orchestra_sessions::StageSeries;
/// let series = StageSeries::new("release", "build", "success");
/// assert_eq!((&*series.pipeline, &*series.node, &*series.outcome), ("release", "build", "success"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct StageSeries {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The node.
    pub node: String,
    /// The name of the outcome, or `cancelled`.
    pub outcome: String,
}

impl StageSeries {
    /// Creates the name of a series.
    pub fn new(
        pipeline: impl Into<String>,
        node: impl Into<String>,
        outcome: impl Into<String>,
    ) -> StageSeries {
        StageSeries {
            pipeline: pipeline.into(),
            node: node.into(),
            outcome: outcome.into(),
        }
    }
}

/// A histogram of durations, with the limits [`STAGE_DURATION_BUCKETS`].
///
/// ```
/// use orchestra_sessions::DurationHistogram;
/// let empty = DurationHistogram::default();
/// assert_eq!((empty.count(), empty.sum.as_secs()), (0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurationHistogram {
    /// The number of durations in each bucket: up to its limit, and longer than the limit before it. The last one counts
    /// the durations above all limits.
    pub buckets: [u64; BUCKETS],
    /// The sum of all durations.
    pub sum: Duration,
}

impl DurationHistogram {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Returns the numbers of all runs.
pub(crate) fn read(connection: &Connection) -> Result<IndexMetrics, DatabaseError> {
    Ok(IndexMetrics {
        runs: runs(connection)?,
        stages: stages(connection)?,
        models: models(connection)?,
    })
}

fn runs(connection: &Connection) -> Result<BTreeMap<(String, SessionStatus), u64>, DatabaseError> {
    let sql = "SELECT name, status, count(*) FROM runs WHERE simulated = 0 GROUP BY name, status";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let mut next = Columns::new(row);
        let name = next.next()?;
        Ok(((name, next.word(SessionStatus::parse)?), next.count()?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the durations of stages. The attempts that a replay copied ended before it started, and are counted in the run
/// that made them.
fn stages(connection: &Connection) -> Result<BTreeMap<StageSeries, DurationHistogram>, DatabaseError> {
    let counts: String = STAGE_DURATION_BUCKETS
        .iter()
        .map(|limit| format!(", sum(duration <= {})", limit.as_micros()))
        .collect();
    let sql = format!(
        "SELECT name, stages.node, coalesce(outcome, 'cancelled') AS result, sum(duration), count(*){counts} \
         FROM stages JOIN runs ON runs.run = stages.run WHERE simulated = 0 AND duration IS NOT NULL \
         AND (replayed_run IS NULL OR stages.ended >= runs.started) \
         GROUP BY name, stages.node, result"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], |row| {
        let mut next = Columns::new(row);
        let series = StageSeries {
            pipeline: next.next()?,
            node: next.next()?,
            outcome: next.next()?,
        };
        let sum = Duration::from_micros(next.count()?);
        let all = next.count()?;
        let mut buckets = [0; BUCKETS];
        let mut below = 0;
        let (longer, limited) = buckets.split_last_mut().ok_or(rusqlite::Error::InvalidQuery)?;
        for bucket in limited {
            let up_to = next.count()?;
            *bucket = up_to - below;
            below = up_to;
        }
        *longer = all - below;
        Ok((series, DurationHistogram { buckets, sum }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn models(connection: &Connection) -> Result<BTreeMap<(String, String), Usage>, DatabaseError> {
    let sql = "SELECT provider, model, sum(model_usage.input_tokens), sum(model_usage.output_tokens), \
        sum(model_usage.cost_micros) FROM model_usage JOIN runs ON runs.run = model_usage.run \
        WHERE simulated = 0 GROUP BY provider, model";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let mut next = Columns::new(row);
        Ok(((next.next()?, next.next()?), next.usage()?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
