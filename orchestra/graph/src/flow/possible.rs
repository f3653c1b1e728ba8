//! The steps of a pipeline, as a test of what a run does.

use super::outcomes::outcomes;
use super::steps::{Step, Steps};
use crate::loaded::Loaded;
use crate::model::{Graph, NodeIndex};
use crate::route::Next;
use crate::table::{Pipeline, Role};

/// The steps that runs of a pipeline may take, as assertions and limits assume them (rule V1).
///
/// ```
/// use orchestra_graph::{Next, Source, load};
/// let text = "digraph { start -> a -> exit; a -> b [condition=\"outcome=fail\"]; b -> exit }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let pipeline = loaded.pipeline().expect("sound");
/// let (a, b) = (pipeline.find("a").expect("named"), pipeline.find("b").expect("named"));
/// let to_b = pipeline.stage(a).edges().find(|(_, edge)| edge.to == b).expect("it has one").0;
/// let mut steps = loaded.possible_steps().expect("sound");
/// assert!(steps.allow(a, Some("fail"), Next::Edge(to_b)));
/// assert!(!steps.allow(a, Some("success"), Next::Edge(to_b)));
/// ```
pub struct PossibleSteps {
    steps: Steps,
}

/// Where a run may continue after a node that ended in a certain way.
///
/// ```
/// use orchestra_graph::{Next, Source, load};
/// let text = "digraph { start -> a -> exit; a -> b [condition=\"outcome=fail\"]; b -> exit }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let a = loaded.graph.find("a").expect("named");
/// let exits = loaded.possible_steps().expect("sound").exits(a);
/// let fail = exits.iter().find(|exit| exit.outcome == "fail").expect("a stage may fail");
/// let names: Vec<String> = fail.steps.iter().map(|step| step.describe(&loaded.graph)).collect();
/// assert_eq!(names, ["`b`"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// The outcome of the node; at a routing node, that of the stage before it.
    pub outcome: String,
    /// The answer at a human gate.
    pub answer: Option<String>,
    /// The steps that a run may take then, sorted.
    pub steps: Vec<ExitStep>,
}

/// A step of a run, as part of an [`Exit`].
///
/// ```
/// use orchestra_graph::{ExitStep, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default());
/// let exit = loaded.graph.find("exit").expect("named");
/// assert_eq!(ExitStep::Node { node: exit, restarts: false }.describe(&loaded.graph), "`exit`");
/// assert_eq!(ExitStep::Success.describe(&loaded.graph), "the run succeeds");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStep {
    /// The run enters a node.
    Node {
        /// The node.
        node: NodeIndex,
        /// `true` if the run restarts there.
        restarts: bool,
    },
    /// The run ends as a success, unless a goal gate is unsatisfied.
    Success,
    /// The run ends as a failure.
    Failure,
}

impl ExitStep {
    /// Returns the step as shown to the user.
    pub fn describe(self, graph: &Graph) -> String {
        match self {
            ExitStep::Node { node, restarts } => {
                let restart = if restarts { " (restart)" } else { "" };
                format!("`{}`{restart}", graph.node(node).id)
            }
            ExitStep::Success => "the run succeeds".to_owned(),
            ExitStep::Failure => "the run fails".to_owned(),
        }
    }
}

impl Loaded {
    /// Returns the steps that runs may take. Returns `None` if the report has errors.
    pub fn possible_steps(&self) -> Option<PossibleSteps> {
        if self.report.has_errors() {
            return None;
        }
        let analysis = self.analysis();
        let pipeline = Pipeline::from_analysis(&analysis)?;
        Some(PossibleSteps {
            steps: Steps::new(pipeline, &outcomes(&analysis)),
        })
    }
}

impl PossibleSteps {
    /// Returns whether a run may continue in this way after a node that ended with an outcome. At a routing node, and
    /// without an outcome, any may have been before. All steps are possible at a node with too many conditions.
    pub fn allow(&mut self, node: NodeIndex, outcome: Option<&str>, next: Next) -> bool {
        let pipeline = self.steps.pipeline();
        let step = match next {
            Next::Edge(edge) => {
                let edge = pipeline.edge(edge);
                Step::To {
                    node: edge.to,
                    restarts: edge.loop_restart,
                }
            }
            Next::Jump(node) => Step::To {
                node,
                restarts: false,
            },
            Next::End { success: true } => Step::Success,
            Next::End { success: false } | Next::Fail(_) => Step::Failure,
        };
        let routes = pipeline.stage(node).row().role == Role::Routing;
        let mut ends = if routes {
            self.steps.any_end()
        } else {
            self.steps.ends(node)
        };
        if let Some(outcome) = outcome.filter(|_| !routes) {
            let word = self.steps.known_word(outcome).to_owned();
            ends.retain(|end| self.steps.word(*end) == word);
        }
        let found = ends
            .into_iter()
            .any(|end| self.steps.after(node, end).contains(&step));
        found || self.steps.are_incomplete()
    }

    /// Returns where a run may continue after a node, for each outcome of it, and at a human gate for each answer. The
    /// outcome `another outcome` stands for all that the file does not name. Returns nothing if the pipeline needs too
    /// much work.
    pub fn exits(&mut self, node: NodeIndex) -> Vec<Exit> {
        let routes = self.steps.pipeline().stage(node).row().role == Role::Routing;
        let ends = if routes {
            self.steps.any_end()
        } else {
            self.steps.ends(node)
        };
        let mut exits = Vec::new();
        for end in ends {
            let steps = self.steps.after(node, end);
            let steps = steps.iter().map(|step| match *step {
                Step::To { node, restarts } => ExitStep::Node { node, restarts },
                Step::Success => ExitStep::Success,
                Step::Failure => ExitStep::Failure,
            });
            let steps = steps.collect();
            let answer = end.answer.and_then(|_| self.steps.describe(node, end));
            exits.push(Exit {
                outcome: self.steps.word(end).to_owned(),
                answer,
                steps,
            });
        }
        if self.steps.are_incomplete() {
            exits.clear();
        }
        exits
    }
}
