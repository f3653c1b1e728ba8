//! The limits on the time and the model usage of a run.

use std::time::Duration;

use orchestra_core::Budget;
use orchestra_graph::Pipeline;

use crate::budget;

/// The limits at which a run pauses.
///
/// ```
/// use orchestra_engine::{Budget, Limits};
/// let limits = Limits {
///     budget: Budget { max_tokens: Some(10_000), ..Budget::default() },
///     ..Limits::default()
/// };
/// assert_eq!(limits.time, None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The time for which the run may be executed, in all processes together; `None` for no limit.
    pub time: Option<Duration>,
    /// The model usage of the run.
    pub budget: Budget,
}

impl Limits {
    /// Adds the budget that the pipeline sets. A limit that was requested at the start takes precedence.
    pub(crate) fn with_budget_of(self, pipeline: &Pipeline) -> Limits {
        self.or_budget(budget::of_graph(pipeline))
    }

    /// Adds the parts of a budget that are not limited yet.
    pub(crate) fn or_budget(self, other: Budget) -> Limits {
        let asked = self.budget;
        Limits {
            time: self.time,
            budget: Budget {
                max_tokens: asked.max_tokens.or(other.max_tokens),
                max_cost_micros: asked.max_cost_micros.or(other.max_cost_micros),
            },
        }
    }
}
