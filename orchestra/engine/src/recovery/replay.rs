//! Replay: new runs that start from a checkpoint of another run (rule D4).

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::blocking::on_files;
use crate::error::StartError;
use crate::handle::RunHandle;
use crate::id::RunId;
use crate::recovery::fork::{fork, renamed};
use crate::recovery::resume::ResumeBuilder;
use crate::store::{FolderStore, RunFolder, RunStore as _, StoreError};

/// A builder of a run that starts from a checkpoint of another run. Await it to start the run.
///
/// The other run is not changed. The new run has a folder of its own, with the files of the stages that had ended.
///
/// ```
/// use orchestra_engine::{Engine, SimulationBackend};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph { start -> draft -> exit; draft [prompt=Draft] }";
/// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder()
///     .backend(SimulationBackend)
///     .runs_dir(directory.path())
///     .build()?;
/// let first = engine.start(load(), ()).await?.wait().await?;
/// let folder = first.run_dir.expect("it is kept");
/// // Before anything had ended; `draft#1/1` would be where that attempt had:
/// let again = engine.replay(&folder, "cp_000000", load(), ()).await?.wait().await?;
/// assert_eq!(again.path, ["start", "draft", "exit"]);
/// assert_ne!(again.run_id, first.run_id);
/// # Ok(()) }
/// ```
#[must_use = "a run begins when this is awaited"]
pub struct ReplayBuilder {
    resume: ResumeBuilder,
    checkpoint: String,
    run_id: Option<String>,
    run_dir: Option<PathBuf>,
}

impl ReplayBuilder {
    pub(crate) fn new(resume: ResumeBuilder, checkpoint: String) -> ReplayBuilder {
        ReplayBuilder {
            resume,
            checkpoint,
            run_id: None,
            run_dir: None,
        }
    }

    /// Sets the id of the new run. By default, an id is generated from the time.
    pub fn run_id(mut self, id: impl Into<String>) -> ReplayBuilder {
        self.run_id = Some(id.into());
        self
    }

    /// Persists the new run in exactly this folder, which must be new or empty. By default, the folder is in the
    /// [folder of runs](crate::EngineBuilder::runs_dir) of the engine or, without one, next to the folder of the other
    /// run.
    pub fn run_dir(mut self, folder: impl Into<PathBuf>) -> ReplayBuilder {
        self.run_dir = Some(folder.into());
        self
    }

    /// Changes how the new run is resumed, for example to [accept changes](ResumeBuilder::accept_changes).
    pub fn configure_resume(mut self, change: impl FnOnce(ResumeBuilder) -> ResumeBuilder) -> ReplayBuilder {
        self.resume = change(self.resume);
        self
    }

    async fn replay(self) -> Result<RunHandle, StartError> {
        let ReplayBuilder {
            mut resume,
            checkpoint,
            run_id,
            run_dir,
        } = self;
        let settings = resume.settings.clone();
        let from = resume.folder.clone();
        let (source, name, transforms) = (from.clone(), checkpoint, resume.options.transforms.clone());
        let copying = settings.run.files.clone();
        let fork = on_files(copying.clone(), move || {
            fork(&RunFolder::open(&source)?, &name, &transforms)
        });
        let fork = fork.await;
        let mut fork =
            fork.unwrap_or_else(|error| Err(StoreError::io("read", &from, std::io::Error::other(error))))?;
        let now = settings.run.clock.now();
        let id = match run_id {
            Some(id) => RunId::new(id)?,
            None => RunId::generate(now),
        };
        let beside = || {
            let runs = settings.run.runs_dir().or(from.parent());
            runs.map_or_else(PathBuf::new, Path::to_owned).join(&*id)
        };
        let to = run_dir.unwrap_or_else(beside);
        resume.select_version(&fork.manifest.pipeline.hash);
        // Refuse everything that may be refused before there is a folder that others could take for a run (rule D10).
        resume.files = resume.rehearse(&fork, &id).await?;
        if let Some(opened) = &resume.files {
            fork.manifest.workspace = Some(opened.kept.clone());
        }
        fork.manifest.run = id.to_string();
        fork.manifest.started = now;
        let (target, source) = (to.clone(), from.clone());
        let forked = on_files(copying.clone(), move || {
            let store = FolderStore::create(
                settings.run.files.clone(),
                &target,
                settings.store_options(&target, None),
            )?;
            let mut records = fork.records.iter();
            if let Some(first) = records.next() {
                store.append(&renamed(&source, first, &fork.manifest)?)?;
            }
            for record in records {
                store.append(record)?;
            }
            // A folder without a manifest is not a run, so nobody uses an incomplete list of records.
            store.manifest(&fork.manifest)?;
            store.close()
        });
        let made = forked.await;
        made.unwrap_or_else(|error| Err(StoreError::io("make", &to, std::io::Error::other(error))))?;
        resume.folder = to;
        resume.copied_from = Some(from);
        resume.resume().await
    }
}

impl IntoFuture for ReplayBuilder {
    type Output = Result<RunHandle, StartError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.replay())
    }
}

impl fmt::Debug for ReplayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBuilder")
            .field("resume", &self.resume)
            .field("checkpoint", &self.checkpoint)
            .finish_non_exhaustive()
    }
}
