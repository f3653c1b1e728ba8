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

use super::child::{self, Child, ChildRun, cut_short};
use crate::clock::{Clock, Sleep};
use crate::event::{EventKind, RunEvent};
use crate::handle::RunHandle;
use crate::handler::{Handler, HandlerFuture};
use crate::result::RunStatus;
use crate::run::Watched;
use crate::sink::EventStream;
use crate::stage::StageContext;
use crate::stage_end::{Finished, StageEnd, Suspension};
use crate::steering::{ActiveStage, Instruction, marked};
use crate::store::RunFolder;

pub(crate) struct ManagerLoop;

impl Handler for ManagerLoop {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { supervise(&stage).await.unwrap_or_else(|end| end) })
    }
}

async fn supervise(stage: &StageContext) -> Result<StageEnd, StageEnd> {
    let run = stage.run();
    let node = stage.node();
    let plan = ManagerPlan::of(node).map_err(Outcome::fail_terminal)?;
    let of = child::child_of(&run.settings, stage.pipeline(), &run.origin.registry, node);
    let (pipeline, registry) =
        of.ok_or_else(|| Outcome::fail_terminal("there is no pipeline to supervise"))?;
    let child = Child {
        pipeline,
        registry,
        context: inherited(stage.context()),
        working_dir: working_dir(stage),
        watched: if plan.steer {
            Watched::AndSteered
        } else {
            Watched::Yes
        },
    };
    let mut cut = std::pin::pin!(cut_short(stage));
    let mut supervised = Supervised::of(stage, child.start(stage).await?);
    stage.log(format!("supervises run {}", supervised.child.run.id));
    let mut effects = Vec::new();
    let mut manager = Manager::start(plan, stage.context().clone(), &mut effects);
    let mut waiting = Waiting::default();
    loop {
        let mut events = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                ManagerEffect::Observe => {
                    // A clock whose waits take no time must not keep the child from its turn.
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

/// What the loop waits for, beside the end of the child.
#[derive(Default)]
struct Waiting {
    timer: Option<Sleep>,
    news: bool,
}

/// Ends when the timer does; no timer never does.
async fn ring(timer: &mut Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => pending().await,
    }
}

/// What a child may see of its manager's context: the values of stages, not those of the run itself.
fn inherited(context: &Context) -> Context {
    let values = context.iter().filter(|(key, _)| KeyOwner::of(key).is_none());
    values.map(|(key, value)| (key, value.clone())).collect()
}

/// The folder in which the child's tools run (`stack.child_workdir`), seen from that of the manager's own.
fn working_dir(stage: &StageContext) -> Option<PathBuf> {
    let own = child::working_dir(stage.run());
    let graph = stage.pipeline().attribute("stack.child_workdir");
    let told = stage.node().text("stack.child_workdir").or(match graph {
        Some(orchestra_graph::table::Constant::String(folder)) => Some(&**folder),
        _ => None,
    });
    match (own, told.filter(|folder| !folder.is_empty())) {
        (Some(own), Some(told)) => Some(own.join(told)),
        (None, Some(told)) => Some(PathBuf::from(told)),
        (own, None) => own,
    }
}

/// A child and what is known of it.
struct Supervised {
    child: ChildRun,
    events: EventStream,
    clock: Arc<dyn Clock>,
    began: Duration,
    /// How long the child was going in other processes.
    before: Duration,
    report: ChildReport,
    steerings: u32,
    /// Why the run stops where it is, where the child did.
    suspension: Option<Suspension>,
}

impl Supervised {
    fn of(stage: &StageContext, handle: RunHandle) -> Supervised {
        let clock = stage.run().settings.clock.clone();
        Supervised {
            events: handle.events(),
            before: handle.before(),
            report: reported_before(&handle),
            child: ChildRun::of(stage, handle),
            began: clock.elapsed(),
            clock,
            steerings: 0,
            suspension: None,
        }
    }

    /// How the child stands now.
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
            ChildStatus::Running => self.child.run.active_stages(),
            _ => Vec::new(),
        }
    }

    fn name(&self, stage: &ActiveStage) -> String {
        self.child.run.pipeline.stage(stage.id.node).id().to_owned()
    }

    /// Waits until the child has ended or, where that is wanted, has anything new to tell.
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

    /// Gives stages of the child an instruction, and keeps it as a file in their folders.
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
            self.child.run.instruct(Instruction {
                stage: active.id.clone(),
                cycle,
                text: message.to_owned(),
                file: written.ok(),
            });
        }
    }

    /// Writes the instruction into the folder of a stage, under a name that is free.
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
            // Never over what stands there: it may be a link that a tool planted.
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

/// What a child told in other processes; its stream does not tell it again.
fn reported_before(handle: &RunHandle) -> ChildReport {
    let mut report = ChildReport::default();
    let told = usize::try_from(handle.run().sink.told_before()).unwrap_or(usize::MAX);
    if let Some(folder) = handle.run_dir().filter(|_| told > 0) {
        let events = RunFolder::open(folder).and_then(|child| child.events(1));
        for event in events.unwrap_or_default().into_iter().take(told) {
            if let Ok(event) = serde_json::from_value::<RunEvent>(event) {
                count(&mut report, &event.kind);
            }
        }
    }
    report
}

/// Counts an event; says whether it is news.
fn count(report: &mut ChildReport, event: &EventKind) -> bool {
    match event {
        EventKind::StageStarted { repeat: true, .. } => {}
        EventKind::StageStarted { attempt, .. } => report.retries += u64::from(*attempt > 1),
        EventKind::StageCompleted { .. } => report.completed_stages += 1,
        EventKind::StageFailed { node, error, .. } => {
            report.failures += 1;
            report.last_failure = format!("{node}: {error}");
        }
        _ => return false,
    }
    true
}
