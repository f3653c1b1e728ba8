//! The state of a run, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::path::ExecutionPath;
use crate::usage::Usage;

/// Counters and sums over all execution paths of a run.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 7, &mut Vec::new());
/// let totals = &machine.state().totals;
/// assert_eq!((totals.begun, totals.restarts, totals.seed), (2, 0, 7));
/// assert_eq!(totals.taken, [1, 0], "the first edge was taken");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// `true` if the run has ended.
    pub finished: bool,
    /// The number of stage visits that began.
    pub begun: u64,
    /// The number of restarts of the run.
    pub restarts: u32,
    /// The number of times that an unsatisfied goal gate sent the run back, since the last restart.
    pub reroutes: u32,
    /// The number of times that each edge was taken, over all restarts.
    pub taken: Vec<u32>,
    /// The duration of the run, as of the last [`Event::Tick`](crate::Event::Tick).
    pub elapsed: Duration,
    /// The seed of all randomness in the run.
    pub seed: u64,
    /// The usage of all attempts.
    pub usage: Usage,
    /// The usage of all attempts at a node, for nodes that have a budget of their own.
    pub spent: BTreeMap<u32, Usage>,
}

/// The state of a run.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let machine = Machine::start(pipeline, Context::new(), 7, &mut Vec::new());
/// let state = machine.state();
/// assert!(!state.totals.finished);
/// assert_eq!(state.main.completed.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct State {
    /// The main path; it contains the open branches.
    pub main: ExecutionPath,
    /// Counters and sums over all execution paths.
    pub totals: Totals,
}

impl State {
    /// Merges the work of the branches of open blocks into the main path, so that the state of a stopped run is
    /// complete.
    pub fn flush(&mut self) {
        self.main.flush();
    }
}
