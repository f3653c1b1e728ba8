//! The driver of a run: one task, which owns the machine of the run.

use std::collections::VecDeque;
use std::sync::Arc;

use orchestra_core::{Effect, Machine};

use crate::driver::action::Action;
use crate::driver::emission::Emission;
use crate::driver::limits::Limits;
use crate::driver::recovery::Recovery;
use crate::driver::stopping::Stopping;
use crate::driver::time::RunTime;
use crate::event::EventKind;
use crate::journal::writer::JournalWriter;
use crate::run::state::Run;
use crate::run::workspace::RunFiles;

/// The driver of a run. It executes the effects of the machine and applies the resulting events to it.
///
/// It has a field for each part of its work; most methods use several of them.
pub(crate) struct Driver {
    pub(crate) run: Arc<Run>,
    pub(crate) machine: Machine,
    /// The effects that the machine returned and the driver has not handled yet.
    pub(crate) effects: Vec<Effect>,
    /// The actions to execute, in order.
    pub(crate) actions: VecDeque<Action>,
    pub(crate) limits: Limits,
    pub(crate) time: RunTime,
    pub(crate) emission: Emission,
    pub(crate) stopping: Stopping,
    /// The journal; `None` if nothing is persisted.
    pub(crate) journal: Option<Box<JournalWriter>>,
    /// The recovery of the run; `None` if this process started the run.
    pub(crate) recovery: Option<Box<Recovery>>,
    /// The files that stages work on; `None` if there is no workspace.
    pub(crate) files: Option<Arc<RunFiles>>,
}

impl Driver {
    /// Creates a driver. It is boxed because a task moves its contents more than once.
    pub(crate) fn new(run: Arc<Run>, machine: Machine, limits: Limits) -> Box<Driver> {
        let timed = run.pipeline.nodes.iter().any(|row| row.fan_out.is_some());
        let limits = limits.with_budget_of(&run.pipeline);
        Box::new(Driver {
            run,
            machine,
            effects: Vec::with_capacity(1),
            actions: VecDeque::with_capacity(2),
            limits,
            time: RunTime::new(timed),
            emission: Emission::default(),
            stopping: Stopping::default(),
            journal: None,
            recovery: None,
            files: None,
        })
    }

    /// Reads the clock, for the events that are emitted next.
    pub(crate) fn read_clock(&mut self) {
        self.time.read(&*self.run.settings.clock);
    }

    /// Emits an event that the machine caused, unless it was emitted before.
    pub(crate) fn emit(&mut self, kind: EventKind) {
        if !self.already_emitted() {
            self.run.emit_at(self.time.now, kind);
        }
    }
}
