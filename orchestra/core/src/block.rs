//! Parallel blocks: branches begin, end and are joined (Attractor 4.8, rules P1 to P4).

use std::collections::HashSet;
use std::time::Duration;

use orchestra_graph::table::{ErrorPolicy, FanOut, JoinPolicy};
use orchestra_graph::{EdgeIndex, Pipeline, branches, format_duration, kind};
use serde_json::{Map, Value, json};

use crate::effect::{Effect, Observation};
use crate::files::JoinedBranch;
use crate::foreach;
use crate::id::{BranchPath, BranchStep, EffectId};
use crate::outcome::{BranchStatus, Outcome, Status};
use crate::path::{Block, Branch, BranchEnd, ExecutionPath, Phase};
use crate::routing::{Records, facts};
use crate::transition::{NextStep, PathEnd, StepResult, Transition, or_unspecified};

/// Maximum nesting depth of parallel blocks. The check `parallel_nesting` finds deeper nesting before the run.
const MAX_NESTING: usize = 32;

impl Block {
    fn count(&self) -> u32 {
        self.branches.len() as u32
    }

    /// Returns `true` if the branches that have not ended cannot change the result any more (rule P4).
    fn is_decided(&self) -> bool {
        if self.fan_out.error_policy == ErrorPolicy::FailFast && self.failed > 0 {
            return true;
        }
        let Some(needed) = self.fan_out.join_policy.needed(self.count()) else {
            return false;
        };
        self.succeeded >= needed || self.count() - self.failed < needed
    }

    /// Returns the outcome of the block (rule P4).
    fn outcome(&self, joins_at_fan_in: bool) -> Outcome {
        let (count, succeeded, failed) = (self.count(), self.succeeded, self.failed);
        if count == 0 {
            // Only a list can be empty; a number of branches that must succeed is not met then.
            let none = "the list has no items".to_owned();
            return match self.fan_out.join_policy {
                JoinPolicy::WaitAll | JoinPolicy::Quorum(_) => Outcome::success().notes(none),
                JoinPolicy::KOfN(_) | JoinPolicy::FirstSuccess => Outcome::fail(none),
            };
        }
        let counted = format!("{succeeded} of {count} branches succeeded");
        if self.fan_out.error_policy == ErrorPolicy::FailFast && failed > 0 {
            return Outcome::fail(self.first_failure());
        }
        match self.fan_out.join_policy.needed(count) {
            Some(needed) if succeeded >= needed => Outcome::success().notes(counted),
            Some(needed) if failed == 0 => Outcome::fail(format!("{counted}, {needed} must")),
            Some(needed) => Outcome::fail(format!("{counted}, {needed} must; {}", self.first_failure())),
            None if failed == 0 || self.fan_out.error_policy == ErrorPolicy::Ignore => {
                Outcome::success().notes(counted)
            }
            // No stage after the join would notice the failure, unless the join is a fan-in, which then fails by
            // itself.
            None if succeeded == 0 && !joins_at_fan_in => {
                Outcome::fail(format!("all branches failed; {}", self.first_failure()))
            }
            None => Outcome::new(Status::PartialSuccess).notes(counted),
        }
    }

    /// Describes the first failed branch in the order of the edges, which does not depend on which failed earlier.
    fn first_failure(&self) -> String {
        let failed = self.branches.iter().find_map(|branch| {
            let ended = branch.ended.as_ref()?;
            (ended.status == BranchStatus::Fail).then_some((&branch.id, ended.reason.as_deref()))
        });
        failed.map_or_else(String::new, |(id, reason)| {
            format!("branch `{id}`: {}", or_unspecified(reason.unwrap_or_default()))
        })
    }
}

