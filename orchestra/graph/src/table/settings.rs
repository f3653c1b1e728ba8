//! The settings of a whole pipeline.

use crate::attribute::Known;
use crate::model::NodeIndex;

/// The algorithm that chooses edges.
///
/// ```
/// use orchestra_graph::table::Routing;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { routing=first_match; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(pipeline.settings.routing, Routing::FirstMatch);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The five steps (rule R1).
    FiveStep,
    /// The first edge that matches, in file order (rule R11).
    FirstMatch,
}

/// The settings of the whole pipeline (Attractor 2.5).
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { max_node_visits=5; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!((pipeline.settings.max_node_visits, pipeline.settings.failure_breaker), (5, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The algorithm that chooses edges.
    pub routing: Routing,
    /// The maximum number of visits of any node in a run (rule R10).
    pub max_node_visits: u32,
    /// The number of consecutive equal failures that ends the run; 0 for no limit (rule R10).
    pub failure_breaker: u32,
    /// The maximum number of times that an unsatisfied goal gate sends the run back (rule R7).
    pub max_goal_gate_reroutes: u32,
    /// The maximum number of restarts of the run (rule R9).
    pub max_restarts: u32,
    /// The node to go to if a goal gate without a target of its own is unsatisfied.
    pub retry_target: Option<NodeIndex>,
    /// The node to go to in this case if there is no `retry_target`.
    pub fallback_retry_target: Option<NodeIndex>,
}

impl Settings {
    /// The settings of a pipeline that sets none.
    pub const DEFAULT: Settings = Settings {
        routing: Routing::FiveStep,
        max_node_visits: Known::MaxNodeVisits.default_count(),
        failure_breaker: Known::FailureBreaker.default_count(),
        max_goal_gate_reroutes: Known::MaxGoalGateReroutes.default_count(),
        max_restarts: Known::MaxRestarts.default_count(),
        retry_target: None,
        fallback_retry_target: None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, load};

    #[test]
    fn a_pipeline_that_sets_nothing_has_the_default_settings() {
        let loaded = load(
            Source::new("a.dot", "digraph { start -> exit }"),
            &Default::default(),
        );
        let pipeline = loaded.pipeline().expect("the graph is sound");
        assert_eq!(pipeline.settings, Settings::DEFAULT);
    }
}
