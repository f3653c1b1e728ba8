//! Replay: new runs that start from a checkpoint of another run (rule D4).

use std::fmt;
use std::fs;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use orchestra_core::{Event, State};
use orchestra_graph::{NodeIndex, Pipeline, Transform};

use crate::blocking::on_files;
use crate::error::StartError;
use crate::handle::RunHandle;
use crate::id::RunId;
use crate::pinned_source::load_pinned;
use crate::records::{Entry, Record};
use crate::resume::ResumeBuilder;
use crate::store::{
    FolderStore, Manifest, ReplayedFrom, RunFolder, RunIdentity, RunStore, StoreError, checkpoint_name,
    checkpoint_number,
};

/// The parts of a stage's folder that do not belong to its latest visit.
const ASIDE: [&str; 2] = ["visits", "branches"];

/// A builder of a run that starts from a checkpoint of another run. Await it to start the run.
///
/// The other run is not changed. The new run has a folder of its own, with the files of the stages that had ended.
///
/// ```
/// use orchestra_engine::{Engine, SimulationBackend};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let text = "digraph { start -> draft -> exit; draft [prompt=Draft] }";
/// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder()
///     .backend(SimulationBackend)
///     .runs_dir(place.path())
///     .build()?;
/// let first = engine.start_loaded(load(), ()).await?.wait().await?;
/// let folder = first.run_dir.expect("it is kept");
/// // Before anything had ended; `draft#1/1` would be where that attempt had:
/// let again = engine.replay_loaded(&folder, "cp_000000", load(), ()).await?.wait().await?;
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
        let (source, name, transforms) = (from.clone(), checkpoint, resume.transforms.clone());
        let copying = settings.files();
        let fork = on_files(copying.clone(), move || {
            fork(&RunFolder::open(&source)?, &name, &transforms)
        });
        let fork = fork.await;
        let mut fork =
            fork.unwrap_or_else(|error| Err(StoreError::io("read", &from, std::io::Error::other(error))))?;
        let now = settings.clock.now();
        let id = match run_id {
            Some(id) => RunId::new(id)?,
            None => RunId::generate(now),
        };
        let beside = || {
            let runs = settings.runs_dir().or(from.parent());
            runs.map_or_else(PathBuf::new, Path::to_owned).join(&*id)
        };
        let to = run_dir.unwrap_or_else(beside);
        // Refuse everything that may be refused before there is a folder that others could take for a run (rule D10).
        resume.files = resume.rehearse(&fork, &id).await?;
        if let Some(opened) = &resume.files {
            fork.manifest.workspace = Some(opened.kept.clone());
        }
        fork.manifest.run = id.to_string();
        fork.manifest.started = now;
        let (target, source) = (to.clone(), from.clone());
        let forked = on_files(copying.clone(), move || {
            let store =
                FolderStore::create(settings.files(), &target, settings.store_options(&target, None))?;
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

/// The records of another run up to a checkpoint.
pub(crate) struct Fork {
    pub(crate) manifest: Manifest,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) from: ReplayedFrom,
}

fn fork(view: &RunFolder, checkpoint: &str, transforms: &[Arc<dyn Transform>]) -> Result<Fork, StoreError> {
    let mut manifest = view.manifest().clone();
    let records = view.raw_records()?;
    let last = records.len().saturating_sub(1) as u64;
    let unknown = || StoreError::NoCheckpoint {
        path: view.path().to_owned(),
        name: checkpoint.to_owned(),
        last: checkpoint_name(last),
    };
    let number = match checkpoint_number(checkpoint) {
        Some(number) => Some(number),
        None => ended_by(&manifest, &records, transforms, checkpoint),
    };
    let number = number.ok_or_else(unknown)?;
    if records.is_empty() || number > last {
        return Err(unknown());
    }
    let (kept, behind) = records.split_at(number as usize + 1);
    // If the pipeline was changed later, use the pipeline before that change.
    for record in behind {
        if let Ok(Record {
            entry: Entry::Changed {
                pipeline, children, ..
            },
            ..
        }) = serde_json::from_slice(record)
        {
            (manifest.pipeline, manifest.children) = (*pipeline, children);
            break;
        }
    }
    let from = ReplayedFrom {
        run: manifest.run.clone(),
        checkpoint: checkpoint_name(number),
    };
    manifest.replayed_from = Some(from.clone());
    let records = kept.to_vec();
    Ok(Fork {
        manifest,
        records,
        from,
    })
}

/// Returns the first record of another run, with the identity of the run of the manifest.
fn renamed(folder: &Path, first: &[u8], manifest: &Manifest) -> Result<Vec<u8>, StoreError> {
    let error = |error| StoreError::damaged_record(folder, 0, &error);
    let mut record: Record = serde_json::from_slice(first).map_err(error)?;
    let of = Some(manifest.belonging());
    match &mut record.entry {
        Entry::Begin { run, identity, .. } => {
            run.clone_from(&manifest.run);
            *identity = renamed_identity(identity.take(), of);
        }
        Entry::Restored { identity, .. } => *identity = renamed_identity(identity.take(), of),
        _ => {}
    }
    serde_json::to_vec(&record).map_err(error)
}

/// Returns the identity of a new run, with the pipeline that the other run had at that time.
fn renamed_identity(then: Option<RunIdentity>, new: Option<RunIdentity>) -> Option<RunIdentity> {
    let pipeline = then.map(|then| then.pipeline);
    new.map(|new| RunIdentity {
        pipeline: pipeline.unwrap_or_else(|| new.pipeline.clone()),
        ..new
    })
}

/// Returns the number of the record that ended an attempt such as `build#2/1`. Such a name of a checkpoint is known
/// before the record is written. Returns `None` if there is no such record.
fn ended_by(
    manifest: &Manifest,
    records: &[Vec<u8>],
    transforms: &[Arc<dyn Transform>],
    attempt: &str,
) -> Option<u64> {
    let mut pipeline = load_pinned(&manifest.pipeline, &manifest.children, transforms)?;
    for (number, record) in records.iter().enumerate().rev() {
        let Ok(record) = serde_json::from_slice::<Record>(record) else {
            continue;
        };
        match record.entry {
            Entry::Event(recorded) => {
                if let Event::NodeFinished { id, .. } = &recorded.event
                    && id.name(&pipeline) == attempt
                {
                    return Some(number as u64);
                }
            }
            // Before the change, nodes had other indices.
            Entry::Changed {
                pipeline: before,
                children,
                ..
            } => pipeline = load_pinned(&before, &children, transforms)?,
            Entry::Begin { .. } | Entry::Resume { .. } | Entry::Restored { .. } => {}
        }
    }
    None
}

/// Copies the artifacts and the files of ended stages from the folder of another run.
pub(crate) fn copy_stages(
    from: &Path,
    to: &Path,
    pipeline: &Pipeline,
    state: &State,
    in_flight: &[NodeIndex],
) -> Result<(), StoreError> {
    let restarts = state.totals.restarts;
    let base = |root: &Path, restart: u32| match restart {
        0 => root.to_owned(),
        restart => root.join(format!("restart-{restart}")),
    };
    copy_folder(&from.join("artifacts"), &to.join("artifacts"), &[])?;
    for row in pipeline.nodes.iter() {
        for restart in 0..restarts {
            copy_folder(
                &base(from, restart).join(&*row.id),
                &base(to, restart).join(&*row.id),
                &[],
            )?;
        }
    }
    let (from, to) = (base(from, restarts), base(to, restarts));
    let mut state = state.clone();
    state.flush();
    for (at, row) in pipeline.nodes.iter().enumerate() {
        let node = NodeIndex(at as u32);
        let visits = state.main.visits.get(node);
        if visits == 0 {
            continue;
        }
        let (from, to) = (from.join(&*row.id), to.join(&*row.id));
        copy_folder(&from.join("branches"), &to.join("branches"), &[])?;
        for visit in 1..visits {
            let visit = format!("visits/{visit}");
            copy_folder(&from.join(&visit), &to.join(&visit), &[])?;
        }
        if in_flight.contains(&node) {
            continue;
        }
        let aside = from.join(format!("visits/{visits}"));
        if aside.is_dir() {
            copy_folder(&aside, &to, &[])?
        } else {
            copy_folder(&from, &to, &ASIDE)?
        }
    }
    Ok(())
}

/// Copies plain files and folders recursively. Missing files are ignored, and links are not followed.
fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<(), StoreError> {
    match fs::symlink_metadata(from) {
        Ok(found) if found.is_dir() => {}
        _ => return Ok(()),
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.recursive(true).create(to);
    made.map_err(|error| StoreError::io("make", to, error))?;
    let entries = fs::read_dir(from).map_err(|error| StoreError::io("read", from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io("read", from, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        if without.iter().any(|other| name == *other) {
            continue;
        }
        let kind = entry
            .file_type()
            .map_err(|error| StoreError::io("read", &path, error))?;
        if kind.is_dir() {
            copy_folder(&path, &to.join(&name), &[])?;
        } else if kind.is_file() {
            let target = to.join(&name);
            fs::copy(&path, &target).map_err(|error| StoreError::io("copy", &path, error))?;
            // Files of an older run may be readable by others.
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                let permissions = fs::Permissions::from_mode(0o600);
                fs::set_permissions(&target, permissions)
                    .map_err(|error| StoreError::io("protect", &target, error))?;
            }
        }
    }
    Ok(())
}
