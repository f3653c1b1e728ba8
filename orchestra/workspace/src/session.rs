//! The files of one run: the implementation of the workspace session that the engine uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Outcome, RunEnd, Snapshot, StageEnd, Status, Workplace, WorkspaceEnd, WorkspaceError, WorkspaceFuture,
    WorkspaceSession, WorkspaceStage,
};
use orchestra_graph::{Role, Stage, kind};

use crate::attempt::AttemptIds;
use crate::blocking::{blocking, failed};
use crate::join::{CONFLICTS, Join, Policy, Report};
use crate::message::Message;
use crate::run_worktrees::{Committed, RunWorktrees, TargetState, lock};
use crate::snapshot::{Head, heads_of};

/// The files of a run.
pub(crate) struct Session {
    worktrees: Arc<RunWorktrees>,
    /// The join reports of the stages in progress, by attempt key.
    joined: Mutex<BTreeMap<String, Report>>,
    /// The attempts whose merge was opened before the run stopped.
    begun: Mutex<BTreeSet<String>>,
}

impl Session {
    pub(crate) fn new(worktrees: RunWorktrees) -> Session {
        Session {
            worktrees: Arc::new(worktrees),
            joined: Mutex::default(),
            begun: Mutex::default(),
        }
    }

    /// Returns the commits at which the worktrees of a stage's path must be, or `None` to continue from the present
    /// state.
    fn target_heads(&self, stage: &WorkspaceStage) -> Result<Option<Vec<Head>>, WorkspaceError> {
        match stage.snapshot() {
            Some(snapshot) => {
                let names = self.worktrees.slots.iter().map(|slot| slot.name.as_str());
                let heads = heads_of(&snapshot.value, names).map_err(|reason| {
                    let path = stage.path_id();
                    WorkspaceError::new(
                        "workspace_snapshot",
                        format!("the snapshot of execution path `{path}` is of no use: {reason}"),
                    )
                })?;
                Ok(Some(heads))
            }
            None if stage.inherits() => Ok(None),
            None => Ok(Some(self.worktrees.bases())),
        }
    }

    async fn begin(&self, stage: &WorkspaceStage) -> Result<Workplace, WorkspaceError> {
        if stage.may_write()
            && let Some(join) = stage.join().filter(|join| !runs_a_handler(*join))
        {
            return Err(WorkspaceError::new(
                "workspace_join",
                format!(
                    "branches whose stages change files meet at `{}`, which runs nothing, so their files cannot be \
                     brought together; put a fan-in (shape=tripleoctagon) before it",
                    join.id()
                ),
            ));
        }
        let run = stage.stage().ownership();
        for slot in &self.worktrees.slots {
            slot.repository.act_for(&run);
        }
        let fan_in = stage.stage().node().kind() == kind::FAN_IN;
        let (own, outer) = (stage.path_id().to_owned(), stage.outer_path_ids().to_vec());
        let heads = self.target_heads(stage)?;
        let worktrees = self.worktrees.clone();
        let writes = stage.may_write() || stage.joined().next().is_some();
        let mut starts_over = stage.starts_over();
        // A person who was asked how to finish a merge may have begun to resolve it. Keep that work: the fan-in itself
        // changes nothing.
        if starts_over && fan_in && !stage.may_write() && self.is_merging(stage).await? {
            starts_over = false;
            let key = stage.stage().attempt_key();
            lock(&self.begun).insert(key);
        }
        let (name, location) = blocking(move || {
            let reads = || {
                outer
                    .iter()
                    .find(|path| worktrees.has_trees(path))
                    .or(outer.last())
            };
            let name = if writes || worktrees.of_path(&own).is_ready() || worktrees.has_trees(&own) {
                own.clone()
            } else {
                reads().cloned().unwrap_or(own.clone())
            };
            let path = worktrees.of_path(&name);
            let target = TargetState {
                heads,
                // A stage must not discard the work of other paths.
                starts_over: starts_over && name == own,
            };
            worktrees.prepare(&path, &outer, &target)?;
            let slots = worktrees.slots.iter().zip(&path.trees);
            let folders = slots.map(|(slot, tree)| (slot.name.clone(), tree.root()));
            let location = Workplace::new(worktrees.root(&path), folders.collect());
            Ok((name, location))
        })
        .await?;
        if !fan_in && name == stage.path_id() && stage.joined().next().is_some() {
            self.commit_manual_changes(stage).await?;
            let report = self.join(stage, Policy::Merge).await?;
            let key = stage.stage().attempt_key();
            lock(&self.joined).insert(key, report);
        }
        Ok(location)
    }

