//! Which nodes every way to the exit passes: the tree of postdominators (Lengauer and Tarjan, 1979).

use super::level::Level;

/// For a node that no way leads from to the exit.
const NONE: u32 = u32::MAX;

pub(super) struct Tree {
    /// The nearest node that every way from a node to the exit passes.
    above: Vec<u32>,
    /// The place of each node in a walk through the tree, and behind the last one under it.
    enter: Vec<u32>,
    leave: Vec<u32>,
    /// Whether a fan-out was settled since, with another join than the tree says.
    pub(super) stale: bool,
}

impl Tree {
    pub(super) fn new(level: &Level, exit: u32) -> Tree {
        let (order, parent, place) = walk(level, exit);
        let above = Eval::new(parent).dominators(|at| {
            let steps = level.all_steps(order[at as usize]).iter();
            steps.map(|to| place[*to as usize]).filter(|to| *to != NONE)
        });
        let mut tree = Tree {
            above: vec![NONE; level.len()],
            enter: vec![0; level.len()],
            leave: vec![0; level.len()],
            stale: false,
        };
        // Places are those of the walk, in which a node stands behind the one above it.
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

    /// The nearest node that every way from a node to the exit passes; `None` at the exit and where no way leads to it.
    pub(super) fn above(&self, at: u32) -> Option<u32> {
        let above = self.above[at as usize];
        (above != NONE).then_some(above)
    }

    /// Whether every way to the exit from a node passes another; also for the node itself.
    fn is_under(&self, at: u32, above: u32) -> bool {
        let [at, above] = [at as usize, above as usize];
        (self.enter[above]..self.leave[above]).contains(&self.enter[at])
    }

    /// The nearest node that every branch of an open fan-out must pass; `None` where a branch gets to the exit only
    /// through the fan-out, or not at all.
    pub(super) fn must_pass(&self, fan_out: u32, branches: &[u32]) -> Option<u32> {
        // Its own ways begin with its branches.
        let above = self.above(fan_out)?;
        self.behind_first(fan_out, branches, above)
    }

    /// The same for a fan-out that has a join, whose own way leads there.
    pub(super) fn common(&self, fan_out: u32, branches: &[u32]) -> Option<u32> {
        let mut common = *branches.first()?;
        for branch in branches {
            while !self.is_under(*branch, common) {
                common = self.above(common)?;
            }
        }
        self.behind_first(fan_out, branches, common)
    }

    /// Where all branches begin with one node, the next one: they run that, and do not end before it.
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

/// The nodes that a depth-first walk back from the exit meets, the place from which it met each, and all places.
fn walk(level: &Level, exit: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut place = vec![NONE; level.len()];
    let (mut order, mut parent) = (Vec::new(), Vec::new());
    let mut stack = vec![(exit, 0)];
    while let Some((at, from)) = stack.pop() {
        if place[at as usize] != NONE {
            continue;
        }
        let here = order.len() as u32;
        place[at as usize] = here;
        order.push(at);
        parent.push(from);
        stack.extend(level.all_steps_into(at).map(|before| (before, here)));
    }
    (order, parent, place)
}

/// The forest of Lengauer and Tarjan, over the places of a depth-first walk.
struct Eval {
    parent: Vec<u32>,
    semi: Vec<u32>,
    ancestor: Vec<u32>,
    best: Vec<u32>,
    path: Vec<u32>,
}

impl Eval {
    fn new(parent: Vec<u32>) -> Eval {
        let places = 0..parent.len() as u32;
        Eval {
            semi: places.clone().collect(),
            ancestor: vec![NONE; parent.len()],
            best: places.collect(),
            path: Vec::new(),
            parent,
        }
    }

    /// The immediate dominator of each place; `next` are the places from which the walk could come to one.
    fn dominators<N: Iterator<Item = u32>>(mut self, next: impl Fn(u32) -> N) -> Vec<u32> {
        let count = self.parent.len();
        let mut dominator = vec![0u32; count];
        // The places that wait for a semidominator, in lists.
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

    /// The place of least semidominator between a place and the root of its tree, with the path compressed.
    fn eval(&mut self, at: u32) -> u32 {
        let mut top = at;
        while self.ancestor[top as usize] != NONE {
            self.path.push(top);
            top = self.ancestor[top as usize];
        }
        // The root itself is not compared, as in the original.
        let mut above = None;
        while let Some(place) = self.path.pop() {
            if let Some(above) = above {
                let (mine, other) = (self.best[place as usize], self.best[above as usize]);
                if self.semi[other as usize] < self.semi[mine as usize] {
                    self.best[place as usize] = other;
                }
                self.ancestor[place as usize] = top;
            }
            above = Some(place);
        }
        self.best[at as usize]
    }
}
