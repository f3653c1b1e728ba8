//! Upper bounds on the visits of a walk through a graph whose nodes have capacities.
//!
//! A walk enters each strongly connected component once. In a component, the node with the smallest capacity is taken
//! out: it is visited at most as often as its capacity says, and each of these visits begins at most one walk through what
//! is left, which is bounded in the same way. Afterwards every bound is lowered to `entry + sum of the predecessors` and to
//! `1 + sum of the successors`: every visit follows another one or begins the walk, and precedes another one or ends it.

/// The deepest decomposition of a component. Beyond it, the capacities themselves are the bounds.
const MAX_DEPTH: u32 = 24;
/// The number of times that all bounds are lowered.
const MAX_PASSES: usize = 50;
/// The number of times that the bounds are used as capacities for another decomposition.
const ROUNDS: usize = 3;

/// The quantities that are summed over a walk: visits and attempts.
pub(super) type Sums = [u64; 2];

/// A graph. A walk begins at one of the entries.
#[derive(Default)]
pub(super) struct Network {
    pub(super) capacities: Vec<u64>,
    /// What a visit of each node adds to the sums.
    pub(super) weights: Vec<Sums>,
    pub(super) next: Vec<Vec<u32>>,
    pub(super) entries: Vec<u32>,
}

/// The bounds of a walk.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) visits: Vec<u64>,
    /// The node whose capacity bounds the visits of each node. `None` if no run visits it again.
    pub(super) limited_by: Vec<Option<u32>>,
    pub(super) sums: Sums,
}

impl Network {
    pub(super) fn add(&mut self, capacity: u64, weight: Sums) -> u32 {
        self.capacities.push(capacity);
        self.weights.push(weight);
        self.next.push(Vec::new());
        (self.capacities.len() - 1) as u32
    }

    pub(super) fn connect(&mut self, from: u32, to: u32) {
        if let Some(next) = self.next.get_mut(from as usize)
            && !next.contains(&to)
        {
            next.push(to);
        }
    }

    /// Returns bounds that no walk exceeds.
    pub(super) fn bounds(&self) -> Bounds {
        let count = self.capacities.len();
        let nodes: Vec<u32> = (0..count as u32).collect();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (from, next) in (0..).zip(&self.next) {
            for to in next {
                if let Some(before) = before.get_mut(*to as usize) {
                    before.push(from);
                }
            }
        }
        let mut found = Bounds::default();
        let mut capacities = self.capacities.clone();
        for round in 0..ROUNDS {
            let mut search = Search {
                network: self,
                capacities: &capacities,
                visits: vec![0; count],
                limited_by: vec![None; count],
                region: vec![0; count],
                regions: 0,
                order: vec![0; count],
                low: vec![0; count],
                component: vec![u32::MAX; count],
            };
            let source = Source {
                starts: self.entries.clone(),
                count: 1,
                limited_by: None,
            };
            let sums = search.bound_region(&nodes, &[source], 0);
            let (visits, limited_by) = (search.visits, search.limited_by);
            if round == 0 {
                found = Bounds {
                    visits,
                    limited_by,
                    sums,
                };
            } else {
                for at in 0..count {
                    if visits[at] < found.visits[at] {
                        found.visits[at] = visits[at];
                        found.limited_by[at] = limited_by[at];
                    }
                }
                found.sums = least(found.sums, sums);
            }
            self.lower(&mut found, &before);
            let summed = total(&self.weights, &found.visits);
            found.sums = least(found.sums, summed);
            if found.visits == capacities {
                break;
            }
            capacities.clone_from(&found.visits);
        }
        found
    }

