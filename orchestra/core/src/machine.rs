//! The state machine, which decides what comes next in a run. It has no I/O, no clock and no randomness.

use std::collections::BTreeMap;

use orchestra_graph::table::Constant;
use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline, SharedPipeline};
use serde_json::Value;

use crate::context::Context;
use crate::effect::{Effect, Event, Observation};
use crate::failure::RunFailure;
use crate::id::EffectId;
use crate::path::{ExecutionPath, Phase};
use crate::question::Question;
use crate::saved::SavedState;
use crate::state::{State, Totals};
use crate::transition::{NextStep, PathEnd, StepResult, Transition, call_once};
use crate::usage::Usage;

/// The state machine of a run (Attractor 3.2). It turns events into effects; the same events always produce the same
/// effects.
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
    /// The number of stages that had begun when the machine was last called.
    begun_before: u64,
    observed: bool,
}

impl Machine {
    /// Starts a run: copies the graph's attributes into the context as `graph.*` (Attractor 5.1) and produces the first
    /// effects. All randomness in the run is derived from the seed.
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

    /// Creates a run that has not [begun](Machine::begin) yet. The graph's attributes are in its context.
    pub fn prepare(pipeline: impl Into<SharedPipeline>, mut context: Context, seed: u64) -> Machine {
        let pipeline = pipeline.into();
        set_graph_attributes(&pipeline, &mut context);
        let state = State {
            main: ExecutionPath::main(pipeline.nodes.len(), context),
            totals: Totals {
                finished: false,
                begun: 0,
                restarts: 0,
                reroutes: 0,
                taken: vec![0; pipeline.edges.len()],
                elapsed: Default::default(),
                seed,
                usage: Usage::default(),
                spent: BTreeMap::new(),
            },
        };
        Machine {
            pipeline,
            begun_before: state.totals.begun,
            state,
            observed: true,
        }
    }

    /// Sets whether the machine produces [`Effect::Observe`]; by default it does. No other effect depends on it.
    pub fn observe(&mut self, observed: bool) {
        self.observed = observed;
    }

    /// Resumes a run from a [saved state](crate::SavedState). The caller then requests its [effects](Machine::reissue).
    pub fn resume(pipeline: impl Into<SharedPipeline>, state: State) -> Machine {
        Machine {
            pipeline: pipeline.into(),
            begun_before: state.totals.begun,
            state,
            observed: true,
        }
    }

    /// Produces again every effect that the run waits for: stages, timers with their whole delay, questions. Another
    /// process resumes a run this way (rule D1).
    ///
    /// ```
    /// use orchestra_core::{Context, Effect, Machine};
    /// # use orchestra_graph::{Source, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// # let pipeline = orchestra_core::SharedPipeline::from(pipeline);
    /// let machine = Machine::start(pipeline.clone(), Context::new(), 7, &mut Vec::new());
    /// let state = machine.saved().restore(&pipeline)?;
    /// let mut effects = Vec::new();
    /// Machine::resume(pipeline, state).reissue(&mut effects);
    /// let [_, Effect::RunNode { id, .. }] = &effects[..] else { panic!("one stage was in flight") };
    /// assert_eq!(id.name(machine.pipeline()), "build#1/1");
    /// # Ok::<(), orchestra_core::SavedStateError>(())
    /// ```
    pub fn reissue(&self, effects: &mut Vec<Effect>) {
        self.visit_waiting(&self.state.main, &mut |path, id| match &path.phase {
            Phase::Running => {
                self.observe_start(path, &id, effects);
                effects.push(Effect::RunNode {
                    id,
                    context: path.context.clone(),
                });
            }
            Phase::BackOff => effects.push(Effect::StartTimer {
                id,
                delay: path.at.delay,
            }),
            Phase::Asking(question) => {
                self.observe_start(path, &id, effects);
                if let Some(delay) = question.timeout {
                    let id = id.clone();
                    effects.push(Effect::StartTimer { id, delay });
                }
                let question = question.clone();
                effects.push(Effect::AskHuman { id, question });
            }
            Phase::Parallel(block) => {
                effects.extend(block.timeout().map(|delay| Effect::StartTimer { id, delay }))
            }
            Phase::Idle => {}
        });
    }

