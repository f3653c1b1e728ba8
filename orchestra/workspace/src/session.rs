//! The files of one run, as the engine asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Outcome, RunEnd, Snapshot, StageContext, StageEnd, Status, Workplace, WorkspaceEnd, WorkspaceError,
    WorkspaceFuture, WorkspaceSession, WorkspaceStage,
};
use orchestra_graph::{Role, Stage, kind};

use crate::ask::failed;
use crate::fault::WorkspaceFault;
use crate::join::{CONFLICTS, Joining, Policy, Report};
use crate::lines::{Committed, Lines, Wanted, lock};
use crate::message::Message;
use crate::snapshot::{Head, heads_of};

/// The files of a run.
pub(crate) struct Session {
    lines: Arc<Lines>,
    /// What came of the joins of stages that are under way, by their attempts.
    joined: Mutex<BTreeMap<String, Report>>,
    /// The attempts whose merge was opened before the run stopped.
    begun: Mutex<BTreeSet<String>>,
}

/// What an attempt is to its commits.
#[derive(Clone)]
pub(crate) struct Names {
    pub(crate) run: String,
    pub(crate) node: String,
    pub(crate) attempt: String,
}

impl Names {
    fn of(stage: &StageContext) -> Names {
        Names {
            run: stage.run_id().to_string(),
            node: stage.node().id().to_owned(),
            attempt: stage.attempt_key(),
        }
    }

    /// The message of a commit for it.
    pub(crate) fn message(&self, summary: &str) -> Message {
        let trailer = |name: &str, value: &str| (format!("Orchestra-{name}"), value.to_owned());
        Message {
            summary: format!("{}: {summary}", self.node),
            body: String::new(),
            trailers: vec![
                trailer("Run", &self.run),
                trailer("Node", &self.node),
                trailer("Attempt", &self.attempt),
                // The name by which the run can be replayed from here.
                trailer("Checkpoint", &self.attempt),
            ],
        }
    }
}

/// A fault as the engine wants it.
pub(crate) fn error_of(fault: &WorkspaceFault) -> WorkspaceError {
    WorkspaceError::new(fault.code(), fault.to_string())
}

/// Does what waits for git away from the threads that run stages.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceFault> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match orchestra_engine::beside(work).await {
        Ok(done) => done.map_err(|fault| error_of(&fault)),
        Err(error) => Err(WorkspaceError::new("workspace_io", error.to_string())),
    }
}

impl Session {
    pub(crate) fn new(lines: Lines) -> Session {
        Session {
            lines: Arc::new(lines),
            joined: Mutex::default(),
            begun: Mutex::default(),
        }
    }