    /// Lowers each bound to what its neighbours allow.
    fn lower(&self, found: &mut Bounds, before: &[Vec<u32>]) {
        let mut is_entry = vec![false; before.len()];
        for entry in &self.entries {
            is_entry[*entry as usize] = true;
        }
        for pass in 0..MAX_PASSES {
            let mut changed = false;
            for at in 0..before.len() {
                let at = if pass % 2 == 0 { at } else { before.len() - 1 - at };
                for (own, neighbours) in [(u64::from(is_entry[at]), &before[at]), (1, &self.next[at])] {
                    let visits = neighbours.iter().map(|node| found.visits[*node as usize]);
                    let most = visits.fold(own, u64::saturating_add);
                    if most < found.visits[at] {
                        found.visits[at] = most;
                        let largest = neighbours.iter().max_by_key(|node| found.visits[**node as usize]);
                        let largest = largest.filter(|_| most > 1);
                        let largest = largest.and_then(|node| found.limited_by[*node as usize]);
                        found.limited_by[at] = largest.or(found.limited_by[at]);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
    }
}

fn least(one: Sums, other: Sums) -> Sums {
    [one[0].min(other[0]), one[1].min(other[1])]
}

fn plus(one: Sums, other: Sums) -> Sums {
    [one[0].saturating_add(other[0]), one[1].saturating_add(other[1])]
}

fn times(sums: Sums, count: u64) -> Sums {
    sums.map(|sum| sum.saturating_mul(count))
}

fn total(weights: &[Sums], visits: &[u64]) -> Sums {
    let all = weights.iter().zip(visits);
    all.fold([0; 2], |sum, (weight, visits)| plus(sum, times(*weight, *visits)))
}

/// Where walks begin, and how many at most.
struct Source {
    starts: Vec<u32>,
    count: u64,
    limited_by: Option<u32>,
}

struct Search<'n> {
    network: &'n Network,
    capacities: &'n [u64],
    visits: Vec<u64>,
    limited_by: Vec<Option<u32>>,
    /// The number of the region that contains each node.
    region: Vec<u32>,
    regions: u32,
    order: Vec<u32>,
    low: Vec<u32>,
    component: Vec<u32>,
}

impl Search<'_> {
    /// Bounds the visits of all walks through some nodes. Returns their sums.
    fn bound_region(&mut self, nodes: &[u32], sources: &[Source], depth: u32) -> Sums {
        self.regions += 1;
        let region = self.regions;
        for node in nodes {
            self.region[*node as usize] = region;
        }
        let components = self.components(nodes, region);
        // Successors have lower numbers.
        let mut next: Vec<Vec<u32>> = vec![Vec::new(); components.len()];
        let mut entered: Vec<Vec<u32>> = vec![Vec::new(); components.len()];
        let mut loops = vec![false; components.len()];
        for (at, members) in components.iter().enumerate() {
            loops[at] = members.len() > 1;
            for from in members {
                for to in &self.network.next[*from as usize] {
                    if self.region[*to as usize] != region {
                        continue;
                    }
                    let other = self.component[*to as usize] as usize;
                    if other == at {
                        loops[at] |= from == to;
                    } else {
                        next[at].push(other as u32);
                        entered[other].push(*to);
                    }
                }
            }
        }
        let mut count = vec![0_u64; components.len()];
        let mut largest: Vec<(u64, Option<u32>)> = vec![(0, None); components.len()];
        let mut reached: Vec<Vec<bool>> = Vec::with_capacity(sources.len());
        for source in sources {
            let mut seen = vec![false; components.len()];
            for start in &source.starts {
                let at = self.component[*start as usize] as usize;
                seen[at] = true;
                entered[at].push(*start);
            }
            for at in (0..components.len()).rev() {
                if !seen[at] {
                    continue;
                }
                for to in &next[at] {
                    seen[*to as usize] = true;
                }
                count[at] = count[at].saturating_add(source.count);
                if source.count >= largest[at].0 {
                    largest[at] = (source.count, source.limited_by);
                }
            }
            reached.push(seen);
        }
        let mut own = vec![[0; 2]; components.len()];
        for (at, members) in components.iter().enumerate() {
            let (count, limited_by) = (count[at], largest[at].1);
            if loops[at] {
                let entries = std::mem::take(&mut entered[at]);
                own[at] = self.bound_component(members, entries, count, limited_by, depth);
            } else if let [node] = members[..] {
                let capacity = self.capacities[node as usize];
                self.visits[node as usize] = capacity.min(count);
                self.limited_by[node as usize] = if capacity < count { Some(node) } else { limited_by };
                if capacity > 0 {
                    own[at] = self.network.weights[node as usize];
                }
            }
        }
        // One walk follows one path. Of several, each may enter a loop, whose sum is that of all of them.
        let one = matches!(sources, [source] if source.count == 1);
        let mut sum = [0; 2];
        let mut longest = own.clone();
        for at in 0..components.len() {
            if loops[at] && !one {
                longest[at] = [0; 2];
                sum = plus(sum, own[at]);
            }
            let after = next[at].iter().map(|to| longest[*to as usize]);
            let after = after.fold([0; 2], |most, sums| [most[0].max(sums[0]), most[1].max(sums[1])]);
            longest[at] = plus(longest[at], after);
        }
        for (source, seen) in sources.iter().zip(&reached) {
            let reached = longest.iter().zip(seen).filter(|(_, seen)| **seen);
            let most = reached.fold([0_u64; 2], |most, (sums, _)| {
                [most[0].max(sums[0]), most[1].max(sums[1])]
            });
            sum = plus(sum, times(most, source.count));
        }
        sum
    }

    /// Bounds the visits of a strongly connected component that walks enter so often. Returns their sums.
    fn bound_component(
        &mut self,
        members: &[u32],
        mut entries: Vec<u32>,
        count: u64,
        limited_by: Option<u32>,
        depth: u32,
    ) -> Sums {
        if count == 0 {
            return [0; 2];
        }
        entries.sort_unstable();
        entries.dedup();
        let capacity = |node: &u32| self.capacities[*node as usize];
        let key = |node: &u32| (capacity(node), entries.binary_search(node).is_err(), *node);
        let Some(cut) = members.iter().copied().min_by_key(key) else {
            return [0; 2];
        };
        if depth >= MAX_DEPTH {
            let mut sum = [0; 2];
            for node in members {
                let capacity = capacity(node);
                self.visits[*node as usize] = capacity;
                self.limited_by[*node as usize] = Some(*node);
                sum = plus(sum, times(self.network.weights[*node as usize], capacity));
            }
            return sum;
        }
        let visits = capacity(&cut);
        self.visits[cut as usize] = visits;
        self.limited_by[cut as usize] = Some(cut);
        let rest: Vec<u32> = members.iter().copied().filter(|node| *node != cut).collect();
        entries.retain(|node| *node != cut);
        let is_member = |node: &u32| rest.binary_search(node).is_ok();
        let after = self.network.next[cut as usize].iter().copied();
        let after: Vec<u32> = after.filter(is_member).collect();
        let sources = [
            Source {
                starts: entries,
                count,
                limited_by,
            },
            Source {
                starts: after,
                count: visits,
                limited_by: Some(cut),
            },
        ];
        let sources: Vec<Source> = sources
            .into_iter()
            .filter(|source| !source.starts.is_empty())
            .collect();
        let own = times(self.network.weights[cut as usize], visits);
        if rest.is_empty() {
            return own;
        }
        plus(own, self.bound_region(&rest, &sources, depth + 1))
    }

    /// Returns the strongly connected components of a region, each sorted, successors first.
    fn components(&mut self, nodes: &[u32], region: u32) -> Vec<Vec<u32>> {
        const NEW: u32 = 0;
        for node in nodes {
            self.order[*node as usize] = NEW;
            self.component[*node as usize] = u32::MAX;
        }
        let mut components = Vec::new();
        let mut number = NEW;
        let mut open: Vec<u32> = Vec::new();
        for root in nodes {
            if self.order[*root as usize] != NEW {
                continue;
            }
            let mut stack = vec![(*root, 0)];
            while let Some((node, edge)) = stack.last_mut() {
                let (at, node) = (*node as usize, *node);
                if *edge == 0 {
                    number += 1;
                    self.order[at] = number;
                    self.low[at] = number;
                    open.push(node);
                }
                let successor = self.network.next[at].get(*edge).copied();
                *edge += 1;
                if let Some(to) = successor {
                    let to_at = to as usize;
                    if self.region[to_at] != region {
                        continue;
                    }
                    if self.order[to_at] == NEW {
                        stack.push((to, 0));
                    } else if self.component[to_at] == u32::MAX {
                        self.low[at] = self.low[at].min(self.order[to_at]);
                    }
                    continue;
                }
                stack.pop();
                if let Some((parent, _)) = stack.last() {
                    let parent = *parent as usize;
                    self.low[parent] = self.low[parent].min(self.low[at]);
                }
                if self.low[at] == self.order[at] {
                    let from = open.iter().rposition(|member| *member == node).unwrap_or(0);
                    let mut members = open.split_off(from);
                    for member in &members {
                        self.component[*member as usize] = components.len() as u32;
                    }
                    members.sort_unstable();
                    components.push(members);
                }
            }
        }
        components
    }
}
