//! The search for the nearest node that every branch of a fan-out reaches.

use super::level::Level;

/// Marks the absence of a step.
const NONE: u32 = u32::MAX;

/// The fan-ins that a search looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Fan-ins that are reached by an edge.
    Own,
    /// All fan-ins, including those that are reached only from the end of an inner block.
    Shared,
}

/// Marks of nodes that can be cleared all at once.
pub(super) struct Marks {
    marks: Vec<u32>,
    present: u32,
}

impl Marks {
    pub(super) fn new(nodes: usize) -> Marks {
        Marks {
            marks: vec![0; nodes],
            present: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.present += 1;
    }

    /// Marks a node. Returns `false` if it is already marked.
    pub(super) fn mark(&mut self, at: u32) -> bool {
        std::mem::replace(&mut self.marks[at as usize], self.present) != self.present
    }
}

/// The nodes that a walk from the branches reached, with the steps that it took.
#[derive(Default)]
struct Walk {
    nodes: Vec<Met>,
    /// The steps into nodes of the walk, each with the index of the previous step into the same node.
    steps: Vec<(Step, u32)>,
    candidates: Vec<u32>,
    walks_back: u32,
}

struct Met {
    at: u32,
    is_branch: bool,
    by_edge: bool,
    /// The index of the last step that leads to it.
    last_step: u32,
    /// The number of the backward walk that last reached it.
    back: u32,
}

struct Step {
    from: u32,
    is_edge: bool,
}

/// The state of all searches for joins in a graph. The searches share the buffers, because new buffers for each search
/// would take quadratic time.
pub(super) struct Search {
    fan_in: Vec<bool>,
    /// `true` for each node with a path to a fan-in whose last step is an edge. `to_shared` accepts any last step.
    to_own: Vec<bool>,
    to_shared: Vec<bool>,
    /// The steps left for all searches together. `left_meeting` is the separate limit of `meeting`.
    left: usize,
    left_meeting: usize,
    seen: Marks,
    /// The index in the walk of each node that was seen.
    position: Vec<u32>,
    /// The number of branches that reached each node, counted from `base`. `farthest` is the longest distance of a
    /// branch.
    met: Vec<u32>,
    farthest: Vec<u32>,
    base: u32,
}

impl Search {
    pub(super) fn new(level: &Level, fan_in: Vec<bool>) -> Search {
        let nodes = level.len();
        let edges: usize = (0..nodes as u32).map(|at| level.edges(at).len()).sum();
        let mut search = Search {
            to_own: vec![false; nodes],
            to_shared: vec![false; nodes],
            left: 32 * (nodes + edges) + 10_000_000,
            left_meeting: 32 * (nodes + edges),
            seen: Marks::new(nodes),
            position: vec![0; nodes],
            met: vec![0; nodes],
            farthest: vec![0; nodes],
            base: 0,
            fan_in,
        };
        for at in (0..nodes as u32).filter(|at| level.is_plain(*at)) {
            search.add_resolved(level, at);
        }
        search
    }

    pub(super) fn is_fan_in(&self, at: u32) -> bool {
        self.fan_in[at as usize]
    }

    /// Uses up some steps. Returns `false` if none are left.
    pub(super) fn spend(&mut self, steps: usize) -> bool {
        self.left = self.left.saturating_sub(steps);
        self.left > 0
    }

    /// Records whether a node leads to a fan-in, once its steps are known.
    pub(super) fn add_resolved(&mut self, level: &Level, at: u32) {
        let steps = level.steps(at);
        let fan_in = |to: &u32| self.fan_in[*to as usize];
        let own = steps
            .iter()
            .any(|to| self.to_own[*to as usize] || level.is_plain(at) && fan_in(to));
        let shared = steps.iter().any(|to| self.to_shared[*to as usize] || fan_in(to));
        if own {
            spread(level, &mut self.to_own, at);
        }
        if shared {
            spread(level, &mut self.to_shared, at);
        }
    }

    /// Returns the nearest wanted node that every branch reaches through nodes that pass the test `inside`, not going
    /// beyond `last`.
    pub(super) fn nearest(
        &mut self,
        level: &Level,
        branches: &[u32],
        wanted: Wanted,
        last: Option<u32>,
        inside: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let leads = match wanted {
            Wanted::Own => &self.to_own,
            Wanted::Shared => &self.to_shared,
        };
        let promising = |at: &u32| inside(*at) && (leads[*at as usize] || self.fan_in[*at as usize]);
        if self.left == 0 || !branches.iter().all(promising) {
            return None;
        }
        self.seen.clear();
        let mut walk = Walk::default();
        for branch in branches {
            let position = self.meet(&mut walk, *branch, wanted, true);
            walk.nodes[position as usize].is_branch = true;
        }
        // A candidate is certain once its distance from every branch is within the walk so far. So the walk grows by
        // doubling, and nodes far after the block cost nothing.
        let (mut next, mut walked, mut limit) = (0, 0, 2);
        loop {
            while walked < limit && next < walk.nodes.len() {
                walked += 1;
                let end = walk.nodes.len();
                for position in std::mem::replace(&mut next, end)..end {
                    let at = walk.nodes[position].at;
                    if Some(at) == last {
                        continue;
                    }
                    let is_edge = level.is_plain(at);
                    for to in level.steps(at).iter().copied().filter(|to| inside(*to)) {
                        let to = self.meet(&mut walk, to, wanted, is_edge) as usize;
                        let step = Step {
                            from: position as u32,
                            is_edge,
                        };
                        let earlier =
                            std::mem::replace(&mut walk.nodes[to].last_step, walk.steps.len() as u32);
                        walk.steps.push((step, earlier));
                    }
                    if !self.spend(1 + level.steps(at).len()) {
                        return None;
                    }
                }
            }
            let ended = next == walk.nodes.len();
            let limit_back = if ended { usize::MAX } else { walked };
            let mut nearest = None;
            for position in walk.candidates.clone() {
                let steps = self.farthest(&mut walk, position, branches.len(), wanted, limit_back);
                let found = steps.map(|steps| (steps, walk.nodes[position as usize].at));
                nearest = nearest.into_iter().chain(found).min();
            }
            if nearest.is_some() || ended || self.left == 0 {
                return if self.left > 0 {
                    nearest.map(|(_, at)| at)
                } else {
                    None
                };
            }
            limit *= 2;
        }
    }

