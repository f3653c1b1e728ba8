//! Turns in memory: the state is text between two turns, turns are lost and repeated, messages arrive twice and late.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use orchestra_core::{Context, EffectId, Machine, Snapshot, Usage};
use orchestra_engine::{
    Answer, AttemptHost, AttemptPort, Clock as _, Engine, EventKind, HostedAttempt, HostedText,
    InterviewError, OverBudget, PastStage, PortFuture, Question, RunId, StageHistory, SystemClock,
};
use orchestra_oracle_tests::random::Random;
use orchestra_restate::{
    Finished, Message, Outgoing, Phase, Refused, Reply, Report, RunState, Sent, Start, Turn, start, turn,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::case::{Actor, Case};
use crate::driver::Driver;
use crate::ended::Ended;

/// The driver.
pub struct Memory {
    engine: Engine,
    actor: Actor,
    runs: Mutex<HashMap<RunId, Arc<Run>>>,
    /// How often, in percent, a turn is lost and a message arrives twice.
    faults: usize,
}

/// A run.
struct Run {
    id: RunId,
    host: AttemptHost,
    inner: Mutex<Inner>,
    ended: Notify,
    faults: usize,
}

struct Inner {
    /// The state, as text.
    state: String,
    random: Random,
    events: Vec<EventKind>,
    running: HashMap<EffectId, CancellationToken>,
}

impl Memory {
    /// Creates the driver.
    pub fn new(actor: Actor, faults: usize) -> Memory {
        Memory {
            engine: Case::engine(),
            actor,
            runs: Mutex::default(),
            faults,
        }
    }

    fn run(&self, id: &RunId) -> Arc<Run> {
        lock(&self.runs)[id].clone()
    }
}

impl Run {
    /// Delivers a message, perhaps twice, and perhaps in a turn that is lost at first.
    fn deliver(self: &Arc<Run>, message: Message) -> Reply {
        let sent = Sent {
            at: SystemClock::new().now(),
            message,
        };
        let (reply, outgoing, again) = {
            let mut inner = lock(&self.inner);
            let before: RunState = serde_json::from_str(&inner.state).unwrap();
            let mut state = before.clone();
            let taken = turn(self.host.pipeline(), &mut state, sent.clone());
            if inner.random.chance(self.faults) {
                let mut repeated = before;
                assert_eq!(turn(self.host.pipeline(), &mut repeated, sent.clone()), taken);
                assert_eq!(repeated, state, "a turn that is repeated is the same");
            }
            let Turn {
                reply,
                outgoing,
                events,
                ..
            } = taken;
            inner.state = serde_json::to_string(&state).unwrap();
            inner.events.extend(events.into_iter().map(|event| event.kind));
            let again = inner.random.chance(self.faults);
            (reply, outgoing, again)
        };
        self.send(outgoing);
        if again && !matches!(sent.message, Message::Pause { .. } | Message::Resume { .. }) {
            let run = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let mut inner = lock(&run.inner);
                let mut state: RunState = serde_json::from_str(&inner.state).unwrap();
                let events = state.events;
                let taken = turn(run.host.pipeline(), &mut state, sent.clone());
                assert!(
                    taken.events.is_empty() && taken.outgoing.is_empty(),
                    "{sent:?} counts once: {taken:?}"
                );
                assert_eq!(state.events, events);
                inner.state = serde_json::to_string(&state).unwrap();
            });
        }
        if let Phase::Ended(_) = self.state().phase {
            self.ended.notify_waiters();
        }
        reply
    }

    fn state(&self) -> RunState {
        serde_json::from_str(&lock(&self.inner).state).unwrap()
    }

    fn machine(&self) -> Machine {
        let restored = self.state().machine.restore(self.host.pipeline()).unwrap();
        Machine::resume(self.host.pipeline().clone(), restored)
    }

    fn send(self: &Arc<Run>, outgoing: Vec<Outgoing>) {
        for outgoing in outgoing {
            match outgoing {
                Outgoing::Stage {
                    effect,
                    token,
                    context,
                    ..
                } => self.execute(effect, token, context),
                Outgoing::Timer { number, delay } => {
                    let run = self.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        run.deliver(Message::Timer { number });
                    });
                }
                Outgoing::Cancel { effect, .. } => {
                    if let Some(token) = lock(&self.inner).running.get(&effect) {
                        token.cancel();
                    }
                }
                _ => {}
            }
        }
    }

    fn execute(self: &Arc<Run>, effect: EffectId, token: u64, context: Context) {
        let cancelled = CancellationToken::new();
        lock(&self.inner)
            .running
            .insert(effect.clone(), cancelled.clone());
        let run = self.clone();
        tokio::spawn(async move {
            let mut attempt = HostedAttempt::new(run.id.clone(), effect.clone(), context);
            attempt.is_repeat = token > 1;
            let port = Arc::new(Port {
                run: run.clone(),
                effect: effect.clone(),
                events: Mutex::default(),
            });
            let result = run.host.run(attempt, port.clone(), &cancelled).await;
            let events = std::mem::take(&mut *lock(&port.events));
            let finished = Finished {
                used: result.used,
                events,
                ..Finished::new(result.end)
            };
            let report = finished.into();
            run.deliver(Message::Attempt {
                effect,
                token,
                report,
            });
        });
    }
}

