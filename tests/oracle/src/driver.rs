//! Drives the real machine by a script, and writes down what it does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orchestra_core::{
    Answer, BranchPath, Context, Effect, EffectId, Event, FailureCategory, Machine, Observation, Outcome,
    RunFailure, SharedPipeline, Status,
};
use orchestra_graph::{Decision, EdgeIndex, Next, NodeIndex, Pipeline, RouteError, Tested};

use crate::description::{Call, Category, Reaction, Script, ScriptedOutcome};
use crate::trace::{Delay, End, Recorded, Step, Trace, Way};

/// Everything that went in and came out of a machine in one run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The machine before the run.
    pub before: Machine,
    /// The machine after the run.
    pub machine: Machine,
    /// The effects of the start.
    pub first: Vec<Effect>,
    /// Every event, with the effects that answered it.
    pub turns: Vec<(Event, Vec<Effect>)>,
}

/// What the machine waits for.
struct Pending {
    kind: &'static str,
    due: u64,
    id: EffectId,
}

/// Runs a pipeline by a script to its end. What was begun first does not end first: the script says how long
/// everything takes.
pub fn record(pipeline: impl Into<SharedPipeline>, script: &Script) -> Recording {
    record_with(pipeline, script, Context::new(), &mut |_, _| {})
}

/// Runs a pipeline by a script, with another seed than that of the script's times.
pub fn record_seeded(pipeline: impl Into<SharedPipeline>, script: &Script, seed: u64) -> Recording {
    let before = Machine::prepare(pipeline, Context::new(), seed);
    record_from(before, script, &mut |_, _| {})
}

/// Runs a pipeline with initial values by a script, each of whose outcomes may be changed before the machine takes it.
pub fn record_with(
    pipeline: impl Into<SharedPipeline>,
    script: &Script,
    context: Context,
    change: &mut dyn FnMut(&EffectId, &mut Outcome),
) -> Recording {
    let before = Machine::prepare(pipeline, context, script.schedule);
    record_from(before, script, change)
}

fn record_from(
    before: Machine,
    script: &Script,
    change: &mut dyn FnMut(&EffectId, &mut Outcome),
) -> Recording {
    let mut machine = before.clone();
    let mut first = Vec::new();
    machine.begin(&mut first);
    let mut turns: Vec<(Event, Vec<Effect>)> = Vec::new();
    let mut pending = BTreeMap::new();
    let mut now = 0;
    note(&machine, script, now, &first, &mut pending);
    while let Some((name, next)) = pending.iter().min_by_key(|(name, next)| (next.due, *name)) {
        let (name, kind, id) = (name.clone(), next.kind, next.id.clone());
        now = next.due;
        let elapsed = Duration::from_nanos(now);
        turns.push((Event::Tick { elapsed }, Vec::new()));
        machine.on(Event::Tick { elapsed }, &mut Vec::new());
        for mut event in happens(&machine, script, kind, &id) {
            if let Event::NodeFinished { id, outcome } = &mut event {
                change(id, outcome);
            }
            let mut effects = Vec::new();
            machine.on(event.clone(), &mut effects);
            let refused = effects.is_empty();
            if !refused {
                pending.remove(&name);
            }
            note(&machine, script, now, &effects, &mut pending);
            turns.push((event, effects));
            if !refused {
                break;
            }
        }
        let waited: BTreeSet<EffectId> = machine.pending().into_iter().collect();
        let expected: BTreeSet<EffectId> = pending.values().map(|next| next.id.clone()).collect();
        assert_eq!(waited, expected, "the machine waits for what it asked for");
    }
    assert!(machine.state().totals.finished, "the run has an end");
    Recording {
        before,
        machine,
        first,
        turns,
    }
}

