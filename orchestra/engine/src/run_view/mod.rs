//! The state of a run as its consumers see it: a fold of its events.

mod attempts;
mod buckets;
mod replay_points;
mod summary;
#[cfg(test)]
mod tests;
mod unanswered;

use std::collections::VecDeque;

pub use attempts::{EndedAttempt, RunningAttempt};
pub use buckets::STAGE_DURATION_BUCKETS;
pub use replay_points::{ReplayPoint, ReplayPoints};
pub use summary::{RunPhase, RunSummary};
pub use unanswered::{UnansweredQuestion, UnansweredQuestions};

use crate::clock::Timestamp;
use crate::event::{EventKind, NodeName, RunEvent};
use crate::id::RunId;
use attempts::Attempts;

/// The maximum number of warnings that a view keeps.
const MAX_WARNINGS: usize = 100;

/// The state of one run as its events report it: phase, totals, running attempts, unanswered questions and warnings.
///
/// A view is created empty and receives the events of the run in their order, for example from
/// [`RunHandle::events`](crate::RunHandle::events) or [`RunFolder::each_event`](crate::RunFolder::each_event). Events
/// that were applied before and events of other runs, such as child runs, change nothing.
///
/// The size of a view does not depend on the length of the run: it holds totals, one attempt for each running execution
/// path, the unanswered questions and the latest warnings. Ended attempts are kept only if a
/// [history](RunView::with_history) is requested.
///
/// ```
/// use orchestra_engine::{Engine, RunPhase, RunView};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start(pipeline, ()).await?;
/// let mut events = run.events();
/// let mut view = RunView::new();
/// while let Some(event) = events.recv().await {
///     view.apply(&event);
/// }
/// assert_eq!((view.name(), view.summary().phase), ("hello", RunPhase::Success));
/// assert_eq!((view.summary().stages, view.running().len()), (2, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunView {
    run: Option<RunId>,
    name: String,
    goal: String,
    summary: RunSummary,
    attempts: Attempts,
    questions: UnansweredQuestions,
    warnings: VecDeque<RunWarning>,
}

/// A warning about a run, or about a stage of it.
///
/// ```
/// use orchestra_engine::{RunEvent, RunView};
/// let line = br#"{"schema":"orchestra.event/1","seq":2,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"PipelineWarning","code":"control_unavailable","message":"no other process can reach the run"}"#;
/// let mut view = RunView::new();
/// view.apply(&RunEvent::from_json(line)?);
/// let warning = view.warnings().next().expect("one warning");
/// assert_eq!((warning.code.as_str(), warning.node.is_none()), ("control_unavailable", true));
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunWarning {
    /// The time of the event.
    pub time: Timestamp,
    /// The stage. `None` if the warning is about the run as a whole.
    pub node: Option<NodeName>,
    /// The branch of a parallel block. `None` on the main path.
    pub branch: Option<String>,
    /// The machine-readable problem.
    pub code: String,
    /// The human-readable problem.
    pub message: String,
}

impl RunWarning {
    fn from_event(event: &RunEvent) -> Option<RunWarning> {
        let (node, branch, code, message) = match &event.kind {
            EventKind::PipelineWarning { code, message } => (None, None, code, message),
            EventKind::StageWarning {
                node,
                branch,
                code,
                message,
                ..
            } => (Some(node.clone()), branch.clone(), code, message),
            _ => return None,
        };
        Some(RunWarning {
            time: event.time,
            node,
            branch,
            code: code.clone(),
            message: message.clone(),
        })
    }
}

impl RunView {
    /// Creates the view of a run of which no event was applied. It keeps no ended attempts.
    pub fn new() -> RunView {
        RunView::default()
    }

    /// Creates the view of a run of which no event was applied. It keeps this many of the latest ended attempts.
    pub fn with_history(attempts: usize) -> RunView {
        RunView {
            attempts: Attempts::with_history(attempts),
            ..RunView::default()
        }
    }

    /// Applies an event. Returns `false`, and changes nothing, if the event was applied before, or if it belongs to
    /// another run than the first event.
    pub fn apply(&mut self, event: &RunEvent) -> bool {
        if *self.run.get_or_insert_with(|| event.run.clone()) != event.run || !self.summary.apply(event) {
            return false;
        }
        if let EventKind::PipelineStarted { name, goal } = &event.kind {
            self.name.clone_from(name);
            self.goal.clone_from(goal);
        }
        self.attempts.apply(event);
        self.questions.apply(event);
        if let Some(warning) = RunWarning::from_event(event) {
            if self.warnings.len() >= MAX_WARNINGS {
                self.warnings.pop_front();
            }
            self.warnings.push_back(warning);
        }
        true
    }

    /// Returns the id of the run. Returns `None` before the first event.
    pub fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }

    /// Returns the name of the pipeline. It is empty for a replay, whose events do not contain it; the manifest of the
    /// run does.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the goal of the pipeline; may be empty, as for a replay.
    pub fn goal(&self) -> &str {
        &self.goal
    }

    /// Returns the phase, the reason of the last stop, and the totals.
    pub fn summary(&self) -> &RunSummary {
        &self.summary
    }

    /// Returns the attempts in progress, in the order in which they began.
    pub fn running(&self) -> &[RunningAttempt] {
        self.attempts.running()
    }

    /// Returns the latest ended attempts, as many as the [history](RunView::with_history) keeps, in the order in which
    /// they ended.
    pub fn ended_attempts(&self) -> impl DoubleEndedIterator<Item = &EndedAttempt> + ExactSizeIterator {
        self.attempts.ended()
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn questions(&self) -> impl Iterator<Item = &UnansweredQuestion> {
        self.questions.iter()
    }

    /// Returns the latest warnings, at most 100, in the order of their events.
    pub fn warnings(&self) -> impl DoubleEndedIterator<Item = &RunWarning> + ExactSizeIterator {
        self.warnings.iter()
    }
}
