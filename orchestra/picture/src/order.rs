//! The back edges of a graph, and the distance of each node from the beginning.

use orchestra_graph::{Edge, Graph};

/// Returns for each edge whether it leads back to a node on the path to it. A loop of a single node counts.
pub(crate) fn back_edges(graph: &Graph) -> Vec<bool> {
    let mut outgoing: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let mut entered = vec![false; graph.nodes.len()];
    for (index, edge) in graph.edges.iter().enumerate() {
        // Ignore an edge to a missing node, which only a manually changed graph may contain.
        if edge.to.at() >= graph.nodes.len() {
            continue;
        }
        if let Some(edges) = outgoing.get_mut(edge.from.at()) {
            edges.push(index);
        }
        if let Some(entered) = entered.get_mut(edge.to.at()) {
            *entered = edge.from != edge.to;
        }
    }
    let mut back = vec![false; graph.edges.len()];
    let mut state = vec![State::New; graph.nodes.len()];
    // Start at nodes without incoming edges, so that a loop is cut where it returns and not where it begins.
    let roots = (0..graph.nodes.len()).filter(|node| !entered[*node]);
    for root in roots.chain(0..graph.nodes.len()) {
        if state[root] != State::New {
            continue;
        }
        state[root] = State::Open;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&index) = outgoing[*node].get(*next) else {
                state[*node] = State::Closed;
                path.pop();
                continue;
            };
            *next += 1;
            let to = graph.edges[index].to.at();
            match state[to] {
                State::New => {
                    state[to] = State::Open;
                    path.push((to, 0));
                }
                State::Open => back[index] = true,
                State::Closed => {}
            }
        }
    }
    back
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Closed,
}

/// Returns the length of the longest path to each node, without back edges.
pub(crate) fn ranks(graph: &Graph, back: &[bool]) -> Vec<usize> {
    let mut missing = vec![0usize; graph.nodes.len()];
    let mut outgoing: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let nodes = graph.nodes.len();
    let whole = |edge: &Edge| edge.from.at() < nodes && edge.to.at() < nodes;
    let forward = graph
        .edges
        .iter()
        .zip(back)
        .filter(|(edge, back)| !**back && whole(edge));
    for (edge, _) in forward {
        missing[edge.to.at()] += 1;
        outgoing[edge.from.at()].push(edge.to.at());
    }
    let mut ranks = vec![0; graph.nodes.len()];
    let mut ready: Vec<usize> = (0..graph.nodes.len())
        .filter(|node| missing[*node] == 0)
        .collect();
    while let Some(node) = ready.pop() {
        for &to in &outgoing[node] {
            ranks[to] = ranks[to].max(ranks[node] + 1);
            missing[to] -= 1;
            if missing[to] == 0 {
                ready.push(to);
            }
        }
    }
    ranks
}
