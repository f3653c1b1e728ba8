//! Manager loops: a stage that starts another pipeline and supervises it (Attractor 4.11).

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::future::pending;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{
    ChildReport, ChildStatus, Context, Manager, ManagerEffect, ManagerEvent, ManagerPlan, Outcome,
};
use orchestra_graph::KeyOwner;
use orchestra_graph::table::Constant;

use super::child::{self, Child, ChildRun, ChildStarter, cut_short};
use crate::clock::{Clock, Sleep};
use crate::event::{EventKind, RunEvent};
use crate::handle::RunHandle;
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::run::sink::EventStream;
use crate::run::stage::StageContext;
use crate::run::steering::Watched;
use crate::run::steering::{ActiveStage, Instruction, marked};
use crate::run_status::RunStatus;
use crate::stage_end::{Finished, StageEnd, Suspension};
use crate::store::RunFolder;

pub(crate) struct ManagerLoop {
    pub(crate) children: Arc<dyn ChildStarter>,
}

impl Handler for ManagerLoop {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let children = self.children.clone();
            supervise(&stage, children).await.unwrap_or_else(|end| end)
        })
    }
}

async fn supervise(stage: &StageContext, children: Arc<dyn ChildStarter>) -> Result<StageEnd, StageEnd> {
    let run = stage.run();
    let node = stage.node();
    let plan = ManagerPlan::from_stage(node).map_err(Outcome::fail_terminal)?;
    let child = children.child_of(stage.pipeline(), node);
    let child = child.ok_or_else(|| Outcome::fail_terminal("there is no pipeline to supervise"))?;
    let child = Child {
        child,
        context: inherited(stage.context()),
        working_dir: working_dir(stage),
        watched: if plan.steer {
            Watched::AndSteered
        } else {
            Watched::Yes
        },
    };
    let mut cut = std::pin::pin!(cut_short(stage));
    let mut supervised = Supervised::new(stage, child.start(stage).await?);
    stage.log(format!("supervises run {}", supervised.child.run.id));
    let mut effects = Vec::new();
    let mut manager = Manager::start(plan, stage.context().clone(), &mut effects);
    let mut waiting = Waiting::default();
    loop {
        let mut events = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                ManagerEffect::Observe => {
                    // Yield, so that the child can progress even if the waits of the clock take no time.
                    tokio::task::yield_now().await;
                    events.push(ManagerEvent::Reported(supervised.report()));
                }
                ManagerEffect::Steer {
                    stages,
                    message,
                    cycle,
                    reason,
                } => supervised.steer(stage, &stages, &message, cycle, &reason),
                ManagerEffect::Wait(time) => waiting.timer = Some(run.settings.clock.sleep(time)),
                ManagerEffect::WaitForNews => waiting.news = true,
                ManagerEffect::Stop {
                    outcome,
                    cancel_child,
                } => {
                    if cancel_child {
                        supervised.child.end("its manager ended it").await;
                    }
                    return Ok(match supervised.suspension {
                        Some(suspension) => suspension.into(),
                        None => Finished::by_engine(outcome).into(),
                    });
                }
            }
        }
        if events.is_empty() {
            let event = tokio::select! {
                biased;
                cut = &mut cut => return Ok(cut.outcome(&mut supervised.child).await.into()),
                () = supervised.news(waiting.news) => ManagerEvent::Reported(supervised.report()),
                () = ring(&mut waiting.timer) => ManagerEvent::TimePassed,
            };
            events.push(event);
            waiting = Waiting::default();
        }
        for event in events {
            manager.on(event, &mut effects);
        }
    }
}

/// The wake-up conditions of the loop, beside the end of the child.
#[derive(Default)]
struct Waiting {
    timer: Option<Sleep>,
    news: bool,
}

/// Waits for the timer. Waits forever if there is none.
async fn ring(timer: &mut Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => pending().await,
    }
}

/// Returns the part of the manager's context that a child may see: the values of stages, without those of the run.
fn inherited(context: &Context) -> Context {
    let values = context.iter().filter(|(key, _)| KeyOwner::of_key(key).is_none());
    values.map(|(key, value)| (key, value.clone())).collect()
}

/// Returns the working folder of the child's tools (`stack.child_workdir`), resolved against that of the manager's run.
fn working_dir(stage: &StageContext) -> Option<PathBuf> {
    let own = child::working_dir(stage);
    const NAME: &str = "stack.child_workdir";
    let graph = stage.pipeline().attribute(NAME).and_then(Constant::text);
    let named = stage.node().text(NAME).or(graph);
    match (own, named.filter(|folder| !folder.is_empty())) {
        (Some(own), Some(named)) => Some(own.join(named)),
        (None, Some(named)) => Some(PathBuf::from(named)),
        (own, None) => own,
    }
}

/// A supervised child run and its observed state.
struct Supervised {
    child: ChildRun,
    events: EventStream,
    clock: Arc<dyn Clock>,
    began: Duration,
    /// The time that the child had run before this process resumed it.
    before: Duration,
    report: ChildReport,
    steerings: u32,
    /// The suspension of the child, which suspends the run of the manager too.
    suspension: Option<Suspension>,
}

