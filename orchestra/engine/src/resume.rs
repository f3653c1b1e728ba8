//! Resume: runs that this or another process began continue from their last state (Attractor 5.3, rules D1, D5, D6).

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Budget, Machine, RetryPoint, RunFailure, SharedPipeline, retry_point};
use orchestra_graph::{Difference, Mapping, NodeIndex, Transform};
use serde_json::value::RawValue;
use tracing::Instrument;

use crate::blocking::on_files;
use crate::clock::Clock;
use crate::control::attend;
use crate::deadline;
use crate::driver::{Driver, Limits};
use crate::engine::Settings;
use crate::error::{AlreadyFinished, Changed, StartError};
use crate::handle::RunHandle;
use crate::id::RunId;
use crate::journal_writer::{JournalWriter, nanos};
use crate::pinned_source::{load_pinned, pin};
use crate::process;
use crate::records::{CheckpointState, Entry, Record};
use crate::recovery::{AlreadyEmitted, Recovery};
use crate::replay::{Fork, copy_stages};
use crate::resolve::resolve;
use crate::result::RunStatus;
use crate::run::{Origin, Run};
use crate::store::{
    JOURNAL, MANIFEST, Manifest, OpenOptions, Opened, PinnedSource, ReplayedFrom, RunStore, StoreError,
    TemporaryFolder,
};
use crate::workspace::OpenedWorkspace;

/// A builder that resumes a run from its last state. Await it to resume the run.
///
/// Recorded outcomes are not computed again. A stage that was in flight runs again, with the same
/// [attempt key](crate::StageContext::attempt_key), and can see that it is a repeat. A wait continues with the rest of
/// its delay.
///
/// ```
/// use orchestra_engine::{Answer, Engine, RunStatus};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("run");
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }"#;
/// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let run = engine.start_loaded(load(), ()).run_dir(&folder).await?;
/// run.pause("the shop closes");
/// assert_eq!(run.wait().await?.status, RunStatus::Paused);
///
/// // Later, perhaps in another process:
/// let run = engine.resume_loaded(&folder, load(), ()).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// run.answer("ask", Answer::choice("Ship"))?;
/// assert_eq!(run.wait().await?.path, ["start", "ask", "exit"]);
/// # Ok(()) }
/// ```
#[must_use = "a run goes on when this is awaited"]
pub struct ResumeBuilder {
    pub(crate) settings: Arc<Settings>,
    pub(crate) folder: PathBuf,
    pub(crate) pipeline: SharedPipeline,
    pub(crate) origin: Origin,
    pub(crate) limits: Limits,
    pub(crate) accept: bool,
    pub(crate) open: OpenOptions,
    /// `true` if a run that failed is retried.
    pub(crate) retry: bool,
    pub(crate) transforms: Vec<Arc<dyn Transform>>,
    /// `true` if a run that has ended is not an error: its result is returned again.
    pub(crate) may_be_over: bool,
    /// The folder of another run, from which the files of stages are copied.
    pub(crate) copied_from: Option<PathBuf>,
    /// The workspace of the run, if it was opened before.
    pub(crate) files: Option<OpenedWorkspace>,
}

impl ResumeBuilder {
    pub(crate) fn new(
        settings: Arc<Settings>,
        folder: PathBuf,
        pipeline: SharedPipeline,
        origin: Origin,
    ) -> ResumeBuilder {
        ResumeBuilder {
            settings,
            folder,
            pipeline,
            origin,
            limits: Limits::default(),
            accept: false,
            open: OpenOptions::default(),
            retry: false,
            transforms: Vec::new(),
            may_be_over: false,
            copied_from: None,
            files: None,
        }
    }

    /// Resumes the run even if the pipeline was changed, provided that the current positions of the run still exist
    /// (rule D6).
    pub fn accept_changes(mut self) -> ResumeBuilder {
        self.accept = true;
        self
    }

