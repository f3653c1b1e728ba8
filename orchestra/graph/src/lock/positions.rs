//! The positions at which a run of a pipeline may wait while its state is saved.

use crate::contract::Contract;
use crate::flow::{self, Declared, Entry, Presence, Steps};
use crate::loaded::Loaded;
use crate::model::NodeIndex;
use crate::table::{Mapping, Pipeline};

/// The positions at which a run may wait: stages in flight, human gates, delays before an attempt, and open blocks.
///
/// The machine saves a run only when it waits for an event, so no other position exists.
pub(crate) struct Positions {
    pub(crate) presence: Presence,
    /// `true` for each node at which a run may wait.
    waits: Vec<bool>,
    /// `true` for each fan-out whose block may be open.
    opens: Vec<bool>,
}

impl Positions {
    /// Finds the positions of a pipeline. Returns `None` if its report has errors.
    pub(crate) fn new(loaded: &Loaded) -> Option<Positions> {
        if loaded.report.has_errors() {
            return None;
        }
        let analysis = loaded.analysis();
        let pipeline = Pipeline::from_analysis(&analysis)?;
        let contract = Contract::from_pipeline(&pipeline);
        let steps = Steps::new(pipeline, &flow::outcomes(&analysis));
        Some(Positions::of_presence(Presence::new(steps, contract)))
    }

    fn of_presence(presence: Presence) -> Positions {
        let pipeline = presence.pipeline();
        let everywhere = presence.is_incomplete();
        let entered = |node: NodeIndex| everywhere || !presence.states_of(node).is_empty();
        let mut waits: Vec<bool> = pipeline
            .stages()
            .map(|stage| {
                let may_retry = stage.row().retry.attempts > 1;
                let is_executed = !stage.is_immediate() && stage.row().fan_out.is_none();
                entered(stage.index()) && (is_executed || (stage.row().fan_out.is_some() && may_retry))
            })
            .collect();
        // A block is open while a run waits in one of its branches.
        let mut opens: Vec<bool> = pipeline
            .stages()
            .map(|stage| everywhere && stage.row().fan_out.is_some())
            .collect();
        for stage in pipeline.stages().filter(|stage| waits[stage.index().at()]) {
            for fan_out in presence.fan_outs_around(stage.index()) {
                opens[fan_out.at()] = true;
            }
        }
        for (waits, opens) in waits.iter_mut().zip(&opens) {
            *waits |= *opens;
        }
        Positions {
            presence,
            waits,
            opens,
        }
    }

    /// Returns whether a run may wait at a node.
    pub(crate) fn may_wait_at(&self, node: NodeIndex) -> bool {
        self.waits.get(node.at()).is_some_and(|waits| *waits)
    }

    /// Returns whether the block of a fan-out may be open.
    pub(crate) fn may_be_open(&self, fan_out: NodeIndex) -> bool {
        self.opens.get(fan_out.at()).is_some_and(|opens| *opens)
    }

    /// Returns the states in which runs go on with another version. Positions that do not exist there are left out.
    pub(crate) fn entries(&self, mapping: &Mapping, other: &Declared) -> Vec<Entry> {
        let nodes = self.nodes().filter(|node| mapping.same_shape(*node));
        let entries = nodes.flat_map(|node| {
            let stage = self.presence.pipeline().stage(node);
            let may_retry = stage.row().retry.attempts > 1;
            let is_open = self.may_be_open(node) && !may_retry;
            self.presence
                .entries(node, is_open, other, |node| mapping.node(node))
        });
        entries.collect()
    }

    /// Iterates over the nodes at which a run may wait.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIndex> {
        let nodes = self.waits.iter().zip(0..).filter(|(waits, _)| **waits);
        nodes.map(|(_, at)| NodeIndex(at))
    }
}