struct Port {
    run: Arc<Run>,
    effect: EffectId,
    events: Mutex<Vec<EventKind>>,
}

impl AttemptPort for Port {
    fn note(&self, _: Value, _: bool, used: Usage) -> PortFuture<'_, ()> {
        self.run.deliver(Message::Attempt {
            effect: self.effect.clone(),
            token: 1,
            report: Report::Used(used),
        });
        Box::pin(async {})
    }

    fn snapshot(&self, _: Snapshot) {}

    fn history(&self) -> PortFuture<'_, StageHistory> {
        let history = StageHistory::from_machine(&self.run.machine(), &self.effect);
        Box::pin(async { history })
    }

    fn latest(&self, nodes: Option<Vec<String>>) -> PortFuture<'_, Vec<PastStage>> {
        let latest = PastStage::latest(&self.run.machine(), &self.effect, nodes.as_deref());
        Box::pin(async { latest })
    }

    fn texts(&self, _: Vec<String>) -> PortFuture<'_, Vec<HostedText>> {
        Box::pin(async { Vec::new() })
    }

    fn reserve(&self, _: Usage) -> PortFuture<'_, Result<(), OverBudget>> {
        Box::pin(async { Ok(()) })
    }

    fn release(&self, _: Usage) {}

    fn ask(&self, _: Question) -> PortFuture<'_, Result<Answer, InterviewError>> {
        Box::pin(async { Err(InterviewError::unavailable("nobody is there")) })
    }

    fn event(&self, event: EventKind) {
        lock(&self.events).push(event);
    }
}

impl Driver for Memory {
    async fn start(&self, case: &Arc<Case>) -> RunId {
        let now = SystemClock::new().now();
        let id = RunId::generate(now);
        let entry = case.entry(&self.actor);
        let host = entry.host(&self.engine, entry.pipeline().clone()).unwrap();
        let (state, first) = start(
            host.pipeline(),
            Start {
                run: id.clone(),
                pipeline: case.name.clone(),
                hash: String::new(),
                context: Context::new(),
                seed: case.script.schedule,
                budget: Default::default(),
                at: now,
            },
        );
        let run = Arc::new(Run {
            id: id.clone(),
            host,
            inner: Mutex::new(Inner {
                state: serde_json::to_string(&state).unwrap(),
                random: Random::new(case.script.schedule ^ 0x6d65),
                events: first.events.into_iter().map(|event| event.kind).collect(),
                running: HashMap::new(),
            }),
            ended: Notify::new(),
            faults: self.faults,
        });
        run.send(first.outgoing);
        lock(&self.runs).insert(id.clone(), run);
        id
    }

    async fn questions(&self, run: &RunId) -> Option<Vec<Question>> {
        let run = lock(&self.runs).get(run).cloned()?;
        let open = run.machine().questions();
        Some(open.into_iter().map(|(_, question)| question).collect())
    }

    async fn answer(&self, run: &RunId, question: &str, answer: Answer) -> Result<(), String> {
        let question = question.to_owned();
        match self.run(run).deliver(Message::Answer { question, answer }) {
            Reply::Refused(Refused::NoQuestion { .. }) => Err("no_question".to_owned()),
            Reply::Refused(Refused::WrongAnswer { .. }) => Err("answer_refused".to_owned()),
            Reply::Refused(_) => Err("wrong_phase".to_owned()),
            _ => Ok(()),
        }
    }

    async fn pause(&self, run: &RunId) {
        let reason = "lunch".to_owned();
        self.run(run).deliver(Message::Pause { reason });
    }

    async fn resume(&self, run: &RunId) {
        self.run(run).deliver(Message::Resume { lost: Vec::new() });
    }

    async fn ended(&self, id: &RunId) -> Ended {
        let run = self.run(id);
        loop {
            let ended = run.ended.notified();
            if let Phase::Ended(failure) = run.state().phase {
                lock(&self.runs).remove(id);
                let machine = run.machine();
                let main = &machine.state().main;
                let path = main
                    .completed
                    .iter()
                    .map(|node| run.host.pipeline().stage(*node).id().to_owned());
                let events = std::mem::take(&mut lock(&run.inner).events);
                let used = machine.state().totals.usage;
                return Ended::new(failure.as_ref(), path.collect(), &main.context, used, events);
            }
            ended.await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
