//! The nesting depth of fan-outs, and the edges that lead back to their own fan-out.

use std::collections::BTreeMap;

use super::Joins;
use super::search::Marks;
use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::model::{EdgeIndex, NodeIndex};

/// An edge by which a branch re-enters its own fan-out.
pub(crate) struct Reentry {
    pub(crate) edge: EdgeIndex,
    pub(crate) fan_out: NodeIndex,
}

impl Joins {
    /// Returns the nesting depth of each fan-out, counted from the innermost one and up to a limit, inner ones first.
    ///
    /// If the graph needs too many steps, the result is incomplete.
    pub(crate) fn depths(&self, limit: u32) -> Vec<(NodeIndex, u32)> {
        let mut depths = vec![0u32; self.join.len()];
        let mut found = Vec::new();
        let mut walk = Walk::new(self);
        for fan_out in &self.order {
            let mut deepest = 0;
            let whole = walk.block(*fan_out, |at| {
                deepest = deepest.max(depths[at as usize]);
                // Stop as soon as the limit is reached.
                deepest + 1 < limit
            });
            if !whole {
                return found;
            }
            depths[fan_out.at()] = deepest + 1;
            found.push((*fan_out, deepest + 1));
        }
        found
    }

    /// Returns for each node whether it runs in a branch.
    ///
    /// If the graph needs too many steps, the result is incomplete.
    pub(crate) fn in_branches(&self) -> Vec<bool> {
        let mut inside = vec![false; self.join.len()];
        let mut walk = Walk::new(self);
        for fan_out in &self.order {
            let whole = walk.block(*fan_out, |at| {
                inside[at as usize] = true;
                true
            });
            if !whole {
                break;
            }
        }
        inside
    }

    /// Returns the edges inside branches that lead to the branch's own fan-out, or to a node that the run passed before
    /// it.
    ///
    /// If the graph needs too many steps, the result is incomplete.
    pub(crate) fn reentries(&self, analysis: &Analysis<'_>) -> Vec<Reentry> {
        let graph = analysis.graph();
        let mut found: BTreeMap<EdgeIndex, NodeIndex> = BTreeMap::new();
        let mut seen = Marks::new(self.join.len());
        let mut steps = self.patience();
        for fan_out in &self.order {
            let Some(join) = self.join(*fan_out) else {
                continue;
            };
            // If the join is before the fan-out, an edge to an earlier node is on the regular path.
            let direct_only = self.leads_to(join.0, *fan_out);
            seen.clear();
            let mut stack = vec![*fan_out];
            while let Some(at) = stack.pop() {
                for edge in analysis.outgoing(at) {
                    let Some(left) = steps.checked_sub(1) else {
                        return listed(found);
                    };
                    steps = left;
                    let row = graph.edge(*edge);
                    if row.to == join || (at != *fan_out && row.attributes.flag(Known::LoopRestart)) {
                        continue;
                    }
                    if row.to == *fan_out {
                        found.insert(*edge, *fan_out);
                    } else if !self.leads_to(row.to.0, *fan_out) {
                        if seen.mark(row.to.0) {
                            stack.push(row.to);
                        }
                    } else if !direct_only {
                        // Report the innermost block, unless the edge leads directly to an outer fan-out.
                        found.entry(*edge).or_insert(*fan_out);
                    }
                }
            }
        }
        listed(found)
    }

    /// Returns whether a node is the fan-out, or was on the path by which a walk from the start came to it.
    fn leads_to(&self, node: u32, fan_out: NodeIndex) -> bool {
        self.left[node as usize] >= self.left[fan_out.at()]
    }

    fn patience(&self) -> usize {
        16 * self.join.len() + 2_000_000
    }
}

/// Walks through blocks, with a limit on the total number of steps.
struct Walk<'j> {
    joins: &'j Joins,
    seen: Marks,
    steps: usize,
}

impl Walk<'_> {
    fn new(joins: &Joins) -> Walk<'_> {
        Walk {
            joins,
            seen: Marks::new(joins.join.len()),
            steps: joins.patience(),
        }
    }

    /// Visits the nodes between a fan-out and its join on its own level until the visitor returns `false`. Returns
    /// `false` if no steps are left.
    fn block(&mut self, fan_out: NodeIndex, mut visit: impl FnMut(u32) -> bool) -> bool {
        let joins = self.joins;
        let Some(join) = joins.join(fan_out) else {
            return true;
        };
        self.seen.clear();
        self.seen.mark(join.0);
        let mut stack = joins.level.edges(fan_out.0).to_vec();
        while let Some(at) = stack.pop() {
            if joins.leads_to(at, fan_out) || !self.seen.mark(at) {
                continue;
            }
            let next = joins.level.steps(at);
            let Some(left) = self.steps.checked_sub(1 + next.len()) else {
                return false;
            };
            self.steps = left;
            if !visit(at) {
                break;
            }
            stack.extend(next);
        }
        true
    }
}

fn listed(found: BTreeMap<EdgeIndex, NodeIndex>) -> Vec<Reentry> {
    let found = found.into_iter();
    found.map(|(edge, fan_out)| Reentry { edge, fan_out }).collect()
}
