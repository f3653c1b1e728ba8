//! Where one can get from each node: adjacency as the checks and the joins walk it.

/// Where one can get from each node, in rows.
#[derive(Default)]
pub(crate) struct Ways {
    starts: Vec<u32>,
    to: Vec<u32>,
}

impl Ways {
    pub(crate) fn new<P: Iterator<Item = (u32, u32)>>(nodes: usize, pairs: impl Fn() -> P) -> Ways {
        let mut starts = vec![0u32; nodes + 1];
        for (from, _) in pairs() {
            starts[from as usize + 1] += 1;
        }
        for at in 0..nodes {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut to = vec![0; starts[nodes] as usize];
        for (from, target) in pairs() {
            let slot = &mut next[from as usize];
            to[*slot as usize] = target;
            *slot += 1;
        }
        Ways { starts, to }
    }

    /// Where one can get from a node at once.
    pub(crate) fn of(&self, at: usize) -> &[u32] {
        let bounds = self.starts.get(at..at + 2);
        bounds
            .and_then(|bounds| self.to.get(bounds[0] as usize..bounds[1] as usize))
            .unwrap_or_default()
    }

    /// The nodes to which one can get from some nodes, with these.
    pub(crate) fn walk(&self, roots: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut seen = vec![false; self.starts.len().saturating_sub(1)];
        for root in roots {
            self.walk_on(root, &mut seen, |_| true);
        }
        seen
    }

    /// Walks on from a node through nodes that pass a test, where no walk has been.
    pub(crate) fn walk_on(&self, root: usize, seen: &mut [bool], passes: impl Fn(usize) -> bool) {
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            if passes(at) && seen.get(at).is_some_and(|seen| !seen) {
                seen[at] = true;
                stack.extend(self.of(at).iter().map(|to| *to as usize));
            }
        }
    }

    /// From each group of the nodes `among` that no other of them leads to, one node.
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
                let Some(to) = self.of(*at).get(*next) else {
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
        // In the reverse order of finishing, the first node not yet walked is never led to by a later one.
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