    /// Takes the run over from an owner that hangs. If the old owner continues, it cannot write any more (rule D5).
    pub fn take_over(mut self) -> ResumeBuilder {
        self.open.take_over = true;
        self
    }

    /// Resumes the run even if records of the journal are lost, from the latest state that the run folder still proves.
    /// Work since then is repeated. If `journal.jsonl` is not used, it is renamed (rule D3).
    ///
    /// ```
    /// use orchestra_engine::Engine;
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("run");
    /// # let load = || load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().build()?;
    /// engine.start_loaded(load(), ()).run_dir(&folder).await?.wait().await?;
    /// std::fs::write(folder.join("journal.jsonl"), "")?;
    /// let refused = engine.resume_loaded(&folder, load(), ()).await.unwrap_err();
    /// assert_eq!(refused.code(), "journal_cut");
    /// let over = engine.resume_loaded(&folder, load(), ()).accept_loss().await.unwrap_err();
    /// assert_eq!(over.code(), "already_finished");
    /// # Ok(()) }
    /// ```
    pub fn accept_loss(mut self) -> ResumeBuilder {
        self.open.accept_loss = true;
        self
    }

    /// Retries a run that failed, under the same id, at the stage that failed. If no edge matched and the pipeline was
    /// changed since, the run is retried at the node of these edges (rule D9). The failed attempts remain in its
    /// history and cost.
    ///
    /// ```
    /// use orchestra_engine::{Engine, RunStatus};
    /// # use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, SimulationBackend};
    /// # use orchestra_graph::{LoadOptions, Source, load};
    /// # struct Busy;
    /// # impl CodergenBackend for Busy {
    /// #     async fn run(&self, _: CodergenRequest) -> Result<CodergenReply, BackendError> {
    /// #         Err(BackendError::retryable("the server is overloaded"))
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("run");
    /// let text = "digraph { start -> draft -> exit; draft [prompt=Draft] }";
    /// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().backend(Busy).build()?;
    /// let failed = engine.start_loaded(load(), ()).run_dir(&folder).await?.wait().await?;
    /// assert_eq!(failed.status, RunStatus::Fail);
    ///
    /// let engine = Engine::builder().backend(SimulationBackend).build()?;
    /// let retried = engine.resume_loaded(&folder, load(), ()).retry().await?.wait().await?;
    /// assert_eq!(retried.path, ["start", "draft", "draft", "exit"]);
    /// assert_eq!(retried.error_history.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn retry(mut self) -> ResumeBuilder {
        self.retry = true;
        self
    }

    /// Pauses the run when it has been executed for longer than this, including the time in other processes.
    pub fn max_time(mut self, limit: Duration) -> ResumeBuilder {
        self.limits.time = Some(limit);
        self
    }

    /// Pauses the run when it has used up the budget, including its usage in other processes.
    pub fn budget(mut self, budget: Budget) -> ResumeBuilder {
        self.limits.budget = budget;
        self
    }

    /// Sets the transforms with which the pipeline was loaded. The source that the run began with is loaded in the same
    /// way, to be compared.
    pub fn transforms(mut self, transforms: impl IntoIterator<Item = Arc<dyn Transform>>) -> ResumeBuilder {
        self.transforms.extend(transforms);
        self
    }

    pub(crate) async fn resume(mut self) -> Result<RunHandle, StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let handlers = resolve(&self.settings, &self.pipeline, &self.origin)?;
        let files = self.files.take();
        let driver = self.recover().await?;
        match files {
            Some(opened) => driver.run.work_on(opened.session),
            None => driver.open_files().await?,
        }
        let (run, before) = (driver.run.clone(), driver.before);
        let span = tracing::info_span!("run", run = %run.id, pipeline = &*run.pipeline.name);
        process::begin();
        let task = runtime.spawn(driver.drive(handlers).instrument(span));
        attend(&run);
        Ok(RunHandle::new(run, task).resumed_after(before))
    }

    /// Creates a driver in the last state of the run.
    pub(crate) async fn recover(self) -> Result<Box<Driver>, StartError> {
        let ResumeBuilder {
            settings,
            folder,
            pipeline,
            mut origin,
            limits,
            accept,
            open,
            retry,
            transforms,
            may_be_over,
            copied_from,
            files: _,
        } = self;
        let opened = settings.open_run(&folder, open, origin.parent.as_ref()).await?;
        let task = RecoveryTask {
            settings: settings.clone(),
            pipeline,
            limits,
            accept,
            retry,
            transforms,
            copied_from,
            rehearses: false,
        };
        check_simulated(&settings, &opened.manifest)?;
        origin.seed = opened.manifest.seed;
        origin.accept_loss = open.accept_loss;
        // Reading a long journal takes milliseconds, during which other tasks may run.
        let taken = on_files(settings.files(), move || {
            let mut state = read(opened)?;
            if state.restored {
                state.restore(&*task.settings.clock)?;
            }
            task.recover(state, origin)
        })
        .await;
        let driver = taken.unwrap_or_else(|error| {
            Err(StoreError::io("read", &folder, std::io::Error::other(error)).into())
        })?;
        if let Some(ended) = driver.recovery.as_ref().and_then(|recovery| {
            // A run that ended in a process that could not save the end is driven to its end.
            recovery.ended.as_ref().filter(|_| recovery.end_saved)
        }) && !may_be_over
        {
            return Err(StartError::AlreadyFinished(Box::new(AlreadyFinished {
                run: driver.run.id.to_string(),
                failure: ended.clone(),
            })));
        }
        Ok(driver)
    }
}

