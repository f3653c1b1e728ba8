//! The retry and fan-out settings of a node, as columns of its row (rules Y1, Y3, P4).

use std::time::Duration;

use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::kind;
use crate::model::NodeIndex;

/// The number of attempts at a stage, and the delays between them (rules Y1 to Y4).
///
/// ```
/// use std::time::Duration;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> work -> exit; work [retry_policy=patient, max_retries=3] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let work = pipeline.stage(pipeline.find("work").expect("declared"));
/// let retry = work.row().retry;
/// assert_eq!(retry.attempts, 4);
/// let delays = [1, 2, 3].map(|attempt| retry.delay(attempt));
/// assert_eq!(delays, [2, 6, 18].map(Duration::from_secs));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// The maximum number of attempts in a visit, including the first.
    pub attempts: u32,
    /// The delay before the second attempt.
    pub initial_delay: Duration,
    /// The factor from one delay to the next.
    pub backoff_factor: f64,
    /// The maximum delay before jitter.
    pub max_delay: Duration,
    /// `true` if each delay is multiplied by a number between 0.5 and 1.5.
    pub jitter: bool,
}

impl Retry {
    /// One attempt. The delays are those of the `standard` policy; they apply if more attempts are configured without a
    /// policy.
    pub const ONCE: Retry = Retry {
        attempts: Known::DefaultMaxRetries.default_count() + 1,
        initial_delay: Known::RetryInitialDelay.default_duration(),
        backoff_factor: Known::RetryBackoffFactor.default_float(),
        max_delay: Known::RetryMaxDelay.default_duration(),
        jitter: Known::RetryJitter.default_flag(),
    };

    const fn preset(attempts: u32, initial_millis: u64, backoff_factor: f64) -> Retry {
        Retry {
            attempts,
            initial_delay: Duration::from_millis(initial_millis),
            backoff_factor,
            ..Retry::ONCE
        }
    }

    /// Returns a policy by its name (Attractor 3.6); `standard` for an unknown name.
    pub fn policy(name: &str) -> Retry {
        match name {
            "none" => Retry::preset(1, 0, 1.0),
            "aggressive" => Retry::preset(5, 500, 2.0),
            "linear" => Retry::preset(3, 500, 1.0),
            "patient" => Retry::preset(3, 2_000, 3.0),
            _ => Retry {
                attempts: 5,
                ..Retry::ONCE
            },
        }
    }

    /// Returns the delay after an attempt, counted from 1, before jitter (rule Y4).
    pub fn delay(&self, attempt: u32) -> Duration {
        let exponent = f64::from(attempt.saturating_sub(1));
        let seconds = self.initial_delay.as_secs_f64() * self.backoff_factor.powf(exponent);
        // NaN results only from zero times infinity: a zero delay stays zero.
        if seconds.is_nan() || seconds <= 0.0 {
            return Duration::ZERO;
        }
        if seconds >= self.max_delay.as_secs_f64() {
            return self.max_delay;
        }
        Duration::from_secs_f64(seconds)
    }

    /// Reads the policy from the attributes of a node and its graph. A fan-out repeats all of its branches, so only its
    /// own attributes apply.
    pub(super) fn new(kind: &str, node: &Attributes, graph: &Attributes) -> Retry {
        let none = Attributes::default();
        let graph = if kind == kind::PARALLEL { &none } else { graph };
        let named = node.text(Known::RetryPolicy).map(Retry::policy);
        let common = graph.text(Known::RetryPolicy).map(Retry::policy);
        let retries = |retries: Option<i64>| {
            retries.map(|retries| u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1))
        };
        let own = |policy: Option<Retry>| policy.map(|policy| policy.attempts);
        // The most specific setting applies: a node's number, a node's policy, the graph's number, the graph's policy.
        let attempts = retries(node.integer(Known::MaxRetries))
            .or(own(named))
            .or(retries(graph.integer(Known::DefaultMaxRetries)))
            .or(own(common))
            .unwrap_or(Retry::ONCE.attempts);
        let policy = named.or(common).unwrap_or(Retry::ONCE);
        let duration = |known| node.duration(known).or(graph.duration(known));
        let jitter = node.get(Known::RetryJitter).or(graph.get(Known::RetryJitter));
        Retry {
            attempts,
            initial_delay: duration(Known::RetryInitialDelay).unwrap_or(policy.initial_delay),
            backoff_factor: node
                .float(Known::RetryBackoffFactor)
                .or(graph.float(Known::RetryBackoffFactor))
                .unwrap_or(policy.backoff_factor),
            max_delay: duration(Known::RetryMaxDelay).unwrap_or(policy.max_delay),
            jitter: jitter.map_or(policy.jitter, |jitter| {
                jitter.value == crate::Value::Boolean(true)
            }),
        }
    }
}

