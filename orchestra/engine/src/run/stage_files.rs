//! The location of the files of stages, and the outcomes that have yet to be written to them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_core::EffectId;
use orchestra_graph::{NodeIndex, Pipeline, branch_id};

use crate::id::RunId;
use crate::lock::lock;
use crate::run::shared_nodes::shared_nodes;
use crate::store::{RunStore, StageFolder, StoreError, TemporaryFolder};

/// Maximum number of deferred outcomes. A recovery looks for missing status files in the same number of records.
pub(crate) const MAX_DEFERRED: usize = 256;

/// The folder for stage files of a run without a run folder, and the outcomes that have yet to be written.
pub(crate) struct StageFiles {
    /// For each node, whether several branches may run it at once; empty if there is no such node.
    shared: Box<[bool]>,
    /// `true` if stages have a folder for files.
    present: AtomicBool,
    temporary: Mutex<Option<Arc<TemporaryFolder>>>,
    /// `true` if there are deferred outcomes, so that a run without them takes no lock.
    has_deferred: AtomicBool,
    /// Outcomes that are written when somebody may look into the run folder: when the run waits, or a stage uses the
    /// folder.
    deferred: Mutex<Vec<(EffectId, Vec<u8>)>>,
}

impl StageFiles {
    /// Creates the files of a run. `persisted` is `true` if the run has a run folder.
    pub(crate) fn new(pipeline: &Pipeline, persisted: bool) -> StageFiles {
        StageFiles {
            shared: shared_nodes(pipeline),
            present: AtomicBool::new(persisted),
            temporary: Mutex::default(),
            has_deferred: AtomicBool::new(false),
            deferred: Mutex::default(),
        }
    }

    /// Returns whether stages have a folder for files already.
    pub(crate) fn are_present(&self) -> bool {
        self.present.load(Ordering::Acquire)
    }

    /// Returns the temporary folder of a run without a run folder, which the first call creates.
    pub(crate) fn temporary(&self, run: &RunId) -> Result<Arc<dyn RunStore>, StoreError> {
        let mut temporary = lock(&self.temporary);
        if let Some(folder) = &*temporary {
            return Ok(folder.clone());
        }
        let folder = Arc::new(TemporaryFolder::create(run)?);
        *temporary = Some(folder.clone());
        self.present.store(true, Ordering::Release);
        Ok(folder)
    }

    /// Returns the temporary folder, if it was created.
    pub(crate) fn present_temporary(&self) -> Option<Arc<dyn RunStore>> {
        if !self.are_present() {
            return None;
        }
        let folder = lock(&self.temporary).clone()?;
        Some(folder)
    }

    /// Takes the temporary folder, which is removed when the last reference to it is dropped.
    pub(crate) fn take_temporary(&self) -> Option<Arc<TemporaryFolder>> {
        lock(&self.temporary).take()
    }

    /// Defers writing the outcome of a stage. Returns whether there are so many that they must be written now.
    pub(crate) fn defer(&self, id: &EffectId, status: Vec<u8>) -> bool {
        let mut deferred = lock(&self.deferred);
        deferred.push((id.clone(), status));
        let many = deferred.len() >= MAX_DEFERRED;
        drop(deferred);
        self.has_deferred.store(true, Ordering::Release);
        many
    }

    /// Takes the deferred outcomes.
    pub(crate) fn take_deferred(&self) -> Vec<(EffectId, Vec<u8>)> {
        if !self.has_deferred.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.deferred))
    }

    /// Returns the location of a stage's files.
    pub(crate) fn location<'p>(&self, pipeline: &'p Pipeline, id: &EffectId) -> OwnedStageFolder<'p> {
        let branch = if self.is_shared(id.node) && !id.branch.is_empty() {
            let steps = id.branch.steps().iter();
            let names: Vec<String> = steps.map(|step| branch_id(pipeline, step.edge)).collect();
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
