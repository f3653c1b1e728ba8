//! The state machine: what comes next, and nothing else. No I/O, no clock, no chance.

use std::collections::BTreeMap;

use orchestra_graph::table::Constant;
use orchestra_graph::{EdgeIndex, NodeIndex, Pipeline, SharedPipeline};
use serde_json::Value;

use crate::context::Context;
use crate::effect::{Effect, EffectId, Event, Observation};
use crate::failure::RunFailure;
use crate::human::Question;
use crate::line::{Flow, LineEnd, Move, Step, once};
use crate::saved::SavedState;
use crate::state::{Line, Phase, State, Totals};
use crate::usage::Usage;

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
        mirror(&pipeline, &mut context);
        let state = State {
            main: Line::main(pipeline.nodes.len(), context),
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
            state,
            observed: true,
        }
    }

    /// Says whether anybody wants [`Effect::Observe`]; at first somebody does. It changes no other effect.
    pub fn observe(&mut self, wanted: bool) {
        self.observed = wanted;
    }

    /// Goes on with a run whose [state was kept](crate::SavedState); ask for its [effects](Machine::reissue) then.
    pub fn resume(pipeline: impl Into<SharedPipeline>, state: State) -> Machine {
        Machine {
            pipeline: pipeline.into(),
            state,
            observed: true,
        }
    }

    /// Asks once more for everything that the run waits for: stages, timers with their whole delay, questions. This is
    /// how a run goes on in another process (rule D1).
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
    /// # Ok::<(), orchestra_core::SavedFault>(())
    /// ```
    pub fn reissue(&self, effects: &mut Vec<Effect>) {
        self.waits(&self.state.main, &mut |line, id| match &line.phase {
            Phase::Running => {
                self.started_again(line, &id, effects);
                effects.push(Effect::RunNode {
                    id,
                    context: line.context.clone(),
                });
            }
            Phase::BackOff => effects.push(Effect::StartTimer {
                id,
                delay: line.at.delay,
            }),
            Phase::Asking(question) => {
                self.started_again(line, &id, effects);
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

    fn started_again(&self, line: &Line, id: &EffectId, effects: &mut Vec<Effect>) {
        if self.observed {
            let (id, index) = (id.clone(), line.at.index);
            effects.push(Effect::Observe(Observation::StageStarted { id, index }));
        }
    }

    /// Goes to the first stage; to be called once.
    pub fn begin(&mut self, effects: &mut Vec<Effect>) {
        let start = self.pipeline.start;
        let flow = self.step(effects, |step, main| step.go(main, Move::Enter(start)));
        self.conclude(flow, effects);
    }

    /// Takes one event. An event that fits no pending effect, such as a late answer, changes nothing.
    pub fn on(&mut self, event: Event, effects: &mut Vec<Effect>) {
        if self.state.totals.finished {
            match event {
                // What was cancelled with the end was paid for all the same.
                Event::Used { id, usage } => self.spent(&id, usage),
                Event::Retried { node, from_edges } if node.at() < self.pipeline.nodes.len() => {
                    self.state.totals.finished = false;
                    let flow = self.step(effects, |step, main| step.retry(main, node, from_edges));
                    self.conclude(flow, effects);
                }
                _ => {}
            }
            return;
        }
        let flow = match event {
            Event::Tick { elapsed } => {
                self.state.totals.elapsed = elapsed;
                return;
            }
            Event::NodeFinished { id, outcome } if self.is_running(&id) => {
                // The hot path: an outcome is large, and moved as seldom as may be.
                self.step(effects, |step, main| step.finish(main, outcome))
            }
            Event::NodeFinished { id, outcome } => {
                self.deliver(&id, effects, |step, line| match line.phase {
                    Phase::Running => step.finish(line, outcome),
                    Phase::Asking(_) => step.not_asked(line, outcome),
                    _ => Flow::Wait,
                })
            }
            Event::TimerFired { id } => self.deliver(&id, effects, |step, line| match &line.phase {
                Phase::BackOff => step.go(line, Move::Attempt),
                Phase::Asking(question) if question.timeout.is_some() => step.unanswered(line),
                Phase::Parallel(block) if block.is_timed() => step.block_timed_out(line),
                _ => Flow::Wait,
            }),
            Event::Answered { id, answer } => self.deliver(&id, effects, |step, line| match line.phase {
                Phase::Running => {
                    line.progress.get_or_insert_default().answer = Some(answer);
                    Flow::Wait
                }
                _ => step.answered(line, &answer),
            }),
            Event::Unanswerable { id, reason } => self.deliver(&id, effects, |step, line| match line.phase {
                Phase::Asking(_) | Phase::Running => Flow::Abort(RunFailure::WaitsForHuman {
                    node: step.pipeline.stage(line.at.node).id().to_owned(),
                    reason,
                }),
                _ => Flow::Wait,
            }),
            Event::Used { id, usage } => {
                self.spent(&id, usage);
                self.deliver(&id, effects, |_, line| {
                    if matches!(line.phase, Phase::Running) {
                        line.progress.get_or_insert_default().used += usage;
                    }
                    Flow::Wait
                })
            }
            Event::Snapshot { id, snapshot } => {
                let observed = self.observed.then(|| (id.clone(), snapshot.clone()));
                self.deliver(&id, effects, |step, line| {
                    if matches!(line.phase, Phase::Running) {
                        line.keep_snapshot(snapshot);
                        if let Some((id, snapshot)) = observed {
                            step.tell(|| Observation::SnapshotSaved { id, snapshot });
                        }
                    }
                    Flow::Wait
                })
            }
            Event::Noted { id, note, checkpoint } => {
                let observed = checkpoint.then(|| id.clone());
                self.deliver(&id, effects, |step, line| {
                    if matches!(line.phase, Phase::Running) {
                        let progress = line.progress.get_or_insert_default();
                        progress.notes.push(note);
                        // Whatever a stage made of an answer is in its notes.
                        progress.answer = None;
                        if let Some(id) = observed {
                            step.tell(|| Observation::StageNoted { id });
                        }
                    }
                    Flow::Wait
                })
            }
            Event::Retried { .. } => return,
            Event::CancelRequested { reason } => Flow::Abort(RunFailure::Cancelled { reason }),
            Event::PauseRequested { reason } => Flow::Abort(RunFailure::Paused { reason }),
            Event::TimeUp { limit } => Flow::Abort(RunFailure::MaxTime { limit }),
            Event::OverBudget { budget, used } => Flow::Abort(RunFailure::Budget { budget, used }),
        };
        self.conclude(flow, effects);
    }

    fn spent(&mut self, id: &EffectId, usage: Usage) {
        let totals = &mut self.state.totals;
        totals.usage += usage;
        if has_budget(&self.pipeline, id.node) {
            *totals.spent.entry(id.node.0).or_default() += usage;
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

    /// The state in a form that can be kept, and gone on from with [`SavedState::restore`].
    pub fn saved(&self) -> SavedState {
        SavedState::of(&self.pipeline, &self.state)
    }

    /// The effects that are waited for: stages that run, timers, questions.
    pub fn pending(&self) -> Vec<EffectId> {
        let mut pending = Vec::new();
        self.waits(&self.state.main, &mut |_, id| pending.push(id));
        pending
    }

    /// The questions that wait for an answer, with the names of their effects.
    pub fn questions(&self) -> Vec<(EffectId, Question)> {
        let mut questions = Vec::new();
        self.waits(&self.state.main, &mut |line, id| {
            if let Phase::Asking(question) = &line.phase {
                questions.push((id, Question::clone(question)));
            }
        });
        questions
    }

    /// The line that waits for an effect, behind those around it, the main line first; empty where none waits for it.
    ///
    /// ```
    /// use orchestra_core::{Context, Event, Machine};
    /// # use orchestra_graph::{Source, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let mut machine = Machine::start(pipeline, Context::new(), 0, &mut Vec::new());
    /// let id = machine.pending().pop().expect("it waits for a stage");
    /// machine.on(Event::Noted { id: id.clone(), note: "half done".into(), checkpoint: false }, &mut Vec::new());
    /// let [line] = &machine.lines_to(&id)[..] else { panic!("the main line waits") };
    /// assert_eq!(line.notes(), ["half done"]);
    /// ```
    pub fn lines_to(&self, id: &EffectId) -> Vec<&Line> {
        let mut lines = vec![&self.state.main];
        for step in id.branch.steps() {
            let inner = lines.last().and_then(|line| match &line.phase {
                Phase::Parallel(block) => block.running_at(step.edge),
                _ => None,
            });
            match inner {
                Some(line) => lines.push(line),
                None => return Vec::new(),
            }
        }
        let restarts = self.state.totals.restarts;
        let waits = lines.last().is_some_and(|line| line.id(restarts) == *id);
        if waits { lines } else { Vec::new() }
    }

    /// Whether the main line waits for this stage.
    fn is_running(&self, id: &EffectId) -> bool {
        let main = &self.state.main;
        let here = (main.at.node, main.at.visit, main.at.attempt);
        matches!(main.phase, Phase::Running)
            && id.branch.is_empty()
            && id.restart == self.state.totals.restarts
            && here == (id.node, id.visit, id.attempt)
    }

    /// All lines that wait for an effect of their own, those of branches behind the one around them.
    fn waits<'s>(&'s self, line: &'s Line, tell: &mut dyn FnMut(&'s Line, EffectId)) {
        match &line.phase {
            Phase::Idle => {}
            Phase::Parallel(block) => {
                if block.timeout().is_some() {
                    tell(line, line.id(self.state.totals.restarts));
                }
                block.running().for_each(|line| self.waits(line, tell));
            }
            _ => tell(line, line.id(self.state.totals.restarts)),
        }
    }

    fn step(
        &mut self,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut Step<'_>, &mut Line) -> Flow,
    ) -> Flow {
        let State { main, totals } = &mut self.state;
        let mut step = Step {
            pipeline: &self.pipeline,
            totals,
            observed: self.observed,
            effects,
        };
        act(&mut step, main)
    }

    /// Acts on the line that waits for an effect, and on the blocks around it.
    fn deliver(
        &mut self,
        id: &EffectId,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut Step<'_>, &mut Line) -> Flow,
    ) -> Flow {
        if id.restart != self.state.totals.restarts {
            return Flow::Wait;
        }
        self.step(effects, |step, main| step.deliver(main, id, 0, &mut once(act)))
    }

    /// Ends or restarts the run where the main line says so.
    fn conclude(&mut self, mut flow: Flow, effects: &mut Vec<Effect>) {
        loop {
            let failure = match flow {
                Flow::Wait => return,
                Flow::Ended(LineEnd::Joined | LineEnd::End) => None,
                Flow::Ended(LineEnd::Failed(failure)) => Some(failure),
                Flow::Abort(failure) => Some(failure),
                Flow::Restart { edge, context } => match self.restart(edge, &context, effects) {
                    Ok(target) => {
                        flow = self.step(effects, |step, main| step.go(main, Move::Enter(target)));
                        continue;
                    }
                    Err(failure) => Some(failure),
                },
            };
            self.step(effects, |step, main| {
                step.cancel(main);
                main.flush();
                Flow::Wait
            });
            self.state.totals.finished = true;
            effects.push(Effect::Finish { failure });
            return;
        }
    }

    /// Begins the run anew at an edge's target (rule R9).
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
        self.step(effects, |step, main| {
            step.cancel(main);
            Flow::Wait
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
        self.state.main = Line::main(pipeline.nodes.len(), kept);
        if self.observed {
            effects.push(Effect::Observe(Observation::Restarted { edge, restart }));
        }
        effects.push(Effect::Restart { restart, to: row.to });
        Ok(row.to)
    }
}

/// Whether what is used at a node is counted for a budget of its own.
fn has_budget(pipeline: &Pipeline, node: NodeIndex) -> bool {
    let stage = pipeline.stage(node);
    stage.attribute("max_cost").is_some() || stage.attribute("max_tokens").is_some()
}

/// Sets the graph's attributes in a context (Attractor 5.1).
pub(crate) fn mirror(pipeline: &Pipeline, context: &mut Context) {
    for row in pipeline.attributes(pipeline.graph_attributes) {
        context.set(["graph.", &row.key].concat(), value_of(&row.value));
    }
    if pipeline.attribute("goal").is_none() {
        context.set("graph.goal", "");
    }
}

/// A graph attribute as a context value.
fn value_of(value: &Constant) -> Value {
    match value {
        Constant::String(text) => Value::String(text.to_string()),
        Constant::Integer(number) => (*number).into(),
        Constant::Float(number) => (*number).into(),
        Constant::Boolean(value) => (*value).into(),
        Constant::Duration(_) => Value::String(value.to_value().to_string()),
    }
}
