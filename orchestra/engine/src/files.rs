//! What a run does with files: those that its workspace gives its lines.

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
    WorkspaceStage, child_line, line_name,
};

impl Driver {
    /// Gives a run that is taken up the files of its stages.
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

    /// The files of the stages of a run that is taken up, if it has its own and goes on; nothing is made of them yet.
    pub(crate) async fn opened_files(
        &self,
        manifest: &Manifest,
    ) -> Result<Option<OpenedWorkspace>, WorkspaceError> {
        let run = &self.run;
        let begun = self.taken_up.as_ref().is_some_and(|taken_up| taken_up.begun);
        // What its stages did without them lies elsewhere, and would be missing in new trees.
        let elsewhere = begun && manifest.workspace.is_none();
        if self.has_ended() || elsewhere || run.origin.parent.is_some() {
            return Ok(None);
        }
        let of = WorkspaceRun::new(&run.id, &run.pipeline, manifest.workspace.as_ref());
        run.settings.open_files(of).await
    }

    /// Whether a run that is taken up has ended before.
    fn has_ended(&self) -> bool {
        let taken_up = self.taken_up.as_ref();
        taken_up.is_some_and(|taken_up| taken_up.ended.is_some())
    }

    /// Tells the workspace that the run has ended here; that of a child ends with the run around it.
    pub(crate) async fn leave_files(&self, ended: &Result<Option<RunFailure>, StoreError>) {
        let Some(work) = self.run.work_files().filter(|_| self.run.origin.parent.is_none()) else {
            return;
        };
        let end = match ended {
            Ok(failure) if RunStatus::of(failure.as_ref()) != RunStatus::Paused => RunEnd::Over,
            _ => RunEnd::Paused,
        };
        let state = self.machine.state();
        let snapshot = state.main.snapshot().cloned();
        let end = WorkspaceEnd::new(end, state.totals.restarts, snapshot);
        if let Err(error) = work.session.end(end).await {
            tracing::warn!("the files of the run are not tidied up: {error}");
        }
    }

    /// How the files of a stage are to stand.
    pub(crate) fn files_of(
        &self,
        id: &EffectId,
        node: Stage<'_>,
        stage: StageContext,
        may_write: bool,
    ) -> WorkspaceStage {
        let lines = self.machine.lines_to(id);
        let line = lines.last();
        let joined = line.map_or(&[][..], |line| line.joined());
        let joined = joined.iter().map(|branch| {
            let name = self.run.line_of_branch(id, &branch.name);
            (name, branch.clone())
        });
        WorkspaceStage {
            line: self.run.line_of(id),
            around: self.run.lines_around(id),
            snapshot: line.and_then(|line| line.snapshot()).cloned(),
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
    /// Gives the run files to work on, once.
    pub(crate) fn work_on(&self, session: Arc<dyn WorkspaceSession>) {
        self.work.get_or_init(|| Box::new(RunFiles::new(session)));
    }

    /// The files that its stages work on.
    pub(crate) fn work_files(&self) -> Option<&RunFiles> {
        self.work.get().map(|files| &**files)
    }

    /// How an attempt that has ended left its files, once.
    pub(crate) fn take_snapshot(&self, id: &EffectId) -> Option<Snapshot> {
        self.work_files()?.take(id)
    }

    /// The folder below that of its line in which the stages of a child work (`stack.child_workdir`). That of the engine is
    /// none: where stages work is said by the workspace.
    pub(crate) fn below(&self) -> Option<&Path> {
        self.origin.parent.as_ref()?;
        self.origin.working_dir.as_deref()
    }

    /// The name of the line in which an attempt is made.
    pub(crate) fn line_of(&self, id: &EffectId) -> String {
        self.line_of_branch(id, &id.branch.name(&self.pipeline))
    }

    /// The names of the lines around that of an attempt, the nearest first.
    pub(crate) fn lines_around(&self, id: &EffectId) -> Vec<String> {
        let mut lines = Vec::new();
        let mut branch = BranchPath::default();
        for step in id.branch.steps() {
            lines.push(self.line_of_branch(id, &branch.name(&self.pipeline)));
            branch = branch.then(*step);
        }
        lines.reverse();
        if let Some(Parent { run, stage }) = &self.origin.parent {
            lines.extend(run.lines_around(stage));
        }
        lines
    }

    /// The name of the line of a branch that ended before a stage.
    pub(crate) fn line_of_branch(&self, joined_at: &EffectId, branch: &str) -> String {
        match &self.origin.parent {
            None => line_name(joined_at.restart, branch),
            Some(Parent { run, stage }) => {
                let key = stage.name(&run.pipeline);
                child_line(&run.line_of(stage), &key, joined_at.restart, branch)
            }
        }
    }
}
