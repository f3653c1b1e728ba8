//! Where the branches of a fan-out meet (rule P1).

use crate::analysis::Analysis;
use crate::kind;
use crate::model::NodeIndex;

/// The join of each node that fans out; `None` for other nodes, and where branches never meet.
pub(crate) fn joins(analysis: &Analysis<'_>) -> Vec<Option<NodeIndex>> {
    let graph = analysis.graph();
    let mut joins = vec![None; graph.nodes.len()];
    for (at, _) in graph.indexed_nodes() {
        if analysis.kind(at) == kind::PARALLEL {
            joins[at.at()] = graph
                .indexed_nodes()
                .map(|(join, _)| join)
                .find(|join| analysis.kind(*join) == kind::FAN_IN)
                .or(analysis.exit());
        }
    }
    joins
}
