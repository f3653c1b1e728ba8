//! The state of the files that the stages of an execution path work on. Only the workspace interprets it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::BranchStatus;

/// The state of the files of an execution path after an attempt, as the workspace of the run describes it.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Snapshot};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// let snapshot = Snapshot::new("the commit");
/// machine.on(Event::Snapshot { id, snapshot: snapshot.clone() }, &mut Vec::new());
/// assert_eq!(machine.state().main.snapshot(), Some(&snapshot));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The data from which the workspace restores the files.
    pub value: Value,
    /// A message about work that a stage must finish before the path may end; `None` if nothing is unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// `true` if the snapshot contains the branches that were joined before the stage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
}

impl Snapshot {
    /// Creates a snapshot without unfinished work.
    pub fn new(value: impl Into<Value>) -> Snapshot {
        Snapshot {
            value: value.into(),
            unfinished: None,
            joined: false,
        }
    }
}

/// A branch that ended before a join, where its files are to be merged.
///
/// ```
/// use orchestra_core::{BranchStatus, Context, Effect, Event, Machine, Outcome, Snapshot};
/// # use orchestra_graph::{Source, load};
/// let text = "digraph { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// for id in machine.pending() {
///     let snapshot = Snapshot::new(id.name(machine.pipeline()));
///     machine.on(Event::Snapshot { id: id.clone(), snapshot }, &mut Vec::new());
///     machine.on(Event::NodeFinished { id, outcome: Outcome::success() }, &mut Vec::new());
/// }
/// let [a, b] = machine.state().main.joined() else { panic!("both branches ended") };
/// assert_eq!((&*a.id, &*a.name, a.status), ("a", "fan#1:a", BranchStatus::Success));
/// assert_eq!(b.snapshot.as_ref().map(|snapshot| &snapshot.value), Some(&"fan#1:b/b#1/1".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinedBranch {
    /// The id: that of the edge's target, with a number if several edges lead there. If the join closes two nested
    /// blocks, the id of the outer branch precedes it, as in `left/a`.
    pub id: String,
    /// The position in the run, such as `fan#1:left`.
    pub name: String,
    /// The status with which the branch ended.
    pub status: BranchStatus,
    /// The state of its files; `None` if nothing was changed since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// The files of an execution path; most runs have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Files {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) joining: Option<Box<Joining>>,
}

/// The branches that ended before a join whose files have not been merged yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Joining {
    /// The id of the join node.
    pub(crate) at: String,
    pub(crate) branches: Vec<JoinedBranch>,
}

/// The serialized form of [`Files`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedFiles {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<Snapshot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    joining: Option<Box<Joining>>,
}

impl SavedFiles {
    pub(crate) fn from_files(files: &Files) -> SavedFiles {
        SavedFiles {
            snapshot: files.snapshot.as_deref().cloned(),
            joining: files.joining.clone(),
        }
    }

    pub(crate) fn restore(self) -> Files {
        Files {
            snapshot: self.snapshot.map(Arc::new),
            joining: self.joining,
        }
    }
}
