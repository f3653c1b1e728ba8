//! The point at which a failed run is retried (rule D9).

use orchestra_graph::{NodeIndex, Pipeline, Role};

use crate::failure::RunFailure;
use crate::outcome::Status;
use crate::path::ExecutionPath;
use crate::state::State;

/// The point at which a failed run is retried.
///
/// ```
/// use orchestra_core::{Context, Event, Machine, Outcome, RetryPoint, RunFailure, retry_point};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
/// let id = machine.pending().pop().expect("a stage runs");
/// let node = id.node;
/// machine.on(Event::NodeFinished { id, outcome: Outcome::fail("no compiler") }, &mut Vec::new());
///
/// let failure = RunFailure::StageFailed { node: "build".to_owned(), reason: "no compiler".to_owned() };
/// let point = retry_point(machine.pipeline(), machine.state(), &failure, false);
/// assert_eq!(point, Some(RetryPoint::Stage(node)));
/// machine.on(Event::Retried { node, from_edges: false }, &mut Vec::new());
/// assert_eq!(machine.pending()[0].name(machine.pipeline()), "build#2/1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPoint {
    /// A new visit of this stage, with all its attempts.
    Stage(NodeIndex),
    /// Another choice among the edges of this node.
    Edges(NodeIndex),
}

/// Returns the point at which a failed run is retried. Returns `None` if the run would fail again in the same way,
/// because only a changed pipeline helps.
///
/// A stage of a parallel block is retried with the whole block.
pub fn retry_point(
    pipeline: &Pipeline,
    state: &State,
    failure: &RunFailure,
    changed: bool,
) -> Option<RetryPoint> {
    let main = &state.main;
    let named = failure.node().and_then(|id| pipeline.find(id));
    let stage = |node: NodeIndex| Some(RetryPoint::Stage(enclosing_block(pipeline, node).unwrap_or(node)));
    match failure {
        RunFailure::StageFailed { .. }
        | RunFailure::OutputParse { .. }
        | RunFailure::FailureBreaker { .. }
        | RunFailure::GoalGate { .. } => stage(named?),
        RunFailure::FailureEnd { .. } => stage(stage_before_end(pipeline, main)?),
        RunFailure::NoMatchingEdge { .. } | RunFailure::DeadEnd { .. } => {
            let node = named?;
            match enclosing_block(pipeline, node) {
                Some(block) => Some(RetryPoint::Stage(block)),
                None if changed => Some(RetryPoint::Edges(node)),
                None if pipeline.stage(node).row().role == Role::Work => Some(RetryPoint::Stage(node)),
                None => None,
            }
        }
        RunFailure::MaxVisits { .. } => match enclosing_block(pipeline, named?) {
            Some(block) => changed.then_some(RetryPoint::Stage(block)),
            // The retry requests exactly the visit that exceeded the limit.
            None => named.map(RetryPoint::Stage),
        },
        // The visit that would have been the next one.
        RunFailure::BusyLoop { .. } if changed => stage(named?),
        RunFailure::CircularPipeline { .. }
        | RunFailure::MaxRestarts { .. }
        | RunFailure::InvalidTransition { .. }
        | RunFailure::BranchReentry { .. }
            if changed =>
        {
            let node = named?;
            Some(enclosing_block(pipeline, node).map_or(RetryPoint::Edges(node), RetryPoint::Stage))
        }
        _ => None,
    }
}

/// Returns the stage that led to an end that is marked as a failure: the stage that failed last, else the stage before
/// the end.
fn stage_before_end(pipeline: &Pipeline, main: &ExecutionPath) -> Option<NodeIndex> {
    let is_failed = |node: &NodeIndex| {
        let outcome = main.outcomes.get(*node);
        outcome.is_some_and(|outcome| outcome.status == Status::Fail)
    };
    let mut failed = main.errors.iter().rev().map(|error| error.node);
    let is_work = |node: &NodeIndex| pipeline.stage(*node).row().role == Role::Work;
    let before = || main.completed.iter().rev().skip(1).copied().find(is_work);
    failed.find(is_failed).or_else(before)
}

/// Returns the fan-out of the outermost parallel block that contains a node; `None` on the main path.
fn enclosing_block(pipeline: &Pipeline, node: NodeIndex) -> Option<NodeIndex> {
    let fan_outs = (0..pipeline.nodes.len() as u32).map(NodeIndex);
    let enclosing = fan_outs.filter(|fan_out| is_inside(pipeline, *fan_out, node));
    let enclosing: Vec<NodeIndex> = enclosing.collect();
    let outermost = enclosing
        .iter()
        .find(|one| !enclosing.iter().any(|other| is_inside(pipeline, *other, **one)));
    outermost.or(enclosing.first()).copied()
}

/// Returns `true` if a node can be reached from the branches of a fan-out without passing its join.
fn is_inside(pipeline: &Pipeline, fan_out: NodeIndex, node: NodeIndex) -> bool {
    let Some(block) = pipeline.stage(fan_out).row().fan_out else {
        return false;
    };
    if node == fan_out || node == block.join {
        return false;
    }
    let mut seen = vec![false; pipeline.nodes.len()];
    let mut ahead = vec![fan_out];
    while let Some(at) = ahead.pop() {
        for (_, edge) in pipeline.stage(at).edges() {
            let to = edge.to;
            if to == node {
                return true;
            }
            let Some(known) = seen.get_mut(to.at()) else {
                continue;
            };
            let is_exit = pipeline.stage(to).row().role == Role::Exit;
            if to != block.join && to != fan_out && !is_exit && !std::mem::replace(known, true) {
                ahead.push(to);
            }
        }
    }
    false
}