    /// Commits the changes that a person made in the worktrees of a path, before branches are merged into them.
    async fn commit_manual_changes(&self, stage: &WorkspaceStage) -> Result<(), WorkspaceError> {
        let (worktrees, name) = (self.worktrees.clone(), stage.path_id().to_owned());
        let message = AttemptIds::from_stage(stage.stage()).message("what was changed by hand before");
        let committed = blocking(move || {
            let path = worktrees.of_path(&name);
            let open = worktrees.is_merging(&name)?;
            if open {
                Ok(Committed::default())
            } else {
                worktrees.commit(&path, &message)
            }
        });
        committed.await.map(|committed| log_discarded(stage, &committed))
    }

    /// Returns whether a merge that the snapshot does not contain is open in the worktrees of the path.
    async fn is_merging(&self, stage: &WorkspaceStage) -> Result<bool, WorkspaceError> {
        let (worktrees, name) = (self.worktrees.clone(), stage.path_id().to_owned());
        blocking(move || worktrees.is_merging(&name)).await
    }

    /// Merges the files of the branches that join at a stage.
    async fn join(&self, stage: &WorkspaceStage, policy: Policy) -> Result<Report, WorkspaceError> {
        let worktrees = self.worktrees.clone();
        let key = stage.stage().attempt_key();
        let began_at = if lock(&self.begun).remove(&key) {
            self.target_heads(stage)?
        } else {
            None
        };
        let join = Join::new(stage, &worktrees.slots, policy, began_at)?;
        let ids = AttemptIds::from_stage(stage.stage());
        let report = blocking(move || join.merge(&worktrees, &ids)).await?;
        for (branch, reason) in &report.unmerged {
            stage.stage().log(if reason == CONFLICTS {
                format!("branch `{branch}` conflicts with what was merged before it")
            } else {
                format!("the files of branch `{branch}` are not merged: {reason}")
            });
        }
        Ok(report)
    }

    async fn finish(&self, stage: &WorkspaceStage, outcome: Outcome) -> (StageEnd, Option<Snapshot>) {
        let ids = AttemptIds::from_stage(stage.stage());
        let key = stage.stage().attempt_key();
        let mut report = lock(&self.joined).remove(&key);
        let mut outcome = outcome;
        let own = stage.may_write() || report.is_some();
        let mut left = Vec::new();
        if own {
            let (worktrees, name) = (self.worktrees.clone(), stage.path_id().to_owned());
            let message = ids.message(&summary(&outcome));
            match blocking(move || worktrees.commit(&worktrees.of_path(&name), &message)).await {
                Ok(committed) => {
                    log_discarded(stage, &committed);
                    left = committed.left;
                }
                Err(error) => return (error.outcome().into(), None),
            }
        }
        let fan_in = stage.stage().node().kind() == kind::FAN_IN;
        if fan_in && stage.joined().next().is_some() && outcome.status.is_success() {
            let joined = match self.join_at_fan_in(stage, &outcome).await {
                Ok(joined) => joined,
                Err(failed) => return (*failed, None),
            };
            left = joined.open_files.clone();
            report = Some(joined);
        } else if !left.is_empty() && outcome.status.is_success() {
            outcome = Outcome::fail(format!(
                "the merge is not finished: conflict markers are left in {}",
                left.join(", ")
            ))
            .with_code("merge_unresolved");
        }
        // If the stage joined the branches itself and resolved all conflicts, the merge is finished.
        report = report.map(|report| {
            if left.is_empty() {
                report.finished()
            } else {
                report
            }
        });
        if let Some(report) = &report {
            report.update_context(&mut outcome);
        } else if own && left.is_empty() && was_open(stage) {
            outcome = outcome.set("workspace.conflicts", Vec::<String>::new());
            outcome = outcome.set("workspace.conflict_count", 0);
        }
        let snapshot = self.snapshot(stage, own || report.is_some(), report.is_some(), &left);
        (outcome.into(), snapshot)
    }

    /// Returns the snapshot of a path if it differs from the present one.
    fn snapshot(&self, stage: &WorkspaceStage, own: bool, joined: bool, left: &[String]) -> Option<Snapshot> {
        let saved = own
            .then(|| self.worktrees.saved(&self.worktrees.of_path(stage.path_id())))
            .flatten()?;
        let value = serde_json::to_value(&saved).ok()?;
        let same = match stage.snapshot() {
            Some(before) => before.value == value,
            None => self.target_heads(stage).ok().flatten().is_some_and(|bases| {
                let heads = saved.values().map(|head| (&head.git_sha, &head.merging));
                heads.eq(bases.iter().map(|head| (&head.sha, &head.merging)))
            }),
        };
        if same && !joined {
            return None;
        }
        let unfinished = saved.values().any(|head| head.merging.is_some()).then(|| {
            let node = stage.stage().node().id();
            match left {
                [] => format!("the merge at `{node}` is not finished"),
                left => format!(
                    "the merge at `{node}` is not finished: conflict markers are left in {}",
                    left.join(", ")
                ),
            }
        });
        Some(Snapshot {
            unfinished,
            joined,
            ..Snapshot::new(value)
        })
    }

