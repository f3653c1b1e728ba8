//! The nodes that several branches of a parallel block may run at the same time.

use orchestra_graph::{NodeIndex, Pipeline};

/// Maximum number of steps of the search. In a graph that needs more, all nodes count as shared.
const MAX_STEPS: usize = 4_000_000;

/// Returns for each node whether it is on more than one branch of a block, or on that of a list. Returns an empty list if there are no
/// blocks.
pub(crate) fn shared_nodes(pipeline: &Pipeline) -> Box<[bool]> {
    let fan_outs: Vec<usize> = (0..pipeline.nodes.len())
        .filter(|at| pipeline.nodes[*at].fan_out.is_some())
        .collect();
    if fan_outs.is_empty() {
        return Box::default();
    }
    let mut shared = vec![false; pipeline.nodes.len()];
    // The last walk that reached each node. A walk is one branch; the walks of a block have consecutive numbers.
    let mut met = vec![usize::MAX; pipeline.nodes.len()];
    let mut walk = 0;
    let mut steps = 0;
    for fan_out in fan_outs {
        let first_walk = walk;
        let Some(settings) = pipeline.nodes[fan_out].fan_out else {
            continue;
        };
        let join = settings.join.at();
        // Each item of a list has a branch through the same nodes.
        let is_foreach = settings.foreach_max.is_some();
        for (_, branch) in pipeline.stage(NodeIndex(fan_out as u32)).edges() {
            let mut stack = vec![branch.to.at()];
            while let Some(at) = stack.pop() {
                if at == join || at == fan_out || at >= met.len() || met[at] == walk {
                    continue;
                }
                shared[at] |= is_foreach || met[at] != usize::MAX && met[at] >= first_walk;
                met[at] = walk;
                let stage = pipeline.stage(NodeIndex(at as u32));
                let row = stage.row();
                let jumps = [row.retry_target, row.fallback_retry_target];
                stack.extend(jumps.into_iter().flatten().map(NodeIndex::at));
                stack.extend(stage.edges().map(|(_, edge)| edge.to.at()));
                steps += 1 + row.edges.range().len();
                if steps > MAX_STEPS {
                    return vec![true; pipeline.nodes.len()].into();
                }
            }
            walk += 1;
        }
    }
    shared.into()
}

#[cfg(test)]
mod tests {
    use orchestra_graph::{Source, load};

    use super::*;

    fn shared(text: &str) -> Vec<String> {
        let pipeline = load(Source::new("a.dot", text), &Default::default())
            .pipeline()
            .unwrap();
        let shared = shared_nodes(&pipeline);
        let nodes = pipeline.nodes.iter().zip(&shared).filter(|(_, shared)| **shared);
        nodes.map(|(row, _)| pipeline.text(row.id).to_owned()).collect()
    }

    #[test]
    fn only_nodes_on_two_branches_are_shared() {
        let text = "digraph { start -> fan; fan [shape=component]; fan -> a -> common; fan -> b -> common
            common -> join; fan -> c -> join; join [shape=tripleoctagon]; join -> after -> exit }";
        assert_eq!(shared(text), ["common"]);
        assert!(shared("digraph { start -> a -> exit }").is_empty());
    }

    #[test]
    fn nodes_on_the_branch_of_a_list_are_shared() {
        let text = "digraph { start -> each; each [shape=component, foreach=files, foreach_max=3]; each -> a -> b -> all
            all [shape=tripleoctagon]; all -> exit }";
        assert_eq!(shared(text), ["a", "b"]);
    }

    #[test]
    fn what_a_block_inside_a_branch_joins_is_not_shared() {
        let text = "digraph { start -> fan; fan [shape=component]; fan -> inner; fan -> c -> join
            inner [shape=component]; inner -> a -> meet; inner -> b -> meet; meet [shape=tripleoctagon]; meet -> d -> join
            join [shape=tripleoctagon]; join -> exit }";
        assert!(shared(text).is_empty());
    }
}
