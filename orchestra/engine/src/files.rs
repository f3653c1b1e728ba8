//! The files that a workspace provides for the execution paths of a run.

use std::path::Path;
use std::sync::Arc;

use orchestra_core::{BranchPath, EffectId, RunFailure, Snapshot};
use orchestra_graph::Stage;

use crate::builtin::child;
use crate::driver::Driver;
use crate::error::StartError;
use crate::result::RunStatus;
use crate::run::{Parent, Run};
use crate::stage::StageContext;
use crate::store::{Manifest, RunFolder, StoreError};
use crate::workspace::{
    OpenedWorkspace, RunEnd, RunFiles, WorkspaceEnd, WorkspaceError, WorkspaceRun, WorkspaceSession,
    WorkspaceStage, child_path_id, path_id,
};

impl Driver {
    /// Opens the workspace of a recovered run.
    pub(crate) async fn open_files(&self) -> Result<(), StartError> {
        let run = &self.run;
        if let Some(parent) = &run.origin.parent {
            if let Some(files) = parent.run.work_files().filter(|_| !self.has_ended()) {
                run.work_on(files.session.clone());
            }
            return Ok(());
        }
        let Some(store) = &run.store else {
            return Ok(());
        };
        let mut manifest = RunFolder::open(store.folder())?.manifest().clone();
        if let Some(opened) = self.opened_files(&manifest).await? {
            if manifest.workspace.as_ref() != Some(&opened.kept) {
                manifest.workspace = Some(opened.kept);
                store.manifest(&manifest)?;
            }
            run.work_on(opened.session);
        }
        Ok(())
    }

    /// Opens the workspace of a recovered run, without creating files. Returns `None` if the run has ended or has no
    /// workspace of its own.
    pub(crate) async fn opened_files(
        &self,
        manifest: &Manifest,
    ) -> Result<Option<OpenedWorkspace>, WorkspaceError> {
        let run = &self.run;
        let begun = self.recovery.as_ref().is_some_and(|recovery| recovery.begun);
        // Changes that stages made without a workspace are elsewhere, and would be missing in new worktrees.
        let elsewhere = begun && manifest.workspace.is_none();
        if self.has_ended() || elsewhere || run.origin.parent.is_some() {
            return Ok(None);
        }
        let of = WorkspaceRun::new(&run.id, &run.pipeline, manifest.workspace.as_ref());
        run.settings.open_files(of).await
    }

    /// Returns whether the recovered run had ended before.
    fn has_ended(&self) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_some_and(|recovery| recovery.ended.is_some())
    }

    /// Ends the workspace session of the run. A child run shares the session of its parent run, so it does not end it.
    pub(crate) async fn leave_files(&self, ended: &Result<Option<RunFailure>, StoreError>) {
        let Some(work) = self.run.work_files().filter(|_| self.run.origin.parent.is_none()) else {
            return;
        };
        let end = match ended {
            Ok(failure) if RunStatus::from_failure(failure.as_ref()) != RunStatus::Paused => RunEnd::Over,
            _ => RunEnd::Paused,
        };
        let state = self.machine.state();
        let snapshot = state.main.snapshot().cloned();
        let end = WorkspaceEnd::new(end, state.totals.restarts, snapshot);
        if let Err(error) = work.session.end(end).await {
            tracing::warn!("the files of the run are not tidied up: {error}");
        }
    }

    /// Describes a stage to the workspace, with the snapshot that its files must have.
    pub(crate) fn files_of(
        &self,
        id: &EffectId,
        node: Stage<'_>,
        stage: StageContext,
        may_write: bool,
    ) -> WorkspaceStage {
        let paths = self.machine.paths_to(id);
        let path = paths.last();
        let joined = path.map_or(&[][..], |path| path.joined());
        let joined = joined.iter().map(|branch| {
            let name = self.run.path_id_of_branch(id, &branch.name);
            (name, branch.clone())
        });
        WorkspaceStage {
            path_id: self.run.path_id_of(id),
            around: self.run.outer_path_ids(id),
            snapshot: path.and_then(|path| path.snapshot()).cloned(),
            joined: joined.collect(),
            join: id.branch.steps().last().and_then(|step| {
                let fan_out = self.run.pipeline.stage(step.fan_out).row().fan_out?;
                Some(fan_out.join)
            }),
            may_write,
            holds_children: child::runs_another(node, &self.run.origin.registry),
            inherits: self.run.origin.parent.is_some(),
            stage,
        }
    }
}

impl Run {
    /// Sets the workspace session of the run. Only the first call has an effect.
    pub(crate) fn work_on(&self, session: Arc<dyn WorkspaceSession>) {
        self.work.get_or_init(|| Box::new(RunFiles::new(session)));
    }

    /// Returns the files that the stages of the run work on.
    pub(crate) fn work_files(&self) -> Option<&RunFiles> {
        self.work.get().map(|files| &**files)
    }

    /// Takes the snapshot of the files that an attempt left.
    pub(crate) fn take_snapshot(&self, id: &EffectId) -> Option<Snapshot> {
        self.work_files()?.take(id)
    }

    /// Returns the folder in which the stages of a child run work (`stack.child_workdir`), as a path below the folder
    /// of the execution path. Returns `None` for an outermost run: the workspace, not the working folder of the engine,
    /// determines where its stages work.
    pub(crate) fn below(&self) -> Option<&Path> {
        self.origin.parent.as_ref()?;
        self.origin.working_dir.as_deref()
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
