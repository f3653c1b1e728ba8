//! The state of a run: one plain struct.

use std::collections::BTreeMap;

use orchestra_graph::NodeIndex;
use serde_json::Value;

use crate::context::Context;
use crate::effect::EffectId;
use crate::outcome::Status;

/// Whether the run waits for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a stage.
    Running(EffectId),
    /// It has ended.
    Finished,
}

/// The latest outcome of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// How it ended.
    pub status: Status,
    /// A summary, or the reason of a failure.
    pub notes: Option<String>,
}

/// What routing sees of the stage that ran last.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// The stage; `None` before the first.
    pub node: Option<NodeIndex>,
    /// How it ended.
    pub status: Status,
    /// The label that it prefers.
    pub preferred_label: String,
    /// The nodes that it suggests.
    pub suggested_next_ids: Vec<String>,
    /// Why it failed.
    pub failure_reason: String,
    /// What it gave, for first-match routing.
    pub output: BTreeMap<String, Value>,
}

/// A stage that keeps failing in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The stage.
    pub node: NodeIndex,
    /// How it fails.
    pub reason: String,
    /// How often running.
    pub count: u32,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// What the run waits for.
    pub phase: Phase,
    /// The named values.
    pub context: Context,
    /// How often each node was visited.
    pub visits: Vec<u32>,
    /// The latest outcome of each node.
    pub outcomes: Vec<Option<NodeOutcome>>,
    /// The nodes that ended, in order.
    pub path: Vec<NodeIndex>,
    /// How many stages began.
    pub begun: u64,
    /// What routing sees of the stage that ran last.
    pub last: Last,
    /// The stage that failed last and why, in words; empty where none failed.
    pub last_failure: String,
    /// The stages that keep failing.
    pub failing: Vec<Failing>,
    /// How often each edge led back, in first-match routing.
    pub revisits: BTreeMap<u32, u32>,
    /// The seed of every chance in the run.
    pub seed: u64,
}

impl State {
    pub(crate) fn new(nodes: usize, context: Context, seed: u64) -> State {
        State {
            phase: Phase::Finished,
            context,
            visits: vec![0; nodes],
            outcomes: vec![None; nodes],
            path: Vec::new(),
            begun: 0,
            last: Last {
                node: None,
                status: Status::Success,
                preferred_label: String::new(),
                suggested_next_ids: Vec::new(),
                failure_reason: String::new(),
                output: BTreeMap::new(),
            },
            last_failure: String::new(),
            failing: Vec::new(),
            revisits: BTreeMap::new(),
            seed,
        }
    }
}