    /// Reports the start of a stage again, because another execution of its attempt begins (rule D1).
    ///
    /// ```
    /// use orchestra_core::{Context, Effect, Machine, Observation};
    /// # use orchestra_graph::{Source, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let mut effects = Vec::new();
    /// let machine = Machine::start(pipeline, Context::new(), 7, &mut effects);
    /// let Some(Effect::RunNode { id, .. }) = effects.pop() else { panic!("the first stage is to run") };
    /// effects.clear();
    /// machine.observe_repeat(&id, &mut effects);
    /// assert!(matches!(&effects[..], [Effect::Observe(Observation::StageStarted { .. })]));
    /// ```
    pub fn observe_repeat(&self, id: &EffectId, effects: &mut Vec<Effect>) {
        self.visit_waiting(&self.state.main, &mut |path, waiting| {
            if waiting == *id {
                self.observe_start(path, id, effects);
            }
        });
    }

    /// Reports the start of a stage that is started again.
    fn observe_start(&self, path: &ExecutionPath, id: &EffectId, effects: &mut Vec<Effect>) {
        if self.observed {
            let (id, index) = (id.clone(), path.at.index);
            effects.push(Effect::Observe(Observation::StageStarted { id, index }));
        }
    }

    /// Enters the first stage. Must be called once.
    pub fn begin(&mut self, effects: &mut Vec<Effect>) {
        self.begun_before = self.state.totals.begun;
        let start = self.pipeline.start;
        let result = self.transition(effects, |transition, main| {
            transition.advance(main, NextStep::Enter(start))
        });
        self.conclude(result, effects);
    }

    /// Applies one event. An event that matches no pending effect, such as a late answer, changes nothing; usage is
    /// always counted.
    pub fn on(&mut self, event: Event, effects: &mut Vec<Effect>) {
        self.begun_before = self.state.totals.begun;
        if self.state.totals.finished {
            match event {
                // Stages that were cancelled at the end of the run have a cost all the same.
                Event::Used { id, usage } => self.add_usage(&id, usage),
                Event::Retried { node, from_edges } if node.at() < self.pipeline.nodes.len() => {
                    self.state.totals.finished = false;
                    let result = self.transition(effects, |transition, main| {
                        transition.retry(main, node, from_edges)
                    });
                    self.conclude(result, effects);
                }
                _ => {}
            }
            return;
        }
        let result = match event {
            Event::Tick { elapsed } => {
                self.state.totals.elapsed = elapsed;
                return;
            }
            Event::NodeFinished { id, outcome } if self.is_running(&id) => {
                // The hot path: an outcome is large, so it is moved as rarely as possible.
                self.transition(effects, |transition, main| transition.finish(main, outcome))
            }
            Event::NodeFinished { id, outcome } => {
                self.deliver(&id, effects, |transition, path| match path.phase {
                    Phase::Running => transition.finish(path, outcome),
                    Phase::Asking(_) => transition.question_failed(path, outcome),
                    _ => StepResult::Wait,
                })
            }
            Event::TimerFired { id } => self.deliver(&id, effects, |transition, path| match &path.phase {
                Phase::BackOff => transition.advance(path, NextStep::Attempt),
                Phase::Asking(question) if question.timeout.is_some() => transition.question_timed_out(path),
                Phase::Parallel(block) if block.is_timed() => transition.block_timed_out(path),
                _ => StepResult::Wait,
            }),
            Event::Answered { id, answer } => {
                self.deliver(&id, effects, |transition, path| match path.phase {
                    Phase::Running => {
                        path.progress.get_or_insert_default().answer = Some(answer);
                        StepResult::Wait
                    }
                    _ => transition.answered(path, &answer),
                })
            }
            Event::Unanswerable { id, reason } => {
                self.deliver(&id, effects, |transition, path| match path.phase {
                    Phase::Asking(_) | Phase::Running => StepResult::Abort(RunFailure::WaitsForHuman {
                        node: transition.pipeline.stage(path.at.node).id().to_owned(),
                        reason,
                    }),
                    _ => StepResult::Wait,
                })
            }
            Event::Used { id, usage } => {
                self.add_usage(&id, usage);
                self.deliver(&id, effects, |_, path| {
                    if matches!(path.phase, Phase::Running) {
                        path.progress.get_or_insert_default().used += usage;
                    }
                    StepResult::Wait
                })
            }
            Event::Snapshot { id, snapshot } => {
                let observed = self.observed.then(|| (id.clone(), snapshot.clone()));
                self.deliver(&id, effects, |transition, path| {
                    if matches!(path.phase, Phase::Running) {
                        path.set_snapshot(snapshot);
                        if let Some((id, snapshot)) = observed {
                            transition.emit(|| Observation::SnapshotSaved { id, snapshot });
                        }
                    }
                    StepResult::Wait
                })
            }
            Event::Noted { id, note, checkpoint } => {
                let observed = checkpoint.then(|| id.clone());
                self.deliver(&id, effects, |transition, path| {
                    if matches!(path.phase, Phase::Running) {
                        let progress = path.progress.get_or_insert_default();
                        progress.notes.push(note);
                        // The notes contain everything that the stage derived from the answer.
                        progress.answer = None;
                        if let Some(id) = observed {
                            transition.emit(|| Observation::StageNoted { id });
                        }
                    }
                    StepResult::Wait
                })
            }
            Event::Retried { .. } => return,
            Event::CancelRequested { reason } => StepResult::Abort(RunFailure::Cancelled { reason }),
            Event::PauseRequested { reason } => StepResult::Abort(RunFailure::Paused { reason }),
            Event::TimeUp { limit } => StepResult::Abort(RunFailure::MaxTime { limit }),
            Event::OverBudget { budget, used } => StepResult::Abort(RunFailure::Budget { budget, used }),
        };
        self.conclude(result, effects);
    }

