//! What a supervisor tells the stages of a run that it watches (Attractor 4.11).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_core::EffectId;

/// A stage that runs, and what it has yet to hear.
pub(crate) struct ActiveStage {
    pub(crate) id: EffectId,
    /// Its folder, where it can be told something by files.
    pub(crate) folder: Option<PathBuf>,
    instructions: Mutex<Vec<String>>,
    over: AtomicBool,
}

/// Says that a stage is over when it is dropped.
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
            instructions: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self, instruction: &str) {
        let mut instructions = self.instructions.lock().unwrap_or_else(PoisonError::into_inner);
        instructions.push(instruction.to_owned());
    }

    /// What was told since this was asked last.
    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.instructions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