/// Notes what the machine began and cancelled.
fn note(
    machine: &Machine,
    script: &Script,
    now: u64,
    effects: &[Effect],
    pending: &mut BTreeMap<String, Pending>,
) {
    let mut begun = BTreeSet::new();
    for effect in effects {
        let (kind, id) = match effect {
            Effect::Observe(Observation::StageStarted { id, .. }) => {
                begun.insert(id);
                continue;
            }
            Effect::RunNode { id, .. } => ("run", id),
            // The timer of a block that has begun is its limit; any other is waited for before an attempt.
            Effect::StartTimer { id, .. } if begun.contains(id) => ("limit", id),
            Effect::StartTimer { id, .. } => ("timer", id),
            // A question may have a timer of the same name; the script says which of the two comes first.
            Effect::AskHuman { id, .. } => ("ask", id),
            Effect::CancelEffect { id } => {
                pending.remove(&id.name(machine.pipeline()));
                continue;
            }
            Effect::Restart { .. } | Effect::Finish { .. } => {
                assert!(pending.is_empty(), "nothing is left behind");
                continue;
            }
            _ => continue,
        };
        let name = id.name(machine.pipeline());
        let next = Pending {
            kind,
            due: now + script.duration(kind, &name),
            id: id.clone(),
        };
        pending.insert(name, next);
    }
}

/// The events that tell the machine what became of an effect; the next one is for where it does not take the first.
fn happens(machine: &Machine, script: &Script, kind: &str, id: &EffectId) -> Vec<Event> {
    let pipeline = machine.pipeline();
    let node = pipeline.stage(id.node);
    let id = id.clone();
    match kind {
        "run" => vec![Event::NodeFinished {
            outcome: outcome(script.outcome(node.id(), call(pipeline, &id))),
            id,
        }],
        "timer" | "limit" => vec![Event::TimerFired { id }],
        _ => {
            let skipped = Event::Answered {
                id: id.clone(),
                answer: Answer::skipped(),
            };
            match script.reaction(node.id(), call(pipeline, &id)) {
                Reaction::Answer(text) => {
                    let answer = Answer::choice(text);
                    vec![Event::Answered { id, answer }, skipped]
                }
                Reaction::Silence if node.duration("timeout").is_some() => vec![Event::TimerFired { id }],
                Reaction::Silence | Reaction::Skip => vec![skipped],
                Reaction::Nobody => vec![Event::Unanswerable {
                    id,
                    reason: "nobody is there".to_owned(),
                }],
            }
        }
    }
}

/// Which call of its stage an effect is.
fn call(pipeline: &Pipeline, id: &EffectId) -> Call {
    let steps = id.branch.steps().iter();
    let positions = steps.map(|step| position(pipeline, step.edge) + step.item.unwrap_or(0) as usize);
    Call {
        visit: id.visit,
        attempt: id.attempt,
        restart: id.restart,
        positions: positions.sum(),
    }
}

/// The place of an edge among those of its node.
fn position(pipeline: &Pipeline, edge: EdgeIndex) -> usize {
    let mut edges = pipeline.stage(pipeline.edge(edge).from).edges();
    edges.position(|(at, _)| at == edge).unwrap()
}

/// The trace of a pipeline that runs by a script.
pub fn trace_of(pipeline: impl Into<SharedPipeline>, script: &Script) -> Trace {
    record(pipeline, script).trace()
}

/// A scripted outcome as the machine takes it.
pub fn outcome(said: ScriptedOutcome) -> Outcome {
    let mut outcome = Outcome::new(Status::from_name(&said.word));
    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    outcome.preferred_label = filled(said.preferred_label);
    outcome.suggested_next_ids = said.suggested;
    outcome.context_updates = said.updates;
    outcome.failure_reason = filled(said.reason);
    outcome.notes = filled(said.notes);
    outcome.failure_category = match said.category {
        Category::Retryable => FailureCategory::Retryable,
        Category::Terminal => FailureCategory::Terminal,
    };
    outcome.retry_after = said.retry_after.map(Duration::from_millis);
    outcome
}

