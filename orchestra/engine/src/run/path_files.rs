//! The files of an execution path as the machine of its run describes them.

use orchestra_core::{EffectId, JoinedBranch, Machine, Snapshot};
use serde::{Deserialize, Serialize};

/// The state that the files of an execution path must have for an attempt. The driver of a hosted run sends it with the
/// attempt.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Snapshot};
/// use orchestra_engine::PathFiles;
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("it waits for a stage");
/// assert!(PathFiles::from_machine(&machine, &id).is_untouched());
/// let snapshot = Snapshot::new("the commit");
/// machine.on(Event::Snapshot { id: id.clone(), snapshot: snapshot.clone() }, &mut Vec::new());
/// assert_eq!(PathFiles::from_machine(&machine, &id).snapshot, Some(snapshot));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathFiles {
    /// The snapshot; `None` if nothing was changed since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// The branches that end at the stage and whose files have not been merged yet, in the order of their edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedBranch>,
}

impl PathFiles {
    /// Returns the files of the execution path of an attempt that a machine waits for.
    pub fn from_machine(machine: &Machine, id: &EffectId) -> PathFiles {
        let paths = machine.paths_to(id);
        let path = paths.last();
        PathFiles {
            snapshot: path.and_then(|path| path.snapshot()).cloned(),
            joined: path.map_or_else(Vec::new, |path| path.joined().to_vec()),
        }
    }

    /// Returns whether nothing was changed since the run began.
    pub fn is_untouched(&self) -> bool {
        *self == PathFiles::default()
    }
}
