//! The tree of postdominators: the nodes that every path to the exit passes (Lengauer and Tarjan, 1979).

use super::level::Level;

/// Marks a node without a path to the exit.
const NONE: u32 = u32::MAX;

pub(super) struct Tree {
    /// The immediate postdominator of each node: the nearest node that every path to the exit passes.
    above: Vec<u32>,
    /// The position of each node in a walk of the tree. `leave` is the position after the last node below it.
    enter: Vec<u32>,
    leave: Vec<u32>,
    /// `true` if a fan-out was resolved later, with a join that differs from the tree.
    pub(super) stale: bool,
}

impl Tree {
    pub(super) fn new(level: &Level, exit: u32) -> Tree {
        let (order, parent, position) = walk(level, exit);
        let above = Eval::new(parent).dominators(|at| {
            let steps = level.all_steps(order[at as usize]).iter();
            steps.map(|to| position[*to as usize]).filter(|to| *to != NONE)
        });
        let mut tree = Tree {
            above: vec![NONE; level.len()],
            enter: vec![0; level.len()],
            leave: vec![0; level.len()],
            stale: false,
        };
        // Indices are positions of the walk, in which a node comes after its postdominator.
        let count = order.len();
        let mut size = vec![1u32; count];
        for at in (1..count).rev() {
            size[above[at] as usize] += size[at];
        }
        let mut next = vec![1u32; count];
        for (at, node) in order.iter().map(|node| *node as usize).enumerate() {
            if at > 0 {
                let up = above[at] as usize;
                tree.above[node] = order[up];
                tree.enter[node] = next[up];
                next[up] += size[at];
                next[at] = tree.enter[node] + 1;
            }
            tree.leave[node] = tree.enter[node] + size[at];
        }
        tree
    }

    /// Returns the immediate postdominator of a node. Returns `None` for the exit, and if no path leads to the exit.
    pub(super) fn above(&self, at: u32) -> Option<u32> {
        let above = self.above[at as usize];
        (above != NONE).then_some(above)
    }

    /// Returns whether every path from a node to the exit passes `above`. A node passes itself.
    fn is_under(&self, at: u32, above: u32) -> bool {
        let [at, above] = [at as usize, above as usize];
        (self.enter[above]..self.leave[above]).contains(&self.enter[at])
    }

    /// Returns the nearest node that every branch of an unresolved fan-out must pass. Returns `None` if a branch
    /// reaches the exit only through the fan-out, or not at all.
    pub(super) fn must_pass(&self, fan_out: u32, branches: &[u32]) -> Option<u32> {
        // Every path of an unresolved fan-out begins with one of its branches.
        let above = self.above(fan_out)?;
        self.behind_first(fan_out, branches, above)
    }

    /// Like `must_pass`, for a fan-out that has a join and therefore leads directly there.
    pub(super) fn common(&self, fan_out: u32, branches: &[u32]) -> Option<u32> {
        let mut common = *branches.first()?;
        for branch in branches {
            while !self.is_under(*branch, common) {
                common = self.above(common)?;
            }
        }
        self.behind_first(fan_out, branches, common)
    }

    /// Returns `common`, or the next node if all branches begin with the same node: they run that node and do not end
    /// before it. Returns `None` if a branch reaches the exit only through the fan-out, or not at all.
    fn behind_first(&self, fan_out: u32, branches: &[u32], common: u32) -> Option<u32> {
        let gets_through = |at: &u32| self.leave[*at as usize] > 0 && !self.is_under(*at, fan_out);
        if !branches.iter().all(gets_through) {
            return None;
        }
        match branches {
            [only] => Some(self.above(*only).unwrap_or(common)),
            _ => Some(common),
        }
    }
}

/// Walks depth first backwards from the exit. Returns the visited nodes in order, the position of each one's parent,
/// and the position of every node.
fn walk(level: &Level, exit: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut position = vec![NONE; level.len()];
    let (mut order, mut parent) = (Vec::new(), Vec::new());
    let mut stack = vec![(exit, 0)];
    while let Some((at, from)) = stack.pop() {
        if position[at as usize] != NONE {
            continue;
        }
        let here = order.len() as u32;
        position[at as usize] = here;
        order.push(at);
        parent.push(from);
        stack.extend(level.all_steps_into(at).map(|before| (before, here)));
    }
    (order, parent, position)
}

/// The forest of Lengauer and Tarjan, indexed by the positions of a depth-first walk.
struct Eval {
    parent: Vec<u32>,
    semi: Vec<u32>,
    ancestor: Vec<u32>,
    best: Vec<u32>,
    path: Vec<u32>,
}

impl Eval {
    fn new(parent: Vec<u32>) -> Eval {
        let positions = 0..parent.len() as u32;
        Eval {
            semi: positions.clone().collect(),
            ancestor: vec![NONE; parent.len()],
            best: positions.collect(),
            path: Vec::new(),
            parent,
        }
    }

    /// Returns the immediate dominator of each position. `next` returns the positions from which the walk could reach a
    /// position.
    fn dominators<N: Iterator<Item = u32>>(mut self, next: impl Fn(u32) -> N) -> Vec<u32> {
        let count = self.parent.len();
        let mut dominator = vec![0u32; count];
        // The positions that have the same semidominator, as linked lists.
        let (mut waiting, mut following) = (vec![NONE; count], vec![NONE; count]);
        for at in (1..count as u32).rev() {
            for from in next(at) {
                let best = self.eval(from);
                let semi = self.semi[best as usize];
                self.semi[at as usize] = self.semi[at as usize].min(semi);
            }
            let semi = self.semi[at as usize] as usize;
            following[at as usize] = std::mem::replace(&mut waiting[semi], at);
            let parent = self.parent[at as usize];
            self.ancestor[at as usize] = parent;
            let mut waits = std::mem::replace(&mut waiting[parent as usize], NONE);
            while waits != NONE {
                let best = self.eval(waits);
                let nearer = self.semi[best as usize] < self.semi[waits as usize];
                dominator[waits as usize] = if nearer { best } else { parent };
                waits = following[waits as usize];
            }
        }
        for at in 1..count {
            if dominator[at] != self.semi[at] {
                dominator[at] = dominator[dominator[at] as usize];
            }
        }
        dominator
    }

    /// Returns the position with the least semidominator between a position and the root of its tree. Compresses the
    /// path.
    fn eval(&mut self, at: u32) -> u32 {
        let mut top = at;
        while self.ancestor[top as usize] != NONE {
            self.path.push(top);
            top = self.ancestor[top as usize];
        }
        // As in the original algorithm, the root itself is not compared.
        let mut above = None;
        while let Some(position) = self.path.pop() {
            if let Some(above) = above {
                let (mine, other) = (self.best[position as usize], self.best[above as usize]);
                if self.semi[other as usize] < self.semi[mine as usize] {
                    self.best[position as usize] = other;
                }
                self.ancestor[position as usize] = top;
            }
            above = Some(position);
        }
        self.best[at as usize]
    }
}