    fn add_usage(&mut self, id: &EffectId, usage: Usage) {
        let totals = &mut self.state.totals;
        totals.usage += usage;
        if has_budget(&self.pipeline, id.node) {
            *totals.spent.entry(id.node.0).or_default() += usage;
        }
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &SharedPipeline {
        &self.pipeline
    }

    /// Returns the state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Consumes the machine and returns its state.
    pub fn into_state(self) -> State {
        self.state
    }

    /// Returns the state in a form that can be stored, and restored with [`SavedState::restore`].
    pub fn saved(&self) -> SavedState {
        SavedState::new(&self.pipeline, &self.state)
    }

    /// Returns the effects that the run waits for: running stages, timers, questions.
    pub fn pending(&self) -> Vec<EffectId> {
        let mut pending = Vec::new();
        self.visit_waiting(&self.state.main, &mut |_, id| pending.push(id));
        pending
    }

    /// Returns the open questions with the ids of their effects.
    pub fn questions(&self) -> Vec<(EffectId, Question)> {
        let mut questions = Vec::new();
        self.visit_waiting(&self.state.main, &mut |path, id| {
            if let Phase::Asking(question) = &path.phase {
                questions.push((id, Question::clone(question)));
            }
        });
        questions
    }

    /// Returns the path that waits for an effect, after its parent paths; the main path comes first. Returns an empty
    /// list if no path waits for the effect.
    ///
    /// ```
    /// use orchestra_core::{Context, Event, Machine};
    /// # use orchestra_graph::{Source, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
    /// let id = machine.pending().pop().expect("it waits for a stage");
    /// machine.on(Event::Noted { id: id.clone(), note: "half done".into(), checkpoint: false }, &mut Vec::new());
    /// let [path] = &machine.paths_to(&id)[..] else { panic!("the main path waits") };
    /// assert_eq!(path.notes(), ["half done"]);
    /// ```
    pub fn paths_to(&self, id: &EffectId) -> Vec<&ExecutionPath> {
        let mut paths = vec![&self.state.main];
        for step in id.branch.steps() {
            let inner = paths.last().and_then(|path| match &path.phase {
                Phase::Parallel(block) => block.running_at(step),
                _ => None,
            });
            match inner {
                Some(path) => paths.push(path),
                None => return Vec::new(),
            }
        }
        let restarts = self.state.totals.restarts;
        let waits = paths.last().is_some_and(|path| path.id(restarts) == *id);
        if waits { paths } else { Vec::new() }
    }

    /// Returns `true` if the main path waits for this stage.
    fn is_running(&self, id: &EffectId) -> bool {
        let main = &self.state.main;
        let here = (main.at.node, main.at.visit, main.at.attempt);
        matches!(main.phase, Phase::Running)
            && id.branch.is_empty()
            && id.restart == self.state.totals.restarts
            && here == (id.node, id.visit, id.attempt)
    }

    /// Passes every path that waits to `visit`, with the id of its effect.
    pub(crate) fn visit_paths<'s>(&'s self, visit: &mut dyn FnMut(&'s ExecutionPath, EffectId)) {
        self.visit_waiting(&self.state.main, visit);
    }

    /// Removes what no later decision reads, so that copies of the state are cheap.
    pub(crate) fn forget_history(&mut self) {
        self.state.main.forget_history();
    }

    /// Passes every path that waits for an effect of its own to `visit`, with the id of the effect. A path comes before
    /// its branches.
    fn visit_waiting<'s>(
        &'s self,
        path: &'s ExecutionPath,
        visit: &mut dyn FnMut(&'s ExecutionPath, EffectId),
    ) {
        match &path.phase {
            Phase::Idle => {}
            Phase::Parallel(block) => {
                if block.timeout().is_some() {
                    visit(path, path.id(self.state.totals.restarts));
                }
                block.running().for_each(|path| self.visit_waiting(path, visit));
            }
            _ => visit(path, path.id(self.state.totals.restarts)),
        }
    }

    fn transition(
        &mut self,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut Transition<'_>, &mut ExecutionPath) -> StepResult,
    ) -> StepResult {
        let State { main, totals } = &mut self.state;
        let mut transition = Transition {
            pipeline: &self.pipeline,
            totals,
            begun_before: self.begun_before,
            observed: self.observed,
            effects,
        };
        act(&mut transition, main)
    }

    /// Applies `act` to the path that waits for an effect, and updates the blocks around it.
    fn deliver(
        &mut self,
        id: &EffectId,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut Transition<'_>, &mut ExecutionPath) -> StepResult,
    ) -> StepResult {
        if id.restart != self.state.totals.restarts {
            return StepResult::Wait;
        }
        self.transition(effects, |transition, main| {
            transition.deliver(main, id, 0, &mut call_once(act))
        })
    }

    /// Ends or restarts the run if the result of the main path requires it.
    fn conclude(&mut self, mut result: StepResult, effects: &mut Vec<Effect>) {
        loop {
            let failure = match result {
                StepResult::Wait => return,
                StepResult::Ended(PathEnd::Joined | PathEnd::End) => None,
                StepResult::Ended(PathEnd::Failed(failure)) => Some(failure),
                StepResult::Abort(failure) => Some(failure),
                StepResult::Restart { edge, context } => match self.restart(edge, &context, effects) {
                    Ok(target) => {
                        result = self.transition(effects, |transition, main| {
                            transition.advance(main, NextStep::Enter(target))
                        });
                        continue;
                    }
                    Err(failure) => Some(failure),
                },
            };
            self.transition(effects, |transition, main| {
                transition.cancel(main);
                main.flush();
                StepResult::Wait
            });
            self.state.totals.finished = true;
            effects.push(Effect::Finish { failure });
            return;
        }
    }

    /// Restarts the run at an edge's target (rule R9).
    fn restart(
        &mut self,
        edge: EdgeIndex,
        context: &Context,
        effects: &mut Vec<Effect>,
    ) -> Result<NodeIndex, RunFailure> {
        let pipeline = self.pipeline.clone();
        let row = pipeline.edge(edge);
        let limit = pipeline.settings.max_restarts;
        if self.state.totals.restarts >= limit {
            return Err(RunFailure::MaxRestarts {
                from: pipeline.stage(row.from).id().to_owned(),
                to: pipeline.stage(row.to).id().to_owned(),
                limit,
            });
        }
        self.transition(effects, |transition, main| {
            transition.cancel(main);
            StepResult::Wait
        });
        let totals = &mut self.state.totals;
        totals.restarts += 1;
        totals.reroutes = 0;
        let restart = totals.restarts;
        let graph = context.iter().filter(|(key, _)| key.starts_with("graph."));
        let mut kept: Context = graph.map(|(key, value)| (key, value.clone())).collect();
        let names = match pipeline.attribute("restart_keep") {
            Some(Constant::String(names)) => names,
            _ => "",
        };
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if let Some(value) = context.get(name) {
                kept.set(name, value.clone());
            }
        }
        self.state.main = ExecutionPath::main(pipeline.nodes.len(), kept);
        if self.observed {
            effects.push(Effect::Observe(Observation::Restarted { edge, restart }));
        }
        effects.push(Effect::Restart { restart, to: row.to });
        Ok(row.to)
    }
}

/// Returns `true` if the node has a budget of its own, for which usage is counted.
fn has_budget(pipeline: &Pipeline, node: NodeIndex) -> bool {
    let stage = pipeline.stage(node);
    stage.attribute("max_cost").is_some() || stage.attribute("max_tokens").is_some()
}

/// Sets the graph's attributes in a context (Attractor 5.1).
pub(crate) fn set_graph_attributes(pipeline: &Pipeline, context: &mut Context) {
    for (name, value) in pipeline.attributes(pipeline.graph_attributes) {
        context.set(["graph.", name].concat(), value_of(value));
    }
    if pipeline.attribute("goal").is_none() {
        context.set("graph.goal", "");
    }
}

/// Converts a graph attribute to a context value.
fn value_of(value: Constant<&str>) -> Value {
    match value {
        Constant::String(text) => Value::String(text.to_owned()),
        Constant::Integer(number) => number.into(),
        Constant::Float(number) => number.into(),
        Constant::Boolean(value) => value.into(),
        Constant::Duration(_) => Value::String(value.to_value().to_string()),
    }
}