impl ResumeBuilder {
    /// Checks that a replay can be resumed from its checkpoint, without persisting anything (rule D10). Returns the
    /// workspace of the new run.
    pub(crate) async fn rehearse(
        &self,
        fork: &Fork,
        id: &RunId,
    ) -> Result<Option<OpenedWorkspace>, StartError> {
        resolve(&self.settings, &self.pipeline, &self.origin)?;
        check_simulated(&self.settings, &fork.manifest)?;
        let task = RecoveryTask {
            settings: Arc::new(self.settings.without_callbacks()),
            pipeline: self.pipeline.clone(),
            limits: self.limits,
            accept: self.accept,
            retry: false,
            transforms: self.transforms.clone(),
            copied_from: Some(self.folder.clone()),
            rehearses: true,
        };
        let mut manifest = fork.manifest.clone();
        manifest.run = id.to_string();
        let records = (0..).zip(&fork.records);
        let records = records.map(|(number, record)| Ok((number, parsed(&self.folder, number, record)?)));
        let records: Vec<(u64, Record)> = records.collect::<Result<_, StoreError>>()?;
        let rehearsed = manifest.clone();
        let taken = on_files(self.settings.files(), move || {
            let state = FolderState::rehearsed(rehearsed, records)?;
            task.recover(state, Origin::default())
        });
        let driver = taken.await.unwrap_or_else(|error| {
            Err(StoreError::io("read", &self.folder, std::io::Error::other(error)).into())
        })?;
        let recovery = driver.recovery.as_ref();
        if recovery.is_some_and(|recovery| recovery.ended.is_some()) {
            let ReplayedFrom { run, checkpoint } = fork.from.clone();
            return Err(StartError::NothingToReplay { run, checkpoint });
        }
        Ok(driver.opened_files(&manifest).await?)
    }
}

impl IntoFuture for ResumeBuilder {
    type Output = Result<RunHandle, StartError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.resume())
    }
}

impl fmt::Debug for ResumeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumeBuilder")
            .field("folder", &self.folder)
            .field("pipeline", &self.pipeline.name)
            .finish_non_exhaustive()
    }
}

/// Returns an error if a simulated run is to be executed, or an executed run to be simulated.
fn check_simulated(settings: &Settings, manifest: &Manifest) -> Result<(), StartError> {
    let simulated = settings.script.is_some();
    if manifest.simulated == simulated {
        return Ok(());
    }
    Err(StartError::Simulated {
        run: manifest.run.clone(),
        simulated: !simulated,
    })
}

