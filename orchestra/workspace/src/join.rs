//! Joins: selects the branches to merge, merges them, and reports the result.

use orchestra_engine::{BranchStatus, Outcome, WorkspaceError, WorkspaceStage};
use orchestra_graph::Stage;
use serde_json::{Value, json};

use crate::attempt::AttemptIds;
use crate::error::GitWorkspaceError;
use crate::merge::{Conflict, Favour, Plan, Side, plan, resolve};
use crate::run_worktrees::{PathWorktrees, RunWorktrees, Slot};
use crate::sha::Sha;
use crate::snapshot::{Head, heads_of};

/// Maximum size of the conflicts in the context, in bytes of JSON. The files contain all of them.
const MAX_CONFLICT_BYTES: usize = 64 * 1024;

/// The reason reported for a branch whose conflicts have to be resolved.
pub(crate) const CONFLICTS: &str = "it conflicts";

/// The branches to merge (`merge_policy`).
pub(crate) enum Policy {
    /// All branches that succeeded.
    Merge,
    /// The branch that the fan-in chose.
    BestOnly(String),
    /// No branches.
    None,
}

impl Policy {
    /// Returns the policy of a fan-in. Its outcome names the best branch.
    pub(crate) fn new(node: Stage<'_>, outcome: &Outcome) -> Policy {
        match node.text("merge_policy") {
            Some("none") => Policy::None,
            Some("best_only") => {
                let best = outcome.context_updates.get("parallel.fan_in.best_id");
                Policy::BestOnly(best.and_then(Value::as_str).unwrap_or_default().to_owned())
            }
            _ => Policy::Merge,
        }
    }
}

/// A join that is about to be performed.
pub(crate) struct Join {
    path_id: String,
    /// The branches to merge in the order of their edges, each with its commits in all repositories.
    sides: Vec<(String, Vec<Head>)>,
    unmerged: Vec<(String, String)>,
    may_open: bool,
    /// The commits of the path before a merge that was begun and not finished.
    began_at: Option<Vec<Head>>,
}

/// The result of a join.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) merged: Vec<String>,
    pub(crate) unmerged: Vec<(String, String)>,
    /// The conflicts, each with the name of its repository.
    conflicts: Vec<(String, Conflict)>,
    /// The conflicting files, each prefixed with the name of its repository.
    pub(crate) open_files: Vec<String>,
    open: bool,
}

impl Join {
    pub(crate) fn new(
        stage: &WorkspaceStage,
        slots: &[Slot],
        policy: Policy,
        began_at: Option<Vec<Head>>,
    ) -> Result<Join, WorkspaceError> {
        let mut join = Join {
            path_id: stage.path_id().to_owned(),
            sides: Vec::new(),
            unmerged: Vec::new(),
            may_open: stage.stage().node().text("on_conflict") != Some("fail"),
            began_at,
        };
        for (_, branch) in stage.joined() {
            let left_out = match (&policy, branch.status) {
                (_, BranchStatus::Fail) => Some("it failed"),
                (_, BranchStatus::Cancelled) => Some("it was cut short"),
                (Policy::None, _) => Some("`merge_policy` is `none`"),
                (Policy::BestOnly(best), _) if !is_of(&branch.id, best) => Some("another branch is the best"),
                _ => None,
            };
            if let Some(reason) = left_out {
                join.unmerged.push((branch.id.clone(), reason.to_owned()));
                continue;
            }
            let heads = match &branch.snapshot {
                Some(snapshot) => heads_of(&snapshot.value, slots.iter().map(|slot| slot.name.as_str())),
                None => Ok(slots.iter().map(|slot| Head::at(&slot.base)).collect()),
            };
            let heads = heads.map_err(|reason| {
                let id = &branch.id;
                WorkspaceError::new(
                    "workspace_snapshot",
                    format!("the snapshot of branch `{id}` is of no use: {reason}"),
                )
            })?;
            join.sides.push((branch.id.clone(), heads));
        }
        Ok(join)
    }

