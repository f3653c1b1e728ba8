//! What came of a simulation.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use orchestra_engine::{
    Context, EventKind, FailedAttempt, NodeOutcome, Path, RunEvent, RunFailure, RunResult, RunStatus,
    TransitionCounts,
};

use crate::simulation::NodeOf;
use crate::story;

/// What came of a [`Simulation`](crate::Simulation): how the run ended, the way that it took and why, and when.
///
/// Shown, it is the story of the run. The assertions say in their messages why the run went where it went.
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

    /// Everything that the engine says of the run.
    pub fn result(&self) -> &RunResult {
        &self.result
    }

    /// The nodes that ended, in order; those of a parallel block in the order of its edges.
    pub fn path(&self) -> &Path {
        &self.result.path
    }

    /// How the run ended.
    pub fn status(&self) -> RunStatus {
        self.result.status
    }

    /// Why it did not succeed.
    pub fn failure(&self) -> Option<&RunFailure> {
        self.result.failure.as_ref()
    }

    /// The named values at the end.
    pub fn context(&self) -> &Context {
        &self.result.context
    }

    /// The latest outcome of a node; `None` where it has none.
    pub fn outcome(&self, node: impl NodeOf<N>) -> Option<&NodeOutcome> {
        self.result.outcomes.get(node.id())
    }

    /// The attempts that failed, in order, and why.
    pub fn error_history(&self) -> &[FailedAttempt] {
        &self.result.error_history
    }

    /// The edges, and how often each was taken.
    pub fn transitions(&self) -> &TransitionCounts {
        &self.result.transitions
    }

    /// How often the edges between two nodes were taken.
    pub fn taken(&self, from: impl NodeOf<N>, to: impl NodeOf<N>) -> u64 {
        self.result.transitions.between(from.id(), to.id())
    }

    /// How long the run took, in its own time.
    pub fn duration(&self) -> Duration {
        self.result.duration
    }

    /// What the run told, in order, with the times of its own clock.
    pub fn events(&self) -> &[RunEvent] {
        &self.events
    }

    /// How long the run had been going when something was told.
    pub fn elapsed(&self, event: &RunEvent) -> Duration {
        story::elapsed(&self.events, event)
    }

    /// How long each attempt of a node waited after the one before it failed, as seen on the clock.
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
            let begins = |event: &&RunEvent| {
                matches!(&event.kind, EventKind::StageStarted { node: of, branch: within, attempt: which, .. }
                    if of == node && within == branch && which == attempt)
            };
            let next = self.events[at..].iter().find(begins).filter(|_| *node == *id);
            delays.extend(next.map(|next| self.elapsed(next) - self.elapsed(failed)));
        }
        delays
    }

    /// The gate that the run waits for; `None` where it waits for none.
    pub fn waits_for(&self) -> Option<&str> {
        match &self.result.failure {
            Some(RunFailure::WaitsForHuman { node, .. }) => Some(node),
            _ => None,
        }
    }

    /// Asserts which nodes ended, in order.
    ///
    /// # Panics
    /// The run took another way; the message says where they part, and why.
    #[track_caller]
    pub fn assert_path(&self, nodes: impl IntoIterator<Item = impl NodeOf<N>>) -> &SimulationRun<N> {
        let expected: Vec<String> = nodes.into_iter().map(|node| node.id().to_owned()).collect();
        assert!(
            self.result.path == expected,
            "{}",
            story::other_path(&self.result, &self.events, &expected)
        );
        self
    }

    /// Asserts that the run succeeded.
    ///
    /// # Panics
    /// It did not; the message tells how it went.
    #[track_caller]
    pub fn assert_success(&self) -> &SimulationRun<N> {
        assert!(
            self.result.is_success(),
            "the run did not succeed\n{}",
            story::told(&self.result, &self.events)
        );
        self
    }

    /// Asserts that the run failed, and how: the [code](RunFailure::code) of the failure, such as `stage_failed`.
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
    /// It succeeded, waits for a person, or failed or stopped otherwise; the message tells how it went.
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
            story::told(&self.result, &self.events)
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
    /// It does not; the message tells how it went.
    #[track_caller]
    pub fn assert_waits_for(&self, gate: impl NodeOf<N>) -> &SimulationRun<N> {
        assert!(
            self.waits_for() == Some(gate.id()),
            "the run does not wait for a person at `{}`\n{}",
            gate.id(),
            story::told(&self.result, &self.events)
        );
        self
    }
}

/// The story of the run: what happened when, which way was taken, and why.
impl<N: ?Sized> fmt::Display for SimulationRun<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&story::told(&self.result, &self.events))
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