/// The settings for turning a run folder into a driver.
struct RecoveryTask {
    settings: Arc<Settings>,
    pipeline: SharedPipeline,
    limits: Limits,
    accept: bool,
    retry: bool,
    transforms: Vec<Arc<dyn Transform>>,
    copied_from: Option<PathBuf>,
    /// `true` if this is only a check, so that no files are copied.
    rehearses: bool,
}

/// The contents of a run folder.
struct FolderState {
    store: Arc<dyn RunStore>,
    manifest: Manifest,
    /// The state before the records; `None` for the beginning of the run.
    base: Option<CheckpointState>,
    /// The failure of the run in that state.
    failure: Option<RunFailure>,
    records: Vec<(u64, Record)>,
    /// The number of the last record before these.
    applied: u64,
    repaired: Vec<String>,
    events: u64,
    /// The part of the records whose events were emitted before.
    emitted: AlreadyEmitted,
    /// The number of changes to the artifacts.
    artifacts: u64,
    /// `true` if the last event is the end of the run.
    end_emitted: bool,
    fencing_token: u64,
    /// `true` if `base` is a state that the journal has lost.
    restored: bool,
}

impl FolderState {
    /// Creates the beginning of a run that does not exist yet. Whatever is written to it is temporary.
    fn rehearsed(manifest: Manifest, records: Vec<(u64, Record)>) -> Result<FolderState, StoreError> {
        let store = Arc::new(TemporaryFolder::create(&manifest.run)?);
        let mut read = FolderState {
            store,
            manifest,
            base: None,
            failure: None,
            records,
            applied: 0,
            repaired: Vec::new(),
            events: 0,
            emitted: AlreadyEmitted::default(),
            artifacts: 0,
            end_emitted: false,
            fencing_token: 1,
            restored: false,
        };
        read.begin_behind_change();
        Ok(read)
    }

    /// Replaces the records before the last changed or restored state by that state. A change does not count if the
    /// manifest still names the pipeline before it: the process ended before the change was accepted.
    fn begin_behind_change(&mut self) {
        let pinned = &self.manifest.pipeline.hash;
        let is_changed = |(_, record): &(u64, Record)| match &record.entry {
            Entry::Changed { pipeline, .. } => pipeline.hash != *pinned,
            entry => matches!(entry, Entry::Restored { .. }),
        };
        let Some(at) = self.records.iter().rposition(is_changed) else {
            return;
        };
        let behind = self.records.split_off(at + 1);
        let changed = std::mem::replace(&mut self.records, behind).pop();
        if let Some((number, Record { entry, .. })) = changed
            && let Entry::Changed { state, .. } | Entry::Restored { state, .. } = entry
        {
            self.failure = state.failure.clone();
            self.base = Some(*state);
            self.applied = number;
        }
    }

    /// Writes the base state, which the journal has lost, to the journal before any other record.
    fn restore(&mut self, clock: &dyn Clock) -> Result<(), StoreError> {
        let Some(state) = &self.base else {
            return Ok(());
        };
        let record = Record {
            fencing_token: self.fencing_token,
            at: clock.now().as_millis(),
            real: deadline::micros(clock),
            events: self.events,
            unapplied: 0,
            artifacts: self.artifacts,
            entry: Entry::Restored {
                state: Box::new(CheckpointState {
                    failure: self.failure.clone(),
                    ..state.clone()
                }),
                identity: self.store.identity(),
            },
        };
        let json = serde_json::to_vec(&record).map_err(|source| StoreError::Json {
            path: self.store.folder().join(JOURNAL),
            source,
        })?;
        self.applied = self.store.restored(&json)?.records.saturating_sub(1);
        Ok(())
    }

