//! One turn of a run: a message is applied to its machine, and decides what is sent next. A turn has no effects of its own
//! and reads no clock, so that the durable engine can repeat it.

mod attempts;

use std::time::Duration;

use orchestra_core::{
    Answer, Budget, Context, Effect, EffectId, Event, Machine, Observation, Question, RunFailure,
    SharedPipeline, Usage,
};
use orchestra_engine::{EventKind, ObservedStage, Reply as GivenReply, RunEvent, RunId, Timestamp};

use crate::message::{Message, Outgoing, Refused, Reply, Sent, Turn};
use crate::state::{LiveStage, LiveTimer, PROTOCOL, Phase, RunState, Withheld};

/// The beginning of a run.
///
/// ```
/// use orchestra_core::{Context, Outcome, SharedPipeline};
/// use orchestra_engine::{HostedEnd, RunId, Timestamp};
/// use orchestra_restate::{Finished, Message, Outgoing, Phase, Sent, Start, start, turn};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// let begin = Start {
///     run: RunId::new("first")?,
///     pipeline: "flow".to_owned(),
///     hash: "sha256:0".to_owned(),
///     context: Context::new(),
///     seed: 7,
///     budget: Default::default(),
///     at: Timestamp::from_millis(0),
/// };
/// let (mut state, first) = start(&pipeline, begin);
/// let [Outgoing::Stage { effect, .. }] = &first.outgoing[..] else { panic!("a stage is to run") };
/// let message = Message::Attempt {
///     effect: effect.clone(),
///     token: 1,
///     report: Finished::new(HostedEnd::Outcome(Outcome::success())).into(),
/// };
/// let last = turn(&pipeline, &mut state, Sent { at: Timestamp::from_millis(40), message });
/// assert_eq!(state.phase, Phase::Ended(None));
/// assert_eq!(last.events.last().expect("the end").kind.name(), "PipelineCompleted");
/// # Ok::<(), orchestra_engine::InvalidRunId>(())
/// ```
#[derive(Clone, Debug)]
pub struct Start {
    /// The id of the run.
    pub run: RunId,
    /// The name under which workers have the pipeline.
    pub pipeline: String,
    /// The hash of the pipeline.
    pub hash: String,
    /// The initial context.
    pub context: Context,
    /// The seed of all randomness in the run.
    pub seed: u64,
    /// The limits on the usage of the run.
    pub budget: Budget,
    /// The time.
    pub at: Timestamp,
}

/// Begins a run: returns its state, and what is sent first.
pub fn start(pipeline: &SharedPipeline, start: Start) -> (RunState, Turn) {
    let (open, turn) = OpenRun::begin(pipeline, start);
    (open.into_state(), turn)
}

/// Applies a message to a run. The reply says whether it was refused; the state is unchanged then.
pub fn turn(pipeline: &SharedPipeline, state: &mut RunState, sent: Sent) -> Turn {
    match OpenRun::open(pipeline, state.clone()) {
        Ok(mut open) => {
            let turn = open.receive(sent);
            *state = open.into_state();
            turn
        }
        Err(error) => Turn {
            reply: Reply::Refused(Refused::Unreadable(error)),
            ..Turn::default()
        },
    }
}

/// A run whose machine is restored, for any number of messages.
pub(crate) struct OpenRun {
    /// The state. Its machine is that of the time when the run was opened.
    pub(crate) state: RunState,
    run: RunId,
    machine: Machine,
}

impl OpenRun {
    /// Begins a run. Returns what is sent first.
    pub(crate) fn begin(pipeline: &SharedPipeline, start: Start) -> (OpenRun, Turn) {
        let machine = Machine::prepare(pipeline.clone(), start.context, start.seed);
        let state = RunState {
            protocol: PROTOCOL,
            run: start.run.to_string(),
            pipeline: start.pipeline,
            hash: start.hash,
            budget: start.budget,
            machine: machine.saved(),
            stages: Vec::new(),
            timers: Vec::new(),
            timers_sent: 0,
            reserved: Vec::new(),
            questions: Vec::new(),
            interrupted: Vec::new(),
            withheld: Vec::new(),
            phase: Phase::Running,
            began: start.at,
            now: start.at,
            executed: Duration::ZERO,
            events: 0,
            unannounced: false,
            resumes: 0,
            asked: Vec::new(),
        };
        let mut open = OpenRun {
            state,
            run: start.run,
            machine,
        };
        let mut taking = open.take();
        let (name, goal) = (pipeline.name.to_string(), pipeline.goal().to_owned());
        taking.emit(EventKind::PipelineStarted { name, goal });
        taking.machine.begin(&mut taking.effects);
        taking.handle_effects();
        let turn = taking.finish();
        (open, turn)
    }

