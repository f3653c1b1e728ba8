//! The states of the analysis of declared values: where a run is, and what is known about the keys there.

use super::guards::Keys;
use super::steps::End;
use crate::model::NodeIndex;

/// A node that a run has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Point {
    pub(super) node: NodeIndex,
    /// The end of the stage before a routing node.
    pub(super) before: Option<End>,
    /// The index of the block that the run is in.
    pub(super) block: usize,
}

/// A block, as the fan-outs around a point: the innermost one, and the block around it. The first entry of the list
/// stands for the main path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) join: Option<NodeIndex>,
    pub(super) fan_out: Option<NodeIndex>,
    pub(super) around: usize,
}

/// The declared keys that may be missing, and those that may be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The keys that may be missing.
    pub(super) missing: Keys,
    /// The keys that may be set.
    pub(super) set: Keys,
}

impl Known {
    /// Returns whether a key may be missing.
    pub(crate) fn may_be_missing(&self, key: usize) -> bool {
        self.missing.contains(key)
    }

    /// Returns whether a key may be set.
    pub(crate) fn may_be_set(&self, key: usize) -> bool {
        self.set.contains(key)
    }

    /// Adds another state. Returns whether anything was new.
    pub(super) fn add(&mut self, other: &Known) -> bool {
        let missing = self.missing.add(&other.missing);
        self.set.add(&other.set) || missing
    }

    pub(super) fn set(&mut self, key: usize) {
        self.missing.remove(key);
        self.set.insert(key);
    }

    pub(super) fn unset(&mut self, key: usize) {
        self.missing.insert(key);
        self.set.remove(key);
    }
}

/// A point that a run may enter in a state.
pub(super) struct State {
    pub(super) point: Point,
    pub(super) known: Known,
    /// The state before it, and the way to this one; `None` where runs begin.
    pub(super) before: Option<Before>,
    /// `true` if the block of the fan-out is open already, so that no further branches begin.
    pub(super) is_open: bool,
}

/// A state in which runs of another version of the pipeline go on.
pub(crate) struct Entry {
    pub(crate) node: NodeIndex,
    /// The fan-outs and joins of the blocks around the node, from the outermost one.
    pub(crate) blocks: Vec<(NodeIndex, NodeIndex)>,
    /// The keys that may be missing, and those that may be set.
    pub(crate) missing: Keys,
    pub(crate) set: Keys,
    /// `true` if the block of the fan-out is open.
    pub(crate) is_open: bool,
}

/// The way from one state to the next.
#[derive(Clone, Copy)]
pub(super) struct Before {
    pub(super) state: usize,
    pub(super) end: Option<End>,
    pub(super) restarts: bool,
}

/// A step to another node.
pub(super) struct Move {
    pub(super) to: Point,
    pub(super) known: Known,
    pub(super) end: Option<End>,
    pub(super) restarts: bool,
    pub(super) is_open: bool,
}

/// Returns what is known if some keys are set. Returns `None` if one of them is certainly missing.
pub(super) fn with_proved(known: &Known, proved: &Keys) -> Option<Known> {
    let mut next = known.clone();
    for key in proved.iter() {
        if !known.set.contains(key) {
            return None;
        }
        next.set(key);
    }
    Some(next)
}
