//! The serialized form of a parallel block.

use std::sync::Arc;
use std::time::Duration;

use orchestra_graph::{EdgeIndex, Pipeline};
use serde::{Deserialize, Serialize};

use crate::block::{Block, Branch, Ended, branch_ids, branch_path_of};
use crate::effect::BranchStatus;
use crate::saved::{SavedPath, SavedStateError, no_edge, no_node};
use crate::state::ExecutionPath;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedBlock {
    /// The counters from before the branches began, as far as they are not zero.
    pub(crate) visits: Vec<(u32, u32)>,
    pub(crate) branches: Vec<SavedBranch>,
    next: usize,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    first_failure: String,
    #[serde(rename = "began_ns", with = "crate::nanos")]
    began: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedBranch {
    pub(crate) edge: u32,
    #[serde(rename = "began_ns", with = "crate::nanos")]
    began: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Box<SavedPath>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<SavedEnd>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedEnd {
    status: BranchStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(rename = "duration_ns", with = "crate::nanos")]
    duration: Duration,
}

impl SavedBlock {
    pub(crate) fn new(pipeline: &Pipeline, block: &Block) -> SavedBlock {
        let counted = block.visits.iter().enumerate();
        let branches = block.branches.iter().map(|branch| SavedBranch {
            edge: branch.edge.0,
            began: branch.began,
            path: branch
                .path
                .as_deref()
                .map(|path| Box::new(SavedPath::new(pipeline, path))),
            ended: branch.ended.as_ref().map(|ended| SavedEnd {
                status: ended.status,
                reason: ended.reason.clone(),
                duration: ended.duration,
            }),
        });
        SavedBlock {
            visits: counted
                .filter(|(_, count)| **count > 0)
                .map(|(node, count)| (node as u32, *count))
                .collect(),
            branches: branches.collect(),
            next: block.next,
            first_failure: block.first_failure.clone(),
            began: block.began,
        }
    }

    /// Restores the block that is open at a path.
    pub(crate) fn restore(
        self,
        pipeline: &Pipeline,
        path: &ExecutionPath,
        restarts: u32,
    ) -> Result<Block, SavedStateError> {
        let stage = pipeline.stage(path.at.node);
        let Some(fan_out) = stage.row().fan_out else {
            return Err(SavedStateError::new(format!(
                "the state is in the branches of `{}`, which is not a fan-out",
                stage.id()
            )));
        };
        let mut visits = vec![0; pipeline.nodes.len()];
        for (node, count) in self.visits {
            match visits.get_mut(node as usize) {
                Some(position) => *position = count,
                None => return Err(no_node(pipeline, node)),
            }
        }
        let visits: Arc<[u32]> = visits.into();
        let edges: Vec<EdgeIndex> = self
            .branches
            .iter()
            .map(|branch| EdgeIndex(branch.edge))
            .collect();
        for edge in &edges {
            if pipeline
                .edges
                .get(edge.at())
                .is_none_or(|row| row.from != path.at.node)
            {
                return Err(no_edge(pipeline, edge.0));
            }
        }
        let mut block = Block {
            fan_out,
            branches: Vec::with_capacity(edges.len()),
            next: self.next,
            running: 0,
            succeeded: 0,
            failed: 0,
            first_failure: self.first_failure,
            visits,
            outcomes: path.outcomes.fork(),
            began: self.began,
            timeout: stage.duration("timeout"),
        };
        let ids = branch_ids(pipeline, stage, &edges);
        for ((saved, edge), id) in self.branches.into_iter().zip(edges).zip(ids) {
            let around = Some((&path.context, block.visits.clone(), block.outcomes.clone()));
            let own = match saved.path {
                Some(saved) => Some(Box::new(saved.restore(
                    pipeline,
                    branch_path_of(path, edge),
                    around,
                    restarts,
                )?)),
                None => None,
            };
            let ended = saved.ended.map(|ended| Ended {
                status: ended.status,
                reason: ended.reason,
                duration: ended.duration,
            });
            match ended.as_ref().map(|ended| ended.status) {
                None => block.running += u32::from(own.is_some()),
                Some(BranchStatus::Fail) => block.failed += 1,
                Some(BranchStatus::Cancelled) => {}
                Some(_) => block.succeeded += 1,
            }
            block.branches.push(Branch {
                edge,
                id,
                began: saved.began,
                path: own,
                ended,
            });
        }
        Ok(block)
    }
}
