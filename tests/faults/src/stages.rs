//! What the stages of a simulated process do, its tools and the people whom it asks: as the script of its case says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_crash_tests::log::LogEvent;
use orchestra_engine::process::{Exit, ProcessError, ProcessFuture, ProcessRunner, ShellCommand};
use orchestra_engine::{
    Answer, EventKind, Handler, HandlerFuture, HandlerSet, InterviewError, Interviewer, KindSpec, Kinds,
    Question, Registry, RunEvent, StageContext, Usage, Words,
};
use orchestra_oracle_tests::Reaction;
use orchestra_oracle_tests::driver::outcome;

use crate::case::{Case, ToolRun};
use crate::clock::sleep;
use crate::model::ModelRun;
use crate::world::{Process, lock};

/// The kind of stages that the simulation supplies.
const ACT: KindSpec = KindSpec {
    kind: "act",
    fields: &[],
    words: Words::Open,
};

/// A process and the case that it runs.
#[derive(Clone, Debug)]
pub struct Actor {
    process: Arc<Process>,
    case: Arc<Case>,
    /// How many calls of models the attempts have made in this process.
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Actor {
    /// Returns what acts in a process by the script of a case.
    pub fn new(process: Arc<Process>, case: Arc<Case>) -> Actor {
        Actor {
            process,
            case,
            calls: Arc::default(),
        }
    }

    /// Waits as long as the script says that something takes; for ever in a process that is dead.
    async fn takes(&self, kind: &str, key: &str) {
        let time = Duration::from_nanos(self.case.script.duration(kind, key));
        sleep(&self.process.world.time, time).await;
        self.process.step(format_args!("{kind} {key} is done"));
        self.lives().await;
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Returns how many calls of its model an attempt has made in this process, and counts one more.
    pub(crate) fn calls(&self, key: &str) -> usize {
        let mut calls = lock(&self.calls);
        let count = calls.entry(key.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// Returns what becomes of the calls of an attempt's model.
    pub(crate) fn model_run(&self, node: &str, key: &str) -> ModelRun {
        let call = self.case.call(key);
        call.of(self.case.models.get(node)).unwrap_or_default()
    }

    pub(crate) async fn lives(&self) {
        if self.process.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    fn began(&self, run: &str, key: &str, is_repeat: bool) {
        self.process.said(run, LogEvent::Began(key.to_owned(), is_repeat));
        self.process.step(format_args!("{key} begins"));
    }

    /// Hears an event of a run.
    pub fn on_event(&self, event: &RunEvent) {
        if self.process.is_dead() {
            return;
        }
        let world = &self.process.world;
        match &event.kind {
            EventKind::StageFailed { stage, .. } if self.case.is_fan_in(&stage.node) => world.leaves_script(),
            EventKind::InterviewTimeout { node, .. } => {
                let call = self.case.call(&world.stage_of(node));
                if self.case.script.reaction(node, call) != Reaction::Silence {
                    world.leaves_script();
                }
            }
            _ => {}
        }
        if let Some(said) = LogEvent::by(event) {
            return self.process.said(&event.run, said);
        }
        match &event.kind {
            EventKind::StageStarted { stage, .. } => {
                world.stage_starts(&stage.node, stage.branch.as_deref(), stage.visit, stage.attempt);
            }
            EventKind::PipelineRestarted { restart, .. } => world.restarted(u64::from(*restart)),
            _ => {}
        }
        self.process
            .say(format_args!("{}: {}", &*event.run, event.kind.name()));
    }
}

impl Handler for Actor {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let key = stage.attempt_key();
            self.lives().await;
            self.began(stage.run_id(), &key, stage.is_repeat());
            self.takes("run", &key).await;
            stage.record_usage(Usage {
                input_tokens: 10,
                output_tokens: 1,
                cost_micros: 3,
            });
            let call = self.case.call(&key);
            outcome(self.case.script.outcome(stage.node().id(), call)).into()
        })
    }
}

impl HandlerSet for Actor {
    const KINDS: Kinds = Kinds::List(&[ACT]);

    fn register(self, registry: &mut Registry) {
        registry.add(ACT, Arc::new(self));
    }
}

impl ProcessRunner for Actor {
    fn run<'a>(&'a self, command: ShellCommand) -> ProcessFuture<'a> {
        Box::pin(async move {
            self.lives().await;
            let node = command.text().to_owned();
            let key = self.process.world.stage_of(&node);
            self.process.step(format_args!("tool {key} begins"));
            self.lives().await;
            let call = self.case.call(&key);
            let tool = call.of(self.case.tools.get(&node)).unwrap_or_default();
            let time = Duration::from_nanos(self.case.script.duration("run", &key)) / 8;
            match tool {
                ToolRun::Ends { exit, stdout, stderr } => {
                    sleep(&self.process.world.time, time).await;
                    self.process.step(format_args!("tool {key} ends: {exit:?}"));
                    self.lives().await;
                    command.simulate(exit, &stdout, &stderr, time)
                }
                ToolRun::Hangs => {
                    let limit = command.time_limit().unwrap_or(Duration::from_secs(1_000_000));
                    sleep(&self.process.world.time, limit).await;
                    self.process.step(format_args!("tool {key} is out of time"));
                    self.lives().await;
                    command.simulate(Exit::TimedOut, b"", b"", limit)
                }
                ToolRun::Refused(code) => Err(ProcessError::Spawn {
                    path: "/bin/sh".into(),
                    source: std::io::Error::from_raw_os_error(code),
                }),
            }
        })
    }
}

impl Interviewer for Actor {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        self.lives().await;
        let key = self.process.world.stage_of(&question.node);
        self.process.step(format_args!("{key} asks"));
        self.lives().await;
        let call = self.case.call(&key);
        match self.case.script.reaction(&question.node, call) {
            Reaction::Answer(text) => {
                let answer = Answer::choice(text);
                Ok(match question.accept(&answer) {
                    Ok(_) => answer,
                    Err(_) => Answer::skipped(),
                })
            }
            Reaction::Silence if question.timeout.is_some() => std::future::pending().await,
            Reaction::Silence | Reaction::Skip => Ok(Answer::skipped()),
            Reaction::Nobody => Err(InterviewError::unavailable("nobody is there")),
        }
    }
}
