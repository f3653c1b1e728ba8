//! The serialized state of a run, from which another process can resume the run (Attractor 5.3, rule D1).

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::context::Context;
use crate::files::SavedFiles;
use crate::id::SavedStep;
use crate::outcome::{BranchStatus, Status};
use crate::usage::Usage;

/// A [`State`](crate::State) in serializable form. Everything that follows from the pipeline is left out, and a branch
/// contains only the differences from its parent path.
///
/// ```
/// use orchestra_core::{Context, Machine, SavedState};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// # let pipeline = orchestra_core::SharedPipeline::from(pipeline);
/// let machine = Machine::start(pipeline.clone(), Context::new(), 7, &mut Vec::new());
/// let written = serde_json::to_string(&machine.saved())?;
/// let read: SavedState = serde_json::from_str(&written)?;
/// assert_eq!(&read.restore(&pipeline)?, machine.state());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    pub(crate) main: SavedPath,
    pub(crate) totals: SavedTotals,
}

/// An error about a saved state that does not match a pipeline.
///
/// ```
/// use orchestra_core::{Context, Machine};
/// # use orchestra_graph::{Source, load};
/// # let of = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let long = of("digraph { a -> exit; start -> a }");
/// let saved = Machine::start(long, Context::new(), 7, &mut Vec::new()).saved();
/// let error = saved.restore(&of("digraph { start -> exit }")).unwrap_err();
/// assert_eq!(error.to_string(), "the state names edge 1, but the pipeline has 1 edges");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedStateError {
    message: String,
    is_contract: bool,
}

impl std::fmt::Display for SavedStateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SavedStateError {}

impl SavedStateError {
    pub(crate) fn new(message: impl Into<String>) -> SavedStateError {
        SavedStateError {
            message: message.into(),
            is_contract: false,
        }
    }

    /// Creates the error of a state that does not meet the contract of a pipeline.
    pub(crate) fn contract(violations: String) -> SavedStateError {
        SavedStateError {
            message: violations,
            is_contract: true,
        }
    }

    /// Returns whether the positions of the state exist, but its context does not meet the contract of the pipeline.
    pub fn is_contract_violation(&self) -> bool {
        self.is_contract
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedTotals {
    pub(crate) finished: bool,
    pub(crate) begun: u64,
    pub(crate) restarts: u32,
    pub(crate) reroutes: u32,
    /// The edges that were taken, with the number of times.
    pub(crate) taken: Vec<(u32, u32)>,
    #[serde(rename = "elapsed_ns", with = "crate::nanos")]
    pub(crate) elapsed: Duration,
    pub(crate) seed: u64,
    pub(crate) usage: Usage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spent: Vec<(u32, Usage)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedPath {
    pub(crate) phase: SavedPhase,
    pub(crate) at: SavedAt,
    /// The values of the main path; for a branch, those that may differ from its parent path.
    pub(crate) context: SavedContext,
    pub(crate) visits: Vec<(u32, u32)>,
    pub(crate) outcomes: Vec<SavedOutcome>,
    pub(crate) completed: Vec<u32>,
    pub(crate) last: SavedLast,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) last_failure: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failing: Vec<SavedFailing>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<(u32, u32, u32, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) retries: Vec<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) revisits: Vec<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<Value>,
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub(crate) used: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<Box<SavedFiles>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) updates: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedContext {
    All(Context),
    /// A list with one value, or an empty list if the key is absent: a value may itself be `null`.
    Changed(BTreeMap<String, Vec<Value>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedPhase {
    Idle,
    Running,
    BackOff,
    Asking,
    Parallel(Box<SavedBlock>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedAt {
    pub(crate) node: u32,
    pub(crate) visit: u32,
    pub(crate) attempt: u32,
    pub(crate) index: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) edge: Option<u32>,
    #[serde(rename = "delay_ns", with = "crate::nanos")]
    pub(crate) delay: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedOutcome(
    pub(crate) u32,
    pub(crate) Status,
    pub(crate) Option<String>,
    #[serde(default)] pub(crate) u32,
    #[serde(default)] pub(crate) Vec<SavedStep>,
);

/// A repeatedly failing stage: its node, the number of failures, the reason, and the digest of the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedFailing(
    pub(crate) u32,
    pub(crate) u32,
    pub(crate) String,
    #[serde(default)] pub(crate) Option<NonZeroU64>,
);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedLast {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<u32>,
    pub(crate) status: Status,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) preferred_label: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggested_next_ids: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) failure_reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) failure_code: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) output: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedBlock {
    /// The counters from before the branches began, as far as they are not zero.
    pub(crate) visits: Vec<(u32, u32)>,
    pub(crate) branches: Vec<SavedBranch>,
    pub(crate) next: usize,
    #[serde(rename = "began_ns", with = "crate::nanos")]
    pub(crate) began: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedBranch {
    pub(crate) edge: u32,
    /// The index of its item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<u32>,
    #[serde(rename = "began_ns", with = "crate::nanos")]
    pub(crate) began: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Box<SavedPath>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<SavedEnd>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedEnd {
    pub(crate) status: BranchStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(rename = "duration_ns", with = "crate::nanos")]
    pub(crate) duration: Duration,
}

impl SavedState {
    /// Returns `true` if the run has ended.
    pub fn is_finished(&self) -> bool {
        self.totals.finished
    }
}