    /// Where the line of a stage is to stand; nothing where it goes on as it is.
    fn wanted(&self, stage: &WorkspaceStage) -> Result<Option<Vec<Head>>, WorkspaceError> {
        match stage.snapshot() {
            Some(snapshot) => {
                let names = self.lines.slots.iter().map(|slot| slot.name.as_str());
                let heads = heads_of(&snapshot.value, names).map_err(|reason| {
                    let line = stage.line();
                    WorkspaceError::new(
                        "workspace_snapshot",
                        format!("the snapshot of line `{line}` is of no use: {reason}"),
                    )
                })?;
                Ok(Some(heads))
            }
            None if stage.inherits() => Ok(None),
            None => Ok(Some(self.lines.bases())),
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
        for slot in &self.lines.slots {
            slot.repository.act_for(&run);
        }
        let fan_in = stage.stage().node().kind() == kind::FAN_IN;
        let (own, around) = (stage.line().to_owned(), stage.lines_around().to_vec());
        let heads = self.wanted(stage)?;
        let lines = self.lines.clone();
        let writes = stage.may_write() || stage.joined().next().is_some();
        let mut starts_over = stage.starts_over();
        // Whoever was asked how to finish a merge may have begun to; the fan-in itself changes nothing.
        if starts_over && fan_in && !stage.may_write() && self.is_merging(stage).await? {
            starts_over = false;
            let key = stage.stage().attempt_key();
            lock(&self.begun).insert(key);
        }
        let (name, place) = blocking(move || {
            let reads = || around.iter().find(|line| lines.has_trees(line)).or(around.last());
            let name = match writes || lines.line(&own).is_ready() || lines.has_trees(&own) {
                true => own.clone(),
                false => reads().cloned().unwrap_or(own.clone()),
            };
            let line = lines.line(&name);
            let wanted = Wanted {
                heads,
                // What others work on is not for this stage to undo.
                starts_over: starts_over && name == own,
            };
            lines.prepare(&line, &around, &wanted)?;
            let slots = lines.slots.iter().zip(&line.trees);
            let folders = slots.map(|(slot, tree)| (slot.name.clone(), tree.root()));
            let place = Workplace::new(lines.root(&line), folders.collect());
            Ok((name, place))
        })
        .await?;
        if !fan_in && name == stage.line() && stage.joined().next().is_some() {
            self.adopt(stage).await?;
            let report = self.join(stage, Policy::Merge).await?;
            let key = stage.stage().attempt_key();
            lock(&self.joined).insert(key, report);
        }
        Ok(place)
    }

    /// Commits what a person did in the trees of a line before branches are merged into them.
    async fn adopt(&self, stage: &WorkspaceStage) -> Result<(), WorkspaceError> {
        let (lines, name) = (self.lines.clone(), stage.line().to_owned());
        let message = Names::of(stage.stage()).message("what was changed by hand before");
        let adopted = blocking(move || {
            let line = lines.line(&name);
            let open = lines.is_merging(&name)?;
            match open {
                true => Ok(Committed::default()),
                false => lines.commit(&line, &message),
            }
        });
        adopted.await.map(|committed| tell(stage, &committed))
    }

    /// Whether a merge is open in the trees of a line that its snapshot knows nothing of.
    async fn is_merging(&self, stage: &WorkspaceStage) -> Result<bool, WorkspaceError> {
        let (lines, name) = (self.lines.clone(), stage.line().to_owned());
        blocking(move || lines.is_merging(&name)).await
    }

    /// Brings the files of the branches before a stage together.
    async fn join(&self, stage: &WorkspaceStage, policy: Policy) -> Result<Report, WorkspaceError> {
        let lines = self.lines.clone();
        let key = stage.stage().attempt_key();
        let began_at = match lock(&self.begun).remove(&key) {
            true => self.wanted(stage)?,
            false => None,
        };
        let joining = Joining::of(stage, &lines.slots, policy, began_at)?;
        let names = Names::of(stage.stage());
        let report = blocking(move || joining.merge(&lines, &names)).await?;
        for (branch, reason) in &report.unmerged {
            stage.stage().log(match reason == CONFLICTS {
                true => format!("branch `{branch}` conflicts with what was merged before it"),
                false => format!("the files of branch `{branch}` are not merged: {reason}"),
            });
        }
        Ok(report)
    }

    async fn finish(&self, stage: &WorkspaceStage, outcome: Outcome) -> (StageEnd, Option<Snapshot>) {
        let names = Names::of(stage.stage());
        let key = stage.stage().attempt_key();
        let mut report = lock(&self.joined).remove(&key);
        let mut outcome = outcome;
        let own = stage.may_write() || report.is_some();
        let mut left = Vec::new();
        if own {
            let (lines, name) = (self.lines.clone(), stage.line().to_owned());
            let message = names.message(&summary(&outcome));
            match blocking(move || lines.commit(&lines.line(&name), &message)).await {
                Ok(committed) => {
                    tell(stage, &committed);
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
        // What a stage resolved whose own beginning was the join conflicts no more.
        report = report.map(|report| {
            if left.is_empty() {
                report.finished()
            } else {
                report
            }
        });
        if let Some(report) = &report {
            report.tell(&mut outcome);
        } else if own && left.is_empty() && was_open(stage) {
            outcome = outcome.set("workspace.conflicts", Vec::<String>::new());
            outcome = outcome.set("workspace.conflict_count", 0);
        }
        let snapshot = self.snapshot(stage, own || report.is_some(), report.is_some(), &left);
        (outcome.into(), snapshot)
    }

    /// The snapshot of a line, where it differs from the one that it has.
    fn snapshot(&self, stage: &WorkspaceStage, own: bool, joined: bool, left: &[String]) -> Option<Snapshot> {
        let saved = own
            .then(|| self.lines.saved(&self.lines.line(stage.line())))
            .flatten()?;
        let value = serde_json::to_value(&saved).ok()?;
        let same = match stage.snapshot() {
            Some(before) => before.value == value,
            None => self.wanted(stage).ok().flatten().is_some_and(|bases| {
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

    /// Brings branches together at a fan-in, and finishes the merge with a person where the node says so.
    async fn join_at_fan_in(
        &self,
        stage: &WorkspaceStage,
        outcome: &Outcome,
    ) -> Result<Report, Box<StageEnd>> {
        let policy = Policy::of(stage.stage().node(), outcome);
        let adopted = self.adopt(stage).await;
        adopted.map_err(failed)?;
        let joined = self.join(stage, policy).await;
        let report = joined.map_err(failed)?;
        let report = match stage.stage().node().text("on_conflict") {
            Some("human") if report.is_open() => self.ask(stage, report).await?,
            Some("fail") if report.is_open() => {
                let told = report.refused();
                self.give_up(stage).await.map_err(failed)?;
                return Err(Box::new(told.into()));
            }
            _ => report,
        };
        self.tidy(stage).await;
        Ok(report)
    }

    /// Takes back a merge that is open: every tree is as it was before.
    pub(crate) async fn give_up(&self, stage: &WorkspaceStage) -> Result<(), WorkspaceError> {
        let (lines, name) = (self.lines.clone(), stage.line().to_owned());
        blocking(move || lines.give_up(&lines.line(&name))).await
    }

    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    pub(crate) fn names(stage: &WorkspaceStage) -> Names {
        Names::of(stage.stage())
    }

    /// Takes away the trees of branches that have ended. What cannot be taken away now is at the end of the run.
    async fn tidy(&self, stage: &WorkspaceStage) {
        let lines = self.lines.clone();
        let names = Names::of(stage.stage());
        let ended: Vec<String> = stage.joined().map(|(line, _)| line.to_owned()).collect();
        let tidied = blocking(move || {
            let message = names.message("what a branch left that was cut short");
            let mut first = Ok(());
            for line in ended {
                let closed = lines.close(&line, &message);
                first = first.and(closed);
            }
            first
        });
        if let Err(error) = tidied.await {
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
            let (lines, name) = (self.lines.clone(), stage.line().to_owned());
            let message = Names::of(stage.stage()).message("changes so far");
            blocking(move || lines.commit(&lines.line(&name), &message).map(drop)).await?;
            Ok(self.snapshot(stage, true, false, &[]))
        })
    }

    fn end(&self, end: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
        let lines = self.lines.clone();
        Box::pin(async move {
            let names = lines.slots.iter().map(|slot| slot.name.as_str());
            let stood = end
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
                        lines.close_all(&message, &end.line, stood.as_deref())
                    })
                    .await
                }
            }
        })
    }
}

/// Whether a stage runs a handler, before or behind which files can be brought together.
fn runs_a_handler(stage: Stage<'_>) -> bool {
    let row = stage.row();
    row.role == Role::Work && row.fan_out.is_none() && stage.kind() != kind::WAIT_HUMAN
}

/// Whether a merge was open when the stage began.
fn was_open(stage: &WorkspaceStage) -> bool {
    stage
        .snapshot()
        .is_some_and(|snapshot| snapshot.unfinished.is_some())
}

/// What a commit says of an attempt.
fn summary(outcome: &Outcome) -> String {
    let told = outcome.notes.as_deref().or(outcome.failure_reason.as_deref());
    let first = told.and_then(|told| told.lines().find(|line| !line.trim().is_empty()));
    match (&outcome.status, first) {
        (Status::Fail | Status::Retry, Some(reason)) => format!("failed: {reason}"),
        (Status::Fail | Status::Retry, None) => "failed".to_owned(),
        (_, Some(notes)) => notes.to_owned(),
        (_, None) => "changes".to_owned(),
    }
}

/// Says which repositories were taken back by a stage: later ones do not see what was left out.
fn tell(stage: &WorkspaceStage, committed: &Committed) {
    for told in &committed.turned_back {
        stage.stage().log(format!("the stage took back commits: {told}"));
    }
}
