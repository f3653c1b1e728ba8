//! The choice of the next edge of an execution path, and the facts that it depends on.

use orchestra_graph::condition::{Facts, StageRecords};
use orchestra_graph::table::Routing;
use orchestra_graph::{EdgeIndex, Next, NodeIndex, Pipeline, RouteError, Stage, route};

use crate::effect::Observation;
use crate::failure::RunFailure;
use crate::outcome::Status;
use crate::path::ExecutionPath;
use crate::transition::{NextStep, PathEnd, StepResult, Transition, may_end};

/// The failure code of a stage whose response does not contain the declared output (rule R11).
const OUTPUT_PARSE: &str = "output_parse";

impl Transition<'_> {
    /// Routes from the current node and follows the decision.
    pub(crate) fn choose(&mut self, path: &mut ExecutionPath) -> Result<NextStep, StepResult> {
        let pipeline = self.pipeline;
        let stage = pipeline.stage(path.at.node);
        let records = Records::new(pipeline, path);
        let decision = route(pipeline, stage.index(), &facts(pipeline, path, stage, &records));
        let next = decision.next;
        let report = match next {
            Next::Fail(RouteError::NoMatchingEdge) => decision.describe(pipeline, stage.index()),
            _ => String::new(),
        };
        self.emit(|| Observation::Routed {
            branch: path.branch.clone(),
            from: stage.index(),
            decision,
        });
        let node = || stage.id().to_owned();
        let failure = match next {
            Next::Edge(edge) => {
                if let Some(failure) = self.revisit(path, edge) {
                    return Err(StepResult::Ended(PathEnd::Failed(failure)));
                }
                self.count_taken(edge);
                let row = pipeline.edge(edge);
                if row.loop_restart {
                    let context = path.context.clone();
                    return Err(StepResult::Restart { edge, context });
                }
                path.at.edge = Some(edge);
                return Ok(NextStep::Enter(row.to));
            }
            Next::Jump(target) => {
                path.at.edge = None;
                return Ok(NextStep::Enter(target));
            }
            Next::End { success: true } => {
                if path.branch.is_empty()
                    && let Some(target) = self.check_goal_gates(path, stage.index())?
                {
                    path.at.edge = None;
                    return Ok(NextStep::Enter(target));
                }
                may_end(path, stage)?;
                return Err(StepResult::Ended(PathEnd::End));
            }
            Next::End { success: false } => RunFailure::FailureEnd {
                node: node(),
                reason: path.last_failure.clone(),
            },
            Next::Fail(RouteError::DeadEnd) => RunFailure::DeadEnd { node: node() },
            Next::Fail(RouteError::NoMatchingEdge) => RunFailure::NoMatchingEdge { node: node(), report },
            Next::Fail(RouteError::StageFailed) => {
                let node = path
                    .last
                    .node
                    .map_or("", |node| pipeline.stage(node).id())
                    .to_owned();
                let reason = path.last.failure_reason.clone();
                match &*path.last.failure_code {
                    OUTPUT_PARSE => RunFailure::OutputParse { node, reason },
                    _ => RunFailure::StageFailed { node, reason },
                }
            }
        };
        Err(StepResult::Ended(PathEnd::Failed(failure)))
    }

    /// Counts that an edge was taken.
    pub(crate) fn count_taken(&mut self, edge: EdgeIndex) {
        if let Some(taken) = self.totals.taken.get_mut(edge.at()) {
            *taken = taken.saturating_add(1);
        }
    }

    /// Returns a failure if an edge leads back to a visited node in first-match routing and does not allow it (rule
    /// R11).
    fn revisit(&mut self, path: &mut ExecutionPath, at: EdgeIndex) -> Option<RunFailure> {
        let edge = self.pipeline.edge(at);
        if self.pipeline.settings.routing != Routing::FirstMatch || path.visits.get(edge.to) == 0 {
            return None;
        }
        let id = |node: NodeIndex| self.pipeline.stage(node).id().to_owned();
        let taken = path.revisits.entry(at.0).or_default();
        if !edge.allow_revisit || edge.max_revisits.is_some_and(|limit| *taken >= limit) {
            return Some(RunFailure::CircularPipeline {
                from: id(edge.from),
                to: id(edge.to),
            });
        }
        *taken += 1;
        None
    }
}

/// The records that a path has of stages, by their ids (rules F1, R13).
pub(crate) struct Records<'l> {
    pipeline: &'l Pipeline,
    path: &'l ExecutionPath,
}

impl<'l> Records<'l> {
    pub(crate) fn new(pipeline: &'l Pipeline, path: &'l ExecutionPath) -> Records<'l> {
        Records { pipeline, path }
    }
}

impl StageRecords for Records<'_> {
    fn visits(&self, node: &str) -> u32 {
        let node = self.pipeline.find(node);
        node.map_or(0, |node| self.path.visits.get(node))
    }

    fn outcome(&self, node: &str) -> Option<&str> {
        let status = self.path.outcomes.latest(self.pipeline.find(node)?);
        status.map(Status::word)
    }
}

/// Returns the facts that routing sees.
pub(crate) fn facts<'f>(
    pipeline: &'f Pipeline,
    path: &'f ExecutionPath,
    stage: Stage<'f>,
    records: &'f Records<'f>,
) -> Facts<'f> {
    let last = &path.last;
    Facts {
        outcome: last.status.word(),
        preferred_label: &last.preferred_label,
        failure_reason: &last.failure_reason,
        suggested_next_ids: &last.suggested_next_ids,
        current_node: stage.id(),
        last_stage: last.node.map_or("", |node| pipeline.stage(node).id()),
        context: &path.context,
        output: &last.output,
        stages: records,
    }
}
