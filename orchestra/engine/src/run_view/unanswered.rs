//! The unanswered questions of a run, as a fold of its events.

use std::time::Duration;

use orchestra_core::Question;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::event::{EventKind, NodeName, RunEvent};
use crate::id::RunId;
use crate::store::EventLine;

/// A question that waits for an answer.
///
/// ```
/// use orchestra_engine::{RunEvent, UnansweredQuestions};
/// let line = br#"{"schema":"orchestra.event/1","seq":5,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"InterviewStarted","node":"ask","question":{"id":"ask#1","kind":"single_select","text":"Ship?",
///     "node":"ask","options":[],"timeout_ms":90000}}"#;
/// let event = RunEvent::from_json(line)?;
/// let mut questions = UnansweredQuestions::default();
/// questions.apply(&event);
/// let open = questions.iter().next().expect("one question is open");
/// assert_eq!((&*open.node, open.question.text.as_str()), ("ask", "Ship?"));
/// assert_eq!(open.remaining(event.time).map(|left| left.as_secs()), Some(90));
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnansweredQuestion {
    /// The stage that asks: a gate, or a stage whose handler asks.
    pub node: NodeName,
    /// The branch of a parallel block. `None` on the main path.
    pub branch: Option<String>,
    /// The question.
    pub question: Question,
    /// The time at which it was first asked. Its timeout continues while no process executes the run (rule H3).
    pub asked: Timestamp,
    /// The run that asks: the run itself or a child run.
    pub run: RunId,
    /// The stage of another run whose child run asks, if the events of that run report the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child_of: Option<ParentStage>,
    /// `true` if it was withdrawn. The pause of a run only suspends it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    withdrawn: bool,
}

/// A stage of a run whose child run asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ParentStage {
    run: RunId,
    node: NodeName,
    branch: Option<String>,
}

impl UnansweredQuestion {
    /// Returns the deadline of the question. Returns `None` if it has no timeout.
    pub fn deadline(&self) -> Option<Timestamp> {
        let timeout = self.question.timeout?;
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Some(Timestamp::from_millis(
            self.asked.as_millis().saturating_add(millis),
        ))
    }

    /// Returns the time from `now` to the deadline; zero if it has passed. Returns `None` if there is no timeout.
    pub fn remaining(&self, now: Timestamp) -> Option<Duration> {
        let deadline = self.deadline()?.as_millis();
        Some(Duration::from_millis(deadline.saturating_sub(now.as_millis())))
    }

    /// Returns the outermost run, through which the question is answered, and its stage whose child run asks. Returns
    /// `None` if the run itself asks, or if only the events of the child run were applied.
    pub fn parent_stage(&self) -> Option<(&RunId, &NodeName)> {
        let parent = self.child_of.as_ref()?;
        Some((&parent.run, &parent.node))
    }

    /// Returns whether a stage of a run asks it.
    fn is(&self, run: &RunId, node: &NodeName, branch: Option<&str>) -> bool {
        self.run == *run && self.node == *node && self.branch.as_deref() == branch
    }

    /// Returns whether a child run of a stage asks it.
    fn is_below(&self, run: &RunId, node: &NodeName, branch: Option<&str>) -> bool {
        self.child_of.as_ref().is_some_and(|parent| {
            parent.run == *run && parent.node == *node && parent.branch.as_deref() == branch
        })
    }
}

/// The unanswered questions of a run and of its child runs.
///
/// It is part of a [`RunView`](crate::RunView), which applies the events of one run only.
///
/// ```
/// use orchestra_engine::{Engine, RunFolder, UnansweredQuestions};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = directory.path().join("run");
/// let engine = Engine::builder().build()?;
/// let run = engine.start(pipeline, ()).run_dir(&folder).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// run.pause("the shop closes");
/// run.wait().await?;
///
/// let mut questions = UnansweredQuestions::default();
/// RunFolder::open(&folder)?.each_event(|line| questions.apply_line(line))?;
/// let nodes: Vec<&str> = questions.iter().map(|open| &*open.node).collect();
/// assert_eq!(nodes, ["ask"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnansweredQuestions {
    open: Vec<UnansweredQuestion>,
}

