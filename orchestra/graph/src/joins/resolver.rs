//! Resolves the join of each fan-out, inner fan-outs before outer ones.

use super::level::Level;
use super::search::{Search, Wanted};
use super::tree::Tree;

pub(super) struct JoinResolver<'j> {
    level: &'j mut Level,
    /// The position of each node in depth-first postorder from the start.
    left: &'j [u32],
    exit: Option<u32>,
    /// The nodes from which a run can only restart.
    only_restarts: Vec<bool>,
    search: Search,
    tree: Option<Tree>,
}

impl<'j> JoinResolver<'j> {
    pub(super) fn new(
        level: &'j mut Level,
        left: &'j [u32],
        fan_ins: Vec<bool>,
        exit: Option<u32>,
        only_restarts: Vec<bool>,
    ) -> JoinResolver<'j> {
        JoinResolver {
            search: Search::new(level, fan_ins),
            level,
            left,
            exit,
            only_restarts,
            tree: None,
        }
    }

    /// Finds the join of a fan-out. The fan-outs inside its branches must already be resolved.
    pub(super) fn resolve(&mut self, at: u32) {
        let branches = self.branches(at);
        let found = self.find(at, &branches);
        self.give(at, found);
        // A block that gets a nearer join may share it with a block inside it, which then needs a nearer one as well.
        let mut changed: Vec<(u32, u32)> = found.map(|join| (at, join)).into_iter().collect();
        while let Some((at, join)) = changed.pop() {
            // Find all of them before changing any, so that their order does not matter.
            let nearer = self.nearer(at, join);
            for (inner, before) in &nearer {
                self.give(*inner, Some(*before));
            }
            changed.extend(nearer);
        }
    }

    /// Returns the first nodes of the branches, each once. Branches that can only restart the run are ignored, unless
    /// all of them do.
    fn branches(&self, at: u32) -> Vec<u32> {
        let mut branches = self.level.edges(at).to_vec();
        if branches
            .iter()
            .any(|branch| !self.only_restarts[*branch as usize])
        {
            branches.retain(|branch| !self.only_restarts[*branch as usize]);
        }
        branches.sort_unstable();
        branches.dedup();
        branches
    }

    fn find(&mut self, at: u32, branches: &[u32]) -> Option<u32> {
        if branches.is_empty() {
            return None;
        }
        self.nearest(at, branches, Wanted::Own, None).or_else(|| {
            let passed = self.refresh().and_then(|tree| tree.must_pass(at, branches));
            self.nearest(at, branches, Wanted::Shared, passed)
                .or(passed)
                .or_else(|| self.search.meeting(self.level, at, branches))
        })
    }

    fn nearest(&mut self, at: u32, branches: &[u32], wanted: Wanted, last: Option<u32>) -> Option<u32> {
        let inside = inside(self.left, at);
        self.search.nearest(self.level, branches, wanted, last, inside)
    }

    /// Returns the tree, rebuilt for the current joins if it is stale and enough steps are left.
    fn refresh(&mut self) -> Option<&Tree> {
        let exit = self.exit?;
        let stale = self.tree.as_ref().is_none_or(|tree| tree.stale);
        if self.tree.is_none() || (stale && self.search.spend(self.level.len())) {
            self.tree = Some(Tree::new(self.level, exit));
        }
        self.tree.as_ref()
    }

    fn give(&mut self, at: u32, join: Option<u32>) {
        if let Some(tree) = &mut self.tree {
            // A join that the tree did not predict changes the tree.
            tree.stale |= join.is_some() && tree.above(at) != join;
        }
        self.level.set_join(at, join);
        self.search.add_resolved(self.level, at);
    }

    /// Returns the inner blocks that share the fan-in of an outer block although their branches must all pass some node
    /// before it, each with that node. The fan-in remains the join of the outer block.
    fn nearer(&mut self, at: u32, join: u32) -> Vec<(u32, u32)> {
        let shared = self.level.fan_outs_into(join).any(|other| other != at);
        if !shared || !self.search.is_fan_in(join) {
            return Vec::new();
        }
        let branches = self.branches(at);
        let inner = self
            .search
            .sharing(self.level, &branches, join, inside(self.left, at));
        let mut nearer = Vec::new();
        for at in inner {
            let branches = self.branches(at);
            let before = self.refresh().and_then(|tree| tree.common(at, &branches));
            let Some(before) = before.filter(|before| *before != join) else {
                continue;
            };
            let beside = self.nearest(at, &branches, Wanted::Own, Some(before));
            if beside != Some(join) && self.search.spend(1) {
                nearer.push((at, before));
            }
        }
        nearer
    }
}

/// Returns a test for nodes that finish before a fan-out in postorder. Any other node that a branch reaches leads back
/// to the fan-out: the run passed it before and would pass it again.
fn inside(left: &[u32], fan_out: u32) -> impl Fn(u32) -> bool + use<'_> {
    let before = left[fan_out as usize];
    move |node| left[node as usize] < before
}
