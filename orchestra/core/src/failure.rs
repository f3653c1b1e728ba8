//! The reasons for which a run fails (rules R3 to R11).

use std::fmt;
use std::time::Duration;

use orchestra_graph::format_duration;
use serde::{Deserialize, Serialize};

use crate::usage::{Budget, Usage};

/// The reason for which a run failed.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunFailure {
    /// A stage failed, and nothing handles the failure (rule R3).
    StageFailed {
        /// The stage.
        node: String,
        /// The reason for the failure.
        reason: String,
    },
    /// A node has outgoing edges, but none of them can be taken (rule R5).
    NoMatchingEdge {
        /// The node.
        node: String,
        /// Each edge with its condition and the values that the condition was evaluated with.
        report: String,
    },
    /// A node without outgoing edges is not the exit (rule R6).
    DeadEnd {
        /// The node.
        node: String,
    },
    /// The run reached an end that its author marked as a failure (rule R6).
    FailureEnd {
        /// The node.
        node: String,
        /// The stage that failed last and its reason; may be empty.
        reason: String,
    },
    /// A node exceeded its visit limit (rule R10).
    MaxVisits {
        /// The node.
        node: String,
        /// The limit.
        limit: u32,
        /// The attribute that sets the limit.
        attribute: String,
    },
    /// The run visited very many nodes without a stage that does anything (rule R10).
    BusyLoop {
        /// The node that would have been visited next.
        node: String,
        /// The number of visits since an event.
        visits: u64,
    },
    /// A stage repeatedly failed in the same way (rule R10).
    FailureBreaker {
        /// The stage.
        node: String,
        /// The reason for the failures.
        reason: String,
        /// The number of equal failures.
        count: u32,
    },
    /// An edge leads back to a visited node without being allowed to (rule R11).
    CircularPipeline {
        /// The source of the edge.
        from: String,
        /// The target of the edge.
        to: String,
    },
    /// A goal gate is unsatisfied, and no retry target is named or the reroute limit is reached (rule R7).
    GoalGate {
        /// The gate.
        node: String,
        /// The name of its status.
        outcome: String,
        /// The reason for its failure; may be empty.
        reason: String,
        /// The condition of the gate, if it has one, with the values that the condition was evaluated with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
        /// The reroute limit of goal gates, if it was reached; `None` if no retry target is named.
        limit: Option<u32>,
    },
    /// The run exceeded its restart limit (rule R9).
    MaxRestarts {
        /// The source of the edge.
        from: String,
        /// The target of the edge.
        to: String,
        /// The limit.
        limit: u32,
    },
    /// A branch leads back to a fan-out that contains it (rule P1).
    BranchReentry {
        /// The node before.
        from: String,
        /// The fan-out.
        to: String,
    },
    /// A transition leads to a node that the pipeline does not have.
    InvalidTransition {
        /// The node before.
        from: String,
        /// The description of the problem.
        reason: String,
    },
    /// The response of a stage does not contain the output that the stage declares (rule R11).
    OutputParse {
        /// The stage.
        node: String,
        /// The expected and the actual response.
        reason: String,
    },
    /// A human gate has nobody to ask; the run waits for a person.
    WaitsForHuman {
        /// The gate.
        node: String,
        /// The reason why nobody can be asked.
        reason: String,
    },
    /// The run exceeded its time limit.
    MaxTime {
        /// The time limit.
        #[serde(rename = "limit_ms", with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        limit: Duration,
    },
    /// The run exceeded its budget.
    Budget {
        /// The budget.
        budget: Budget,
        /// The usage of the run.
        used: Usage,
    },
    /// The run was stopped on request; it can be resumed.
    Paused {
        /// The reason for the request.
        reason: String,
    },
    /// The run was ended on request.
    Cancelled {
        /// The reason for the request.
        reason: String,
    },
}

impl RunFailure {
    /// Returns the machine-readable code of the failure.
    pub fn code(&self) -> &'static str {
        match self {
            RunFailure::StageFailed { .. } => "stage_failed",
            RunFailure::NoMatchingEdge { .. } => "no_matching_edge",
            RunFailure::DeadEnd { .. } => "dead_end",
            RunFailure::FailureEnd { .. } => "failure_end",
            RunFailure::MaxVisits { .. } => "max_visits",
            RunFailure::BusyLoop { .. } => "busy_loop",
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

    /// Returns the node at which the run failed; `None` if the run was ended from outside.
    pub fn node(&self) -> Option<&str> {
        match self {
            RunFailure::StageFailed { node, .. }
            | RunFailure::NoMatchingEdge { node, .. }
            | RunFailure::DeadEnd { node }
            | RunFailure::FailureEnd { node, .. }
            | RunFailure::MaxVisits { node, .. }
            | RunFailure::BusyLoop { node, .. }
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
                let times = match limit {
                    1 => "once".to_owned(),
                    limit => format!("{limit} times"),
                };
                write!(
                    f,
                    "exceeded max_visits: node `{node}` may be visited {times} (`{attribute}`)"
                )
            }
            RunFailure::BusyLoop { node, visits } => write!(
                f,
                "the run came to `{node}` after {visits} visits without a stage that does anything or waits; a loop needs \
                 an edge that leaves it"
            ),
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
                        "; name a `retry_target` on it or on the graph, where the run continues to repair the work",
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

/// Serialization of a duration as whole milliseconds.
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