impl Recording {
    /// The effects of the whole run, in order.
    pub fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.first
            .iter()
            .chain(self.turns.iter().flat_map(|(_, effects)| effects))
    }

    /// The run in words.
    pub fn trace(&self) -> Trace {
        let pipeline = self.machine.pipeline();
        let id = |node: NodeIndex| pipeline.stage(node).id().to_owned();
        let mut steps = Vec::new();
        let mut end = End::Other("the run did not end".to_owned());
        let mut begun = 0;
        for effect in self.effects() {
            match effect {
                Effect::RunNode { id, context } => steps.push(Step::Run {
                    name: id.name(pipeline),
                    context: own(context),
                }),
                Effect::Observe(observation) => {
                    if let Observation::StageStarted { id, index } = observation
                        && id.attempt == 1
                    {
                        assert_eq!(*index, begun, "stages are counted from 0");
                        begun += 1;
                    }
                    steps.extend(reported(pipeline, observation));
                }
                Effect::Finish { failure } => end = ending(failure.as_ref()),
                _ => {}
            }
        }
        let state = self.machine.state();
        assert_eq!(state.totals.begun, begun);
        let main = &state.main;
        let outcomes = main.outcomes.iter().map(|(node, outcome)| {
            let recorded = Recorded {
                word: outcome.status.word().to_owned(),
                notes: outcome.notes.clone().unwrap_or_default(),
                record: outcome.record(pipeline, node),
            };
            (id(node), recorded)
        });
        let nodes = (0..pipeline.nodes.len() as u32).map(NodeIndex);
        let visits = nodes.map(|node| (id(node), main.visits.get(node)));
        let errors = main.errors.iter();
        Trace {
            steps,
            end,
            outcomes: outcomes.collect(),
            context: own(&main.context),
            path: main.completed.iter().map(|node| id(*node)).collect(),
            visits: visits.filter(|(_, visits)| *visits > 0).collect(),
            errors: errors
                .map(|error| (id(error.node), error.visit, error.attempt, error.reason.clone()))
                .collect(),
            retries: main
                .retries
                .iter()
                .map(|(node, retries)| (id(NodeIndex(*node)), *retries))
                .collect(),
            taken: (0..pipeline.edges.len() as u32)
                .map(EdgeIndex)
                .map(|at| (edge(pipeline, at), state.totals.taken[at.at()]))
                .filter(|(_, taken)| *taken > 0)
                .collect(),
            reroutes: state.totals.reroutes,
            restarts: state.totals.restarts,
        }
    }
}

