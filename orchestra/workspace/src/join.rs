//! Where branches come together: which of them are merged, and what is told of it.

use orchestra_engine::{BranchStatus, Outcome, WorkspaceError, WorkspaceStage};
use orchestra_graph::Stage;
use serde_json::{Value, json};

use crate::fault::WorkspaceFault;
use crate::lines::{Line, Lines, Slot};
use crate::merge::{Conflict, Favour, Plan, Side, plan, resolve};
use crate::repository::Sha;
use crate::session::Names;
use crate::snapshot::{Head, heads_of};

/// How much of the conflicts the context holds, in bytes of JSON; the files themselves hold all of them.
const TOLD: usize = 64 * 1024;

/// Why a branch is not merged yet whose conflicts are to be resolved.
pub(crate) const CONFLICTS: &str = "it conflicts";

/// Which branches are merged (`merge_policy`).
pub(crate) enum Policy {
    /// All that succeeded.
    Merge,
    /// The one that the fan-in chose.
    BestOnly(String),
    /// None.
    None,
}

impl Policy {
    /// What a fan-in says, whose outcome names the best branch.
    pub(crate) fn of(node: Stage<'_>, outcome: &Outcome) -> Policy {
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

/// A join that is about to be made.
pub(crate) struct Joining {
    line: String,
    /// The branches that are merged, each with where it stands in every repository, in the order of their edges.
    sides: Vec<(String, Vec<Head>)>,
    unmerged: Vec<(String, String)>,
    may_open: bool,
    /// Where the line stood before a merge that was begun, and not finished.
    began_at: Option<Vec<Head>>,
}

/// What came of a join.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) merged: Vec<String>,
    pub(crate) unmerged: Vec<(String, String)>,
    /// The conflicts of each repository.
    conflicts: Vec<(String, Conflict)>,
    /// The files that conflict, each behind the name of its repository.
    pub(crate) open_files: Vec<String>,
    open: bool,
}

impl Joining {
    pub(crate) fn of(
        stage: &WorkspaceStage,
        slots: &[Slot],
        policy: Policy,
        began_at: Option<Vec<Head>>,
    ) -> Result<Joining, WorkspaceError> {
        let mut joining = Joining {
            line: stage.line().to_owned(),
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
                joining.unmerged.push((branch.id.clone(), reason.to_owned()));
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
            joining.sides.push((branch.id.clone(), heads));
        }
        Ok(joining)
    }

