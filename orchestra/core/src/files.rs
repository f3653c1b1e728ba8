//! What the machine keeps of the files that a line's stages work on. What it means, only the workspace knows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::BranchStatus;
use crate::state::Line;

/// How the files of a line stood when an attempt ended, as the workspace of the run names it.
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
    /// What the workspace needs to bring the files back.
    pub value: Value,
    /// What a stage has yet to finish before the line may end, in words; `None` where nothing is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// Whether the branches that came together before the stage are in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
}

impl Snapshot {
    /// A snapshot in which nothing is open.
    pub fn new(value: impl Into<Value>) -> Snapshot {
        Snapshot {
            value: value.into(),
            unfinished: None,
            joined: false,
        }
    }
}

/// A branch that ended before a join, whose files are to be brought together there.
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
    /// Its id: that of the edge's target, with a number where several edges lead there; behind that of the branch around
    /// it, as in `left/a`, where the join closes both blocks.
    pub id: String,
    /// Its place in the run, such as `fan#1:left`.
    pub name: String,
    /// How it ended.
    pub status: BranchStatus,
    /// How its files stood; `None` where nothing was changed since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// The files of a line; most runs have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Files {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) joining: Option<Box<Joining>>,
}

/// The branches that have ended before a join that has yet to bring their files together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Joining {
    /// The node at which they come together.
    pub(crate) at: String,
    pub(crate) branches: Vec<JoinedBranch>,
}

/// [`Files`] in a form that can be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedFiles {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<Snapshot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    joining: Option<Box<Joining>>,
}

impl SavedFiles {
    pub(crate) fn of(files: &Files) -> SavedFiles {
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

impl Line {
    /// How the files of its stages stood last; `None` where nothing was changed since the run began.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.files.as_ref()?.snapshot.as_deref()
    }

    /// The branches that ended before the join where the line is, in the order of their edges, until their files are
    /// brought together.
    pub fn joined(&self) -> &[JoinedBranch] {
        let joining = self.files.as_ref().and_then(|files| files.joining.as_ref());
        joining.map_or(&[], |joining| &joining.branches)
    }

    /// What has yet to be finished before the line may end.
    pub(crate) fn unfinished(&self) -> Option<&str> {
        self.snapshot()?.unfinished.as_deref()
    }

    /// Takes a new snapshot. Files that changed make the next failure of every stage a new one (rule R10).
    pub(crate) fn keep_snapshot(&mut self, snapshot: Snapshot) {
        if self.snapshot().is_none_or(|known| known.value != snapshot.value) {
            self.failing.clear();
        }
        let files = self.files.get_or_insert_default();
        if snapshot.joined {
            files.joining = None;
        }
        files.snapshot = Some(Arc::new(snapshot));
    }

    /// The files of a branch that begins.
    pub(crate) fn files_of_branch(&self) -> Option<Box<Files>> {
        let snapshot = self.files.as_ref()?.snapshot.clone()?;
        Some(Box::new(Files {
            snapshot: Some(snapshot),
            joining: None,
        }))
    }

    /// Keeps which branches come together at a node, where any of them has files.
    pub(crate) fn joins(&mut self, at: &str, branches: Vec<JoinedBranch>) {
        if branches.iter().any(|branch| branch.snapshot.is_some()) {
            self.files.get_or_insert_default().joining = Some(Box::new(Joining {
                at: at.to_owned(),
                branches,
            }));
        }
    }

    /// Forgets branches whose join the line has left.
    pub(crate) fn passes_join(&mut self, node: &str) {
        if let Some(files) = &mut self.files
            && files.joining.as_ref().is_some_and(|joining| joining.at != node)
        {
            files.joining = None;
        }
    }
}