impl Transition<'_> {
    /// Opens a block at a fan-out.
    pub(crate) fn fork(
        &mut self,
        path: &mut ExecutionPath,
        id: EffectId,
        fan_out: FanOut,
    ) -> Result<NextStep, StepResult> {
        let stage = self.pipeline.stage(path.at.node);
        if path.branch.steps().len() >= MAX_NESTING {
            let reason = format!("more than {MAX_NESTING} parallel blocks are inside one another");
            return Ok(NextStep::Ended(Outcome::fail_terminal(reason)));
        }
        let records = Records::new(self.pipeline, path);
        let facts = facts(self.pipeline, path, stage, &records);
        let (edges, tested) = branches(self.pipeline, stage.index(), &facts);
        let items = match foreach::items(stage, &path.context) {
            Ok(items) => items,
            Err(reason) => {
                let failure = Outcome::fail_terminal(reason).with_code(foreach::FAILURE_CODE);
                return Ok(NextStep::Ended(failure));
            }
        };
        let is_foreach = items.is_some();
        let items = items.unwrap_or_default();
        let steps: Vec<(EdgeIndex, Option<u32>)> = if is_foreach {
            // The list has exactly one edge (`foreach_invalid`).
            let edges = edges.into_iter().take(1);
            let all = edges.flat_map(|edge| (0..items.len() as u32).map(move |item| (edge, Some(item))));
            all.collect()
        } else {
            edges.into_iter().map(|edge| (edge, None)).collect()
        };
        let count = steps.len() as u32;
        self.emit(|| Observation::ParallelStarted {
            id,
            branches: count,
            tested,
        });
        if steps.is_empty() && !is_foreach {
            return Ok(NextStep::Ended(Outcome::fail(
                "the condition of every branch is false",
            )));
        }
        let branches = steps.into_iter().map(|(edge, item)| Branch {
            edge,
            item,
            id: branch_step_of(path, edge, item).branch_id(self.pipeline),
            began: Duration::ZERO,
            path: None,
            ended: None,
        });
        let block = Box::new(Block {
            fan_out,
            branches: branches.collect(),
            items,
            next: 0,
            running: 0,
            succeeded: 0,
            failed: 0,
            visits: path.visits.fork(),
            outcomes: path.outcomes.fork(),
            began: self.totals.elapsed,
            timeout: stage.duration("timeout"),
        });
        if let Some(delay) = block.timeout {
            let id = path.id(self.totals.restarts);
            self.effects.push(Effect::StartTimer { id, delay });
        }
        self.drive(path, block)
    }

    /// Cancels a block whose time limit has passed, and fails it (rule Y6).
    pub(crate) fn block_timed_out(&mut self, path: &mut ExecutionPath) -> StepResult {
        match std::mem::replace(&mut path.phase, Phase::Idle) {
            Phase::Parallel(mut block) => {
                self.cancel_rest(path, &mut block);
                let limit = format_duration(block.timeout.unwrap_or_default());
                let counted = self.join(path, *block);
                let mut outcome = Outcome::fail(format!("timed out after {limit}")).with_code("timeout");
                outcome.context_updates = counted.context_updates;
                self.advance(path, NextStep::Ended(outcome))
            }
            other => {
                path.phase = other;
                StepResult::Wait
            }
        }
    }

    /// Records the end of a branch and continues its block.
    pub(crate) fn branch_ended(
        &mut self,
        path: &mut ExecutionPath,
        position: usize,
        end: PathEnd,
    ) -> Result<NextStep, StepResult> {
        match std::mem::replace(&mut path.phase, Phase::Idle) {
            Phase::Parallel(mut block) => {
                block.running -= 1;
                self.close(&mut block, position, end);
                self.drive(path, block)
            }
            other => {
                path.phase = other;
                Err(StepResult::Wait)
            }
        }
    }

    /// Starts branches up to the parallelism limit, and joins them when the result cannot change any more.
    fn drive(&mut self, path: &mut ExecutionPath, mut block: Box<Block>) -> Result<NextStep, StepResult> {
        loop {
            if block.is_decided() {
                self.cancel_rest(path, &mut block);
                return Ok(NextStep::Ended(self.join(path, *block)));
            }
            let position = block.next;
            if position < block.branches.len() && block.running < block.fan_out.max_parallel {
                block.next += 1;
                let branch = self.begin(path, &mut block, position);
                let target = self.pipeline.edge(block.branches[position].edge).to;
                let result = self.advance(
                    block.branches[position].path.insert(branch),
                    NextStep::Enter(target),
                );
                match result {
                    StepResult::Wait => block.running += 1,
                    StepResult::Ended(end) => self.close(&mut block, position, end),
                    other => {
                        path.phase = Phase::Parallel(block);
                        return Err(other);
                    }
                }
            } else if block.running == 0 {
                return Ok(NextStep::Ended(self.join(path, *block)));
            } else {
                path.phase = Phase::Parallel(block);
                return Err(StepResult::Wait);
            }
        }
    }

    /// Creates the execution path of a branch that begins.
    fn begin(&mut self, path: &ExecutionPath, block: &mut Block, position: usize) -> Box<ExecutionPath> {
        let branch = &mut block.branches[position];
        branch.began = self.totals.elapsed;
        self.count_taken(branch.edge);
        let mut begun = Box::new(path.fork(
            branch_path_of(path, branch.edge, branch.item),
            block.visits.clone(),
            block.outcomes.clone(),
        ));
        begun.at.edge = Some(branch.edge);
        let item = branch.item.and_then(|index| block.items.get(index as usize));
        if let Some((index, item)) = branch.item.zip(item) {
            foreach::set_item(&mut begun.context, index, item);
        }
        self.emit(|| Observation::ParallelBranchStarted {
            branch: begun.branch.clone(),
            index: position as u32,
            item: item.cloned(),
        });
        begun
    }

    /// Records how a branch ended.
    fn close(&mut self, block: &mut Block, position: usize, end: PathEnd) {
        let branch = &mut block.branches[position];
        let Some(path) = branch.path.as_deref_mut() else {
            return;
        };
        path.phase = Phase::Idle;
        // A branch without stages has no outcome of its own; its last outcome is that of the stage before the block.
        let ran = path.own_last().is_some();
        let (status, reason) = match end {
            PathEnd::Failed(failure) => (BranchStatus::Fail, Some(failure.to_string())),
            _ if path.unfinished().is_some() => (BranchStatus::Fail, path.unfinished().map(str::to_owned)),
            _ if !ran => (BranchStatus::Success, None),
            _ => match path.last.status {
                Status::Fail => (BranchStatus::Fail, Some(path.last.failure_reason.clone())),
                Status::PartialSuccess => (BranchStatus::PartialSuccess, None),
                _ => (BranchStatus::Success, None),
            },
        };
        match status {
            BranchStatus::Fail => block.failed += 1,
            _ => block.succeeded += 1,
        }
        let duration = self.totals.elapsed.saturating_sub(branch.began);
        let branch_path = path.branch.clone();
        branch.ended = Some(BranchEnd {
            status,
            reason: reason.clone(),
            duration,
        });
        self.emit(|| Observation::ParallelBranchCompleted {
            branch: branch_path,
            index: position as u32,
            status,
            reason,
            duration,
        });
    }

    /// Cancels the branches that are no longer needed.
    fn cancel_rest(&mut self, path: &ExecutionPath, block: &mut Block) {
        for position in 0..block.branches.len() {
            let branch = &mut block.branches[position];
            if branch.ended.is_some() {
                continue;
            }
            let mut duration = Duration::ZERO;
            if let Some(running) = branch.path.as_deref_mut() {
                self.cancel(running);
                running.flush();
                duration = self.totals.elapsed.saturating_sub(branch.began);
            }
            branch.ended = Some(BranchEnd {
                status: BranchStatus::Cancelled,
                reason: None,
                duration,
            });
            let branch_path = branch_path_of(path, branch.edge, branch.item);
            self.emit(|| Observation::ParallelBranchCompleted {
                branch: branch_path,
                index: position as u32,
                status: BranchStatus::Cancelled,
                reason: None,
                duration,
            });
        }
        block.running = 0;
    }

    /// Joins the branches of a block into the parent path. Returns the outcome of the block.
    fn join(&mut self, path: &mut ExecutionPath, mut block: Block) -> Outcome {
        let join = self.pipeline.stage(block.fan_out.join);
        let mut outcome = block.outcome(join.kind() == kind::FAN_IN);
        let duration = self.totals.elapsed.saturating_sub(block.began);
        let id = path.id(self.totals.restarts);
        if block.timeout.is_some() {
            self.effects.push(Effect::CancelEffect { id: id.clone() });
        }
        self.emit(|| Observation::ParallelCompleted {
            id,
            succeeded: block.succeeded,
            failed: block.failed,
            duration,
        });
        let joined = joined_branches(self.pipeline, &block);
        let ignored = block.fan_out.error_policy == ErrorPolicy::Ignore;
        let mut results = Vec::with_capacity(block.branches.len());
        let mut updates = Vec::with_capacity(block.branches.len());
        for branch in &mut block.branches {
            let Some(status) = branch.status() else {
                continue;
            };
            let key = ["parallel.branch.", &branch.id, ".status"].concat();
            updates.push((key, Value::from(status.word())));
            if !(ignored && status == BranchStatus::Fail) {
                let item = branch.item.and_then(|index| block.items.get(index as usize));
                results.extend(result(self.pipeline, branch, item));
            }
        }
        // Collect from a list: thousands of single insertions take three times as long.
        outcome.context_updates = updates.into_iter().collect();
        outcome = outcome
            .set("parallel.results", Value::Array(results))
            .set("parallel.success_count", block.succeeded)
            .set("parallel.fail_count", block.failed);
        path.merge(block);
        path.set_joined(join.id(), joined);
        outcome
    }
}