    /// Returns an error if the pipeline of the manifest is not the one that the records lead to.
    fn check_pipeline(&self, mut certain: Option<String>) -> Result<(), StoreError> {
        let mut accepted = None;
        for (_, record) in &self.records {
            match &record.entry {
                Entry::Begin { identity, .. }
                | Entry::Resume { identity, .. }
                | Entry::Restored { identity, .. } => {
                    certain = identity.as_ref().map(|identity| identity.pipeline.clone());
                    accepted = None;
                }
                // The process may have ended before it wrote the manifest of the change.
                Entry::Changed { now, .. } => accepted = Some(now),
                Entry::Event(_) => {}
            }
        }
        let pinned = &self.manifest.pipeline.hash;
        let is_pinned = |hash: &Option<String>| hash.as_ref().is_none_or(|hash| hash == pinned);
        if is_pinned(&certain) || accepted.is_some_and(is_pinned) {
            return Ok(());
        }
        Err(StoreError::Foreign {
            path: self.store.folder().join(MANIFEST),
            found: format!("a run of the pipeline {pinned}"),
            expected: format!("one of the pipeline {}", certain.unwrap_or_default()),
        })
    }

    /// Returns whether the run has ended and nothing is left to write.
    fn is_over(&self) -> bool {
        let ended = |state: &CheckpointState| state.machine.is_finished();
        self.end_emitted && self.records.is_empty() && self.base.as_ref().is_some_and(ended)
    }
}

impl RecoveryTask {
    fn recover(self, mut read: FolderState, origin: Origin) -> Result<Box<Driver>, StartError> {
        if PinnedSource::from_pipeline(&self.pipeline).hash == read.manifest.pipeline.hash {
            let mut driver = self.driver(self.pipeline.clone(), &read, origin)?;
            if self.retry {
                let point = retry_point_of(&driver, &self.pipeline, false)?;
                driver.will_retry(point);
            }
            return Ok(driver);
        }
        let Manifest {
            pipeline, children, ..
        } = &read.manifest;
        let old = load_pinned(pipeline, children, &self.transforms);
        // A run that has ended does not need another pipeline.
        if let (true, false, Some(old)) = (read.is_over(), self.retry, &old) {
            return self.driver(old.clone(), &read, origin);
        }
        let (true, Some(old)) = (self.accept, &old) else {
            let difference = old.map(|old| Difference::between(&old, &self.pipeline));
            return Err(StartError::Changed(Box::new(Changed {
                run: self.named(&read.manifest),
                difference,
            })));
        };
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        // Replay the run with the pipeline that it began with, then carry the state over to the new pipeline.
        let before = self.driver(old.clone(), &read, Origin::default())?;
        let Some(journal) = before.journal.as_deref() else {
            return Ok(before);
        };
        // The change is accepted permanently below, so nothing else may be missing (rule D10).
        runtime.block_on(before.opened_files(&read.manifest))?;
        if !before.recovery.as_ref().is_some_and(|recovery| recovery.begun) {
            // The run has not begun, so there is no state to carry over.
            drop(before);
            (read.manifest.pipeline, read.manifest.children) = pin(&self.pipeline);
            read.store.manifest(&read.manifest)?;
            return self.driver(self.pipeline.clone(), &read, origin);
        }
        let point = if self.retry {
            Some(retry_point_of(&before, &self.pipeline, true)?)
        } else {
            None
        };
        let mapping = Mapping::between(old, &self.pipeline);
        let machine = before.machine.saved();
        let machine = machine
            .carry_over(old, &self.pipeline, &mapping)
            .map_err(|error| StartError::IncompatibleState {
                run: self.named(&read.manifest),
                reason: error.to_string(),
            })?;
        read.failure = before.failure().cloned();
        let state = CheckpointState {
            machine,
            timers: journal.timers_over(&mapping),
            turns: journal.turns_over(&mapping),
            elapsed: nanos(before.before),
            failure: read.failure.clone(),
        };
        read.applied = journal.applied;
        before.run.write_later();
        if let Some(failure) = before.run.take_failure() {
            return Err(failure.into());
        }
        read.events = before.run.sink.emitted();
        drop(before);
        let (pipeline, children) = pin(&self.pipeline);
        let entry = Entry::Changed {
            now: Some(pipeline.hash.clone()),
            pipeline: Box::new(std::mem::replace(&mut read.manifest.pipeline, pipeline)),
            children: std::mem::replace(&mut read.manifest.children, children),
            state: Box::new(state),
        };
        if let Entry::Changed { state, .. } = &entry {
            read.base = Some(CheckpointState::clone(state));
        }
        read.records.clear();
        let mut driver = self.driver(self.pipeline.clone(), &read, origin)?;
        if let Some(journal) = &mut driver.journal {
            journal.applied = journal.append(&driver.run, &entry)?;
        }
        read.store.manifest(&read.manifest)?;
        if let Some(point) = point {
            driver.will_retry(point);
        }
        Ok(driver)
    }

