//! Makes a failing case smaller, by leaving out one thing after another as long as it still fails.

use crate::description::{Category, Graph, Script};

/// The smallest graph and script that greedy removal finds and that still fail.
pub fn shrink(graph: &Graph, script: &Script, fails: impl Fn(&Graph, &Script) -> bool) -> (Graph, Script) {
    let (mut graph, mut script) = (graph.clone(), script.clone());
    while let Some((smaller_graph, smaller_script)) = smaller(&graph, &script)
        .into_iter()
        .find(|(graph, script)| fails(graph, script))
    {
        (graph, script) = (smaller_graph, smaller_script);
    }
    (graph, script)
}

fn smaller(graph: &Graph, script: &Script) -> Vec<(Graph, Script)> {
    let mut graphs = Vec::new();
    let mut change = |edit: &dyn Fn(&mut Graph)| {
        let mut copy = graph.clone();
        edit(&mut copy);
        graphs.push(copy);
    };
    for (at, node) in graph.nodes.iter().enumerate() {
        change(&|graph| {
            graph.nodes.remove(at);
            graph
                .edges
                .retain(|edge| edge.from != node.id && edge.to != node.id);
        });
        for key in node.attributes.keys() {
            change(&|graph| {
                graph.nodes[at].attributes.remove(key);
            });
        }
    }
    for (at, edge) in graph.edges.iter().enumerate() {
        change(&|graph| {
            graph.edges.remove(at);
        });
        for key in edge.attributes.keys() {
            change(&|graph| {
                graph.edges[at].attributes.remove(key);
            });
        }
    }
    for key in graph.attributes.keys() {
        change(&|graph| {
            graph.attributes.remove(key);
        });
    }
    let mut cases: Vec<(Graph, Script)> = graphs.into_iter().map(|graph| (graph, script.clone())).collect();
    for (node, list) in &script.outcomes {
        let mut change = |edit: &dyn Fn(&mut Script)| {
            let mut copy = script.clone();
            edit(&mut copy);
            cases.push((graph.clone(), copy));
        };
        change(&|script| {
            script.outcomes.remove(node);
        });
        for (at, said) in list.iter().enumerate() {
            if list.len() > 1 {
                change(&|script| {
                    script.outcomes.get_mut(node).unwrap().remove(at);
                });
            }
            for key in said.updates.keys() {
                change(&|script| {
                    script.outcomes.get_mut(node).unwrap()[at].updates.remove(key);
                });
            }
            if !said.preferred_label.is_empty() {
                change(&|script| script.outcomes.get_mut(node).unwrap()[at].preferred_label.clear());
            }
            if !said.suggested.is_empty() {
                change(&|script| {
                    script.outcomes.get_mut(node).unwrap()[at].suggested.pop();
                });
            }
            if !said.reason.is_empty() {
                change(&|script| script.outcomes.get_mut(node).unwrap()[at].reason.clear());
            }
            let rest = (&said.notes, said.category, said.retry_after);
            if rest != (&String::new(), Category::Retryable, None) {
                change(&|script| {
                    let said = &mut script.outcomes.get_mut(node).unwrap()[at];
                    said.notes.clear();
                    said.category = Category::Retryable;
                    said.retry_after = None;
                });
            }
        }
    }
    for gate in script.reactions.keys() {
        let mut copy = script.clone();
        copy.reactions.remove(gate);
        cases.push((graph.clone(), copy));
    }
    cases
}
