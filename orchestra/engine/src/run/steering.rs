//! The instructions of a manager loop to the run that it supervises (Attractor 4.11, rule F7).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_core::EffectId;

use crate::lock::lock;

/// A running stage of a supervised run.
pub(crate) struct ActiveStage {
    pub(crate) id: EffectId,
    /// The folder of the stage, in which instructions are stored as files.
    pub(crate) folder: Option<PathBuf>,
    over: AtomicBool,
}

/// A guard that marks a stage as ended when it is dropped.
pub(crate) struct Active(pub(crate) Arc<ActiveStage>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

impl ActiveStage {
    fn new(id: &EffectId, folder: Option<PathBuf>) -> ActiveStage {
        ActiveStage {
            id: id.clone(),
            folder,
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// An instruction that no stage has read yet.
pub(crate) struct Instruction {
    /// The stage that ran when the instruction was given.
    pub(crate) stage: EffectId,
    /// The cycle of the manager loop that gave it.
    pub(crate) cycle: u32,
    pub(crate) text: String,
    /// The file of the instruction.
    pub(crate) file: Option<PathBuf>,
}

impl Instruction {
    /// Renames the file of an instruction that was read. Returns its new path.
    pub(crate) fn mark_read(&self) -> Option<PathBuf> {
        let file = self.file.as_deref()?;
        let marked = marked(file);
        match fs::rename(file, &marked) {
            Ok(()) => Some(marked),
            Err(error) => {
                tracing::warn!("cannot rename `{}`: {error}", file.display());
                Some(file.to_owned())
            }
        }
    }
}

/// Returns the path of the file of an instruction after it was read: `steer-001.read.md` for `steer-001.md`.
pub(crate) fn marked(file: &Path) -> PathBuf {
    file.with_extension("read.md")
}

/// The tracking of a run's active stages.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Watched {
    #[default]
    No,
    Yes,
    /// The stages are tracked and may receive instructions.
    AndSteered,
}

/// The active stages of a watched run, and the instructions that no stage has read yet.
#[derive(Default)]
pub(crate) struct Steering {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// In the order in which they began.
    active: Vec<Arc<ActiveStage>>,
    instructions: Vec<Instruction>,
}

impl Steering {
    /// Registers a running stage.
    pub(crate) fn begin(&self, id: &EffectId, folder: Option<PathBuf>) -> Arc<ActiveStage> {
        let stage = Arc::new(ActiveStage::new(id, folder));
        lock(&self.inner).active.push(stage.clone());
        stage
    }

    /// Returns the running stages in the order in which they began.
    pub(crate) fn active(&self) -> Vec<Arc<ActiveStage>> {
        let mut inner = lock(&self.inner);
        inner.active.retain(|stage| !stage.is_over());
        inner.active.clone()
    }

    /// Stores an instruction until a stage reads it.
    pub(crate) fn instruct(&self, instruction: Instruction) {
        lock(&self.inner).instructions.push(instruction);
    }

    /// Takes the instructions that a stage may read: its own, and those of stages that have ended.
    pub(crate) fn take(&self, reader: &EffectId) -> Vec<Instruction> {
        let Inner { active, instructions } = &mut *lock(&self.inner);
        let is_for_reader = |instruction: &mut Instruction| {
            let recipient = &instruction.stage;
            let is_running = |stage: &Arc<ActiveStage>| stage.id == *recipient && !stage.is_over();
            recipient == reader || !active.iter().any(is_running)
        };
        instructions.extract_if(.., is_for_reader).collect()
    }
}
