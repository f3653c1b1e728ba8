//! The attempts of a stage: they begin, their outcomes are applied, and they are repeated (rules Y2 to Y7, R10).

use std::num::NonZeroU64;

use orchestra_graph::table::Routing;
use orchestra_graph::{NodeIndex, Pipeline, Role, Stage, kind};

use crate::context::EngineKey;
use crate::effect::{Effect, Observation};
use crate::failure::RunFailure;
use crate::history::{AttemptError, FailureStreak, NodeOutcome};
use crate::outcome::{FailureCategory, Outcome, Status};
use crate::path::{ExecutionPath, Phase};
use crate::retry;
use crate::transition::{NextStep, PathEnd, StepResult, Transition, may_end, or_unspecified};

impl Transition<'_> {
    /// Begins an attempt at the current node.
    pub(crate) fn attempt(&mut self, path: &mut ExecutionPath) -> Result<NextStep, StepResult> {
        let stage = self.pipeline.stage(path.at.node);
        let index = path.at.index;
        let restarts = self.totals.restarts;
        if stage.is_immediate() {
            self.emit(|| Observation::StageStarted {
                id: path.id(restarts),
                index,
            });
            return self.complete(path, stage);
        }
        let id = path.id(restarts);
        self.emit(|| Observation::StageStarted {
            id: id.clone(),
            index,
        });
        if let Some(fan_out) = stage.row().fan_out {
            return self.fork(path, id, fan_out);
        }
        if stage.kind() == kind::WAIT_HUMAN {
            return self.ask(path, id);
        }
        path.phase = Phase::Running;
        self.effects.push(Effect::RunNode {
            id,
            context: path.context.clone(),
        });
        Err(StepResult::Wait)
    }

    /// Completes a node whose outcome the core itself decides.
    fn complete(&mut self, path: &mut ExecutionPath, stage: Stage<'_>) -> Result<NextStep, StepResult> {
        let role = stage.row().role;
        if role == Role::Exit {
            may_end(path, stage)?;
        }
        path.completed.push(stage.index());
        if role != Role::Routing {
            remember(self.pipeline, path, stage, &Outcome::success());
            record(path, stage.index(), Status::Success, None);
        }
        let restarts = self.totals.restarts;
        self.emit(|| Observation::StageCompleted {
            id: path.id(restarts),
            index: path.at.index,
            outcome: Box::new(Outcome::success()),
        });
        if role == Role::Exit {
            return Err(StepResult::Ended(PathEnd::End));
        }
        Ok(NextStep::Choose)
    }

    /// Applies the outcome of an attempt: waits for another attempt, or returns the next step.
    pub(crate) fn apply_outcome(
        &mut self,
        path: &mut ExecutionPath,
        mut outcome: Outcome,
    ) -> Result<NextStep, StepResult> {
        path.phase = Phase::Idle;
        path.progress = None;
        let stage = self.pipeline.stage(path.at.node);
        let index = path.at.index;
        if matches!(outcome.status, Status::Fail | Status::Retry) {
            self.failed_attempt(path, stage, &outcome);
            let is_retried = outcome.failure_category == FailureCategory::Retryable
                && path.at.attempt < stage.row().retry.attempts
                && stage.row().role != Role::Routing;
            if is_retried {
                return Err(self.schedule_retry(path, stage, outcome));
            }
            exhaust(stage, &mut outcome);
        }
        // The counter may stem from an earlier visit whose attempts all failed.
        if stage.row().retry.attempts > 1 && outcome.status != Status::Fail {
            path.context.remove(&retry::count_key(stage));
        }
        path.completed.push(path.at.node);
        if let Some(updates) = &mut path.updates {
            updates.extend(
                outcome
                    .context_updates
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        // If nothing reads the outcome afterwards, move its parts instead of copying them.
        let is_read = self.observed || self.pipeline.settings.routing == Routing::FirstMatch;
        let notes = if is_read {
            for (key, value) in &outcome.context_updates {
                path.context.update(key, value.clone());
            }
            outcome.notes.clone().or_else(|| outcome.failure_reason.clone())
        } else {
            for (key, value) in std::mem::take(&mut outcome.context_updates) {
                path.context.update(&key, value);
            }
            outcome.notes.take().or_else(|| outcome.failure_reason.clone())
        };
        remember(self.pipeline, path, stage, &outcome);
        record(path, path.at.node, outcome.status.clone(), notes);
        let failed = outcome.status == Status::Fail;
        if failed {
            let reason = outcome.failure_reason.clone().unwrap_or_default();
            let output = outcome.output_digest;
            let id = path.id(self.totals.restarts);
            path.last_failure = format!("stage `{}` failed: {}", stage.id(), or_unspecified(&reason));
            self.emit(|| Observation::StageFailed {
                id,
                index,
                outcome: Box::new(outcome),
                will_retry: false,
            });
            if let Some(failure) = self.count_failure(path, stage, &reason, output) {
                return Err(StepResult::Abort(failure));
            }
        } else {
            if !path.failing.is_empty() {
                path.failing.retain(|failing| failing.node != stage.index());
            }
            if self.observed {
                let id = path.id(self.totals.restarts);
                self.emit(|| Observation::StageCompleted {
                    id,
                    index,
                    outcome: Box::new(outcome),
                });
            }
        }
        // An exit with its own handler may fail like any other stage (rule R3).
        if stage.row().role == Role::Exit && !failed {
            may_end(path, stage)?;
            return Err(StepResult::Ended(PathEnd::End));
        }
        Ok(NextStep::Choose)
    }

    /// Records the reason for a failed attempt (rule Y7).
    fn failed_attempt(&mut self, path: &mut ExecutionPath, stage: Stage<'_>, outcome: &Outcome) {
        let reason = outcome.failure_reason.clone().unwrap_or_default();
        let entry = format!("{}: {}", stage.id(), or_unspecified(&reason));
        path.context.append("error_history", entry);
        path.errors.push(AttemptError {
            node: stage.index(),
            visit: path.at.visit,
            attempt: path.at.attempt,
            reason,
        });
    }

    /// Waits for the next attempt (rule Y4).
    fn schedule_retry(&mut self, path: &mut ExecutionPath, stage: Stage<'_>, outcome: Outcome) -> StepResult {
        let index = path.at.index;
        let policy = &stage.row().retry;
        let failed = path.id(self.totals.restarts);
        let delay = retry::delay(policy, self.totals.seed, &failed, outcome.retry_after);
        self.emit(|| Observation::StageFailed {
            id: failed,
            index,
            outcome: Box::new(outcome),
            will_retry: true,
        });
        *path.retries.entry(path.at.node.0).or_default() += 1;
        path.context.set(retry::count_key(stage), path.at.attempt);
        path.at.attempt += 1;
        let id = path.id(self.totals.restarts);
        self.emit(|| Observation::StageRetrying {
            id: id.clone(),
            index,
            attempts: policy.attempts,
            delay,
        });
        path.phase = Phase::BackOff;
        path.at.delay = delay;
        self.effects.push(Effect::StartTimer { id, delay });
        StepResult::Wait
    }

    /// Counts consecutive equal failures of a stage. Returns the failure of the run if they reach the limit (rule R10).
    fn count_failure(
        &mut self,
        path: &mut ExecutionPath,
        stage: Stage<'_>,
        reason: &str,
        output: Option<NonZeroU64>,
    ) -> Option<RunFailure> {
        let limit = self.pipeline.settings.failure_breaker;
        if limit == 0 {
            return None;
        }
        let node = stage.index();
        let mut failing = FailureStreak {
            node,
            reason: reason.to_owned(),
            output,
            count: 1,
        };
        match path.failing.iter_mut().find(|failing| failing.node == node) {
            Some(known) => {
                if known.reason == failing.reason && known.output == failing.output {
                    failing.count += known.count;
                }
                *known = failing.clone();
            }
            None => path.failing.push(failing.clone()),
        }
        (failing.count >= limit).then(|| RunFailure::FailureBreaker {
            node: stage.id().to_owned(),
            reason: failing.reason,
            count: failing.count,
        })
    }
}

/// Records the outcome of a stage; a skipped stage leaves no record (Attractor 5.2).
fn record(path: &mut ExecutionPath, node: NodeIndex, status: Status, notes: Option<String>) {
    if status != Status::Skipped {
        let outcome = NodeOutcome {
            status,
            notes,
            visit: path.at.visit,
            branch: path.branch.clone(),
        };
        path.outcomes.set(node, outcome);
    }
}

/// Stores what routing sees of a stage (rule R4) and sets the context keys of the engine.
fn remember(pipeline: &Pipeline, path: &mut ExecutionPath, stage: Stage<'_>, outcome: &Outcome) {
    let ExecutionPath { context, last, .. } = path;
    // Unchanged values are not written again: most stages succeed, and few prefer a label.
    let first = last.node.is_none();
    if last.node != Some(stage.index()) {
        context.set_engine(EngineKey::LastStage, stage.id());
        last.node = Some(stage.index());
    }
    if first || last.status != outcome.status {
        context.set_engine(EngineKey::Outcome, outcome.status.word());
        last.status = outcome.status.clone();
    }
    let label = outcome.preferred_label.as_deref().unwrap_or_default();
    if first || !(label.is_empty() && last.preferred_label.is_empty()) {
        context.set_engine(EngineKey::PreferredLabel, label);
        label.clone_into(&mut last.preferred_label);
    }
    last.suggested_next_ids.clone_from(&outcome.suggested_next_ids);
    last.failure_reason.clear();
    last.failure_code.clear();
    if outcome.status == Status::Fail {
        last.failure_reason
            .push_str(outcome.failure_reason.as_deref().unwrap_or_default());
        last.failure_code
            .push_str(outcome.failure_code.as_deref().unwrap_or_default());
    }
    if pipeline.settings.routing == Routing::FirstMatch {
        last.output.clone_from(&outcome.context_updates);
    }
}

/// Turns the outcome of an attempt that is not retried into the final outcome of the stage (rule Y5).
fn exhaust(stage: Stage<'_>, outcome: &mut Outcome) {
    let requests_retry = outcome.status == Status::Retry;
    if requests_retry {
        outcome
            .failure_reason
            .get_or_insert_with(|| "the stage asked for a retry, but none is left".to_owned());
    }
    let has_exhausted_retries = outcome.failure_category == FailureCategory::Retryable
        && (requests_retry || stage.row().retry.attempts > 1);
    if stage.row().allow_partial && has_exhausted_retries {
        outcome.status = Status::PartialSuccess;
        outcome
            .notes
            .get_or_insert_with(|| "retries exhausted, partial success accepted".to_owned());
    } else {
        outcome.status = Status::Fail;
    }
}
