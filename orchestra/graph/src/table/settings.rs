//! The settings of a whole pipeline.

use super::declare::row;
use super::values::Routing;
use crate::attribute::Known;
use crate::model::NodeIndex;

row! {
    /// The settings of the whole pipeline (Attractor 2.5). The defaults are those of a pipeline that sets none.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { max_node_visits=5; start -> exit }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// assert_eq!((pipeline.settings.max_node_visits, pipeline.settings.failure_breaker), (5, 0));
    /// ```
    pub struct Settings {
        /// The algorithm that chooses edges.
        pub routing: Routing as routing = Routing::FiveStep,
        /// The maximum number of visits of any node in a run (rule R10).
        pub max_node_visits: u32 as number = Known::MaxNodeVisits.default_count(),
        /// The number of consecutive equal failures that ends the run; 0 for no limit (rule R10).
        pub failure_breaker: u32 as number = Known::FailureBreaker.default_count(),
        /// The maximum number of times that an unsatisfied goal gate sends the run back (rule R7).
        pub max_goal_gate_reroutes: u32 as number = Known::MaxGoalGateReroutes.default_count(),
        /// The maximum number of restarts of the run (rule R9).
        pub max_restarts: u32 as number = Known::MaxRestarts.default_count(),
        /// The node to go to if a goal gate without a target of its own is unsatisfied.
        pub retry_target: Option<NodeIndex> as optional_node = None,
        /// The node to go to in this case if there is no `retry_target`.
        pub fallback_retry_target: Option<NodeIndex> as optional_node = None,
    }
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