    /// Merges all repositories, or none. If branches conflict, the merge is left open in the worktrees of the path.
    pub(crate) fn merge(
        &self,
        worktrees: &RunWorktrees,
        ids: &AttemptIds,
    ) -> Result<Report, GitWorkspaceError> {
        let path = worktrees.of_path(&self.path_id);
        let mut state = path.state();
        let heads = self.began_at.clone().or_else(|| state.heads.clone());
        let Some(heads) = heads else {
            return Err(GitWorkspaceError::PathNotReady {
                path_id: path.name.clone(),
            });
        };
        if heads.iter().any(|head| head.before.is_some()) {
            return Err(GitWorkspaceError::MergeOpen {
                path_id: path.name.clone(),
            });
        }
        let mut plans = Vec::with_capacity(heads.len());
        for (at, (slot, head)) in worktrees.slots.iter().zip(&heads).enumerate() {
            let sides = self.sides.iter().filter_map(|(name, heads)| {
                let sha = heads.get(at)?.sha.clone();
                Some(Side {
                    name: name.clone(),
                    sha,
                })
            });
            let sides: Vec<Side> = sides.collect();
            let message = |merged: &[&str]| ids.message(&format!("merge {}", quoted(merged)));
            plans.push(plan(&slot.repository, &head.sha, &sides, &message)?);
        }
        let mut report = Report {
            unmerged: self.unmerged.clone(),
            open: plans.iter().any(|plan| plan.open.is_some()),
            ..Report::default()
        };
        for (slot, plan) in worktrees.slots.iter().zip(&plans) {
            for conflict in plan.open.iter().flat_map(|open| &open.files) {
                report
                    .open_files
                    .push(format!("{}: {}", slot.name, conflict.path));
                report.conflicts.push((slot.name.clone(), conflict.clone()));
            }
        }
        let aside = |name: &str| {
            let open = plans.iter().filter_map(|plan| plan.open.as_ref());
            open.into_iter()
                .any(|open| open.sides.iter().any(|side| side == name))
        };
        for (name, _) in &self.sides {
            if aside(name) {
                report.unmerged.push((name.clone(), CONFLICTS.to_owned()))
            } else {
                report.merged.push(name.clone())
            }
        }
        let done = if !report.open {
            advance(&path, &heads, &plans)
        } else if self.may_open {
            open(worktrees, &path, &heads, &plans)
        } else {
            return Ok(report);
        };
        state.heads = Some(match done {
            Ok(heads) => heads,
            // All repositories or none: leave no merge half open.
            Err(error) => {
                restore_heads(worktrees, &path, &heads)?;
                state.heads = Some(heads);
                return Err(error);
            }
        });
        Ok(report)
    }
}

/// Moves the worktrees of a path to the merge commits.
fn advance(path: &PathWorktrees, heads: &[Head], plans: &[Plan]) -> Result<Vec<Head>, GitWorkspaceError> {
    for ((tree, head), plan) in path.trees.iter().zip(heads).zip(plans) {
        if plan.clean != head.sha {
            tree.advance(&head.sha, &plan.clean)?;
        }
    }
    Ok(plans.iter().map(|plan| Head::at(&plan.clean)).collect())
}

/// Restores the worktrees of a path to the commits before the merge, with no merge open.
fn restore_heads(
    worktrees: &RunWorktrees,
    path: &PathWorktrees,
    heads: &[Head],
) -> Result<(), GitWorkspaceError> {
    let mut first = Ok(());
    for ((slot, tree), head) in worktrees.slots.iter().zip(&path.trees).zip(heads) {
        let to = head.before.as_ref().unwrap_or(&head.sha);
        let back = tree.restore(to).map(drop);
        first = first.and(back.and_then(|()| slot.repository.end_merge(tree.branch())));
    }
    first
}

/// Opens a merge with conflicts in the worktrees of a path, on top of the branches that could be merged.
fn open(
    worktrees: &RunWorktrees,
    path: &PathWorktrees,
    heads: &[Head],
    plans: &[Plan],
) -> Result<Vec<Head>, GitWorkspaceError> {
    if let Some(heads) = merge_in_progress(worktrees, path, heads, plans)? {
        return Ok(heads);
    }
    for (tree, head) in path.trees.iter().zip(heads) {
        tree.restore(&head.sha)?;
    }
    advance(path, heads, plans)?;
    let mut opened = Vec::with_capacity(heads.len());
    for ((tree, head), plan) in path.trees.iter().zip(heads).zip(plans) {
        if let Some(open) = &plan.open {
            tree.open_merge(&plan.clean, &open.commit)?;
        }
        opened.push(Head {
            sha: plan.clean.clone(),
            merging: plan.open.as_ref().map(|open| open.commit.clone()),
            before: Some(head.sha.clone()),
        });
    }
    Ok(opened)
}

/// Returns the state of the worktrees if exactly this merge is already open in them. A person may be resolving it.
fn merge_in_progress(
    worktrees: &RunWorktrees,
    path: &PathWorktrees,
    heads: &[Head],
    plans: &[Plan],
) -> Result<Option<Vec<Head>>, GitWorkspaceError> {
    let mut present = Vec::with_capacity(heads.len());
    for (((slot, tree), head), plan) in worktrees.slots.iter().zip(&path.trees).zip(heads).zip(plans) {
        let repository = &slot.repository;
        let state = tree.state()?;
        let found = repository.open_merge_of(tree.branch())?;
        let same = match (&found, &plan.open) {
            (Some(found), Some(open)) => repository.parents(found)? == repository.parents(&open.commit)?,
            (None, None) => true,
            _ => false,
        };
        // Unchanged files contain no open merge, even if a ref names one.
        let emptied = found.is_some() && !state.dirty && state.head == plan.clean;
        if !same || emptied || !repository.is_ancestor(&plan.clean, &state.head)? {
            return Ok(None);
        }
        present.push(Head {
            sha: state.head,
            merging: found,
            before: Some(head.sha.clone()),
        });
    }
    Ok(Some(present))
}

