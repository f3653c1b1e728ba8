//! The state machine: what comes next, and nothing else. No I/O, no clock, no chance.

use orchestra_graph::condition::Facts;
use orchestra_graph::table::{Constant, Routing};
use orchestra_graph::{
    EdgeIndex, Next, NodeIndex, Pipeline, Role, RouteFault, SharedPipeline, Stage, kind, route,
};
use serde_json::Value;

use crate::context::{Context, EngineKey};
use crate::effect::{Effect, EffectId, Event, Observation};
use crate::failure::RunFailure;
use crate::outcome::{FailureCategory, Outcome, Status};
use crate::state::{Failing, NodeOutcome, Phase, State};

/// The run of a pipeline (Attractor 3.2). Events go in, effects come out; the same events always give the same effects.
///
/// ```
/// use orchestra_core::{Context, Effect, Event, Machine, Outcome};
/// use orchestra_graph::{LoadOptions, Source, load};
///
/// let text = "digraph a { start -> work -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let mut effects = Vec::new();
/// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
/// let Some(Effect::RunNode { id, .. }) = effects.pop() else { panic!("the first stage is to run") };
/// machine.on(Event::NodeFinished { id, outcome: Outcome::success() }, &mut effects);
/// assert!(matches!(effects.last(), Some(Effect::Finish { failure: None })));
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    pipeline: SharedPipeline,
    state: State,
    observed: bool,
}

impl Machine {
    /// Starts a run: the graph's attributes are mirrored into the context as `graph.*` (Attractor 5.1), and the first
    /// effects given. The seed is that of every chance in the run.
    pub fn start(
        pipeline: impl Into<SharedPipeline>,
        context: Context,
        seed: u64,
        effects: &mut Vec<Effect>,
    ) -> Machine {
        let mut machine = Machine::prepare(pipeline, context, seed);
        machine.begin(effects);
        machine
    }

    /// Makes a run that has yet to [begin](Machine::begin); the graph's attributes are in its context.
    pub fn prepare(pipeline: impl Into<SharedPipeline>, mut context: Context, seed: u64) -> Machine {
        let pipeline = pipeline.into();
        for row in pipeline.attributes(pipeline.graph_attributes) {
            context.set(["graph.", &row.key].concat(), mirror(&row.value));
        }
        if pipeline.attribute("goal").is_none() {
            context.set("graph.goal", "");
        }
        let state = State::new(pipeline.nodes.len(), context, seed);
        Machine {
            pipeline,
            state,
            observed: true,
        }
    }

    /// Says whether anybody wants [`Effect::Observe`]; at first somebody does. It changes no other effect.
    pub fn observe(&mut self, wanted: bool) {
        self.observed = wanted;
    }

    /// Goes to the first stage; to be called once.
    pub fn begin(&mut self, effects: &mut Vec<Effect>) {
        let start = self.pipeline.start;
        self.step(effects).enter(start);
    }

    /// Takes one event. An event that fits no pending effect, such as a late answer, changes nothing.
    pub fn on(&mut self, event: Event, effects: &mut Vec<Effect>) {
        let Phase::Running(pending) = self.state.phase else {
            return;
        };
        match event {
            Event::NodeFinished { id, outcome } if id == pending => self.step(effects).finished(id, outcome),
            Event::NodeFinished { .. } => {}
            Event::CancelRequested { reason } => {
                self.step(effects).stop(pending, RunFailure::Cancelled { reason });
            }
            Event::TimeUp { limit } => self.step(effects).stop(pending, RunFailure::MaxTime { limit }),
        }
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &SharedPipeline {
        &self.pipeline
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Gives up the machine for its state.
    pub fn into_state(self) -> State {
        self.state
    }

    fn step<'a>(&'a mut self, effects: &'a mut Vec<Effect>) -> Step<'a> {
        Step {
            pipeline: &self.pipeline,
            state: &mut self.state,
            observed: self.observed,
            effects,
        }
    }
}

/// One call of the machine: the pipeline can be read while the state changes.
struct Step<'a> {
    pipeline: &'a Pipeline,
    state: &'a mut State,
    observed: bool,
    effects: &'a mut Vec<Effect>,
}

impl<'a> Step<'a> {
    /// Goes to a node, and through routing nodes, until something must be waited for.
    fn enter(&mut self, node: NodeIndex) {
        let mut node = node;
        loop {
            let stage = self.pipeline.stage(node);
            if let Some(failure) = self.visit(stage) {
                return self.fail(failure);
            }
            let id = EffectId {
                node,
                visit: self.state.visits.get(node.at()).copied().unwrap_or_default(),
                attempt: 1,
            };
            let index = self.state.begun;
            self.state.begun += 1;
            self.state.context.set_engine(EngineKey::CurrentNode, stage.id());
            self.tell(|| Observation::StageStarted { id, index });
            if !decided_here(stage) {
                self.state.phase = Phase::Running(id);
                self.effects.push(Effect::RunNode {
                    id,
                    context: self.state.context.clone(),
                });
                return;
            }
            self.state.path.push(node);
            if stage.row().role != Role::Routing {
                self.remember(stage, &Outcome::success());
                self.record(node, Status::Success, None);
            }
            self.tell(|| Observation::StageCompleted {
                id,
                index,
                outcome: Outcome::success(),
            });
            if stage.row().role == Role::Exit {
                return self.finish();
            }
            match self.choose(stage) {
                Some(target) => node = target,
                None => return,
            }
        }
    }