    /// Merges: all repositories, or none. Where branches conflict, the merge is left open in the trees of the line.
    pub(crate) fn merge(&self, lines: &Lines, names: &Names) -> Result<Report, WorkspaceFault> {
        let line = lines.line(&self.line);
        let mut known = line.known();
        let heads = self.began_at.clone().or_else(|| known.heads.clone());
        let Some(heads) = heads else {
            return Err(WorkspaceFault::LineNotReady {
                line: line.name.clone(),
            });
        };
        if heads.iter().any(|head| head.before.is_some()) {
            return Err(WorkspaceFault::MergeOpen {
                line: line.name.clone(),
            });
        }
        let mut plans = Vec::with_capacity(heads.len());
        for (at, (slot, head)) in lines.slots.iter().zip(&heads).enumerate() {
            let sides = self.sides.iter().filter_map(|(name, heads)| {
                let sha = heads.get(at)?.sha.clone();
                Some(Side {
                    name: name.clone(),
                    sha,
                })
            });
            let sides: Vec<Side> = sides.collect();
            let message = |merged: &[&str]| names.message(&format!("merge {}", quoted(merged)));
            plans.push(plan(&slot.repository, &head.sha, &sides, &message)?);
        }
        let mut report = Report {
            unmerged: self.unmerged.clone(),
            open: plans.iter().any(|plan| plan.open.is_some()),
            ..Report::default()
        };
        for (slot, plan) in lines.slots.iter().zip(&plans) {
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
            match aside(name) {
                true => report.unmerged.push((name.clone(), CONFLICTS.to_owned())),
                false => report.merged.push(name.clone()),
            }
        }
        let done = match report.open {
            false => advance(&line, &heads, &plans),
            true if self.may_open => open(lines, &line, &heads, &plans),
            true => return Ok(report),
        };
        known.heads = Some(match done {
            Ok(heads) => heads,
            // All repositories or none, and nothing half open.
            Err(fault) => {
                take_back(lines, &line, &heads)?;
                known.heads = Some(heads);
                return Err(fault);
            }
        });
        Ok(report)
    }
}

/// Moves the trees of a line to what was merged.
fn advance(line: &Line, heads: &[Head], plans: &[Plan]) -> Result<Vec<Head>, WorkspaceFault> {
    for ((tree, head), plan) in line.trees.iter().zip(heads).zip(plans) {
        if plan.clean != head.sha {
            tree.advance(&head.sha, &plan.clean)?;
        }
    }
    Ok(plans.iter().map(|plan| Head::at(&plan.clean)).collect())
}

/// Brings the trees of a line to where they stood, with nothing open.
fn take_back(lines: &Lines, line: &Line, heads: &[Head]) -> Result<(), WorkspaceFault> {
    let mut first = Ok(());
    for ((slot, tree), head) in lines.slots.iter().zip(&line.trees).zip(heads) {
        let to = head.before.as_ref().unwrap_or(&head.sha);
        let back = tree.restore(to).map(drop);
        first = first.and(back.and_then(|()| slot.repository.end_merge(tree.branch())));
    }
    first
}

/// Puts a merge that is to be finished into the trees of a line, on top of what could be merged.
fn open(lines: &Lines, line: &Line, heads: &[Head], plans: &[Plan]) -> Result<Vec<Head>, WorkspaceFault> {
    if let Some(underway) = underway(lines, line, heads, plans)? {
        return Ok(underway);
    }
    for (tree, head) in line.trees.iter().zip(heads) {
        tree.restore(&head.sha)?;
    }
    advance(line, heads, plans)?;
    let mut opened = Vec::with_capacity(heads.len());
    for ((tree, head), plan) in line.trees.iter().zip(heads).zip(plans) {
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

/// Where the trees stand if this very merge is open in them already: somebody may be in the midst of finishing it.
fn underway(
    lines: &Lines,
    line: &Line,
    heads: &[Head],
    plans: &[Plan],
) -> Result<Option<Vec<Head>>, WorkspaceFault> {
    let mut underway = Vec::with_capacity(heads.len());
    for (((slot, tree), head), plan) in lines.slots.iter().zip(&line.trees).zip(heads).zip(plans) {
        let repository = &slot.repository;
        let state = tree.state()?;
        let found = repository.open_merge_of(tree.branch())?;
        let same = match (&found, &plan.open) {
            (Some(found), Some(open)) => repository.parents(found)? == repository.parents(&open.commit)?,
            (None, None) => true,
            _ => false,
        };
        // Files without a change hold no merge, whatever a ref says.
        let emptied = found.is_some() && !state.dirty && state.head == plan.clean;
        if !same || emptied || !repository.is_ancestor(&plan.clean, &state.head)? {
            return Ok(None);
        }
        underway.push(Head {
            sha: state.head,
            merging: found,
            before: Some(head.sha.clone()),
        });
    }
    Ok(Some(underway))
}

impl Lines {
    /// Whether a merge is open in the trees of a line.
    pub(crate) fn is_merging(&self, name: &str) -> Result<bool, WorkspaceFault> {
        if !self.has_trees(name) {
            return Ok(false);
        }
        for (slot, tree) in self.slots.iter().zip(&self.line(name).trees) {
            if slot.repository.open_merge_of(tree.branch())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes back a merge that is open.
    pub(crate) fn give_up(&self, line: &Line) -> Result<(), WorkspaceFault> {
        let mut known = line.known();
        let Some(heads) = &mut known.heads else {
            return Ok(());
        };
        take_back(self, line, heads)?;
        for head in heads {
            *head = Head::at(head.before.as_ref().unwrap_or(&head.sha));
        }
        Ok(())
    }

    /// Finishes an open merge by taking one side of every conflict.
    pub(crate) fn favour(&self, line: &Line, favour: Favour, names: &Names) -> Result<(), WorkspaceFault> {
        let mut known = line.known();
        let Some(heads) = &mut known.heads else {
            return Ok(());
        };
        let mut resolved: Vec<Option<Sha>> = Vec::with_capacity(heads.len());
        for (slot, head) in self.slots.iter().zip(heads.iter()) {
            let what = match favour {
                Favour::Ours => "merge, in conflicts as it was",
                Favour::Theirs => "merge, in conflicts as the branches have it",
            };
            resolved.push(match &head.merging {
                Some(open) => Some(resolve(&slot.repository, open, favour, &names.message(what))?),
                None => None,
            });
        }
        for (((slot, tree), head), sha) in self.slots.iter().zip(&line.trees).zip(heads).zip(resolved) {
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
    /// Whether a merge is to be finished.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The merge was finished; nothing conflicts any more.
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

    /// Says in the context of the run what was merged and what conflicts.
    pub(crate) fn tell(&self, outcome: &mut Outcome) {
        let unmerged: Vec<Value> = self
            .unmerged
            .iter()
            .map(|(branch, reason)| json!({"branch": branch, "reason": reason}))
            .collect();
        let mut left = TOLD;
        let conflicts: Vec<Value> = self
            .conflicts
            .iter()
            .map(|(repository, conflict)| told(repository, conflict, &mut left))
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

    /// The outcome of a fan-in that takes no conflicts.
    pub(crate) fn refused(&self) -> Outcome {
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
        none.tell(&mut outcome);
        outcome
    }
}

/// Whether a branch is the one of that id, or within it.
fn is_of(id: &str, outer: &str) -> bool {
    id == outer || id.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// A conflict as data; one for which there is no room is told without its text.
fn told(repository: &str, conflict: &Conflict, left: &mut usize) -> Value {
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

/// Names in a sentence.
pub(crate) fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