impl UnansweredQuestions {
    /// Returns the unanswered questions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &UnansweredQuestion> {
        self.open.iter().filter(|open| !open.withdrawn)
    }

    /// Applies a line of `events.jsonl`. Parses it only if it can change the questions.
    pub fn apply_line(&mut self, line: EventLine<'_>) {
        let relevant = match line.name() {
            Some("InterviewStarted" | "ChildInterviewStarted") => true,
            _ => !self.open.is_empty(),
        };
        if relevant && let Some(event) = line.event() {
            self.apply(&event);
        }
    }

    /// Applies an event. The events of each run must be applied in their order, and once.
    pub fn apply(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::InterviewStarted {
                node,
                branch,
                question,
            } => {
                self.close(&event.run, node, branch.as_deref());
                self.open.push(UnansweredQuestion {
                    node: node.clone(),
                    branch: branch.clone(),
                    question: Question::clone(question),
                    asked: event.time,
                    run: event.run.clone(),
                    child_of: None,
                    withdrawn: false,
                });
            }
            EventKind::ChildInterviewStarted {
                node,
                branch,
                child,
                gate,
                gate_branch,
                question,
            } => {
                self.close(child, gate, gate_branch.as_deref());
                self.open.push(UnansweredQuestion {
                    node: gate.clone(),
                    branch: gate_branch.clone(),
                    question: Question::clone(question),
                    asked: event.time,
                    run: child.clone(),
                    child_of: Some(ParentStage {
                        run: event.run.clone(),
                        node: node.clone(),
                        branch: branch.clone(),
                    }),
                    withdrawn: false,
                });
            }
            EventKind::ChildInterviewEnded {
                child,
                gate,
                gate_branch,
                withdrawn,
                ..
            } => {
                if *withdrawn {
                    self.withdraw(child, gate, gate_branch.as_deref());
                } else {
                    self.close(child, gate, gate_branch.as_deref());
                }
            }
            EventKind::StageCancelled { stage, .. } => {
                self.withdraw(&event.run, &stage.node, stage.branch.as_deref());
            }
            // Questions that the pause cut short are open again.
            EventKind::PipelinePaused { .. } => self.open.iter_mut().for_each(|open| open.withdrawn = false),
            EventKind::PipelineResumed { .. } => {}
            again if again.starts_again() => {}
            EventKind::StageStarted { stage, .. }
            | EventKind::StageCompleted { stage, .. }
            | EventKind::StageFailed { stage, .. } => {
                self.advance(event, &stage.node, stage.branch.as_deref());
            }
            EventKind::InterviewCompleted { node, branch, .. }
            | EventKind::InterviewTimeout { node, branch, .. } => {
                self.advance(event, node, branch.as_deref());
            }
            EventKind::PipelineCompleted { .. }
            | EventKind::PipelineFailed { .. }
            | EventKind::PipelineCancelled { .. } => self.open.retain(|open| {
                let parent = open.child_of.as_ref();
                open.run != event.run && parent.is_none_or(|parent| parent.run != event.run)
            }),
            _ => {}
        }
    }

    /// Removes the question of a stage, and the withdrawn questions: the run continues without them.
    fn advance(&mut self, event: &RunEvent, node: &NodeName, branch: Option<&str>) {
        self.close(&event.run, node, branch);
        self.open
            .retain(|open| !open.withdrawn && !open.is_below(&event.run, node, branch));
    }

    fn close(&mut self, run: &RunId, node: &NodeName, branch: Option<&str>) {
        self.open.retain(|open| !open.is(run, node, branch));
    }

    fn withdraw(&mut self, run: &RunId, node: &NodeName, branch: Option<&str>) {
        for open in &mut self.open {
            open.withdrawn |= open.is(run, node, branch) || open.is_below(run, node, branch);
        }
    }
}