    /// Counts a visit, unless it is one too many (rule R10).
    fn visit(&mut self, stage: Stage<'_>) -> Option<RunFailure> {
        let row = stage.row();
        let Some(visits) = self.state.visits.get_mut(stage.index().at()) else {
            // Only a table made by hand can lead to a node that it does not have.
            return Some(RunFailure::DeadEnd {
                node: row.id.to_string(),
            });
        };
        let (limit, attribute) = match row.max_visits {
            Some(limit) => (limit, "max_visits"),
            None => (self.pipeline.settings.max_node_visits, "max_node_visits"),
        };
        if *visits >= limit {
            return Some(RunFailure::MaxVisits {
                node: row.id.to_string(),
                limit,
                attribute: attribute.to_owned(),
            });
        }
        *visits += 1;
        None
    }

    fn finished(&mut self, id: EffectId, mut outcome: Outcome) {
        let stage = self.pipeline.stage(id.node);
        let index = self.state.begun - 1;
        exhaust(stage, &mut outcome);
        self.state.path.push(id.node);
        // An outcome that nobody wants to see afterwards gives its parts away instead of copies.
        let wanted = self.observed || self.pipeline.settings.routing == Routing::FirstMatch;
        let notes = if wanted {
            for (key, value) in &outcome.context_updates {
                self.state.context.update(key, value.clone());
            }
            outcome.notes.clone().or_else(|| outcome.failure_reason.clone())
        } else {
            for (key, value) in std::mem::take(&mut outcome.context_updates) {
                self.state.context.update(&key, value);
            }
            outcome.notes.take().or_else(|| outcome.failure_reason.clone())
        };
        self.remember(stage, &outcome);
        self.record(id.node, outcome.status.clone(), notes);
        let failed = outcome.status == Status::Fail;
        if failed {
            let reason = outcome.failure_reason.clone().unwrap_or_default();
            let category = outcome.failure_category;
            let told = if reason.is_empty() {
                "no reason was given"
            } else {
                &reason
            };
            self.state.last_failure = format!("stage `{}` failed: {told}", stage.id());
            self.tell(|| Observation::StageFailed {
                id,
                index,
                outcome,
                will_retry: false,
            });
            if let Some(failure) = self.breaker(stage, &reason) {
                return self.fail(failure);
            }
            if category == FailureCategory::Pipeline {
                let node = stage.id().to_owned();
                return self.fail(RunFailure::StageFailed { node, reason });
            }
        } else {
            self.state.failing.retain(|failing| failing.node != id.node);
            self.tell(|| Observation::StageCompleted { id, index, outcome });
        }
        // An exit with a handler of its own may fail like any other stage (rule R3).
        if stage.row().role == Role::Exit && !failed {
            return self.finish();
        }
        if let Some(target) = self.choose(stage) {
            self.enter(target);
        }
    }

    /// Counts equal failures of a stage, one after the other (rule R10).
    fn breaker(&mut self, stage: Stage<'_>, reason: &str) -> Option<RunFailure> {
        let limit = self.pipeline.settings.failure_breaker;
        let node = stage.index();
        let known = self.state.failing.iter_mut().find(|failing| failing.node == node);
        let count = match known {
            Some(failing) if failing.reason == reason => {
                failing.count += 1;
                failing.count
            }
            other => {
                let first = Failing {
                    node,
                    reason: reason.to_owned(),
                    count: 1,
                };
                match other {
                    Some(failing) => *failing = first,
                    None => self.state.failing.push(first),
                }
                1
            }
        };
        (limit > 0 && count >= limit).then(|| RunFailure::FailureBreaker {
            node: stage.id().to_owned(),
            reason: reason.to_owned(),
            count,
        })
    }

