//! Comparing two runs: their common steps, their first divergence, and the alignment of what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orchestra_engine::{RunFolder, branch_label};
use orchestra_graph::{Difference, Transform};
use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::comparison::{
    AlignedRow, ComparedRun, Divergence, DivergenceKind, RunComparison, StepTotals, ValueDifference,
};
use crate::error::SessionError;
use crate::index::SessionIndex;
use crate::query;
use crate::rows::{Page, Session, SessionStatus, StageRow, StageState, TransitionRow};
use crate::run_step::{RunStep, StepDecision, steps};

/// Maximum number of stage attempts, and of decisions, of a run that are compared.
const MAX_ROWS: usize = 10_000;

/// Maximum number of steps of a run after the first divergence that are aligned.
const MAX_ALIGNED: usize = 2_000;

impl SessionIndex {
    /// Compares two runs, which are named by their ids or by unique prefixes of them. `transforms` are those of the
    /// program that executed the runs; they only affect the [changes](RunComparison::pipeline_changes) of the pipeline.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn compare(
        &self,
        left: &str,
        right: &str,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<RunComparison, SessionError> {
        self.compare_with(left, self, right, transforms)
    }

    /// Like [`compare`](SessionIndex::compare), with a second run of another runs folder.
    ///
    /// # Errors
    ///
    /// Fails like [`run`](SessionIndex::run).
    pub fn compare_with(
        &self,
        left: &str,
        other: &SessionIndex,
        right: &str,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<RunComparison, SessionError> {
        let (left, right) = (self.recorded(left)?, other.recorded(right)?);
        let pipelines = Pipelines::between(&left.session, &right.session, transforms);
        Ok(compare(left, right, pipelines))
    }

    /// Returns the rows of a run, which belong to its present status.
    fn recorded(&self, run: &str) -> Result<Recorded, SessionError> {
        let recorded = self.rows_of(run)?;
        let present = self.with_present_status(recorded.session.clone());
        if present.summary.events > recorded.session.summary.events {
            return self.rows_of(&present.run);
        }
        Ok(Recorded {
            session: present,
            ..recorded
        })
    }

    fn rows_of(&self, run: &str) -> Result<Recorded, SessionError> {
        self.of_run(run, |connection, folders, run| {
            let page = Page::After {
                seq: 0,
                most: MAX_ROWS + 1,
            };
            let mut stages = query::stages(connection, run, page)?;
            let mut transitions = query::transitions(connection, run, page)?;
            // The first rows of both tables up to the same event.
            let cut = [
                stages.get(MAX_ROWS).map(|row| row.seq),
                transitions.get(MAX_ROWS).map(|row| row.seq),
            ];
            let cut = cut.into_iter().flatten().min();
            stages.retain(|row| cut.is_none_or(|cut| row.seq < cut));
            transitions.retain(|row| cut.is_none_or(|cut| row.seq < cut));
            Ok(Recorded {
                session: query::session(connection, folders, run)?,
                stages,
                transitions,
                is_cut: cut.is_some(),
            })
        })
    }
}

/// The rows of a run that is compared.
struct Recorded {
    session: Session,
    stages: Vec<StageRow>,
    transitions: Vec<TransitionRow>,
    /// `true` if the run has more rows.
    is_cut: bool,
}

/// The comparison of the pipelines of two runs.
#[derive(Default)]
struct Pipelines {
    same: Option<bool>,
    changes: String,
}

impl Pipelines {
    fn between(left: &Session, right: &Session, transforms: &[Arc<dyn Transform>]) -> Pipelines {
        let folders = (RunFolder::open(&left.folder), RunFolder::open(&right.folder));
        let (Ok(left), Ok(right)) = folders else {
            return Pipelines::default();
        };
        let pins = [&left, &right].map(|folder| {
            let manifest = folder.manifest();
            let files = manifest.children.iter().map(|pin| (&*pin.file, &*pin.hash));
            (&*manifest.pipeline.hash, files.collect::<BTreeMap<_, _>>())
        });
        let [(left_hash, left_files), (right_hash, right_files)] = &pins;
        if left_hash == right_hash && left_files == right_files {
            return Pipelines {
                same: Some(true),
                ..Pipelines::default()
            };
        }
        let loaded = [&left, &right].map(|folder| folder.load_pipeline(transforms).pipeline());
        let mut changes = match &loaded {
            [Some(left), Some(right)] => format!("{:.20}", Difference::between(left, right)),
            _ => String::new(),
        };
        if changes.is_empty() {
            // The hash of a pipeline does not cover the files that contain its prompts.
            let names: BTreeSet<&str> = left_files.keys().chain(right_files.keys()).copied().collect();
            let changed = names
                .into_iter()
                .filter(|name| left_files.get(name) != right_files.get(name));
            changes = changed.map(|name| format!("~ file {name}\n")).collect();
        }
        Pipelines {
            same: Some(false),
            changes,
        }
    }
}

fn compare(left: Recorded, right: Recorded, pipelines: Pipelines) -> RunComparison {
    let is_cut = (left.is_cut, right.is_cut);
    let same_edges = pipelines.same == Some(true);
    let sessions = (left.session, right.session);
    let left = steps(left.stages, left.transitions);
    let right = steps(right.stages, right.transitions);
    let pairs = left.iter().zip(&right);
    let same = |(left, right): &(&RunStep, &RunStep)| difference(left, right, same_edges).is_none();
    let common = pairs.take_while(same).count();
    let mut divergence = divergence(
        (left.get(common), right.get(common)),
        (sessions.0.status, sessions.1.status),
        is_cut,
        (common, same_edges),
    );
    let runs = (
        ComparedRun::new(sessions.0, &left, common),
        ComparedRun::new(sessions.1, &right, common),
    );
    let (rows, is_unaligned) = align(left, right, common, same_edges);
    if let Some(divergence) = &mut divergence
        && divergence.kind == DivergenceKind::Values
    {
        let parts = |row: &AlignedRow| !row.same && row.differs != Some(DivergenceKind::Values);
        divergence.parts_at = rows.iter().position(parts);
    }
    RunComparison {
        left: runs.0,
        right: runs.1,
        same_pipeline: pipelines.same,
        pipeline_changes: pipelines.changes,
        common,
        divergence,
        rows,
        more: is_cut.0 || is_cut.1 || is_unaligned,
    }
}

impl ComparedRun {
    fn new(session: Session, steps: &[RunStep], common: usize) -> ComparedRun {
        let mut after = StepTotals::default();
        for step in steps.get(common..).unwrap_or_default() {
            after.attempts += step.attempts;
            after.usage += step.usage;
            if step.branch.is_none() {
                after.duration = after.duration.saturating_add(step.duration.unwrap_or_default());
            }
        }
        ComparedRun {
            run: session.run,
            name: session.name,
            status: session.status,
            replayed_from: session.summary.replayed_from,
            steps: steps.len(),
            after,
        }
    }
}

/// Returns the kind of the first difference between two steps. Edges have the same numbers in both pipelines if
/// `same_edges` is set.
fn difference(left: &RunStep, right: &RunStep, same_edges: bool) -> Option<DivergenceKind> {
    let position = |step: &RunStep| (step.visit, step.attempt);
    if left.node != right.node || left.branch != right.branch || position(left) != position(right) {
        return Some(DivergenceKind::Node);
    }
    difference_of_content(left, right, same_edges)
}

/// Returns the kind of the first difference between two steps at the same node.
fn difference_of_content(left: &RunStep, right: &RunStep, same_edges: bool) -> Option<DivergenceKind> {
    if left.has_ended() != right.has_ended() {
        return Some(DivergenceKind::End);
    }
    if left.has_ended() && result(left) != result(right) {
        return Some(DivergenceKind::Outcome);
    }
    match (&left.decision, &right.decision) {
        (None, None) => None,
        (Some(left), Some(right)) if choice(left, same_edges) != choice(right, same_edges) => {
            Some(DivergenceKind::Edge)
        }
        (Some(left), Some(right)) => {
            // A condition that only one decision tested has decided nothing.
            let differs = |(key, value)| right.values.get(key).is_some_and(|other| other != value);
            left.values.iter().any(differs).then_some(DivergenceKind::Values)
        }
        _ => Some(DivergenceKind::End),
    }
}

/// Returns the result of an attempt: its state, its outcome, the preferred label, and whether another attempt follows.
fn result(step: &RunStep) -> (Option<StageState>, Option<&str>, &str, bool) {
    let label = step.preferred_label.as_deref().unwrap_or_default();
    (step.state, step.outcome.as_deref(), label, step.will_retry)
}

/// Returns the choice of a decision: the target, the rule, and the numbers of the edge and of the branches.
fn choice(decision: &StepDecision, same_edges: bool) -> (Option<&str>, &str, Option<u32>, Option<u32>) {
    let edge = decision.edge.filter(|_| same_edges);
    (decision.to.as_deref(), &decision.rule, edge, decision.branches)
}

fn divergence(
    (left, right): (Option<&RunStep>, Option<&RunStep>),
    statuses: (SessionStatus, SessionStatus),
    (left_is_cut, right_is_cut): (bool, bool),
    (row, same_edges): (usize, bool),
) -> Option<Divergence> {
    let kind = match (left, right) {
        (Some(left), Some(right)) => difference(left, right, same_edges)?,
        // The further steps are unknown.
        (None, _) if left_is_cut => return None,
        (_, None) if right_is_cut => return None,
        (None, None) if statuses.0 == statuses.1 => return None,
        _ => DivergenceKind::End,
    };
    let is_at_same_node = matches!(kind, DivergenceKind::Edge | DivergenceKind::Values);
    Some(Divergence {
        kind,
        row,
        parts_at: Some(row),
        values: match (left, right) {
            (Some(left), Some(right)) if is_at_same_node => value_differences(left, right),
            _ => Vec::new(),
        },
        left: left.cloned(),
        right: right.cloned(),
    })
}

/// Returns the values that differ among those that the conditions of two decisions read.
fn value_differences(left: &RunStep, right: &RunStep) -> Vec<ValueDifference> {
    let values = |step: &RunStep| step.decision.as_ref().map(|decision| decision.values.clone());
    let (left, right) = (
        values(left).unwrap_or_default(),
        values(right).unwrap_or_default(),
    );
    let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let pairs = keys.into_iter().map(|key| ValueDifference {
        key: key.clone(),
        left: left.get(key).cloned(),
        right: right.get(key).cloned(),
    });
    pairs.filter(|value| value.left != value.right).collect()
}

/// Pairs the steps of two runs: those before the first divergence one to one, the others by a longest common
/// subsequence of their nodes. Also returns whether some are left unpaired because there are too many.
fn align(
    left: Vec<RunStep>,
    right: Vec<RunStep>,
    common: usize,
    same_edges: bool,
) -> (Vec<AlignedRow>, bool) {
    let end = common.saturating_add(MAX_ALIGNED);
    let is_cut = left.len().max(right.len()) > end;
    let keys = |steps: &[RunStep]| {
        let aligned = steps.get(common..end.min(steps.len())).unwrap_or_default();
        aligned.iter().map(key).collect::<Vec<_>>()
    };
    let operations = capture_diff_slices(Algorithm::Myers, &keys(&left), &keys(&right));
    let mut rows = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let mut push = |left, right| rows.push(AlignedRow::new(left, right, same_edges));
    for _ in 0..common {
        push(left.next(), right.next());
    }
    for operation in operations {
        let (tag, old, new) = operation.as_tag_tuple();
        if tag == DiffTag::Equal {
            old.for_each(|_| push(left.next(), right.next()));
        } else {
            old.for_each(|_| push(left.next(), None));
            new.for_each(|_| push(None, right.next()));
        }
    }
    left.for_each(|step| push(Some(step), None));
    right.for_each(|step| push(None, Some(step)));
    (rows, is_cut)
}

impl AlignedRow {
    fn new(left: Option<RunStep>, right: Option<RunStep>, same_edges: bool) -> AlignedRow {
        let (same, differs) = match (&left, &right) {
            (Some(left), Some(right)) => {
                let differs = difference_of_content(left, right, same_edges);
                (differs.is_none(), differs)
            }
            _ => (false, None),
        };
        AlignedRow {
            left,
            right,
            same,
            differs,
        }
    }
}

/// Returns what two steps must have in common to be in one row: the node, the branch apart from the numbers of visits,
/// and whether it is the beginning of a parallel block.
fn key(step: &RunStep) -> (Option<String>, String, bool) {
    let branch = step.branch.as_deref().map(branch_label);
    (branch, step.node.clone(), step.attempt.is_none())
}
