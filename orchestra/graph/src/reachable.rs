//! The nodes that a run can still reach.

use std::collections::VecDeque;

use crate::model::NodeIndex;
use crate::table::Pipeline;

/// A node that a run can still reach.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> plan -> exit; plan [prompt=Plan] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let start = pipeline.find("start").expect("declared");
/// let reachable = pipeline.reachable(&[start], |_| 0);
/// let plan = reachable.iter().find(|to| Some(to.node) == pipeline.find("plan")).expect("it follows");
/// assert_eq!((plan.steps, plan.visits_left), (1, 1000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reachable {
    /// The node.
    pub node: NodeIndex,
    /// The smallest number of edges that lead to it; 0 for a node where the run is.
    pub steps: u32,
    /// The number of visits that its limit leaves: `max_visits`, or `max_node_visits` of the graph (rule R10).
    pub visits_left: u32,
}

impl Pipeline {
    /// Returns the nodes that a run can still reach from those where it is, the nearest first. `visits` returns how
    /// often a node was visited. A run fails where it reaches a node whose limit is used up, so nothing follows such a
    /// node. The targets of retries count as edges, and every condition may hold.
    pub fn reachable(&self, from: &[NodeIndex], visits: impl Fn(NodeIndex) -> u32) -> Vec<Reachable> {
        let mut seen = vec![false; self.nodes.len()];
        let mut next: VecDeque<(NodeIndex, u32)> = from.iter().map(|node| (*node, 0)).collect();
        let mut reachable = Vec::new();
        while let Some((node, steps)) = next.pop_front() {
            let Some(seen) = seen.get_mut(node.at()).filter(|seen| !**seen) else {
                continue;
            };
            let stage = self.stage(node);
            let row = stage.row();
            let limit = row.max_visits.unwrap_or(self.settings.max_node_visits);
            let visits_left = limit.saturating_sub(visits(node));
            *seen = true;
            reachable.push(Reachable {
                node,
                steps,
                visits_left,
            });
            // The visit of a node where the run is has been counted.
            if steps > 0 && visits_left == 0 {
                continue;
            }
            let targets = [row.retry_target, row.fallback_retry_target];
            let settings = &self.settings;
            let of_graph = [settings.retry_target, settings.fallback_retry_target];
            next.extend(stage.edges().map(|(_, edge)| (edge.to, steps + 1)));
            next.extend(targets.into_iter().flatten().map(|to| (to, steps + 1)));
            // A goal gate that is not satisfied sends the run back from the exit.
            if node == self.exit {
                next.extend(of_graph.into_iter().flatten().map(|to| (to, steps + 1)));
            }
        }
        reachable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, load};

    fn pipeline(text: &str) -> Pipeline {
        let loaded = load(Source::new("a.dot", text), &Default::default());
        loaded.pipeline().expect("the pipeline is sound")
    }

    fn names(pipeline: &Pipeline, from: &str, visits: impl Fn(&str) -> u32) -> Vec<(String, u32)> {
        let from = pipeline.find(from).expect("the node is declared");
        let found = pipeline.reachable(&[from], |node| visits(pipeline.stage(node).id()));
        let name = |to: &Reachable| (pipeline.stage(to.node).id().to_owned(), to.steps);
        found.iter().map(name).collect()
    }

    const LOOP: &str = r#"digraph { start -> plan -> build -> check
        check -> exit [condition="outcome=success"]; check -> build [condition="outcome=fail"]
        plan [prompt=Plan]; build [prompt=Build, max_visits=2]; check [prompt=Check] }"#;

    #[test]
    fn what_is_behind_the_run_is_not_reached() {
        let found = names(&pipeline(LOOP), "build", |_| 1);
        let expected = [("build", 0), ("check", 1), ("exit", 2)];
        assert_eq!(found, expected.map(|(node, steps)| (node.to_owned(), steps)));
    }

    #[test]
    fn nothing_follows_a_node_without_visits_left_unless_the_run_is_there() {
        let pipeline = pipeline(
            "digraph { start -> check -> build -> aside -> exit
            check [prompt=Check]; build [prompt=Build, max_visits=2]; aside [prompt=Aside] }",
        );
        let used_up = |node: &str| if node == "build" { 2 } else { 1 };
        let from_check = names(&pipeline, "check", used_up);
        assert!(from_check.contains(&("build".to_owned(), 1)), "{from_check:?}");
        assert!(
            !from_check.iter().any(|(node, _)| node == "aside"),
            "{from_check:?}"
        );
        let from_build = names(&pipeline, "build", used_up);
        assert!(from_build.contains(&("aside".to_owned(), 1)), "{from_build:?}");
    }

    #[test]
    fn retry_targets_count_as_edges() {
        let text = r#"digraph { retry_target=plan; start -> plan -> check -> exit
            plan [prompt=Plan]; check [prompt=Check, goal_gate=true] }"#;
        let found = names(&pipeline(text), "check", |_| 1);
        assert!(found.contains(&("plan".to_owned(), 2)), "{found:?}");
    }
}
