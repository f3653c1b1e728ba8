//! Where the branches of a fan-out meet (rule P1).
//!
//! Pairs nest like brackets: what runs on one level is the graph in which each fan-out leads to its own join at once.
//! So inner fan-outs are settled before outer ones, and a branch of an outer one steps over the inner blocks.
//! A branch ends at the latest where it would come back to its fan-out, so what leads there is no way to a join. Nor is
//! an edge that restarts the run, and a branch that can do nothing else has no say.
//!
//! In this order the join is
//! 1. the nearest fan-in that every branch reaches by an edge, inner blocks stepped over;
//! 2. the nearest fan-in that closes an inner block and is met before 3; it then closes both, unless the branches of
//!    the inner one must all pass some node before it, which then is their join;
//! 3. the nearest node that every branch must pass on all of its ways to the exit; where all branches begin with one
//!    node, it is behind that;
//! 4. where a branch has no way to the exit, the nearest node that every branch reaches.
//!
//! The nearest is the one to which the farthest branch has the fewest steps; of two such the first in the file.

mod level;
mod nesting;
mod search;
mod settle;
mod tree;

#[cfg(test)]
mod tests;

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::kind;
use crate::model::{Edge, NodeIndex};
use crate::ways::Ways;
use level::Level;
use settle::Settling;

/// The joins of a graph's fan-outs.
pub(crate) struct Joins {
    join: Vec<Option<NodeIndex>>,
    /// The fan-outs, inner ones before those around them.
    order: Vec<NodeIndex>,
    /// The place of each node in the order in which walks from the start leave it for good.
    left: Vec<u32>,
    /// The graph without the edges that restart the run.
    level: Level,
}

impl Joins {
    /// Finds the join of each fan-out. The time is nearly linear, except where a hostile graph uses up its steps.
    pub(crate) fn new(analysis: &Analysis<'_>) -> Joins {
        let graph = analysis.graph();
        let nodes = graph.nodes.len();
        let whole = |at: NodeIndex| at.at() < nodes;
        let of_kind = |kind: &str| -> Vec<bool> {
            let nodes = graph.indexed_nodes();
            nodes.map(|(at, _)| analysis.kind(at) == kind).collect()
        };
        let fan_outs = of_kind(kind::PARALLEL);
        // An edge of a fan-out is a branch, and never restarts the run.
        let restarts = |edge: &&Edge| !fan_outs[edge.from.at()] && edge.attributes.flag(Known::LoopRestart);
        let edges = || {
            graph
                .edges
                .iter()
                .filter(|edge| whole(edge.from) && whole(edge.to))
        };
        let pairs = || {
            edges()
                .filter(|edge| !restarts(edge))
                .map(|edge| (edge.from.0, edge.to.0))
        };
        let mut joins = Joins {
            join: vec![None; nodes],
            order: Vec::new(),
            left: Vec::new(),
            level: Level::new(
                Ways::new(nodes, pairs),
                Ways::new(nodes, || pairs().map(|(from, to)| (to, from))),
                &fan_outs,
            ),
        };
        if !fan_outs.contains(&true) {
            return joins;
        }
        let finished = joins
            .level
            .finished(analysis.starts().iter().map(|start| start.at()));
        joins.left = vec![0; nodes];
        for (place, at) in finished.iter().enumerate() {
            joins.left[*at as usize] = place as u32;
        }
        let fan_outs = finished.into_iter().filter(|at| fan_outs[*at as usize]);
        joins.order = fan_outs.map(NodeIndex).collect();
        let exit = analysis.exit().map(|exit| exit.0);
        let only_restarts = joins
            .level
            .lead_to(edges().filter(restarts).map(|edge| edge.from.0), exit);
        let mut settling = Settling::new(
            &mut joins.level,
            &joins.left,
            of_kind(kind::FAN_IN),
            exit,
            only_restarts,
        );
        for fan_out in &joins.order {
            settling.settle(fan_out.0);
        }
        for fan_out in &joins.order {
            joins.join[fan_out.at()] = joins.level.join(fan_out.0).map(NodeIndex);
        }
        joins
    }

    /// The fan-outs, inner ones before those around them.
    pub(crate) fn fan_outs(&self) -> impl Iterator<Item = NodeIndex> {
        self.order.iter().copied()
    }

    /// The join of a node that fans out; `None` for other nodes, and where branches never meet.
    pub(crate) fn of(&self, node: NodeIndex) -> Option<NodeIndex> {
        self.join.get(node.at()).copied().flatten()
    }
}
