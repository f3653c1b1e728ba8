//! A graph of successors and the searches in it, for the checks and the joins.

use crate::adjacency::Adjacency;

/// A directed graph, as the successors of each node.
#[derive(Default)]
pub(crate) struct Digraph {
    successors: Adjacency<u32>,
}

impl Digraph {
    pub(crate) fn new<P: Iterator<Item = (u32, u32)>>(nodes: usize, pairs: impl Fn() -> P) -> Digraph {
        Digraph {
            successors: Adjacency::new(nodes, pairs),
        }
    }

    /// Returns the direct successors of a node.
    pub(crate) fn successors(&self, at: usize) -> &[u32] {
        self.successors.get(at)
    }

    /// Returns the nodes that are reachable from the roots, including the roots.
    pub(crate) fn walk(&self, roots: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut seen = vec![false; self.successors.nodes()];
        for root in roots {
            self.walk_on(root, &mut seen, |_| true);
        }
        seen
    }

    /// Continues a search from a node through unvisited nodes that pass a test.
    pub(crate) fn walk_on(&self, root: usize, seen: &mut [bool], passes: impl Fn(usize) -> bool) {
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            if passes(at) && seen.get(at).is_some_and(|seen| !seen) {
                seen[at] = true;
                stack.extend(self.successors(at).iter().map(|to| *to as usize));
            }
        }
    }

    /// Returns one node of each source group of the nodes `among`, sorted. A source group is a strongly connected group
    /// of nodes that no other node of `among` leads to.
    pub(crate) fn sources(&self, among: &[bool]) -> Vec<usize> {
        let inside = |at: usize| among.get(at).copied().unwrap_or(false);
        let mut seen = vec![false; among.len()];
        let mut finished = Vec::new();
        for root in (0..among.len()).filter(|at| inside(*at)) {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let mut stack = vec![(root, 0)];
            while let Some((at, next)) = stack.last_mut() {
                let Some(to) = self.successors(*at).get(*next) else {
                    finished.push(*at);
                    stack.pop();
                    continue;
                };
                *next += 1;
                let to = *to as usize;
                if inside(to) && !std::mem::replace(&mut seen[to], true) {
                    stack.push((to, 0));
                }
            }
        }
        // In reverse order of finishing, no later node outside its group leads to the first unvisited node.
        seen.fill(false);
        let mut sources = Vec::new();
        for at in finished.into_iter().rev() {
            if !seen[at] {
                sources.push(at);
                self.walk_on(at, &mut seen, inside);
            }
        }
        sources.sort_unstable();
        sources
    }
}