    /// Keeps a stage's outcome for the record; a skipped stage leaves none (Attractor 5.2).
    fn record(&mut self, node: NodeIndex, status: Status, notes: Option<String>) {
        if status == Status::Skipped {
            return;
        }
        if let Some(outcome) = self.state.outcomes.get_mut(node.at()) {
            *outcome = Some(NodeOutcome { status, notes });
        }
    }

    /// Keeps what routing sees of a stage (rule R4) and sets the engine's own context keys.
    fn remember(&mut self, stage: Stage<'_>, outcome: &Outcome) {
        let State { context, last, .. } = &mut *self.state;
        // What is as it was is not written again: most stages succeed, and few prefer a label.
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
        if outcome.status == Status::Fail {
            last.failure_reason
                .push_str(outcome.failure_reason.as_deref().unwrap_or_default());
        }
        if self.pipeline.settings.routing == Routing::FirstMatch {
            last.output.clone_from(&outcome.context_updates);
        }
    }

    /// Asks the router and follows it; `None` where the run has ended.
    fn choose(&mut self, stage: Stage<'_>) -> Option<NodeIndex> {
        let pipeline = self.pipeline;
        let last = &self.state.last;
        let last_stage = last.node.map_or("", |node| pipeline.stage(node).id());
        let facts = Facts {
            outcome: last.status.word(),
            preferred_label: &last.preferred_label,
            failure_reason: &last.failure_reason,
            suggested_next_ids: &last.suggested_next_ids,
            current_node: stage.id(),
            last_stage,
            context: &self.state.context,
            output: &last.output,
        };
        let decision = route(pipeline, stage.index(), &facts);
        let next = decision.next;
        let told = match next {
            Next::Fail(RouteFault::NoMatchingEdge) => decision.describe(pipeline, stage.index()),
            _ => String::new(),
        };
        self.tell(|| Observation::Routed {
            from: stage.index(),
            decision,
        });
        let node = || stage.id().to_owned();
        let reason = || self.state.last.failure_reason.clone();
        let failure = match next {
            Next::Edge(edge) => match self.revisit(edge) {
                None => return Some(pipeline.edge(edge).to),
                Some(failure) => failure,
            },
            Next::Jump(target) => return Some(target),
            Next::End { success: true } => {
                self.finish();
                return None;
            }
            Next::End { success: false } => RunFailure::FailureEnd {
                node: node(),
                reason: self.state.last_failure.clone(),
            },
            Next::Fail(RouteFault::DeadEnd) => RunFailure::DeadEnd { node: node() },
            Next::Fail(RouteFault::NoMatchingEdge) => RunFailure::NoMatchingEdge {
                node: node(),
                report: told,
            },
            Next::Fail(RouteFault::StageFailed) => RunFailure::StageFailed {
                node: last_stage.to_owned(),
                reason: reason(),
            },
        };
        self.fail(failure);
        None
    }

    /// Refuses to go back in first-match routing, unless the edge allows it (rule R11).
    fn revisit(&mut self, at: EdgeIndex) -> Option<RunFailure> {
        let edge = self.pipeline.edge(at);
        let visited = self
            .state
            .visits
            .get(edge.to.at())
            .is_some_and(|visits| *visits > 0);
        if self.pipeline.settings.routing != Routing::FirstMatch || !visited {
            return None;
        }
        let id = |node: NodeIndex| self.pipeline.stage(node).id().to_owned();
        let taken = self.state.revisits.entry(at.0).or_default();
        if !edge.allow_revisit || edge.max_revisits.is_some_and(|limit| *taken >= limit) {
            return Some(RunFailure::CircularPipeline {
                from: id(edge.from),
                to: id(edge.to),
            });
        }
        *taken += 1;
        None
    }

    /// Ends the run from outside.
    fn stop(&mut self, id: EffectId, failure: RunFailure) {
        self.effects.push(Effect::CancelEffect { id });
        self.fail(failure);
    }

    fn fail(&mut self, failure: RunFailure) {
        self.state.phase = Phase::Finished;
        self.effects.push(Effect::Finish {
            failure: Some(failure),
        });
    }

    fn finish(&mut self) {
        self.state.phase = Phase::Finished;
        self.effects.push(Effect::Finish { failure: None });
    }

