//! The result of a simulation.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use orchestra_engine::{
    Context, EventKind, FailedAttempt, NodeOutcome, Path, RunEvent, RunFailure, RunResult, RunStatus,
    TransitionCounts,
};

use crate::node::NodeOf;
use crate::report;

/// The result of a [`Simulation`](crate::Simulation): the end of the run, its path, its transitions and their reasons,
/// and its times.
///
/// `Display` prints a report of the run. The messages of failed assertions include the report, which explains the path
/// that the run took.
///
/// ```
/// use std::time::Duration;
/// use orchestra_testkit::Simulation;
/// let text = r#"digraph {
///     start -> build
///     build [prompt=Build, retry_policy=standard, retry_jitter=false]
///     build -> exit [condition="outcome=success"]
///     build -> stop [condition="outcome=fail"]
///     stop  [prompt=Stop, end=fail]
/// }"#;
/// let run = Simulation::load(text)?.outcome("build", ["fail", "fail", "success"]).run();
/// run.assert_path(["start", "build", "exit"]);
/// assert_eq!(run.delays("build"), [200, 400].map(Duration::from_millis));
/// assert_eq!(run.duration(), Duration::from_millis(600));
/// assert!(run.to_string().contains("build -> exit (condition holds): `outcome=success`"), "{run}");
/// # Ok::<(), orchestra_testkit::SimulationError>(())
/// ```
#[derive(Clone)]
pub struct SimulationRun<N: ?Sized = str> {
    result: RunResult,
    events: Vec<RunEvent>,
    nodes: PhantomData<fn(&N)>,
}

impl<N: ?Sized> SimulationRun<N> {
    pub(crate) fn new(result: RunResult, events: Vec<RunEvent>) -> SimulationRun<N> {
        SimulationRun {
            result,
            events,
            nodes: PhantomData,
        }
    }

    /// Returns the result of the engine.
    pub fn result(&self) -> &RunResult {
        &self.result
    }

    /// Returns the nodes that ended, in order. The nodes of a parallel block are in the order of its edges.
    pub fn path(&self) -> &Path {
        &self.result.path
    }

    /// Returns the status at the end of the run.
    pub fn status(&self) -> RunStatus {
        self.result.status
    }

    /// Returns the failure, or `None` if the run succeeded.
    pub fn failure(&self) -> Option<&RunFailure> {
        self.result.failure.as_ref()
    }

    /// Returns the context at the end of the run.
    pub fn context(&self) -> &Context {
        &self.result.context
    }

    /// Returns the latest outcome of a node, or `None` if it has none.
    pub fn outcome(&self, node: impl NodeOf<N>) -> Option<&NodeOutcome> {
        self.result.outcomes.get(node.id())
    }

    /// Returns the failed attempts in order, with their reasons.
    pub fn error_history(&self) -> &[FailedAttempt] {
        &self.result.error_history
    }

    /// Returns the edges with the number of times each was taken.
    pub fn transitions(&self) -> &TransitionCounts {
        &self.result.transitions
    }

    /// Returns the number of times that the edges between two nodes were taken.
    pub fn taken(&self, from: impl NodeOf<N>, to: impl NodeOf<N>) -> u64 {
        self.result.transitions.between(from.id(), to.id())
    }

    /// Returns the duration of the run in simulated time.
    pub fn duration(&self) -> Duration {
        self.result.duration
    }

    /// Returns the events of the run in order, with simulated times.
    pub fn events(&self) -> &[RunEvent] {
        &self.events
    }

    /// Returns the simulated time from the start of the run to an event.
    pub fn elapsed(&self, event: &RunEvent) -> Duration {
        report::elapsed(&self.events, event)
    }