    /// Merges the branches at a fan-in. Asks a person to finish the merge if the node requests it.
    async fn join_at_fan_in(
        &self,
        stage: &WorkspaceStage,
        outcome: &Outcome,
    ) -> Result<Report, Box<StageEnd>> {
        let policy = Policy::new(stage.stage().node(), outcome);
        let committed = self.commit_manual_changes(stage).await;
        committed.map_err(failed)?;
        let joined = self.join(stage, policy).await;
        let report = joined.map_err(failed)?;
        let report = match stage.stage().node().text("on_conflict") {
            Some("human") if report.is_open() => self.ask(stage, report).await?,
            Some("fail") if report.is_open() => {
                let outcome = report.conflict_outcome();
                self.abort_merge(stage).await.map_err(failed)?;
                return Err(Box::new(outcome.into()));
            }
            _ => report,
        };
        self.remove_joined_worktrees(stage).await;
        Ok(report)
    }

    /// Undoes an open merge and restores every worktree.
    pub(crate) async fn abort_merge(&self, stage: &WorkspaceStage) -> Result<(), WorkspaceError> {
        let (worktrees, name) = (self.worktrees.clone(), stage.path_id().to_owned());
        blocking(move || worktrees.abort_merge(&worktrees.of_path(&name))).await
    }

    pub(crate) fn worktrees(&self) -> &Arc<RunWorktrees> {
        &self.worktrees
    }

    /// Removes the worktrees of branches that have ended. Those that cannot be removed now are removed at the end of
    /// the run.
    async fn remove_joined_worktrees(&self, stage: &WorkspaceStage) {
        let worktrees = self.worktrees.clone();
        let ids = AttemptIds::from_stage(stage.stage());
        let ended: Vec<String> = stage.joined().map(|(path, _)| path.to_owned()).collect();
        let removed = blocking(move || {
            let message = ids.message("what a branch left that was cut short");
            let mut first = Ok(());
            for path in ended {
                let closed = worktrees.close(&path, &message);
                first = first.and(closed);
            }
            first
        });
        if let Err(error) = removed.await {
            stage
                .stage()
                .log(format!("the files of ended branches are not tidied up: {error}"));
        }
    }
}

impl WorkspaceSession for Session {
    fn enter<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>> {
        Box::pin(self.begin(stage))
    }

    fn leave<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)> {
        Box::pin(self.finish(stage, outcome))
    }

    fn save<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>> {
        Box::pin(async move {
            if !stage.may_write() || was_open(stage) {
                return Ok(None);
            }
            let (worktrees, name) = (self.worktrees.clone(), stage.path_id().to_owned());
            let message = AttemptIds::from_stage(stage.stage()).message("changes so far");
            blocking(move || worktrees.commit(&worktrees.of_path(&name), &message).map(drop)).await?;
            Ok(self.snapshot(stage, true, false, &[]))
        })
    }

    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
        let worktrees = self.worktrees.clone();
        Box::pin(async move {
            let names = worktrees.slots.iter().map(|slot| slot.name.as_str());
            let last_heads = end
                .snapshot
                .as_ref()
                .and_then(|snapshot| heads_of(&snapshot.value, names).ok());
            match end.end {
                RunEnd::Paused => Ok(()),
                RunEnd::Over => {
                    blocking(move || {
                        let message = Message {
                            summary: "what was not committed when the run ended".to_owned(),
                            ..Message::default()
                        };
                        worktrees.close_all(&message, &end.path_id, last_heads.as_deref())
                    })
                    .await
                }
            }
        })
    }
}

/// Returns whether a stage runs a handler, so that files can be merged before or after it.
fn runs_a_handler(stage: Stage<'_>) -> bool {
    let row = stage.row();
    row.role == Role::Work && row.fan_out.is_none() && stage.kind() != kind::WAIT_HUMAN
}

/// Returns whether a merge was open when the stage began.
fn was_open(stage: &WorkspaceStage) -> bool {
    stage
        .snapshot()
        .is_some_and(|snapshot| snapshot.unfinished.is_some())
}

/// Returns the summary of an outcome for the commit message.
fn summary(outcome: &Outcome) -> String {
    let text = outcome.notes.as_deref().or(outcome.failure_reason.as_deref());
    let first = text.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    match (&outcome.status, first) {
        (Status::Fail | Status::Retry, Some(reason)) => format!("failed: {reason}"),
        (Status::Fail | Status::Retry, None) => "failed".to_owned(),
        (_, Some(notes)) => notes.to_owned(),
        (_, None) => "changes".to_owned(),
    }
}

/// Logs the repositories in which a stage discarded commits: later stages do not see them.
fn log_discarded(stage: &WorkspaceStage, committed: &Committed) {
    for message in &committed.discarded {
        stage
            .stage()
            .log(format!("the stage took back commits: {message}"));
    }
}
