//! The messages about assertions on limits (rule V4).

use std::cell::OnceCell;

use crate::analysis::Analysis;
use crate::assertion::Counted;
use crate::check::input::Input;
use crate::flow::{NodeLimit, RunLimits, run_limits};
use crate::model::NodeIndex;

/// The number of nodes that a message lists.
const SHOWN: usize = 4;

/// The limits of a pipeline, computed if an assertion needs them.
pub(super) struct Limits<'i> {
    analysis: &'i Analysis<'i>,
    known: OnceCell<Option<RunLimits>>,
}

impl<'i> Limits<'i> {
    pub(super) fn new(input: &Input<'i>) -> Limits<'i> {
        Limits {
            analysis: input.analysis,
            known: OnceCell::new(),
        }
    }

    fn get(&self) -> Option<&RunLimits> {
        self.known.get_or_init(|| run_limits(self.analysis)).as_ref()
    }

    /// Returns message, note and help if a run may attempt a stage more often.
    pub(super) fn at_most(&self, stage: NodeIndex, most: u64) -> Option<(String, String, String)> {
        let limit = self.get()?.nodes.get(stage.at())?;
        if limit.attempts <= most {
            return None;
        }
        let id = &limit.node;
        let message = if limit.attempts == u64::MAX {
            format!("the attempts of `{id}` are not limited")
        } else {
            format!("a run may attempt `{id}` {}", times(limit.attempts))
        };
        let attempts = limit.attempts / limit.visits.max(1);
        let visits = most / attempts.max(1) / limit.paths.max(1);
        let raise = "raise the number in the assertion";
        let help = if attempts > most {
            format!("lower the retries of `{id}`: one visit has up to {attempts} attempts; or {raise}")
        } else if limit.visits <= limit.paths || visits == 0 {
            format!(
                "lower the retries, the restarts or the number of branches that lead to `{id}`, or {raise}"
            )
        } else if attempts > 1 {
            // Without retries, each visit has one attempt.
            let alone = most / limit.paths.max(1);
            let without_retries = match limit.visits / limit.paths.max(1) <= alone {
                true => "`max_retries=0`".to_owned(),
                false => format!("`max_visits={alone}` and `max_retries=0`"),
            };
            format!(
                "set `max_visits={visits}` on `{id}`, or {without_retries}, because one visit has up to {attempts} attempts; \
                 or {raise}"
            )
        } else {
            format!("set `max_visits={visits}` on `{id}`, or {raise}")
        };
        Some((message, reason(limit), help))
    }

    /// Returns message, note and help if a run may have more visits or attempts.
    pub(super) fn total(&self, counted: Counted, most: u64) -> Option<(String, String, String)> {
        let limits = self.get()?;
        let (sum, noun) = match counted {
            Counted::Visits => (limits.visits, "visits"),
            Counted::Attempts => (limits.attempts, "attempts"),
        };
        if sum <= most {
            return None;
        }
        let message = if sum == u64::MAX {
            format!("the {noun} of a run are not limited")
        } else {
            format!("a run may have {sum} {noun}")
        };
        let of_node = |limit: &NodeLimit| match counted {
            Counted::Visits => limit.visits,
            Counted::Attempts => limit.attempts,
        };
        let mut largest: Vec<&NodeLimit> = limits.nodes.iter().collect();
        largest.sort_by_key(|limit| std::cmp::Reverse(of_node(limit)));
        let largest: Vec<String> = largest.into_iter().take(SHOWN).map(reason).collect();
        let note = format!("the nodes with the most are: {}", largest.join("; "));
        let help = "set `max_visits` on a node of each loop, or `max_node_visits` on the graph, lower the retries, or \
                    raise the number in the assertion";
        Some((message, note, help.to_owned()))
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

fn reason(limit: &NodeLimit) -> String {
    let visits = match limit.visits {
        u64::MAX => "any number of visits".to_owned(),
        1 => "1 visit".to_owned(),
        visits => format!("{visits} visits"),
    };
    format!("`{}` has up to {visits} ({})", limit.node, limit.reason)
}
