//! The files that a workspace provides for the execution paths of a run.

use std::sync::Arc;

use orchestra_core::{BranchPath, EffectId, RunFailure, Snapshot};

use crate::driver::state::Driver;
use crate::handlers::resolved::Resolved;
use crate::run::path_files::PathFiles;
use crate::run::stage::StageContext;
use crate::run::state::{Parent, Run};
use crate::run::workspace::{
    RunEnd, RunFiles, WorkspaceEnd, WorkspaceSession, WorkspaceStage, child_path_id, path_id,
};
use crate::run_status::RunStatus;
use crate::store::StoreError;

impl Driver {
    /// Sets the workspace session of the run.
    pub(crate) fn work_on(&mut self, session: Arc<dyn WorkspaceSession>) {
        self.files = Some(Arc::new(RunFiles::new(session)));
    }

    /// Takes the snapshot of the files that an attempt left.
    pub(crate) fn take_snapshot(&self, id: &EffectId) -> Option<Snapshot> {
        self.files.as_ref()?.take(id)
    }

    /// Returns whether the recovered run had ended before.
    pub(crate) fn has_ended(&self) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_some_and(|recovery| recovery.ended.is_some())
    }

    /// Ends the workspace session of the run. A child run shares the session of its parent run, so it does not end it.
    pub(crate) async fn leave_files(&self, ended: &Result<Option<RunFailure>, StoreError>) {
        let Some(files) = &self.files else {
            return;
        };
        if self.run.origin.parent.is_some() {
            return;
        }
        let end = match ended {
            Ok(failure) if RunStatus::from_failure(failure.as_ref()) != RunStatus::Paused => RunEnd::Over,
            _ => RunEnd::Paused,
        };
        let state = self.machine.state();
        let snapshot = state.main.snapshot().cloned();
        let end = WorkspaceEnd::new(end, state.totals.restarts, snapshot);
        if let Err(error) = files.session.end(end).await {
            tracing::warn!("the files of the run are not tidied up: {error}");
        }
    }
}

impl Run {
    /// Describes a stage to the workspace, with the state that its files must have.
    pub(crate) fn workspace_stage(
        &self,
        id: &EffectId,
        stage: StageContext,
        handler: &Resolved,
        files: PathFiles,
    ) -> WorkspaceStage {
        let joined = files.joined.into_iter().map(|branch| {
            let name = self.path_id_of_branch(id, &branch.name);
            (name, branch)
        });
        WorkspaceStage {
            path_id: self.path_id_of(id),
            around: self.outer_path_ids(id),
            snapshot: files.snapshot,
            joined: joined.collect(),
            join: id.branch.steps().last().and_then(|step| {
                let fan_out = self.pipeline.stage(step.fan_out).row().fan_out?;
                Some(fan_out.join)
            }),
            may_write: handler.handler.may_write(self.pipeline.stage(id.node)),
            holds_children: handler.runs_children,
            inherits: self.origin.parent.is_some(),
            stage,
        }
    }

    /// Returns the id of the execution path of an attempt.
    pub(crate) fn path_id_of(&self, id: &EffectId) -> String {
        self.path_id_of_branch(id, &id.branch.name(&self.pipeline))
    }

    /// Returns the ids of the outer execution paths of an attempt, innermost first.
    pub(crate) fn outer_path_ids(&self, id: &EffectId) -> Vec<String> {
        let mut ids = Vec::new();
        let mut branch = BranchPath::default();
        for step in id.branch.steps() {
            ids.push(self.path_id_of_branch(id, &branch.name(&self.pipeline)));
            branch = branch.then(*step);
        }
        ids.reverse();
        if let Some(Parent { run, stage }) = &self.origin.parent {
            ids.extend(run.outer_path_ids(stage));
        }
        ids
    }

    /// Returns the id of the execution path of a branch that was joined at a stage.
    pub(crate) fn path_id_of_branch(&self, joined_at: &EffectId, branch: &str) -> String {
        match &self.origin.parent {
            None => path_id(joined_at.restart, branch),
            Some(Parent { run, stage }) => {
                let key = stage.name(&run.pipeline);
                child_path_id(&run.path_id_of(stage), &key, joined_at.restart, branch)
            }
        }
    }
}
