//! The location of the files of stages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_core::EffectId;
use orchestra_graph::{NodeIndex, Pipeline};

use crate::id::RunId;
use crate::lock::lock;
use crate::run::shared_nodes::shared_nodes;
use crate::store::{RunStore, StageFolder, StoreError, TemporaryFolder};

/// The location of stage files in the folder of a run, or in a temporary folder of a run without one.
pub(crate) struct StageFiles {
    /// For each node, whether several branches may run it at once; empty if there is no such node.
    shared: Box<[bool]>,
    /// `true` if there may be files of stages. As long as nothing has asked for a folder, none can be there.
    present: AtomicBool,
    temporary: Mutex<Option<Arc<TemporaryFolder>>>,
}

impl StageFiles {
    /// Creates the files of a new run.
    pub(crate) fn new(pipeline: &Pipeline) -> StageFiles {
        StageFiles {
            shared: shared_nodes(pipeline),
            present: AtomicBool::new(false),
            temporary: Mutex::default(),
        }
    }

    /// Returns whether there may be files of stages.
    pub(crate) fn may_be_present(&self) -> bool {
        self.present.load(Ordering::Acquire)
    }

    /// Records that somebody gets a path at which files of stages may be left, or that an earlier process may have.
    pub(crate) fn will_be_present(&self) {
        self.present.store(true, Ordering::Release);
    }

    /// Returns the temporary folder of a run without a run folder, which the first call creates.
    pub(crate) fn temporary(&self, run: &RunId) -> Result<Arc<dyn RunStore>, StoreError> {
        let mut temporary = lock(&self.temporary);
        if let Some(folder) = &*temporary {
            return Ok(folder.clone());
        }
        let folder = Arc::new(TemporaryFolder::create(run)?);
        *temporary = Some(folder.clone());
        Ok(folder)
    }

    /// Returns the temporary folder, if it was created.
    pub(crate) fn present_temporary(&self) -> Option<Arc<dyn RunStore>> {
        if !self.may_be_present() {
            return None;
        }
        let folder = lock(&self.temporary).clone()?;
        Some(folder)
    }

    /// Takes the temporary folder, which is removed when the last reference to it is dropped.
    pub(crate) fn take_temporary(&self) -> Option<Arc<TemporaryFolder>> {
        lock(&self.temporary).take()
    }

    /// Returns the location of a stage's files.
    pub(crate) fn location<'p>(&self, pipeline: &'p Pipeline, id: &EffectId) -> OwnedStageFolder<'p> {
        let branch = if self.is_shared(id.node) && !id.branch.is_empty() {
            let steps = id.branch.steps().iter();
            let names: Vec<String> = steps.map(|step| step.branch_id(pipeline)).collect();
            names.join(".")
        } else {
            String::new()
        };
        OwnedStageFolder {
            node: pipeline.stage(id.node).id(),
            branch,
        }
    }

    /// Returns the location of a node's files in the branch with the given name.
    pub(crate) fn location_in_branch<'p>(
        &self,
        pipeline: &'p Pipeline,
        node: NodeIndex,
        branch: String,
    ) -> OwnedStageFolder<'p> {
        OwnedStageFolder {
            node: pipeline.stage(node).id(),
            branch: if self.is_shared(node) {
                branch
            } else {
                String::new()
            },
        }
    }

    /// Returns whether several branches may run a node at once.
    fn is_shared(&self, node: NodeIndex) -> bool {
        self.shared.get(node.at()).copied().unwrap_or_default()
    }
}

/// The location of a stage's files: the node and the name of its branch.
pub(crate) struct OwnedStageFolder<'r> {
    node: &'r str,
    branch: String,
}

impl OwnedStageFolder<'_> {
    pub(crate) fn as_ref(&self) -> StageFolder<'_> {
        StageFolder {
            node: self.node,
            branch: &self.branch,
        }
    }
}