impl RunWorktrees {
    /// Returns whether a merge is open in the worktrees of a path.
    pub(crate) fn is_merging(&self, name: &str) -> Result<bool, GitWorkspaceError> {
        if !self.has_trees(name) {
            return Ok(false);
        }
        for (slot, tree) in self.slots.iter().zip(&self.of_path(name).trees) {
            if slot.repository.open_merge_of(tree.branch())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Undoes an open merge.
    pub(crate) fn abort_merge(&self, path: &PathWorktrees) -> Result<(), GitWorkspaceError> {
        let mut state = path.state();
        let Some(heads) = &mut state.heads else {
            return Ok(());
        };
        restore_heads(self, path, heads)?;
        for head in heads {
            *head = Head::at(head.before.as_ref().unwrap_or(&head.sha));
        }
        Ok(())
    }

    /// Finishes an open merge by taking one side of every conflict.
    pub(crate) fn favour(
        &self,
        path: &PathWorktrees,
        favour: Favour,
        ids: &AttemptIds,
    ) -> Result<(), GitWorkspaceError> {
        let mut state = path.state();
        let Some(heads) = &mut state.heads else {
            return Ok(());
        };
        let mut resolved: Vec<Option<Sha>> = Vec::with_capacity(heads.len());
        for (slot, head) in self.slots.iter().zip(heads.iter()) {
            let what = match favour {
                Favour::Ours => "merge, in conflicts as it was",
                Favour::Theirs => "merge, in conflicts as the branches have it",
            };
            resolved.push(match &head.merging {
                Some(open) => Some(resolve(&slot.repository, open, favour, &ids.message(what))?),
                None => None,
            });
        }
        for (((slot, tree), head), sha) in self.slots.iter().zip(&path.trees).zip(heads).zip(resolved) {
            if let Some(sha) = sha {
                tree.restore(&head.sha)?;
                tree.advance(&head.sha, &sha)?;
                slot.repository.end_merge(tree.branch())?;
                head.sha = sha;
            }
            *head = Head::at(&head.sha);
        }
        Ok(())
    }
}

impl Report {
    /// Returns whether a merge is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Marks the merge as finished: the branches that conflicted are merged now.
    pub(crate) fn finished(mut self) -> Report {
        let (conflicting, others) = self
            .unmerged
            .into_iter()
            .partition(|(_, reason)| reason == CONFLICTS);
        let conflicting: Vec<(String, String)> = conflicting;
        self.merged.extend(conflicting.into_iter().map(|(name, _)| name));
        Report {
            unmerged: others,
            conflicts: Vec::new(),
            open_files: Vec::new(),
            open: false,
            ..self
        }
    }

    /// Adds the merged branches and the conflicts to the context updates of an outcome.
    pub(crate) fn update_context(&self, outcome: &mut Outcome) {
        let unmerged: Vec<Value> = self
            .unmerged
            .iter()
            .map(|(branch, reason)| json!({"branch": branch, "reason": reason}))
            .collect();
        let mut left = MAX_CONFLICT_BYTES;
        let conflicts: Vec<Value> = self
            .conflicts
            .iter()
            .map(|(repository, conflict)| conflict_json(repository, conflict, &mut left))
            .collect();
        let updates = [
            ("workspace.merged", json!(self.merged)),
            ("workspace.unmerged", json!(unmerged)),
            ("workspace.conflict_count", json!(conflicts.len())),
            ("workspace.conflicts", json!(conflicts)),
        ];
        outcome
            .context_updates
            .extend(updates.map(|(key, value)| (key.to_owned(), value)));
    }

    /// Returns the outcome of a fan-in that does not accept conflicts.
    pub(crate) fn conflict_outcome(&self) -> Outcome {
        let mut outcome = Outcome::fail_terminal(format!(
            "the branches conflict, and nothing is merged: {}",
            self.open_files.join(", ")
        ))
        .with_code("merge_conflict");
        let mut none = Report {
            merged: Vec::new(),
            unmerged: self.unmerged.clone(),
            conflicts: self.conflicts.clone(),
            ..Report::default()
        };
        let together = self
            .merged
            .iter()
            .map(|name| (name.clone(), "others conflict".to_owned()));
        none.unmerged.extend(together);
        none.update_context(&mut outcome);
        outcome
    }
}

/// Returns whether `id` is the branch `outer`, or is nested in it.
fn is_of(id: &str, outer: &str) -> bool {
    id == outer || id.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// Converts a conflict to JSON. Drops the text of its hunks if it exceeds the remaining size.
fn conflict_json(repository: &str, conflict: &Conflict, left: &mut usize) -> Value {
    let mut value = serde_json::to_value(conflict).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("repository".to_owned(), repository.into());
        if let Some(sides) = fields.remove("sides") {
            fields.insert("branches".to_owned(), sides);
        }
    }
    let size = value.to_string().len();
    if size <= *left {
        *left -= size;
    } else if let Some(fields) = value.as_object_mut() {
        fields.remove("hunks");
        fields.insert("cut".to_owned(), true.into());
    }
    value
}

/// Formats names as a quoted list for a message.
pub(crate) fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
