//! The steps of a pipeline, as a test of what a run does.

use super::outcomes::outcomes;
use super::steps::{Step, Steps};
use crate::loaded::Loaded;
use crate::model::NodeIndex;
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
}