    /// Makes an observation, if anybody wants one.
    fn tell(&mut self, observation: impl FnOnce() -> Observation) {
        if self.observed {
            self.effects.push(Effect::Observe(observation()));
        }
    }
}

/// Whether the core itself decides the node's outcome: start, exit and routing nodes of the built-in kinds.
fn decided_here(stage: Stage<'_>) -> bool {
    match stage.row().role {
        Role::Start => stage.kind() == kind::START,
        Role::Exit => stage.kind() == kind::EXIT,
        Role::Routing => true,
        Role::Work => false,
    }
}

/// Turns a wish for a retry into what it is when no attempt is left (rule Y5).
fn exhaust(stage: Stage<'_>, outcome: &mut Outcome) {
    if outcome.status == Status::Retry {
        outcome.status = if stage.flag("allow_partial") {
            Status::PartialSuccess
        } else {
            Status::Fail
        };
        outcome
            .failure_reason
            .get_or_insert_with(|| "the stage asked for a retry, but none is left".to_owned());
    }
}

/// A graph attribute as a context value.
fn mirror(value: &Constant) -> Value {
    match value {
        Constant::String(text) => Value::String(text.to_string()),
        Constant::Integer(number) => (*number).into(),
        Constant::Float(number) => (*number).into(),
        Constant::Boolean(value) => (*value).into(),
        Constant::Duration(_) => Value::String(value.to_value().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use orchestra_graph::{LoadOptions, Source, load};

    use super::*;

    fn pipeline(text: &str) -> SharedPipeline {
        load(Source::new("a.dot", text), &LoadOptions::default())
            .pipeline()
            .expect("the graph is sound")
            .into()
    }

    /// Runs to the end; every stage gives the outcome that the function makes.
    fn run(text: &str, observed: bool, give: impl Fn(&str, u32) -> Outcome) -> (State, Option<RunFailure>) {
        let mut effects = Vec::new();
        let mut machine = Machine::prepare(pipeline(text), Context::new(), 7);
        machine.observe(observed);
        machine.begin(&mut effects);
        loop {
            let mut next = None;
            for effect in effects.drain(..) {
                match effect {
                    Effect::RunNode { id, .. } => next = Some(id),
                    Effect::Finish { failure } => return (machine.into_state(), failure),
                    Effect::Observe(_) => assert!(observed, "nobody wants observations"),
                    Effect::CancelEffect { .. } => {}
                }
            }
            let id = next.expect("the machine waits for something");
            let outcome = give(machine.pipeline().stage(id.node).id(), id.visit);
            machine.on(Event::NodeFinished { id, outcome }, &mut effects);
        }
    }

    const LOOP: &str = r#"digraph a {
        start -> work -> gate
        gate [shape=diamond]
        gate -> exit [condition="outcome=success && context.tries=2"]
        gate -> work
    }"#;

    #[test]
    fn a_run_is_the_same_whether_or_not_it_is_observed() {
        let give = |_: &str, visit| Outcome::success().set("tries", visit).notes("done");
        let seen = run(LOOP, true, give);
        assert_eq!(seen, run(LOOP, false, give));
        assert_eq!(seen.1, None);
        assert_eq!(seen.0.visits, [1, 2, 2, 1]);
    }

    #[test]
    fn the_engines_own_keys_win_over_a_stages() {
        let text = "digraph a { start -> work -> exit }";
        let give = |_: &str, _| {
            Outcome::success()
                .set("outcome", "mine")
                .set("last_stage", "mine")
        };
        for observed in [true, false] {
            let (state, failure) = run(text, observed, give);
            assert_eq!(failure, None);
            assert_eq!(state.context.text("outcome"), "success");
            assert_eq!(state.context.text("last_stage"), "exit");
        }
    }

    #[test]
    fn a_table_that_leads_nowhere_ends_the_run_and_does_not_panic() {
        let mut table = Pipeline::clone(&pipeline("digraph { start -> exit }"));
        table.start = NodeIndex(9);
        let mut effects = Vec::new();
        Machine::start(table, Context::new(), 0, &mut effects);
        let Some(Effect::Finish { failure }) = effects.last() else {
            panic!("{effects:?}")
        };
        assert_eq!(*failure, Some(RunFailure::DeadEnd { node: String::new() }));
    }

    #[test]
    fn time_up_ends_the_run_and_a_late_answer_changes_nothing() {
        let mut effects = Vec::new();
        let pipeline = pipeline("digraph a { start -> work -> exit }");
        let mut machine = Machine::start(pipeline, Context::new(), 0, &mut effects);
        let Some(Effect::RunNode { id, .. }) = effects.pop() else {
            panic!("the stage is to run")
        };
        effects.clear();
        let limit = std::time::Duration::from_secs(300);
        machine.on(Event::TimeUp { limit }, &mut effects);
        let [
            Effect::CancelEffect { id: stopped },
            Effect::Finish {
                failure: Some(failure),
            },
        ] = &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!(*stopped, id);
        assert_eq!(failure.to_string(), "the run took longer than its limit of 5m");
        effects.clear();
        machine.on(
            Event::NodeFinished {
                id,
                outcome: Outcome::success(),
            },
            &mut effects,
        );
        assert!(effects.is_empty());
    }
}