    /// Returns the delays between each failed attempt of a node and the next attempt, in simulated time.
    pub fn delays(&self, node: impl NodeOf<N>) -> Vec<Duration> {
        let id = node.id();
        let mut delays = Vec::new();
        for (at, failed) in self.events.iter().enumerate() {
            let EventKind::StageRetrying {
                node,
                branch,
                attempt,
                ..
            } = &failed.kind
            else {
                continue;
            };
            if *node != *id {
                continue;
            }
            let begins = |event: &&RunEvent| {
                matches!(&event.kind, EventKind::StageStarted { stage, .. }
                    if stage.node == *node && stage.branch == *branch && stage.attempt == *attempt)
            };
            if let Some(next) = self.events[at..].iter().find(begins) {
                delays.push(self.elapsed(next) - self.elapsed(failed));
            }
        }
        delays
    }

    /// Returns the gate for which the run waits, or `None` if it does not wait.
    pub fn waits_for(&self) -> Option<&str> {
        match &self.result.failure {
            Some(RunFailure::WaitsForHuman { node, .. }) => Some(node),
            _ => None,
        }
    }

    /// Asserts that these nodes ended, in this order.
    ///
    /// # Panics
    ///
    /// Panics if the run took another path. The message says where the paths diverge, and why.
    #[track_caller]
    pub fn assert_path(&self, nodes: impl IntoIterator<Item = impl NodeOf<N>>) -> &SimulationRun<N> {
        let expected: Vec<String> = nodes.into_iter().map(|node| node.id().to_owned()).collect();
        assert!(
            self.result.path == expected,
            "{}",
            report::path_mismatch(&self.result, &self.events, &expected)
        );
        self
    }

    /// Asserts that the run succeeded.
    ///
    /// # Panics
    ///
    /// Panics with a report of the run if it did not succeed.
    #[track_caller]
    pub fn assert_success(&self) -> &SimulationRun<N> {
        assert!(
            self.result.is_success(),
            "the run did not succeed\n{}",
            report::run_report(&self.result, &self.events)
        );
        self
    }

    /// Asserts that the run failed with a [code](RunFailure::code), such as `stage_failed`.
    ///
    /// ```
    /// use orchestra_testkit::Simulation;
    /// let run = Simulation::load("digraph { start -> build -> exit; build [prompt=Build] }")?
    ///     .outcome("build", ["fail"])
    ///     .run();
    /// run.assert_failure("stage_failed");
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics with a report of the run if it succeeded, waits for a person, or failed or stopped with another code.
    #[track_caller]
    pub fn assert_failure(&self, code: &str) -> &SimulationRun<N> {
        let failure = self
            .failure()
            .filter(|failure| !matches!(failure, RunFailure::WaitsForHuman { .. }));
        let found = failure.map(RunFailure::code);
        assert!(
            found == Some(code),
            "the run did not fail by `{code}`{}\n{}",
            found.map_or_else(String::new, |found| format!(" but by `{found}`")),
            report::run_report(&self.result, &self.events)
        );
        self
    }

    /// Asserts that the run waits for a person at a gate.
    ///
    /// ```
    /// use orchestra_testkit::Simulation;
    /// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Yes] }"#;
    /// Simulation::load(text)?.run().assert_waits_for("ask");
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics with a report of the run if it does not wait there.
    #[track_caller]
    pub fn assert_waits_for(&self, gate: impl NodeOf<N>) -> &SimulationRun<N> {
        assert!(
            self.waits_for() == Some(gate.id()),
            "the run does not wait for a person at `{}`\n{}",
            gate.id(),
            report::run_report(&self.result, &self.events)
        );
        self
    }
}

/// Formats the report of the run: its events with times, its transitions, and their reasons.
impl<N: ?Sized> fmt::Display for SimulationRun<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&report::run_report(&self.result, &self.events))
    }
}

impl<N: ?Sized> fmt::Debug for SimulationRun<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulationRun")
            .field("status", &self.result.status)
            .field("path", &self.result.path)
            .field("duration", &self.result.duration)
            .finish_non_exhaustive()
    }
}