/// Returns the path of a branch that begins at the fan-out at which a path is.
pub(crate) fn branch_path_of(path: &ExecutionPath, edge: EdgeIndex, item: Option<u32>) -> BranchPath {
    path.branch.then(branch_step_of(path, edge, item))
}

pub(crate) fn branch_step_of(path: &ExecutionPath, edge: EdgeIndex, item: Option<u32>) -> BranchStep {
    BranchStep {
        fan_out: path.at.node,
        visit: path.at.visit,
        attempt: path.at.attempt,
        edge,
        item,
    }
}

/// Returns the branches whose files may have to be merged.
fn joined_branches(pipeline: &Pipeline, block: &Block) -> Vec<JoinedBranch> {
    let mut joined = Vec::new();
    for branch in &block.branches {
        let (Some(path), Some(status)) = (branch.path.as_deref(), branch.status()) else {
            continue;
        };
        if path.files.is_none() {
            continue;
        }
        joined.push(JoinedBranch {
            id: branch.id.clone(),
            name: path.branch.name(pipeline),
            status,
            snapshot: path.snapshot().cloned(),
        });
        // One node may close both a block and its outer block. Inner branches that were not merged elsewhere are merged
        // here.
        for inner in path.joined() {
            joined.push(JoinedBranch {
                id: format!("{}/{}", branch.id, inner.id),
                status: if status.is_success() { inner.status } else { status },
                ..inner.clone()
            });
        }
    }
    joined
}