    /// Returns the id of the run for messages. For a replay that does not exist yet, this is the run that it starts
    /// from.
    fn named(&self, manifest: &Manifest) -> String {
        let from = manifest
            .replayed_from
            .as_ref()
            .filter(|_| self.copied_from.is_some());
        from.map_or_else(|| manifest.run.clone(), |from| from.run.clone())
    }

    /// Creates a driver in the state at the end of the records.
    fn driver(
        &self,
        pipeline: SharedPipeline,
        read: &FolderState,
        origin: Origin,
    ) -> Result<Box<Driver>, StartError> {
        let manifest = &read.manifest;
        let seed = manifest.seed;
        let machine = match &read.base {
            Some(saved) => {
                let state = saved.machine.clone().restore(&pipeline);
                let state = state.map_err(|error| StoreError::damaged_state(read.store.folder(), &error))?;
                Machine::resume(pipeline.clone(), state)
            }
            None => Machine::prepare(pipeline.clone(), manifest.params.clone(), seed),
        };
        let id = RunId::new(manifest.run.clone())?;
        let run = Arc::new(Run::new(
            pipeline,
            id,
            self.settings.clone(),
            Some(read.store.clone()),
            origin,
            read.events,
        ));
        let mut driver = Driver::new(run.clone(), machine, self.limits);
        let mut journal = JournalWriter::new(read.store.clone(), read.fencing_token);
        journal.applied = read.applied;
        let mut recovery = Recovery {
            fencing_token: read.fencing_token,
            end_emitted: read.end_emitted,
            repaired: read.repaired.clone(),
            events: read.events,
            replayed_from: manifest.replayed_from.as_ref().map(ToString::to_string),
            copied: self.copied_from.is_some(),
            ..Recovery::default()
        };
        if let Some(saved) = &read.base {
            journal.timers = saved.timers.clone();
            journal.turns = saved.turns.clone();
            driver.before = Duration::from_nanos(saved.elapsed);
            recovery.ended = saved.machine.is_finished().then(|| read.failure.clone());
            recovery.begun = true;
            recovery.end_saved = recovery.ended.is_some() && read.end_emitted;
        }
        driver.journal = Some(Box::new(journal));
        driver.recovery = Some(Box::new(recovery));
        // Replayed events belong to the folder of their restart.
        read.store.resumed(driver.machine.state().totals.restarts)?;
        driver.replay(&read.records, read.emitted)?;
        if let Some(journal) = &driver.journal {
            run.simulated_before(&journal.turns);
        }
        if let Some(from) = self.copied_from.as_ref().filter(|_| !self.rehearses) {
            let pending = driver.machine.pending();
            let in_flight: Vec<NodeIndex> = pending.iter().map(|id| id.node).collect();
            copy_stages(
                from,
                read.store.folder(),
                &driver.run.pipeline,
                driver.machine.state(),
                &in_flight,
            )?;
            let artifacts = run
                .artifacts()
                .and_then(|artifacts| artifacts.rewind(read.artifacts));
            artifacts.map_err(StoreError::from)?;
        }
        Ok(driver)
    }
}

