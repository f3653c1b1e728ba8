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
        let (asked, own) = (self.budget, budget::of_graph(pipeline));
        Limits {
            time: self.time,
            budget: Budget {
                max_tokens: asked.max_tokens.or(own.max_tokens),
                max_cost_micros: asked.max_cost_micros.or(own.max_cost_micros),
            },
        }
    }
}