impl Supervised {
    fn new(stage: &StageContext, handle: RunHandle) -> Supervised {
        let clock = stage.run().settings.clock.clone();
        Supervised {
            events: handle.events(),
            before: handle.before(),
            report: reported_before(&handle),
            child: ChildRun::new(stage, handle),
            began: clock.elapsed(),
            clock,
            steerings: 0,
            suspension: None,
        }
    }

    /// Returns the current report on the child.
    fn report(&mut self) -> ChildReport {
        while let Some(event) = self.events.try_recv() {
            count(&mut self.report, &event.kind);
        }
        self.report.elapsed = self.before + self.clock.elapsed().saturating_sub(self.began);
        self.report.active_stages = self.active().iter().map(|stage| self.name(stage)).collect();
        self.report.clone()
    }

    fn active(&self) -> Vec<Arc<ActiveStage>> {
        match self.report.status {
            ChildStatus::Running => self.child.run.attempts.steering.active(),
            _ => Vec::new(),
        }
    }

    fn name(&self, stage: &ActiveStage) -> String {
        self.child.run.pipeline.stage(stage.id.node).id().to_owned()
    }

    /// Waits until the child has ended, or for any news if `any` is set.
    async fn news(&mut self, any: bool) {
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => {
                    if count(&mut self.report, &event.kind) && any {
                        return;
                    }
                }
                ended = self.child.ended() => return self.ended(&ended),
            }
        }
    }

    fn ended(&mut self, ended: &child::Ended) {
        self.report.status = match ended {
            Ok(result) => match result.status {
                RunStatus::Success => ChildStatus::Completed,
                RunStatus::Cancelled => ChildStatus::Cancelled,
                _ => ChildStatus::Failed,
            },
            Err(_) => ChildStatus::Failed,
        };
        self.report.reason = child::failure(ended).unwrap_or_default();
        self.suspension = child::suspension(ended);
    }

    /// Sends an instruction to stages of the child, and writes it to a file in their folders.
    fn steer(&mut self, stage: &StageContext, stages: &[String], message: &str, cycle: u32, reason: &str) {
        let names: BTreeSet<&str> = stages.iter().map(String::as_str).collect();
        for active in self.active() {
            let name = self.name(&active);
            if !names.contains(&*name) {
                continue;
            }
            self.steerings += 1;
            let written = self.write(&active, message, cycle, reason);
            stage.log(match &written {
                Ok(file) => format!("steers `{name}` in cycle {cycle}, {reason}: {}", file.display()),
                Err(error) => {
                    format!("steers `{name}` in cycle {cycle}, {reason}; it is in no file: {error}")
                }
            });
            self.child.run.attempts.steering.instruct(Instruction {
                stage: active.id.clone(),
                cycle,
                text: message.to_owned(),
                file: written.ok(),
            });
        }
    }

    /// Writes the instruction into the folder of a stage, under a free name.
    fn write(
        &mut self,
        active: &ActiveStage,
        message: &str,
        cycle: u32,
        reason: &str,
    ) -> io::Result<PathBuf> {
        let missing = || io::Error::new(ErrorKind::NotFound, "the stage has no folder");
        let folder = active.folder.as_deref().ok_or_else(missing)?;
        let ChildReport {
            completed_stages,
            failures,
            retries,
            last_failure,
            ..
        } = &self.report;
        let mut text = format!(
            "# Steering\n\n- cycle: {cycle}\n- reason: {reason}\n- completed stages: {completed_stages}, failures: \
             {failures}, retries: {retries}\n"
        );
        if !last_failure.is_empty() {
            text.push_str(&format!("- last failure: {last_failure}\n"));
        }
        text.push_str(&format!("\n{}\n", message.trim_end()));
        loop {
            let path = folder.join(format!("steer-{:03}.md", self.steerings));
            if marked(&path).symlink_metadata().is_ok() && self.steerings < u32::MAX {
                self.steerings += 1;
                continue;
            }
            // Never overwrite an existing file: it may be a link that a tool planted.
            let mut options = OpenOptions::new();
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.write(true).create_new(true).open(&path) {
                Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && self.steerings < u32::MAX => {
                    self.steerings += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Counts the events that the child emitted before this process resumed it, because its stream does not repeat them.
fn reported_before(handle: &RunHandle) -> ChildReport {
    let mut report = ChildReport::default();
    let emitted = usize::try_from(handle.run().sink.emitted_before()).unwrap_or(usize::MAX);
    if let Some(folder) = handle.run_dir()
        && emitted > 0
    {
        let events = RunFolder::open(folder).and_then(|child| child.events(1));
        for event in events.unwrap_or_default().into_iter().take(emitted) {
            if let Ok(event) = serde_json::from_value::<RunEvent>(event) {
                count(&mut report, &event.kind);
            }
        }
    }
    report
}

/// Counts an event. Returns whether it is news.
fn count(report: &mut ChildReport, event: &EventKind) -> bool {
    match event {
        again if again.starts_again() => {}
        EventKind::StageStarted { stage, .. } => report.retries += u64::from(stage.attempt > 1),
        EventKind::StageCompleted { .. } => report.completed_stages += 1,
        EventKind::StageFailed { stage, error, .. } => {
            report.failures += 1;
            report.last_failure = format!("{}: {error}", stage.node);
        }
        _ => return false,
    }
    true
}