/// Returns the point of `pipeline` from which a failed run is retried. `changed` is `true` if the run began with
/// another pipeline.
///
/// # Errors
/// The run has not failed, or would fail again in the same way.
fn retry_point_of(
    driver: &Driver,
    pipeline: &SharedPipeline,
    changed: bool,
) -> Result<RetryPoint, StartError> {
    let run = || driver.run.id.to_string();
    let Some(ended) = driver
        .recovery
        .as_ref()
        .and_then(|recovery| recovery.ended.as_ref())
    else {
        return Err(StartError::NotFailed { run: run() });
    };
    let Some(failure) = ended
        .as_ref()
        .filter(|failure| RunStatus::from_failure(Some(*failure)) == RunStatus::Fail)
    else {
        return Err(StartError::AlreadyFinished(Box::new(AlreadyFinished {
            run: run(),
            failure: ended.clone(),
        })));
    };
    let nothing = || StartError::NothingToRetry {
        run: run(),
        failure: Box::new(failure.clone()),
    };
    let old = driver.machine.pipeline();
    let point = retry_point(old, driver.machine.state(), failure, changed).ok_or_else(nothing)?;
    let (RetryPoint::Stage(node) | RetryPoint::Edges(node)) = point;
    let id = old.stage(node).id();
    let node = pipeline.find(id).ok_or_else(|| StartError::IncompatibleState {
        run: run(),
        reason: format!("the run failed at `{id}`, which is gone"),
    })?;
    Ok(match point {
        RetryPoint::Stage(_) => RetryPoint::Stage(node),
        RetryPoint::Edges(_) => RetryPoint::Edges(node),
    })
}

/// Reads the contents of a run folder.
fn read(opened: Opened) -> Result<FolderState, StartError> {
    let Opened {
        store,
        manifest,
        checkpoint,
        records: scan,
        repaired,
        events,
        end_emitted,
        fencing_token,
        restored,
    } = opened;
    let path = store.folder().to_owned();
    let store = Arc::new(store);
    let mut read = FolderState {
        store: store.clone(),
        manifest,
        base: None,
        failure: None,
        records: Vec::with_capacity(scan.records.len()),
        applied: 0,
        repaired,
        events,
        emitted: AlreadyEmitted::default(),
        artifacts: 0,
        end_emitted,
        fencing_token,
        restored,
    };
    let (mut first, mut certain) = (0, None);
    if let Some(checkpoint) = checkpoint {
        first = checkpoint.journal.records;
        read.applied = first.saturating_sub(1);
        read.failure = checkpoint.failure;
        certain = checkpoint.identity.map(|identity| identity.pipeline);
        let state = checkpoint.state.as_deref().map_or("null", RawValue::get);
        let state = serde_json::from_str(state);
        read.base = Some(state.map_err(|error| StoreError::damaged_state(&path, &error))?);
    }
    for (number, record) in (first..).zip(scan.iter()) {
        let record = parsed(&path, number, record)?;
        read.artifacts = read.artifacts.max(record.artifacts);
        read.records.push((number, record));
    }
    read.check_pipeline(certain)?;
    read.begin_behind_change();
    // The events of the records before such a record were emitted before it was written.
    let is_behind = |(_, record): &(u64, Record)| record.unapplied == 0 && record.events <= events;
    if let Some(at) = read.records.iter().rposition(is_behind) {
        let behind = read.records.get(at).map_or(0, |(_, record)| record.events);
        read.emitted = AlreadyEmitted {
            records: at,
            events: store.caused_behind(behind)?,
        };
    }
    Ok(read)
}

fn parsed(folder: &Path, number: u64, record: &[u8]) -> Result<Record, StoreError> {
    serde_json::from_slice(record).map_err(|error| StoreError::damaged_record(folder, number, &error))
}