/// The condition under which a parallel block is complete (rule P4).
///
/// ```
/// use orchestra_graph::table::JoinPolicy;
/// assert_eq!(JoinPolicy::WaitAll.needed(3), None);
/// assert_eq!(JoinPolicy::Quorum(0.5).needed(3), Some(2));
/// assert_eq!(JoinPolicy::KOfN(2).needed(3), Some(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JoinPolicy {
    /// All branches have ended.
    WaitAll,
    /// This number of branches has succeeded.
    KOfN(u32),
    /// One branch has succeeded.
    FirstSuccess,
    /// This fraction of the branches has succeeded.
    Quorum(f64),
}

impl JoinPolicy {
    /// Returns the number of branches that must succeed; `None` if the block waits for all branches, however they end.
    pub fn needed(self, branches: u32) -> Option<u32> {
        match self {
            JoinPolicy::WaitAll => None,
            JoinPolicy::KOfN(count) => Some(count),
            JoinPolicy::FirstSuccess => Some(1),
            // Round up, but ignore the rounding error of a product such as 0.28 * 25. The cast saturates.
            JoinPolicy::Quorum(fraction) => Some((fraction * f64::from(branches) - 1e-9).ceil() as u32),
        }
    }
}

/// The effect of a failed branch on the other branches (rule P4).
///
/// ```
/// use orchestra_graph::table::ErrorPolicy;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> fan; fan [shape=component, error_policy=fail_fast]; fan -> a -> join; fan -> b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let fan = pipeline.stage(pipeline.find("fan").expect("declared")).row().fan_out.expect("it fans out");
/// assert_eq!((fan.error_policy, fan.max_parallel), (ErrorPolicy::FailFast, 4));
/// assert_eq!(pipeline.stage(fan.join).id(), "join");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// The other branches are cancelled, and the block fails.
    FailFast,
    /// No effect; the failure is counted.
    Continue,
    /// No effect; the failure is left out of the results.
    Ignore,
}

/// The settings of a fan-out (rules P1, P4).
///
/// ```
/// use orchestra_graph::table::JoinPolicy;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> fan; fan [shape=component, join_policy=k_of_n, join_k=1]; fan -> a -> join; fan -> b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let fan = pipeline.stage(pipeline.find("fan").expect("declared")).row().fan_out.expect("it fans out");
/// assert_eq!(fan.join_policy, JoinPolicy::KOfN(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FanOut {
    /// The node at which the branches end and the run continues.
    pub join: NodeIndex,
    /// The condition under which the block is complete.
    pub join_policy: JoinPolicy,
    /// The effect of a failed branch on the other branches.
    pub error_policy: ErrorPolicy,
    /// The maximum number of branches that run at the same time.
    pub max_parallel: u32,
    /// The maximum number of items, if the fan-out runs one branch for each item of a list (rule P7).
    pub foreach_max: Option<u32>,
}

/// The maximum number of branches that run at the same time if the fan-out sets none.
const MAX_PARALLEL: u32 = Known::MaxParallel.default_count();

/// The largest `foreach_max`. Each branch is a part of the state of its run.
pub(crate) const MAX_ITEMS: u32 = 10_000;

impl FanOut {
    /// Reads the settings of a fan-out with this join.
    pub(super) fn new(node: &Attributes, join: NodeIndex, branches: usize) -> FanOut {
        let count = |known| {
            node.integer(known)
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX))
        };
        FanOut {
            join,
            // A policy without its number is an error (`join_policy_unsatisfiable`); such a table is never run.
            join_policy: match node.text_or_default(Known::JoinPolicy) {
                "k_of_n" => JoinPolicy::KOfN(count(Known::JoinK).unwrap_or(branches as u32)),
                "first_success" => JoinPolicy::FirstSuccess,
                "quorum" => JoinPolicy::Quorum(node.float(Known::JoinQuorum).unwrap_or(1.0)),
                _ => JoinPolicy::WaitAll,
            },
            error_policy: match node.text_or_default(Known::ErrorPolicy) {
                "fail_fast" => ErrorPolicy::FailFast,
                "ignore" => ErrorPolicy::Ignore,
                _ => ErrorPolicy::Continue,
            },
            max_parallel: count(Known::MaxParallel).unwrap_or(MAX_PARALLEL).max(1),
            // A list without a maximum is an error (`foreach_invalid`); such a table is never run.
            foreach_max: node
                .filled(Known::Foreach)
                .map(|_| count(Known::ForeachMax).unwrap_or(1).clamp(1, MAX_ITEMS)),
        }
    }
}