    /// Returns the id of the run with a state.
    ///
    /// # Errors
    /// It is no id.
    pub(crate) fn id(state: &RunState) -> Result<RunId, String> {
        RunId::new(&*state.run).map_err(|error| error.to_string())
    }

    /// Restores a run.
    ///
    /// # Errors
    /// The state does not fit the pipeline.
    pub(crate) fn open(pipeline: &SharedPipeline, state: RunState) -> Result<OpenRun, String> {
        Ok(OpenRun {
            machine: state.machine_of(pipeline)?,
            run: OpenRun::id(&state)?,
            state,
        })
    }

    /// Applies a message. The reply says whether it was refused; nothing is changed then.
    pub(crate) fn receive(&mut self, sent: Sent) -> Turn {
        let (now, executed) = (self.state.now, self.state.executed);
        let elapsed = self.machine.state().totals.elapsed;
        let mut taking = self.take();
        taking.pass_time(sent.at);
        match taking.receive(sent.message) {
            Ok(()) => {
                taking.handle_effects();
                taking.release_withheld();
                taking.finish()
            }
            Err(reply) => {
                // A message is refused before it changes anything but the time.
                taking.on(Event::Tick { elapsed });
                (self.state.now, self.state.executed) = (now, executed);
                Turn {
                    reply,
                    ..Turn::default()
                }
            }
        }
    }

    fn take(&mut self) -> Taking<'_> {
        Taking {
            state: &mut self.state,
            run: &self.run,
            machine: &mut self.machine,
            effects: Vec::new(),
            ended: None,
            repeats: false,
            turn: Turn::default(),
        }
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the state as it is stored.
    pub(crate) fn into_state(mut self) -> RunState {
        self.state.machine = self.machine.saved();
        self.state
    }
}

/// A turn that is being taken.
struct Taking<'s> {
    state: &'s mut RunState,
    run: &'s RunId,
    machine: &'s mut Machine,
    effects: Vec<Effect>,
    /// The attempt whose end is applied.
    ended: Option<LiveStage>,
    /// `true` if the stages that start now were interrupted.
    repeats: bool,
    turn: Turn,
}