    /// Returns the index of a node in the walk. Adds the node if the walk has not reached it before.
    fn meet(&mut self, walk: &mut Walk, at: u32, wanted: Wanted, by_edge: bool) -> u32 {
        let new = self.seen.mark(at);
        if new {
            self.position[at as usize] = walk.nodes.len() as u32;
            walk.nodes.push(Met {
                at,
                is_branch: false,
                by_edge: false,
                last_step: NONE,
                back: 0,
            });
        }
        let position = self.position[at as usize];
        let newly_by_edge = by_edge && !std::mem::replace(&mut walk.nodes[position as usize].by_edge, true);
        let counts = match wanted {
            Wanted::Own => newly_by_edge,
            Wanted::Shared => new,
        };
        if counts && self.fan_in[at as usize] {
            walk.candidates.push(position);
        }
        position
    }

    /// Returns the number of steps from the farthest branch to a node of the walk. Returns `None` if a branch needs
    /// more steps than the limit, or has no path.
    fn farthest(
        &mut self,
        walk: &mut Walk,
        to: u32,
        branches: usize,
        wanted: Wanted,
        limit: usize,
    ) -> Option<usize> {
        walk.walks_back += 1;
        let mark = walk.walks_back;
        let mut missing = branches;
        let mut frontier = vec![to];
        let mut walked = 0;
        loop {
            // A cycle can lead back to the node itself, which must be counted only once.
            let counts = |at: &&u32| walk.nodes[**at as usize].is_branch && (walked == 0 || **at != to);
            missing -= frontier.iter().filter(counts).count();
            if missing == 0 {
                return Some(walked);
            }
            if frontier.is_empty() || walked == limit {
                return None;
            }
            let only_edges = walked == 0 && wanted == Wanted::Own;
            let mut steps = frontier.len();
            for at in std::mem::take(&mut frontier) {
                let mut step = walk.nodes[at as usize].last_step;
                while let Some((Step { from, is_edge }, earlier)) = walk.steps.get(step as usize) {
                    let before = &mut walk.nodes[*from as usize].back;
                    if (*is_edge || !only_edges) && std::mem::replace(before, mark) != mark {
                        frontier.push(*from);
                    }
                    step = *earlier;
                    steps += 1;
                }
            }
            if !self.spend(steps) {
                return None;
            }
            walked += 1;
        }
    }

    /// Returns the fan-outs inside the branches of another that have the same join, in the order of the file.
    pub(super) fn sharing(
        &mut self,
        level: &Level,
        branches: &[u32],
        join: u32,
        inside: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        self.seen.clear();
        self.seen.mark(join);
        let mut stack = branches.to_vec();
        let mut sharing = Vec::new();
        while let Some(at) = stack.pop() {
            if !inside(at) || !self.seen.mark(at) {
                continue;
            }
            let steps = level.steps(at);
            if !self.spend(1 + steps.len()) {
                return Vec::new();
            }
            if level.join(at) == Some(join) {
                sharing.push(at);
            }
            stack.extend(steps);
        }
        sharing.sort_unstable();
        sharing
    }

    /// Returns the nearest node of any kind that every branch reaches without passing its fan-out.
    pub(super) fn meeting(&mut self, level: &Level, fan_out: u32, branches: &[u32]) -> Option<u32> {
        let base = self.base;
        self.base += branches.len() as u32;
        let mut meeting = Vec::new();
        for (position, branch) in branches.iter().enumerate() {
            let before = base + position as u32;
            meeting.clear();
            self.seen.clear();
            self.seen.mark(fan_out);
            let (mut frontier, mut walked) = (vec![*branch], 0);
            while !frontier.is_empty() {
                for at in std::mem::take(&mut frontier) {
                    if !self.seen.mark(at) {
                        continue;
                    }
                    let node = at as usize;
                    if position == 0 || self.met[node] == before {
                        let farther = if position == 0 { 0 } else { self.farthest[node] };
                        self.met[node] = before + 1;
                        self.farthest[node] = walked.max(farther);
                        meeting.push(at);
                    }
                    let steps = level.steps(at);
                    self.left_meeting = self.left_meeting.checked_sub(1 + steps.len())?;
                    frontier.extend(steps);
                }
                walked += 1;
            }
            if meeting.is_empty() {
                return None;
            }
        }
        meeting
            .into_iter()
            .min_by_key(|at| (self.farthest[*at as usize], *at))
    }
}

/// Marks a node and all nodes that lead to it.
fn spread(level: &Level, marked: &mut [bool], at: u32) {
    let mut stack = vec![at];
    while let Some(at) = stack.pop() {
        if !std::mem::replace(&mut marked[at as usize], true) {
            let before = level.steps_into(at);
            stack.extend(before.filter(|before| !marked[*before as usize]));
        }
    }
}