/// The context without the attributes of the graph.
fn own(context: &Context) -> crate::trace::Values {
    let own = context.iter().filter(|(key, _)| !key.starts_with("graph."));
    own.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// An observation in words.
fn reported(pipeline: &Pipeline, observation: &Observation) -> Option<Step> {
    let id = |node: NodeIndex| pipeline.stage(node).id().to_owned();
    let ended = |effect: &EffectId, outcome: &Outcome, again| Step::Outcome {
        name: effect.name(pipeline),
        word: outcome.status.word().to_owned(),
        reason: outcome.failure_reason.clone().unwrap_or_default(),
        again,
    };
    let nanos = |duration: &Duration| duration.as_nanos() as u64;
    let millis = |duration: &Duration| duration.as_millis() as u64;
    Some(match observation {
        Observation::StageStarted { id, .. } => Step::Start(id.name(pipeline)),
        Observation::StageCompleted { id, outcome, .. } => ended(id, outcome, false),
        Observation::StageFailed {
            id,
            outcome,
            will_retry,
            ..
        } => ended(id, outcome, *will_retry),
        Observation::StageRetrying {
            id, attempts, delay, ..
        } => {
            assert_eq!(
                delay.subsec_nanos() % 1_000_000,
                0,
                "delays are whole milliseconds"
            );
            Step::Wait {
                name: id.name(pipeline),
                attempts: *attempts,
                delay: Delay {
                    least: millis(delay),
                    most: millis(delay),
                },
            }
        }
        Observation::StageCancelled { id, .. } => Step::Cancelled(id.name(pipeline)),
        Observation::Routed {
            branch,
            from,
            decision,
        } => choice(pipeline, branch, *from, decision),
        Observation::ParallelStarted {
            id,
            branches,
            tested: seen,
        } => Step::Fork {
            name: id.name(pipeline),
            branches: *branches,
            tested: tested(pipeline, seen),
        },
        Observation::ParallelBranchStarted { branch, index, .. } => Step::BranchStart {
            branch: branch.name(pipeline),
            index: *index,
        },
        Observation::ParallelBranchCompleted {
            branch,
            index,
            status,
            reason,
            duration,
        } => Step::BranchEnd {
            branch: branch.name(pipeline),
            index: *index,
            status: status.word().to_owned(),
            reason: reason.clone(),
            lasted: nanos(duration),
        },
        Observation::ParallelCompleted {
            id,
            succeeded,
            failed,
            duration,
        } => Step::Join {
            name: id.name(pipeline),
            succeeded: *succeeded,
            failed: *failed,
            lasted: nanos(duration),
        },
        Observation::InterviewStarted { id, question } => {
            let offered = question.options.iter().map(|option| {
                let to = option.to.clone().unwrap_or_default();
                (option.key.clone(), option.label.clone(), to)
            });
            Step::Asked {
                name: id.name(pipeline),
                choices: offered.collect(),
                withheld: question.withheld.iter().map(ToString::to_string).collect(),
                default: question.default.clone(),
                timeout: question.timeout.as_ref().map(millis),
            }
        }
        Observation::InterviewCompleted { id, answer, .. } => Step::Answered {
            name: id.name(pipeline),
            answer: answer.clone(),
        },
        Observation::InterviewTimeout { id, default, .. } => Step::Unanswered {
            name: id.name(pipeline),
            default: default.clone(),
        },
        Observation::GoalGateUnsatisfied {
            gate,
            target,
            reroute,
        } => Step::Reroute {
            gate: id(*gate),
            target: id(*target),
            count: *reroute,
        },
        Observation::Restarted { edge: at, restart } => Step::Restart {
            edge: edge(pipeline, *at),
            count: *restart,
        },
        _ => return None,
    })
}

/// An edge by its node and its place among the edges of that.
fn edge(pipeline: &Pipeline, at: EdgeIndex) -> (String, usize) {
    let from = pipeline.edge(at).from;
    (pipeline.stage(from).id().to_owned(), position(pipeline, at))
}

fn tested(pipeline: &Pipeline, tested: &[Tested]) -> Vec<(usize, bool)> {
    tested
        .iter()
        .map(|tested| (position(pipeline, tested.edge), tested.held))
        .collect()
}

fn choice(pipeline: &Pipeline, branch: &BranchPath, from: NodeIndex, decision: &Decision) -> Step {
    let id = |node: NodeIndex| pipeline.stage(node).id().to_owned();
    let way = match decision.next {
        Next::Edge(edge) => Way::Edge {
            position: position(pipeline, edge),
            to: id(pipeline.edge(edge).to),
        },
        Next::Jump(target) => Way::Jump(id(target)),
        Next::End { success } => Way::End(success),
        Next::Fail(problem) => Way::Fail(match problem {
            RouteError::StageFailed => "stage_failed",
            RouteError::NoMatchingEdge => "no_matching_edge",
            RouteError::DeadEnd => "dead_end",
        }),
    };
    Step::Choice {
        branch: branch.name(pipeline),
        from: id(from),
        way,
        rule: decision.rule.word().to_owned(),
        tested: tested(pipeline, &decision.tested),
    }
}

/// How a run ended, in words.
pub fn ending(failure: Option<&RunFailure>) -> End {
    let Some(failure) = failure else {
        return End::Success;
    };
    match failure.clone() {
        RunFailure::StageFailed { node, reason } => End::StageFailed { node, reason },
        RunFailure::NoMatchingEdge { node, report } => End::NoMatchingEdge { node, report },
        RunFailure::DeadEnd { node } => End::DeadEnd(node),
        RunFailure::FailureEnd { node, reason } => End::FailureEnd { node, reason },
        RunFailure::MaxVisits {
            node,
            limit,
            attribute,
        } => End::MaxVisits {
            node,
            limit,
            attribute,
        },
        RunFailure::FailureBreaker { node, reason, count } => End::FailureBreaker { node, reason, count },
        RunFailure::CircularPipeline { from, to } => End::Circular { from, to },
        RunFailure::GoalGate {
            node,
            outcome,
            reason,
            limit,
            ..
        } => End::GoalGate {
            node,
            outcome,
            reason,
            limit,
        },
        RunFailure::MaxRestarts { from, to, limit } => End::MaxRestarts { from, to, limit },
        RunFailure::BranchReentry { from, to } => End::Reentry { from, to },
        RunFailure::WaitsForHuman { node, .. } => End::WaitsForHuman(node),
        other => End::Other(other.to_string()),
    }
}
