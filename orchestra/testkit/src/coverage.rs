//! Edge coverage: the edges of a pipeline that runs took.

use std::fmt;

use orchestra_engine::TransitionCounts;
use orchestra_graph::{Position, SharedPipeline};
use serde::Serialize;
use serde::ser::Serializer;

/// The version of the serialized form.
const SCHEMA: &str = "orchestra.coverage/1";

/// Maximum number of edges in the summary.
const NAMED: usize = 10;

/// The edges of a pipeline that were taken by any number of runs.
///
/// Jumps do not count as edges: those to a `retry_target`, those of goal gates, and those from a parallel block to its
/// join. The edges of child pipelines are not included.
///
/// ```
/// use orchestra_testkit::Simulation;
/// let text = r#"digraph {
///     start -> test
///     test [shape=parallelogram, tool_command="make test"]
///     test -> exit [condition="outcome=success"]
///     test -> mend [condition="outcome=fail"]
///     mend [prompt="Mend it"]
///     mend -> test
/// }"#;
/// let simulation = Simulation::load(text)?;
/// let mut coverage = simulation.coverage();
/// coverage.add(simulation.run().transitions());
/// assert_eq!(coverage.summary(), "edges: 2 of 4 taken (50 %), not taken: test -> mend [outcome=fail], mend -> test");
///
/// coverage.add(simulation.outcome("test", ["fail", "success"]).run().transitions());
/// assert!(coverage.is_complete());
/// # Ok::<(), orchestra_testkit::SimulationError>(())
/// ```
#[derive(Clone)]
pub struct Coverage {
    pipeline: SharedPipeline,
    taken: Vec<u64>,
    runs: u32,
}

/// An edge, the number of times it was taken, and its position.
///
/// ```
/// use orchestra_testkit::Coverage;
/// # use orchestra_graph::{Source, load};
/// let text = "digraph {\n    start -> exit\n}";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let coverage = Coverage::new(pipeline);
/// let edge = coverage.edges().next().expect("there is one");
/// assert_eq!((edge.from, edge.to, edge.count, edge.line), ("start", "exit", 0, 2));
/// assert_eq!(edge.to_string(), "a.dot:2:14: start -> exit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CoveredEdge<'c> {
    /// The source node.
    pub from: &'c str,
    /// The target node.
    pub to: &'c str,
    /// The label; may be empty.
    pub label: &'c str,
    /// The condition; may be empty.
    pub condition: &'c str,
    /// The number of times the edge was taken.
    pub count: u64,
    /// The file of the pipeline.
    pub file: &'c str,
    /// The line in the file, starting at 1.
    pub line: u32,
    /// The column in the line, starting at 1.
    pub column: u32,
}

impl CoveredEdge<'_> {
    /// Returns the edge without its position: `test -> mend [outcome=fail]`, `ship -> draft "[N] No"`.
    fn name(&self) -> String {
        let CoveredEdge { from, to, .. } = self;
        match (self.label, self.condition) {
            ("", "") => format!("{from} -> {to}"),
            ("", condition) => format!("{from} -> {to} [{condition}]"),
            (label, _) => format!("{from} -> {to} \"{label}\""),
        }
    }
}

impl fmt::Display for CoveredEdge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.name())
    }
}

impl Coverage {
    /// Creates an empty coverage of a pipeline.
    pub fn new(pipeline: impl Into<SharedPipeline>) -> Coverage {
        let pipeline = pipeline.into();
        Coverage {
            taken: vec![0; pipeline.edges.len()],
            pipeline,
            runs: 0,
        }
    }

    /// Adds the transitions of a run.
    ///
    /// # Panics
    ///
    /// Panics if the run was of another pipeline.
    #[track_caller]
    pub fn add(&mut self, counts: &TransitionCounts) {
        let own = self.edges().map(|edge| (edge.from, edge.to));
        assert!(
            own.eq(counts.iter().map(|edge| (edge.from, edge.to))),
            "the run was of another pipeline than `{}`",
            self.pipeline.name
        );
        for (taken, edge) in self.taken.iter_mut().zip(counts.iter()) {
            *taken += u64::from(edge.count);
        }
        self.runs += 1;
    }

    /// Returns all edges, in the order of their nodes in the file.
    pub fn edges(&self) -> impl Iterator<Item = CoveredEdge<'_>> {
        let rows = self.pipeline.edges.iter().zip(&self.taken);
        rows.map(|(row, count)| {
            let Position { line, column } = row.position;
            CoveredEdge {
                from: self.pipeline.stage(row.from).id(),
                to: self.pipeline.stage(row.to).id(),
                label: self.pipeline.text(row.label),
                condition: self
                    .pipeline
                    .condition(row)
                    .map_or("", |condition| condition.text()),
                count: *count,
                file: &self.pipeline.file,
                line,
                column,
            }
        })
    }

    /// Returns the edges that no run took.
    pub fn untaken(&self) -> impl Iterator<Item = CoveredEdge<'_>> {
        self.edges().filter(|edge| edge.count == 0)
    }

    /// Returns the number of edges that were taken, and the number of all edges.
    pub fn counts(&self) -> (usize, usize) {
        (self.edges().count() - self.untaken().count(), self.taken.len())
    }

    /// Returns the percentage of edges that were taken, rounded; 100 only if all of them were taken.
    pub fn percent(&self) -> u32 {
        let (taken, all) = self.counts();
        if taken == all {
            return 100;
        }
        let rounded = (taken as f64 * 100.0 / all as f64).round();
        // The cast saturates, and the number is below 100.
        (rounded as u32).min(99)
    }

    /// Returns whether every edge was taken.
    pub fn is_complete(&self) -> bool {
        self.untaken().next().is_none()
    }

    /// Returns the number of runs that were added.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns a summary in one line: `edges: 7 of 9 taken (78 %), not taken: a -> b, b -> c`. Names the first untaken
    /// edges only.
    pub fn summary(&self) -> String {
        let untaken: Vec<String> = self.untaken().map(|edge| edge.name()).collect();
        let named = untaken.iter().take(NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join(", ");
        match untaken.len().saturating_sub(NAMED) {
            0 if untaken.is_empty() => self.share(),
            0 => format!("{}, not taken: {named}", self.share()),
            more => format!("{}, not taken: {named} and {more} more", self.share()),
        }
    }

    fn share(&self) -> String {
        let (taken, all) = self.counts();
        format!("edges: {taken} of {all} taken ({} %)", self.percent())
    }

    /// Asserts that every edge was taken.
    ///
    /// # Panics
    ///
    /// Panics if some were not. The message lists them with their positions.
    #[track_caller]
    pub fn assert_complete(&self) {
        assert!(self.is_complete(), "pipeline `{}`: {self}", self.pipeline.name);
    }
}

/// Formats the percentage and the untaken edges with their positions.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = match self.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        write!(f, "{} by {runs}", self.share())?;
        self.untaken()
            .try_for_each(|edge| write!(f, "\n  not taken: {edge}"))
    }
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Coverage").field(&self.summary()).finish()
    }
}

impl Serialize for Coverage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'c> {
            schema: &'static str,
            pipeline: &'c str,
            taken: usize,
            edges: usize,
            percent: u32,
            transitions: Vec<CoveredEdge<'c>>,
        }
        let (taken, edges) = self.counts();
        Written {
            schema: SCHEMA,
            pipeline: &self.pipeline.name,
            taken,
            edges,
            percent: self.percent(),
            transitions: self.edges().collect(),
        }
        .serialize(serializer)
    }
}
