//! Joins: the nodes at which the branches of fan-outs meet (rule P1).
//!
//! Fan-outs and joins nest like brackets. A level is the graph in which each resolved fan-out leads directly to its own
//! join. Inner fan-outs are therefore resolved before outer ones, and a branch of an outer one steps over the inner
//! blocks. A branch ends at the latest where it would return to its fan-out, so a path through the fan-out does not
//! lead to a join. Neither does an edge that restarts the run, and a branch that can only restart the run is ignored.
//!
//! The join is the first of these that exists:
//! 1. the nearest fan-in that every branch reaches by an edge, stepping over inner blocks;
//! 2. the nearest fan-in that closes an inner block and is reached before 3. It then closes both blocks, unless the
//!    branches of the inner block must all pass some node before it; that node is then the join of the inner block;
//! 3. the nearest node that every branch must pass on all of its paths to the exit. If all branches begin with the
//!    same node, it is the next such node after that;
//! 4. if a branch has no path to the exit, the nearest node that every branch reaches.
//!
//! The nearest node is the one to which the farthest branch has the fewest steps; among equals, the first in the file.

mod level;
mod nesting;
mod resolver;
mod search;
mod tree;

#[cfg(test)]
mod tests;

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::kind;
use crate::model::{Edge, NodeIndex};
use crate::search::Digraph;
use level::Level;
use resolver::JoinResolver;

/// The joins of a graph's fan-outs.
pub(crate) struct Joins {
    join: Vec<Option<NodeIndex>>,
    /// The fan-outs, inner ones before outer ones.
    order: Vec<NodeIndex>,
    /// The position of each node in depth-first postorder from the start.
    left: Vec<u32>,
    /// The graph without the edges that restart the run.
    level: Level,
}

impl Joins {
    /// Finds the join of each fan-out. The time is nearly linear, except for a hostile graph that uses up the step
    /// limit.
    pub(crate) fn new(analysis: &Analysis<'_>) -> Joins {
        let graph = analysis.graph();
        let nodes = graph.nodes.len();
        let whole = |at: NodeIndex| at.at() < nodes;
        let of_kind = |kind: &str| -> Vec<bool> {
            let nodes = graph.indexed_nodes();
            nodes.map(|(at, _)| analysis.kind(at) == kind).collect()
        };
        let fan_outs = of_kind(kind::PARALLEL);
        // An edge out of a fan-out is a branch and never restarts the run.
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
                Digraph::new(nodes, pairs),
                Digraph::new(nodes, || pairs().map(|(from, to)| (to, from))),
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
        for (position, at) in finished.iter().enumerate() {
            joins.left[*at as usize] = position as u32;
        }
        let fan_outs = finished.into_iter().filter(|at| fan_outs[*at as usize]);
        joins.order = fan_outs.map(NodeIndex).collect();
        let exit = analysis.exit().map(|exit| exit.0);
        let only_restarts = joins
            .level
            .lead_to(edges().filter(restarts).map(|edge| edge.from.0), exit);
        let mut resolver = JoinResolver::new(
            &mut joins.level,
            &joins.left,
            of_kind(kind::FAN_IN),
            exit,
            only_restarts,
        );
        for fan_out in &joins.order {
            resolver.resolve(fan_out.0);
        }
        for fan_out in &joins.order {
            joins.join[fan_out.at()] = joins.level.join(fan_out.0).map(NodeIndex);
        }
        joins
    }

    /// Returns the fan-outs, inner ones before outer ones.
    pub(crate) fn fan_outs(&self) -> impl Iterator<Item = NodeIndex> {
        self.order.iter().copied()
    }

    /// Returns the join of a fan-out. Returns `None` for other nodes, and if the branches never join.
    pub(crate) fn join(&self, node: NodeIndex) -> Option<NodeIndex> {
        self.join.get(node.at()).copied().flatten()
    }
}

impl Analysis<'_> {
    /// Returns the fan-outs with the nodes where their branches join. A fan-out whose branches never join is omitted.
    ///
    /// ```
    /// use orchestra_graph::{Analysis, LoadOptions, Source, load};
    /// let text = "digraph { start -> fan; fan [shape=component]; fan -> a -> gate; fan -> b -> gate; gate -> exit }";
    /// let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
    /// let joins = Analysis::new(&loaded.graph, &loaded.source).joins();
    /// let names = joins.iter().map(|(fan_out, join)| (&*loaded.graph.node(*fan_out).id, &*loaded.graph.node(*join).id));
    /// assert_eq!(names.collect::<Vec<_>>(), [("fan", "gate")]);
    /// ```
    pub fn joins(&self) -> Vec<(NodeIndex, NodeIndex)> {
        let joins = Joins::new(self);
        let pair = |at: NodeIndex| Some((at, joins.join(at)?));
        joins.fan_outs().filter_map(pair).collect()
    }
}