impl Taking<'_> {
    /// Counts the time since the last turn.
    fn pass_time(&mut self, at: Timestamp) {
        let before = self.state.now;
        let now = at.max(before);
        if self.state.phase == Phase::Running {
            let passed = now.as_millis() - before.as_millis();
            self.state.executed += Duration::from_millis(passed);
        }
        self.state.now = now;
        let elapsed = self.state.executed;
        self.machine.on(Event::Tick { elapsed }, &mut self.effects);
    }

    fn receive(&mut self, message: Message) -> Result<(), Reply> {
        match message {
            Message::Attempt {
                effect,
                token,
                report,
            } => return self.report(effect, token, report),
            Message::Timer { number } => {
                let timers = &mut self.state.timers;
                if let Some(at) = timers.iter().position(|timer| timer.number == number) {
                    let id = timers.swap_remove(at).effect;
                    self.on(Event::TimerFired { id });
                }
            }
            Message::Answer { question, answer } => return self.answer(question, answer),
            Message::Cancel { reason } => match &self.state.phase {
                Phase::Ended(_) => return Err(ended()),
                Phase::Running => self.on(Event::CancelRequested { reason }),
                Phase::Paused(_) => {
                    self.announce_pause();
                    self.state.phase = Phase::Running;
                    self.on(Event::CancelRequested { reason });
                }
            },
            Message::Pause { reason } => match &self.state.phase {
                Phase::Ended(_) => return Err(ended()),
                Phase::Running => self.pause(RunFailure::Paused { reason }),
                Phase::Paused(_) => {}
            },
            Message::Resume { lost } => match &self.state.phase {
                Phase::Ended(_) => return Err(ended()),
                Phase::Running => lost.into_iter().for_each(|effect| self.lose(effect)),
                Phase::Paused(_) => {
                    lost.into_iter().for_each(|effect| self.lose(effect));
                    self.resume();
                    self.repeats = true;
                    self.machine.reissue(&mut self.effects);
                }
            },
        }
        Ok(())
    }

    fn on(&mut self, event: Event) {
        self.machine.on(event, &mut self.effects);
    }

    fn answer(&mut self, name: String, answer: Answer) -> Result<(), Reply> {
        if let Phase::Ended(_) = self.state.phase {
            return Err(ended());
        }
        let gates = self.machine.questions();
        let Some((id, question)) = gates.iter().find(|(_, question)| is_named(question, &name)) else {
            return self.answer_attempt(name, answer);
        };
        // A gate may be skipped; a stage only receives an answer that its question accepts.
        if answer.reply != GivenReply::Skipped {
            accept(question, &answer)?;
        }
        let id = id.clone();
        self.on(Event::Answered { id, answer });
        Ok(())
    }

    /// Pauses the run: cancels its attempts, which are sent again when it is resumed.
    fn pause(&mut self, failure: RunFailure) {
        for stage in &mut self.state.stages {
            if !stage.cancelled {
                stage.cancelled = true;
                self.turn.outgoing.push(Outgoing::Cancel {
                    effect: stage.effect.clone(),
                    invocation: stage.invocation.clone(),
                });
            }
        }
        // What is withheld is requested again when the run is resumed.
        self.drop_withheld(|_| true);
        self.state.phase = Phase::Paused(failure);
        self.state.unannounced = true;
    }

    /// Emits the event of a pause. It comes after those of the attempts that had to stop.
    fn announce_pause(&mut self) {
        if let Phase::Paused(failure) = &self.state.phase
            && std::mem::take(&mut self.state.unannounced)
        {
            let paused = EventKind::from_end(Some(failure), self.state.executed);
            self.emit(paused);
        }
    }

    /// Continues a paused run.
    fn resume(&mut self) {
        self.announce_pause();
        self.state.phase = Phase::Running;
        self.state.resumes += 1;
        self.emit(EventKind::PipelineResumed {
            checkpoint: format!("event {}", self.state.events),
            fencing_token: self.state.resumes + 1,
            repaired: Vec::new(),
            replayed_from: None,
            retry: None,
        });
    }

    /// Drops withheld attempts.
    fn drop_withheld(&mut self, is_dropped: impl Fn(&EffectId) -> bool) {
        self.state.withheld.retain(|withheld| match withheld {
            Withheld::Stage(effect, _) => !is_dropped(effect),
            Withheld::End(_) => true,
        });
    }

    fn handle_effects(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            let goes_on = self.state.phase == Phase::Running;
            match effect {
                Effect::Observe(observation) => self.observe(observation),
                Effect::Finish { failure } => self.end(failure),
                // A paused run requests its effects again when it is resumed.
                _ if !goes_on => {}
                Effect::RunNode { id, context } => self.send_stage(id, context),
                Effect::StartTimer { id, delay } => self.start_timer(id, delay),
                Effect::CancelEffect { id } => {
                    self.state.timers.retain(|timer| timer.effect != id);
                    self.cancel(&id);
                }
                // The question is a part of the machine's state.
                _ => {}
            }
        }
    }

    /// Sends an attempt, unless a cancelled one may still be writing where it reads.
    fn send_stage(&mut self, effect: EffectId, context: Context) {
        let goes_on = |stage: &LiveStage| stage.effect == effect && !stage.cancelled;
        if self.state.stages.iter().any(goes_on) {
            // The run was moved to a changed pipeline meanwhile.
            return;
        }
        if self.state.stages.iter().any(|stage| stage.cancelled) {
            self.state.withheld.push(Withheld::Stage(effect, context));
            return;
        }
        let interrupted = self.state.interrupted.iter().position(|(of, _)| *of == effect);
        let token = interrupted.map_or(1, |at| self.state.interrupted.swap_remove(at).1 + 1);
        self.state.stages.push(LiveStage {
            effect: effect.clone(),
            began: self.state.executed,
            used: Usage::default(),
            invocation: None,
            child: None,
            cancelled: false,
            token,
            claims: 0,
            claimed: self.state.now,
            execution: String::new(),
            emitted: 0,
            answers: 0,
        });
        let budget = self.state.budget;
        self.turn.outgoing.push(Outgoing::Stage {
            effect,
            token,
            context,
            budget,
        });
    }

    /// Starts a delay. One that began before a pause goes on.
    fn start_timer(&mut self, effect: EffectId, delay: Duration) {
        if self.state.timers.iter().any(|timer| timer.effect == effect) {
            return;
        }
        self.state.timers_sent += 1;
        let number = self.state.timers_sent;
        self.state.timers.push(LiveTimer { effect, number });
        self.turn.outgoing.push(Outgoing::Timer { number, delay });
    }

    fn cancel(&mut self, id: &EffectId) {
        self.drop_withheld(|effect| effect == id);
        let live = self.state.stages.iter_mut().find(|stage| stage.effect == *id);
        if let Some(live) = live.filter(|live| !live.cancelled) {
            live.cancelled = true;
            self.turn.outgoing.push(Outgoing::Cancel {
                effect: id.clone(),
                invocation: live.invocation.clone(),
            });
        }
    }

    /// Ends the run once nothing of it is executed any more.
    fn end(&mut self, failure: Option<RunFailure>) {
        self.state.withheld.clear();
        if !self.state.stages.is_empty() {
            let live: Vec<EffectId> = self
                .state
                .stages
                .iter()
                .map(|stage| stage.effect.clone())
                .collect();
            live.iter().for_each(|effect| self.cancel(effect));
            self.state.withheld.push(Withheld::End(failure));
            return;
        }
        self.emit(EventKind::from_end(failure.as_ref(), self.state.executed));
        self.state.phase = Phase::Ended(failure);
    }

    /// Sends what had to wait for cancelled attempts.
    fn release_withheld(&mut self) {
        if self.state.stages.iter().any(|stage| stage.cancelled) {
            return;
        }
        for withheld in std::mem::take(&mut self.state.withheld) {
            match withheld {
                Withheld::Stage(effect, context) => self.send_stage(effect, context),
                Withheld::End(failure) => self.end(failure),
            }
        }
    }

    fn observe(&mut self, observation: Observation) {
        let executed = self.state.executed;
        let since = |began: Option<Duration>| executed.saturating_sub(began.unwrap_or(executed));
        let mut stage = ObservedStage::default();
        match &observation {
            Observation::StageStarted { .. } => stage.repeat = self.repeats,
            Observation::StageCompleted { id, .. } | Observation::StageFailed { id, .. } => {
                let ended = self.ended.as_ref().filter(|stage| stage.effect == *id);
                stage.duration = since(ended.map(|stage| stage.began));
                let used = ended.map(|stage| stage.used).filter(|used| !used.is_zero());
                stage.usage = used.map(Box::new);
            }
            Observation::StageCancelled { id, .. } => {
                let live = self.state.stages.iter().find(|stage| stage.effect == *id);
                stage.duration = since(live.map(|stage| stage.began));
            }
            Observation::InterviewStarted { id, .. } => self.state.asked.push((id.clone(), executed)),
            Observation::InterviewCompleted { id, .. } | Observation::InterviewTimeout { id, .. } => {
                let asked = self.state.asked.iter().position(|(of, _)| of == id);
                stage.duration = since(asked.map(|at| self.state.asked.swap_remove(at).1));
            }
            _ => {}
        }
        let pipeline = self.machine.pipeline().clone();
        if let Some(kind) = EventKind::from_observation(&pipeline, observation, stage) {
            self.emit(kind);
        }
    }

    fn emit(&mut self, kind: EventKind) {
        self.state.events += 1;
        self.turn.events.push(RunEvent {
            seq: self.state.events,
            time: self.state.now,
            run: self.run.clone(),
            kind,
        });
    }

    /// Returns what the turn has decided.
    fn finish(mut self) -> Turn {
        if self.state.stages.is_empty() {
            self.announce_pause();
        }
        let RunState {
            timers,
            interrupted,
            questions,
            ..
        } = &mut *self.state;
        if !(timers.is_empty() && interrupted.is_empty() && questions.is_empty()) {
            let pending = self.machine.pending();
            timers.retain(|timer| pending.contains(&timer.effect));
            let over = interrupted.extract_if(.., |(effect, _)| !pending.contains(effect));
            self.turn
                .outgoing
                .extend(over.map(|(effect, _)| Outgoing::Forget { effect }));
            questions.retain(|question| pending.contains(&question.effect));
        }
        self.turn
    }
}

/// Returns whether a name is that of a question, or of its node (rule H2).
fn is_named(question: &Question, name: &str) -> bool {
    question.id == name || question.node == name
}

/// Refuses an answer that is not one to the question.
fn accept(question: &Question, answer: &Answer) -> Result<(), Reply> {
    question.accept(answer).map(drop).map_err(|refused| {
        Reply::Refused(Refused::WrongAnswer {
            message: refused.to_string(),
            question: Box::new(question.clone()),
        })
    })
}

fn ended() -> Reply {
    Reply::Refused(Refused::Phase("has ended".to_owned()))
}
