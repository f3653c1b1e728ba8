//! Why a run failed (rules R3 to R11).

use std::fmt;
use std::time::Duration;

use orchestra_graph::format_duration;
use serde::{Deserialize, Serialize};

use crate::usage::{Budget, Usage};

/// Why a run failed.
///
/// ```
/// use orchestra_core::RunFailure;
/// let failure = RunFailure::MaxVisits { node: "mend".to_owned(), limit: 3, attribute: "max_visits".to_owned() };
/// assert_eq!((failure.code(), failure.node()), ("max_visits", Some("mend")));
/// assert!(failure.to_string().starts_with("exceeded max_visits: node `mend`"));
/// assert_eq!(serde_json::to_value(&failure)?["limit"], 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunFailure {
    /// A stage failed, and nothing takes its failure (rule R3).
    StageFailed {
        /// The stage.
        node: String,
        /// Why it failed.
        reason: String,
    },
    /// Edges exist, but none may be taken (rule R5).
    NoMatchingEdge {
        /// The node.
        node: String,
        /// Each edge, its condition and the values that it saw.
        report: String,
    },
    /// A node without outgoing edges is not the exit (rule R6).
    DeadEnd {
        /// The node.
        node: String,
    },
    /// The run came to an end that its author marked as a failure (rule R6).
    FailureEnd {
        /// The node.
        node: String,
        /// Which stage failed last, and why; may be empty.
        reason: String,
    },
    /// A node would have been visited too often (rule R10).
    MaxVisits {
        /// The node.
        node: String,
        /// The bound.
        limit: u32,
        /// The attribute that sets the bound.
        attribute: String,
    },
    /// A stage failed in the same way too often (rule R10).
    FailureBreaker {
        /// The stage.
        node: String,
        /// The failure.
        reason: String,
        /// How often.
        count: u32,
    },
    /// An edge leads back without being allowed to (rule R11).
    CircularPipeline {
        /// Where it comes from.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// A goal gate is unsatisfied, and nothing leads back or has led back too often (rule R7).
    GoalGate {
        /// The gate.
        node: String,
        /// Its outcome word.
        outcome: String,
        /// Why it failed; may be empty.
        reason: String,
        /// The gate's own condition and the values that it saw, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
        /// How often gates may send the run back, where they did; `None` where no target is named.
        limit: Option<u32>,
    },
    /// The run would have been restarted too often (rule R9).
    MaxRestarts {
        /// Where the edge comes from.
        from: String,
        /// Where it leads.
        to: String,
        /// The bound.
        limit: u32,
    },
    /// A branch leads back to a fan-out that it is a part of (rule P1).
    BranchReentry {
        /// The node before.
        from: String,
        /// The fan-out.
        to: String,
    },
    /// A way leads where the pipeline has nothing.
    InvalidTransition {
        /// The node before.
        from: String,
        /// What is wrong.
        reason: String,
    },
    /// A stage's response does not hold the output that it declares (rule R11).
    OutputParse {
        /// The stage.
        node: String,
        /// What was expected, and what was found.
        reason: String,
    },
    /// A human gate has nobody to ask; the run waits for a person.
    WaitsForHuman {
        /// The gate.
        node: String,
        /// Why nobody can be asked.
        reason: String,
    },
    /// The run took longer than it may.
    MaxTime {
        /// How long it may take.
        #[serde(rename = "limit_ms", with = "millis")]
        limit: Duration,
    },
    /// The run used more than it may.
    Budget {
        /// What it may use.
        budget: Budget,
        /// What it used.
        used: Usage,
    },
    /// Somebody stopped the run; it can go on from where it is.
    Paused {
        /// Why.
        reason: String,
    },
    /// Somebody ended the run.
    Cancelled {
        /// Why.
        reason: String,
    },
}

