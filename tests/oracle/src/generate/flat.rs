//! Graphs without parallel blocks: any edges at all, as long as every node can be reached.

use super::attributes::{self, Mood};
use super::{IDS, chance, ends, gates};
use crate::description::{Edge, Graph, Node};
use crate::random::Random;

/// A graph whose nodes can all be reached.
pub(super) fn graph(random: &mut Random) -> Graph {
    let mood = Mood {
        first_match: random.chance(30),
        gated: random.chance(25),
    };
    let mut graph = Graph {
        attributes: attributes::of_graph(random, mood),
        ..Graph::default()
    };
    let [start, exit] = ends(random);
    let mut ids: Vec<&str> = IDS.to_vec();
    let middle = random.between(1, 13) as usize;
    let names: Vec<String> = (0..middle)
        .map(|_| ids.remove(random.below(ids.len())).to_owned())
        .collect();
    // Ends by intent are leaves; the first node never is one, so that something leads on.
    let share = if mood.gated { 25 } else { 10 };
    let leaves: Vec<bool> = (0..middle).map(|at| at > 0 && random.chance(share)).collect();
    let mut anywhere = names.clone();
    if random.chance(20) {
        anywhere.extend([start.id.clone(), exit.id.clone()]);
    }
    for (id, is_leaf) in names.iter().zip(&leaves) {
        let mut own = attributes::of_node(random, mood, &anywhere);
        attributes::kind(random, &mut own);
        if *is_leaf {
            chance(random, 75, &mut own, "end", |random| {
                let fails = !mood.gated && random.chance(70);
                if fails { "fail" } else { "success" }.to_owned()
            });
        }
        graph.nodes.push(Node {
            id: id.clone(),
            attributes: own,
        });
    }
    attributes::targets(random, mood, &mut graph, &anywhere);
    let mut pairs: Vec<(String, String)> = Vec::new();
    // A tree from the start reaches everything.
    for at in 0..middle {
        let parents: Vec<&String> = (0..at)
            .filter(|parent| !leaves[*parent])
            .map(|parent| &names[parent])
            .collect();
        let from = if parents.is_empty() || random.chance(10) {
            start.id.clone()
        } else {
            (*random.pick(&parents)).clone()
        };
        pairs.push((from, names[at].clone()));
    }
    let leading: Vec<&String> = (0..middle)
        .filter(|at| !leaves[*at])
        .map(|at| &names[at])
        .collect();
    pairs.push(((*random.pick(&leading)).clone(), exit.id.clone()));
    let targets: Vec<&String> = names.iter().chain([&exit.id]).collect();
    for id in &leading {
        let out = pairs.iter().filter(|(from, _)| from == *id).count();
        let more = [0, 1, 2, 3][random.weighted(&[35, 35, 20, 10])];
        let least = usize::from(out == 0 && random.chance(90));
        for _ in 0..more.max(least) {
            pairs.push(((*id).clone(), (*random.pick(&targets)).clone()));
        }
    }
    for at in (1..pairs.len()).rev() {
        pairs.swap(at, random.below(at + 1));
    }
    for (from, to) in pairs {
        // The start always succeeds; a condition on its only edge would end most runs at once.
        let free = from == start.id && random.chance(80);
        let attributes = attributes::of_edge(random, mood, free);
        graph.edges.push(Edge { from, to, attributes });
    }
    graph.nodes.extend([start, exit]);
    gates::choices(random, &mut graph);
    graph
}
