//! A naive implementation of the join rule that tries everything, compared with the real one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Chance, Joins, read};
use crate::analysis::Analysis;
use crate::model::NodeIndex;
use crate::{Known, Source, kind};

/// A graph with the joins that are resolved so far.
struct Naive<'g> {
    analysis: &'g Analysis<'g>,
    edges: BTreeMap<u32, BTreeSet<u32>>,
    /// The resolved joins. A fan-out without a join has the value `None`.
    known: BTreeMap<u32, Option<u32>>,
    left: Vec<u32>,
    /// The nodes with an edge that restarts the run.
    restarting: BTreeSet<u32>,
}

/// A node, and `true` if the last step to it is an edge.
type Arrival = (u32, bool);

impl Naive<'_> {
    fn is(&self, at: u32, kind: &str) -> bool {
        self.analysis.kind(NodeIndex(at)) == kind
    }

    fn edges(&self, at: u32) -> Vec<u32> {
        self.edges.get(&at).into_iter().flatten().copied().collect()
    }

    /// Returns the nodes one step after a node on its level, and whether the step is an edge.
    fn steps(&self, at: u32) -> Vec<Arrival> {
        match (self.is(at, kind::PARALLEL), self.known.get(&at)) {
            (true, Some(Some(join))) => vec![(*join, false)],
            (true, None) => Vec::new(),
            _ => self.edges(at).into_iter().map(|to| (to, true)).collect(),
        }
    }

    /// Returns the distances from a branch through nodes that pass a test, not going beyond `last`.
    fn distances(
        &self,
        branch: u32,
        inside: impl Fn(u32) -> bool,
        last: Option<u32>,
    ) -> BTreeMap<Arrival, usize> {
        let mut distances = BTreeMap::new();
        let mut frontier = vec![(branch, true)];
        for distance in 0.. {
            frontier.retain(|arrival| inside(arrival.0) && !distances.contains_key(arrival));
            if frontier.is_empty() {
                break;
            }
            for arrival in std::mem::take(&mut frontier) {
                distances.insert(arrival, distance);
                if Some(arrival.0) != last {
                    frontier.extend(self.steps(arrival.0));
                }
            }
        }
        distances
    }

    /// Returns whether a branch reaches the exit without some nodes. Unresolved fan-outs are treated like other nodes.
    fn gets_out(&self, branch: u32, without: &[u32]) -> bool {
        let exit = self.analysis.exit().map(|exit| exit.0);
        let mut seen = BTreeSet::new();
        let mut stack = vec![branch];
        while let Some(at) = stack.pop() {
            if without.contains(&at) || !seen.insert(at) {
                continue;
            }
            if Some(at) == exit {
                return true;
            }
            match self.known.get(&at) {
                Some(Some(join)) => stack.push(*join),
                _ => stack.extend(self.edges(at)),
            }
        }
        false
    }

    /// Returns the branches that count: not those that can only restart the run, unless all of them do.
    fn branches(&self, fan_out: u32) -> Vec<u32> {
        let (say, none): (Vec<u32>, Vec<u32>) = self
            .edges(fan_out)
            .into_iter()
            .partition(|branch| !self.only_restarts(*branch));
        if say.is_empty() { none } else { say }
    }

    fn only_restarts(&self, branch: u32) -> bool {
        let exit = self.analysis.exit().map(|exit| exit.0);
        let (mut seen, mut stack) = (BTreeSet::new(), vec![branch]);
        while let Some(at) = stack.pop() {
            if seen.insert(at) {
                stack.extend(self.edges(at));
            }
        }
        let restarts = seen.iter().any(|at| self.restarting.contains(at));
        restarts && !exit.is_some_and(|exit| seen.contains(&exit))
    }

    /// Returns the first node that every branch must pass. A fan-out that has a join leads directly there.
    fn must_pass(&self, fan_out: u32) -> Option<u32> {
        let branches = self.branches(fan_out);
        let through = |branch: &u32| self.gets_out(*branch, &[fan_out]);
        if branches.is_empty() || !branches.iter().all(through) {
            return None;
        }
        let all = 0..self.analysis.graph().nodes.len() as u32;
        let mut passed: Vec<u32> = all
            .filter(|at| *at != fan_out)
            .filter(|at| !branches.iter().any(|branch| self.gets_out(*branch, &[*at])))
            .collect();
        // If all branches begin with the same node, they run it, so it is not their join.
        if let ([only], true) = (&branches[..], passed.len() > 1) {
            passed.retain(|at| at != only);
        }
        let first = |at: &u32| {
            passed
                .iter()
                .all(|other| other == at || !self.gets_out(*at, &[*other]))
        };
        let firsts: Vec<u32> = passed.iter().copied().filter(first).collect();
        assert_eq!(firsts.len(), 1, "{passed:?}");
        firsts.first().copied()
    }

    fn nearest(&self, ways: &[BTreeMap<Arrival, usize>], wanted: impl Fn(Arrival) -> bool) -> Option<u32> {
        let all = 0..self.analysis.graph().nodes.len() as u32;
        all.filter_map(|at| {
            let of = |way: &BTreeMap<Arrival, usize>| {
                let arrivals = [(at, true), (at, false)]
                    .into_iter()
                    .filter(|arrival| wanted(*arrival));
                arrivals.filter_map(|arrival| way.get(&arrival).copied()).min()
            };
            let distances: Option<Vec<usize>> = ways.iter().map(of).collect();
            Some((distances?.into_iter().max()?, at))
        })
        .min()
        .map(|(_, at)| at)
    }

    fn join(&self, fan_out: u32) -> Option<u32> {
        let branches = self.branches(fan_out);
        let before = self.left[fan_out as usize];
        let inside = |at: u32| self.left[at as usize] < before;
        let walk = |last: Option<u32>| -> Vec<_> {
            branches
                .iter()
                .map(|branch| self.distances(*branch, inside, last))
                .collect()
        };
        let fan_in = |at: u32| self.is(at, kind::FAN_IN);
        if let Some(own) = self.nearest(&walk(None), |(at, by_edge)| by_edge && fan_in(at)) {
            return Some(own);
        }
        let passed = self.must_pass(fan_out);
        let shared = self.nearest(&walk(passed), |(at, _)| fan_in(at));
        let ways = || -> Vec<_> {
            branches
                .iter()
                .map(|branch| self.distances(*branch, |at| at != fan_out, None))
                .collect()
        };
        shared.or(passed).or_else(|| self.nearest(&ways(), |_| true))
    }

    /// Returns the inner fan-outs that share the fan-in of an outer one, each with the node that its own branches must
    /// all pass before the fan-in.
    fn nearer(&self, fan_out: u32, join: u32) -> Vec<(u32, u32)> {
        let ways = |fan_out: u32, last: u32| -> Vec<_> {
            let before = self.left[fan_out as usize];
            let inside = |at: u32| self.left[at as usize] < before;
            let branches = self.branches(fan_out).into_iter();
            branches
                .map(|branch| self.distances(branch, inside, Some(last)))
                .collect()
        };
        let met: BTreeSet<u32> = ways(fan_out, join)
            .iter()
            .flat_map(|way| way.keys().map(|(at, _)| *at))
            .collect();
        let sharing = met
            .into_iter()
            .filter(|at| self.known.get(at) == Some(&Some(join)));
        let nearer = sharing.filter_map(|inner| {
            let passed = self.must_pass(inner).filter(|passed| *passed != join)?;
            let beside = self.nearest(&ways(inner, passed), |(at, by_edge)| {
                by_edge && self.is(at, kind::FAN_IN)
            });
            (beside != Some(join)).then_some((inner, passed))
        });
        nearer.collect()
    }

    fn leave(&mut self, at: u32, seen: &mut BTreeSet<u32>, order: &mut Vec<u32>, edges: &[Vec<u32>]) {
        if !seen.insert(at) {
            return;
        }
        for to in &edges[at as usize] {
            self.leave(*to, seen, order, edges);
        }
        order.push(at);
    }

    /// Returns the joins, and the number of fan-outs that gave up their join in favour of an outer one.
    fn all(analysis: &Analysis<'_>) -> (Vec<Option<u32>>, usize) {
        let graph = analysis.graph();
        let nodes = graph.nodes.len();
        let mut in_file = vec![Vec::new(); nodes];
        let mut restarting = BTreeSet::new();
        for edge in &graph.edges {
            let fans_out = analysis.kind(edge.from) == kind::PARALLEL;
            if fans_out || !edge.attributes.flag(Known::LoopRestart) {
                in_file[edge.from.at()].push(edge.to.0);
            } else {
                restarting.insert(edge.from.0);
            }
        }
        let mut naive = Naive {
            analysis,
            edges: (0..)
                .zip(&in_file)
                .map(|(at, to)| (at, to.iter().copied().collect()))
                .collect(),
            known: BTreeMap::new(),
            left: vec![0; nodes],
            restarting,
        };
        let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
        let starts = analysis.starts().iter().map(|start| start.0);
        for root in starts.chain(0..nodes as u32) {
            naive.leave(root, &mut seen, &mut order, &in_file);
        }
        for (position, at) in order.iter().enumerate() {
            naive.left[*at as usize] = position as u32;
        }
        let mut given_up = 0;
        for at in order {
            if !naive.is(at, kind::PARALLEL) {
                continue;
            }
            let join = naive.join(at);
            naive.known.insert(at, join);
            let mut changed: Vec<(u32, u32)> = join.map(|join| (at, join)).into_iter().collect();
            while let Some((at, join)) = changed.pop() {
                let nearer = if naive.is(join, kind::FAN_IN) {
                    naive.nearer(at, join)
                } else {
                    Vec::new()
                };
                naive
                    .known
                    .extend(nearer.iter().map(|(inner, before)| (*inner, Some(*before))));
                given_up += nearer.len();
                changed.extend(nearer);
            }
        }
        let join = |at| naive.known.get(&at).copied().flatten();
        ((0..nodes as u32).map(join).collect(), given_up)
    }
}

