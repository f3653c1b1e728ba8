//! A level of a graph, in which each resolved fan-out leads directly to its join.

use crate::search::Digraph;

/// Marks a node without a join: its steps are its edges.
const PLAIN: u32 = u32::MAX;
/// Marks an unresolved fan-out: a branch that reaches it lies inside its block.
const OPEN: u32 = u32::MAX - 1;

pub(super) struct Level {
    forward: Digraph,
    backward: Digraph,
    /// The join of each resolved fan-out; `PLAIN` or `OPEN` for all other nodes.
    join: Vec<u32>,
    /// The fan-outs that each node joins, including those that it joined earlier.
    joined: Vec<Vec<u32>>,
}

impl Level {
    pub(super) fn new(forward: Digraph, backward: Digraph, fan_outs: &[bool]) -> Level {
        Level {
            forward,
            backward,
            join: fan_outs
                .iter()
                .map(|open| if *open { OPEN } else { PLAIN })
                .collect(),
            joined: vec![Vec::new(); fan_outs.len()],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.join.len()
    }

    /// Returns the targets of a node's edges.
    pub(super) fn edges(&self, at: u32) -> &[u32] {
        self.forward.successors(at as usize)
    }

    /// Sets the join of a fan-out. Without a join, its branches are treated like ordinary paths.
    pub(super) fn set_join(&mut self, at: u32, join: Option<u32>) {
        self.join[at as usize] = join.unwrap_or(PLAIN);
        if let Some(join) = join {
            self.joined[join as usize].push(at);
        }
    }

    /// Returns the join of a fan-out, if it has one.
    pub(super) fn join(&self, at: u32) -> Option<u32> {
        match self.join[at as usize] {
            PLAIN | OPEN => None,
            join => Some(join),
        }
    }

    /// Returns whether the steps of a node are its edges.
    pub(super) fn is_plain(&self, at: u32) -> bool {
        self.join[at as usize] == PLAIN
    }

    /// Returns the nodes one step after a node; none for an unresolved fan-out.
    pub(super) fn steps(&self, at: u32) -> &[u32] {
        match &self.join[at as usize] {
            &PLAIN => self.edges(at),
            &OPEN => &[],
            join => std::slice::from_ref(join),
        }
    }

    /// Like `steps`, but includes the edges of an unresolved fan-out.
    pub(super) fn all_steps(&self, at: u32) -> &[u32] {
        match self.join[at as usize] {
            OPEN => self.edges(at),
            _ => self.steps(at),
        }
    }

    /// Returns the nodes that lead to a node by an edge.
    pub(super) fn edges_into(&self, at: u32) -> impl Iterator<Item = u32> {
        let into = self.backward.successors(at as usize).iter().copied();
        into.filter(|from| self.is_plain(*from))
    }

    /// Returns the nodes one step before a node.
    pub(super) fn steps_into(&self, at: u32) -> impl Iterator<Item = u32> {
        self.edges_into(at).chain(self.fan_outs_into(at))
    }

    /// Like `steps_into`, but includes the edges of unresolved fan-outs.
    pub(super) fn all_steps_into(&self, at: u32) -> impl Iterator<Item = u32> {
        let into = self.backward.successors(at as usize).iter().copied();
        into.filter(|from| matches!(self.join[*from as usize], PLAIN | OPEN))
            .chain(self.fan_outs_into(at))
    }

    /// Returns the fan-outs whose join is this node.
    pub(super) fn fan_outs_into(&self, at: u32) -> impl Iterator<Item = u32> {
        let joined = self.joined[at as usize].iter().copied();
        joined.filter(move |fan_out| self.join[*fan_out as usize] == at)
    }

    /// Marks the nodes that lead to one of `some`, but not to `not`.
    pub(super) fn lead_to(&self, some: impl Iterator<Item = u32>, not: Option<u32>) -> Vec<bool> {
        let mut found = self.backward.walk(some.map(|at| at as usize));
        if found.contains(&true) {
            let others = self.backward.walk(not.map(|at| at as usize));
            found
                .iter_mut()
                .zip(others)
                .for_each(|(found, other)| *found &= !other);
        }
        found
    }

    /// Returns all nodes in depth-first postorder along the edges, starting with the roots.
    pub(super) fn finished(&self, roots: impl Iterator<Item = usize>) -> Vec<u32> {
        let mut seen = vec![false; self.len()];
        let mut finished = Vec::with_capacity(self.len());
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for root in roots.chain(0..self.len()) {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            stack.push((root as u32, 0));
            while let Some((at, next)) = stack.last_mut() {
                let Some(to) = self.forward.successors(*at as usize).get(*next) else {
                    finished.push(*at);
                    stack.pop();
                    continue;
                };
                *next += 1;
                if !std::mem::replace(&mut seen[*to as usize], true) {
                    stack.push((*to, 0));
                }
            }
        }
        finished
    }
}