impl RunFailure {
    /// The failure as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            RunFailure::StageFailed { .. } => "stage_failed",
            RunFailure::NoMatchingEdge { .. } => "no_matching_edge",
            RunFailure::DeadEnd { .. } => "dead_end",
            RunFailure::FailureEnd { .. } => "failure_end",
            RunFailure::MaxVisits { .. } => "max_visits",
            RunFailure::FailureBreaker { .. } => "failure_breaker",
            RunFailure::CircularPipeline { .. } => "circular_pipeline",
            RunFailure::GoalGate { .. } => "goal_gate",
            RunFailure::MaxRestarts { .. } => "max_restarts",
            RunFailure::BranchReentry { .. } => "branch_reentry",
            RunFailure::InvalidTransition { .. } => "invalid_transition",
            RunFailure::OutputParse { .. } => "output_parse",
            RunFailure::WaitsForHuman { .. } => "waits_for_human",
            RunFailure::MaxTime { .. } => "max_time",
            RunFailure::Budget { .. } => "budget",
            RunFailure::Paused { .. } => "paused",
            RunFailure::Cancelled { .. } => "cancelled",
        }
    }

    /// The node at which the run failed; `None` where it was ended from outside.
    pub fn node(&self) -> Option<&str> {
        match self {
            RunFailure::StageFailed { node, .. }
            | RunFailure::NoMatchingEdge { node, .. }
            | RunFailure::DeadEnd { node }
            | RunFailure::FailureEnd { node, .. }
            | RunFailure::MaxVisits { node, .. }
            | RunFailure::FailureBreaker { node, .. }
            | RunFailure::CircularPipeline { from: node, .. }
            | RunFailure::GoalGate { node, .. }
            | RunFailure::MaxRestarts { from: node, .. }
            | RunFailure::BranchReentry { from: node, .. }
            | RunFailure::InvalidTransition { from: node, .. }
            | RunFailure::OutputParse { node, .. }
            | RunFailure::WaitsForHuman { node, .. } => Some(node),
            RunFailure::MaxTime { .. }
            | RunFailure::Budget { .. }
            | RunFailure::Paused { .. }
            | RunFailure::Cancelled { .. } => None,
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunFailure::StageFailed { node, reason } => {
                write!(f, "stage `{node}` failed: {}", or(reason, "no reason was given"))
            }
            RunFailure::NoMatchingEdge { report, .. } => f.write_str(report),
            RunFailure::DeadEnd { node } => {
                write!(
                    f,
                    "the run came to `{node}`, which has no outgoing edge and is not the exit; \
                     say `end=\"fail\"` or `end=\"success\"` on it if that is meant"
                )
            }
            RunFailure::FailureEnd { node, reason } if reason.is_empty() => {
                write!(f, "the run ended at `{node}`, which is marked `end=\"fail\"`")
            }
            RunFailure::FailureEnd { node, reason } => {
                write!(
                    f,
                    "the run ended at `{node}`, which is marked `end=\"fail\"`: {reason}"
                )
            }
            RunFailure::MaxVisits {
                node,
                limit,
                attribute,
            } => {
                write!(
                    f,
                    "exceeded max_visits: node `{node}` may be visited {limit} times (`{attribute}`)"
                )
            }
            RunFailure::FailureBreaker { node, reason, count } => write!(
                f,
                "stage `{node}` failed {count} times running in the same way (`failure_breaker`): {}",
                or(reason, "no reason was given")
            ),
            RunFailure::CircularPipeline { from, to } => write!(
                f,
                "the edge `{from}` -> `{to}` leads back to a visited node more often than it allows; \
                 `allow_revisit=true` allows it, `max_revisits` bounds it"
            ),
            RunFailure::GoalGate {
                node,
                outcome,
                reason,
                condition,
                limit,
            } => {
                match condition {
                    Some(condition) => write!(f, "the goal gate `{node}` is unsatisfied, {condition}")?,
                    None => write!(
                        f,
                        "the goal gate `{node}` is unsatisfied, its outcome is `{outcome}`"
                    )?,
                }
                if !reason.is_empty() {
                    write!(f, ": {reason}")?;
                }
                match limit {
                    Some(limit) => write!(
                        f,
                        "; gates have sent the run back {limit} times (`max_goal_gate_reroutes`)"
                    ),
                    None => f.write_str(
                        "; name a `retry_target` on it or on the graph, where the run can go to mend it",
                    ),
                }
            }
            RunFailure::MaxRestarts { from, to, limit } => write!(
                f,
                "the edge `{from}` -> `{to}` would restart the run once more than its {limit} times (`max_restarts`)"
            ),
            RunFailure::BranchReentry { from, to } => write!(
                f,
                "the branch leads back from `{from}` to its own fan-out `{to}`; a branch ends at the join"
            ),
            RunFailure::InvalidTransition { from, reason } => {
                write!(f, "the way on from `{from}` is invalid: {reason}")
            }
            RunFailure::OutputParse { node, reason } => write!(f, "stage `{node}` failed: {reason}"),
            RunFailure::WaitsForHuman { node, reason } => {
                write!(
                    f,
                    "the gate `{node}` waits for a person: {}",
                    or(reason, "nobody can be asked")
                )
            }
            RunFailure::MaxTime { limit } => {
                write!(
                    f,
                    "the run took longer than its limit of {}",
                    format_duration(*limit)
                )
            }
            RunFailure::Budget { budget, used } => {
                write!(f, "the run reached its budget: {}", budget.compared(used))
            }
            RunFailure::Paused { reason } => {
                write!(f, "the run was paused: {}", or(reason, "on request"))
            }
            RunFailure::Cancelled { reason } => {
                write!(f, "the run was cancelled: {}", or(reason, "on request"))
            }
        }
    }
}

impl std::error::Error for RunFailure {}

/// A duration as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}