#[test]
fn a_second_opinion_agrees_on_small_graphs() {
    let mut chance = Chance(0x5eed_5eed_5eed_5eed);
    let (mut kinds, mut given_up) = (BTreeMap::new(), 0);
    for _ in 0..10_000 {
        let nodes = 3 + chance.below(9);
        let ids: Vec<String> = (0..nodes)
            .map(|at| match chance.below(5) {
                0 | 1 => format!("f{at}"),
                2 => format!("j{at}"),
                _ => format!("n{at}"),
            })
            .chain(["start".to_owned(), "exit".to_owned()])
            .collect();
        // Most edges lead forward, as in a hand-written file.
        let mut statements = format!("start -> {}; {} -> exit;", ids[0], ids[nodes - 1]);
        let back = chance.below(4);
        for _ in 0..nodes + chance.below(2 * nodes) {
            let (a, b) = (chance.below(nodes), chance.below(nodes + 2));
            let turn = chance.below(4) >= back && b < a;
            let (from, to) = if turn { (b, a) } else { (a, b) };
            let restart = if chance.below(15) == 0 {
                "[loop_restart]"
            } else {
                ""
            };
            statements.push_str(&format!("{} -> {} {restart};", ids[from], ids[to]));
        }
        let graph = read(&statements);
        let source = Source::new("a.dot", "");
        let analysis = Analysis::new(&graph, &source);
        let joins = Joins::new(&analysis);
        let (expected, changed) = Naive::all(&analysis);
        given_up += changed;
        for (at, node) in graph.indexed_nodes() {
            let found = joins.join(at).map(|join| join.0);
            let id = |at: Option<u32>| at.map(|at| &*graph.node(NodeIndex(at)).id);
            assert_eq!(id(found), id(expected[at.at()]), "{}: {statements}", node.id);
            if analysis.kind(at) == kind::PARALLEL {
                *kinds
                    .entry(found.map(|join| analysis.kind(NodeIndex(join)).to_owned()))
                    .or_insert(0) += 1;
            }
        }
    }
    // Each kind of join must occur often enough to be meaningful.
    assert!(given_up > 15, "{given_up}");
    for kind in [
        None,
        Some(kind::FAN_IN),
        Some(kind::CODERGEN),
        Some(kind::EXIT),
        Some(kind::PARALLEL),
    ] {
        assert!(
            kinds
                .get(&kind.map(str::to_owned))
                .is_some_and(|count| *count > 500),
            "{kinds:?}"
        );
    }
}
