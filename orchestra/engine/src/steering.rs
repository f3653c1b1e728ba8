//! The instructions of a manager loop to the run that it supervises (Attractor 4.11, rule F7).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_core::EffectId;

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
    pub(crate) fn new(id: &EffectId, folder: Option<PathBuf>) -> ActiveStage {
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

/// Takes the instructions that a stage may read from a list: its own, and those of stages that have ended.
pub(crate) fn take(
    pending: &mut Vec<Instruction>,
    active: &[Arc<ActiveStage>],
    reader: &EffectId,
) -> Vec<Instruction> {
    let is_for_reader = |instruction: &mut Instruction| {
        let given_to = &instruction.stage;
        let waits = |stage: &&Arc<ActiveStage>| stage.id == *given_to && !stage.is_over();
        given_to == reader || active.iter().find(waits).is_none()
    };
    pending.extract_if(.., is_for_reader).collect()
}
