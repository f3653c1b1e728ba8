//! The folders of the engine, which models must not access.

use std::path::{Path, PathBuf};

use crate::run::stage::StageContext;
use crate::socket::control_folders;

/// The folders that belong to the engine.
///
/// ```
/// assert!(orchestra_engine::EngineFolders::default().runs.is_none());
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct EngineFolders {
    /// The folder of run folders.
    pub runs: Option<PathBuf>,
    /// The folder of the run or, for a child run, of the outermost run.
    pub run: Option<PathBuf>,
    /// The folders of the sockets of run owners.
    pub control: Vec<PathBuf>,
}

impl StageContext {
    /// Returns the folders that belong to the engine. Models must not access them.
    #[doc(hidden)]
    pub fn engine_folders(&self) -> EngineFolders {
        let mut run = self.run();
        while let Some(parent) = &run.origin.parent {
            run = &parent.run;
        }
        EngineFolders {
            runs: self.run().settings.runs_dir.clone(),
            run: run.run_dir().map(Path::to_owned),
            control: control_folders(),
        }
    }
}