/// Returns a branch as an entry of `parallel.results` (rule P3). Moves the context updates of its stages into the
/// entry.
fn result(pipeline: &Pipeline, branch: &mut Branch, item: Option<&Value>) -> Option<Value> {
    let ended = branch.ended.as_ref()?;
    let mut fields = Map::new();
    fields.insert("id".to_owned(), Value::String(branch.id.clone()));
    if let Some(item) = item {
        fields.insert("item".to_owned(), item.clone());
    }
    fields.insert("status".to_owned(), ended.status.word().into());
    let millis = u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX);
    fields.insert("duration_ms".to_owned(), millis.into());
    let path = branch.path.as_deref_mut();
    let word = match (ended.status, &path) {
        (BranchStatus::Success, Some(path)) if path.own_last().is_some() => path.last.status.word(),
        _ => ended.status.word(),
    };
    fields.insert("outcome".to_owned(), word.into());
    if let Some(reason) = &ended.reason {
        fields.insert("failure_reason".to_owned(), reason.as_str().into());
    }
    if let Some(path) = path {
        if let Some(snapshot) = path.snapshot() {
            fields.insert("workspace".to_owned(), snapshot.value.clone());
        }
        let stages = stages(pipeline, path);
        if !stages.is_empty() {
            fields.insert("stages".to_owned(), Value::Array(stages));
        }
        let last = path.own_last().and_then(|node| path.outcomes.get(node));
        if let Some(notes) = last.and_then(|outcome| outcome.notes.as_deref()) {
            fields.insert("notes".to_owned(), notes.into());
        }
        let updates: Map<String, Value> = path.updates.take().into_iter().flatten().collect();
        if let Some(score) = updates.get("score").filter(|score| score.is_number()) {
            fields.insert("score".to_owned(), score.clone());
        }
        if !updates.is_empty() {
            fields.insert("context_updates".to_owned(), Value::Object(updates));
        }
    }
    Some(Value::Object(fields))
}

/// Returns the stages of a branch in the order in which they last ended, with the names of their visits, by which their
/// responses are found (rule F2).
fn stages(pipeline: &Pipeline, path: &ExecutionPath) -> Vec<Value> {
    let mut seen = HashSet::new();
    let latest = path.completed.iter().rev().filter(|node| seen.insert(**node));
    let mut stages: Vec<Value> = latest
        .filter_map(|node| {
            let outcome = path.outcomes.get(*node)?;
            Some(json!({
                "id": pipeline.stage(*node).id(),
                "outcome": outcome.status.word(),
                "record": outcome.record(pipeline, *node),
            }))
        })
        .collect();
    stages.reverse();
    stages
}
