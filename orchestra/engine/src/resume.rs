//! Runs that were begun before: gone on with from where they are (Attractor 5.3, rules D1, D5, D6).

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
use crate::error::{Changed, Over, StartError};
use crate::handle::RunHandle;
use crate::id::RunId;
use crate::keeping::{Keeping, nanos};
use crate::pinned::{pin, pinned};
use crate::process;
use crate::records::{Entry, Kept, Record};
use crate::replay::{Fork, copy_stages};
use crate::resolve::resolve;
use crate::result::RunStatus;
use crate::run::{Origin, Run};
use crate::store::{
    JOURNAL, MANIFEST, Manifest, OpenOptions, Opened, PinnedPipeline, ReplayedFrom, RunStore, StoreError,
    TemporaryFolder,
};
use crate::take_up::{Known, TakenUp};
use crate::workspace::OpenedWorkspace;

/// A run that is about to go on from where it is; await it.
///
/// What is recorded as done is not done again. A stage that was in flight runs again, with the same
/// [attempt key](crate::StageContext::attempt_key), and is told so. A wait goes on with what is left of it.
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
    /// Whether a run that failed is retried.
    pub(crate) retry: bool,
    pub(crate) transforms: Vec<Arc<dyn Transform>>,
    /// Whether a run that is over is no error: its result is given again.
    pub(crate) may_be_over: bool,
    /// The run whose stages' files are wanted, where it is another one.
    pub(crate) copied_from: Option<PathBuf>,
    /// The files to work on, where they were opened before.
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

    /// Goes on although the pipeline was changed, if the places where the run stands are there still (rule D6).
    pub fn accept_changes(mut self) -> ResumeBuilder {
        self.accept = true;
        self
    }

    /// Takes the run from an owner that hangs; should it come back, it can write nothing more (rule D5).
    pub fn take_over(mut self) -> ResumeBuilder {
        self.open.take_over = true;
        self
    }

    /// Goes on although records of the journal are lost: from the latest state that the run folder still proves. What was
    /// done since is done again. `journal.jsonl` is kept under another name where it is not used (rule D3).
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
    /// assert_eq!(over.code(), "run_over");
    /// # Ok(()) }
    /// ```
    pub fn accept_loss(mut self) -> ResumeBuilder {
        self.open.accept_loss = true;
        self
    }

    /// Retries a run that failed, under the same id, at the stage that failed; or at the node whose edges did not match,
    /// where the pipeline was changed (rule D9). Its failed attempts stay in its history and in its cost.
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

    /// Stops the run when it has been going longer, the time in other processes included.
    pub fn max_time(mut self, limit: Duration) -> ResumeBuilder {
        self.limits.time = Some(limit);
        self
    }

    /// Stops the run when it has used more, in other processes included.
    pub fn budget(mut self, budget: Budget) -> ResumeBuilder {
        self.limits.budget = budget;
        self
    }

    /// The transforms with which the pipeline was loaded: the text that the run was begun with is loaded in the same
    /// way, to be compared.
    pub fn transforms(mut self, transforms: impl IntoIterator<Item = Arc<dyn Transform>>) -> ResumeBuilder {
        self.transforms.extend(transforms);
        self
    }

    pub(crate) async fn resume(mut self) -> Result<RunHandle, StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let handlers = resolve(&self.settings, &self.pipeline, &self.origin)?;
        let files = self.files.take();
        let driver = self.take_up().await?;
        match files {
            Some(opened) => driver.run.work_on(opened.session),
            None => driver.open_files().await?,
        }
        let (run, before) = (driver.run.clone(), driver.before);
        let span = tracing::info_span!("run", run = %run.id, pipeline = &*run.pipeline.name);
        process::begin();
        let task = runtime.spawn(driver.drive(handlers).instrument(span));
        attend(&run);
        Ok(RunHandle::new(run, task).going_on(before))
    }

    /// A driver that stands where the run does.
    pub(crate) async fn take_up(self) -> Result<Box<Driver>, StartError> {
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
        let task = TakeUp {
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
        // A long journal takes some milliseconds, in which others may go on.
        let taken = on_files(settings.files(), move || {
            let mut read = read(opened)?;
            if read.restored {
                read.restore(&*task.settings.clock)?;
            }
            task.take_up(read, origin)
        })
        .await;
        let driver = taken.unwrap_or_else(|error| {
            Err(StoreError::io("read", &folder, std::io::Error::other(error)).into())
        })?;
        if let Some(ended) = driver.taken_up.as_ref().and_then(|taken_up| {
            // One that ended in a process that could not say so is brought to its end.
            taken_up.ended.as_ref().filter(|_| taken_up.end_kept)
        }) && !may_be_over
        {
            return Err(StartError::Over(Box::new(Over {
                run: driver.run.id.to_string(),
                failure: ended.clone(),
            })));
        }
        Ok(driver)
    }
}

impl ResumeBuilder {
    /// Checks that a run which begins as another one began can go on from there, and keeps nothing (rule D10). Returns the
    /// files that its stages are to work on.
    pub(crate) async fn rehearse(
        &self,
        fork: &Fork,
        id: &RunId,
    ) -> Result<Option<OpenedWorkspace>, StartError> {
        resolve(&self.settings, &self.pipeline, &self.origin)?;
        check_simulated(&self.settings, &fork.manifest)?;
        let task = TakeUp {
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
            let read = Read::rehearsed(rehearsed, records)?;
            task.take_up(read, Origin::default())
        });
        let driver = taken.await.unwrap_or_else(|error| {
            Err(StoreError::io("read", &self.folder, std::io::Error::other(error)).into())
        })?;
        let taken_up = driver.taken_up.as_ref();
        if taken_up.is_some_and(|taken_up| taken_up.ended.is_some()) {
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

/// Refuses to run what was simulated, and to simulate what was run.
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

/// A run folder on its way to a driver.
struct TakeUp {
    settings: Arc<Settings>,
    pipeline: SharedPipeline,
    limits: Limits,
    accept: bool,
    retry: bool,
    transforms: Vec<Arc<dyn Transform>>,
    copied_from: Option<PathBuf>,
    /// Whether it is only to be known how this goes, so that no files are copied.
    rehearses: bool,
}

/// A run folder, read.
struct Read {
    store: Arc<dyn RunStore>,
    manifest: Manifest,
    /// The state before the records; `None` for the beginning of the run.
    base: Option<Kept>,
    /// How the run had ended in that state.
    failure: Option<RunFailure>,
    records: Vec<(u64, Record)>,
    /// The number of the last record before these.
    told: u64,
    repaired: Vec<String>,
    events: u64,
    /// What of the records was told before.
    known: Known,
    /// How many changes the artifacts had seen.
    artifacts: u64,
    /// Whether the last of them says how the run ended.
    end_told: bool,
    epoch: u64,
    /// Whether the state before the records is one that the journal has lost.
    restored: bool,
}

impl Read {
    /// The beginning of a run that is not there yet. What is written of it is gone with this.
    fn rehearsed(manifest: Manifest, records: Vec<(u64, Record)>) -> Result<Read, StoreError> {
        let store = Arc::new(TemporaryFolder::create(&manifest.run)?);
        let mut read = Read {
            store,
            manifest,
            base: None,
            failure: None,
            records,
            told: 0,
            repaired: Vec::new(),
            events: 0,
            known: Known::default(),
            artifacts: 0,
            end_told: false,
            epoch: 1,
            restored: false,
        };
        read.begin_behind_change();
        Ok(read)
    }

    /// The state that was carried over to a changed pipeline takes the place of all that was before. Where the manifest
    /// still names the pipeline before the change, the process ended before that was accepted.
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
            && let Entry::Changed { kept, .. } | Entry::Restored { kept, .. } = entry
        {
            self.failure = kept.failure.clone();
            self.base = Some(*kept);
            self.told = number;
        }
    }

    /// Writes the state to the journal that this has lost, before anything else is.
    fn restore(&mut self, clock: &dyn Clock) -> Result<(), StoreError> {
        let Some(kept) = &self.base else {
            return Ok(());
        };
        let record = Record {
            epoch: self.epoch,
            at: clock.now().as_millis(),
            real: deadline::micros(clock),
            events: self.events,
            untold: 0,
            artifacts: self.artifacts,
            entry: Entry::Restored {
                kept: Box::new(Kept {
                    failure: self.failure.clone(),
                    ..kept.clone()
                }),
                identity: self.store.identity(),
            },
        };
        let json = serde_json::to_vec(&record).map_err(|source| StoreError::Json {
            path: self.store.folder().join(JOURNAL),
            source,
        })?;
        self.told = self.store.restored(&json)?.records.saturating_sub(1);
        Ok(())
    }

    /// Refuses a manifest whose pipeline is not the one that the records lead to.
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
                // Its manifest may not have been written any more.
                Entry::Changed { now, .. } => accepted = Some(now),
                Entry::Happened(_) => {}
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

    /// Whether the run has ended, and nothing of that is left to be written.
    fn is_over(&self) -> bool {
        let ended = |kept: &Kept| kept.machine.is_finished();
        self.end_told && self.records.is_empty() && self.base.as_ref().is_some_and(ended)
    }
}

impl TakeUp {
    fn take_up(self, mut read: Read, origin: Origin) -> Result<Box<Driver>, StartError> {
        if PinnedPipeline::of(&self.pipeline).hash == read.manifest.pipeline.hash {
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
        let old = pinned(pipeline, children, &self.transforms);
        // A run that is over has no use for another pipeline.
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
        // Told with the pipeline that it was begun with, the state is carried over to the new one.
        let before = self.driver(old.clone(), &read, Origin::default())?;
        let Some(keeping) = before.keeping.as_deref() else {
            return Ok(before);
        };
        // The change is accepted for good, so nothing else may be missing (rule D10).
        runtime.block_on(before.opened_files(&read.manifest))?;
        if !before.taken_up.as_ref().is_some_and(|taken_up| taken_up.begun) {
            // It stands nowhere yet.
            drop(before);
            (read.manifest.pipeline, read.manifest.children) = pin(&self.pipeline);
            read.store.manifest(&read.manifest)?;
            return self.driver(self.pipeline.clone(), &read, origin);
        }
        let point = match self.retry {
            true => Some(retry_point_of(&before, &self.pipeline, true)?),
            false => None,
        };
        let mapping = Mapping::between(old, &self.pipeline);
        let machine = before.machine.saved();
        let machine = machine
            .carry_over(old, &self.pipeline, &mapping)
            .map_err(|fault| StartError::Moved {
                run: self.named(&read.manifest),
                reason: fault.to_string(),
            })?;
        read.failure = before.failure().cloned();
        let kept = Kept {
            machine,
            timers: keeping.timers_over(&mapping),
            turns: keeping.turns_over(&mapping),
            elapsed: nanos(before.before),
            failure: read.failure.clone(),
        };
        read.told = keeping.told;
        before.run.write_later();
        if let Some(failure) = before.run.take_failure() {
            return Err(failure.into());
        }
        read.events = before.run.sink.told();
        drop(before);
        let (pipeline, children) = pin(&self.pipeline);
        let entry = Entry::Changed {
            now: Some(pipeline.hash.clone()),
            pipeline: Box::new(std::mem::replace(&mut read.manifest.pipeline, pipeline)),
            children: std::mem::replace(&mut read.manifest.children, children),
            kept: Box::new(kept),
        };
        if let Entry::Changed { kept, .. } = &entry {
            read.base = Some(Kept::clone(kept));
        }
        read.records.clear();
        let mut driver = self.driver(self.pipeline.clone(), &read, origin)?;
        if let Some(keeping) = &mut driver.keeping {
            keeping.told = keeping.append(&driver.run, &entry)?;
        }
        read.store.manifest(&read.manifest)?;
        if let Some(point) = point {
            driver.will_retry(point);
        }
        Ok(driver)
    }

    /// The run that messages speak of: for one that is not there yet, the one that it begins as.
    fn named(&self, manifest: &Manifest) -> String {
        let from = manifest
            .replayed_from
            .as_ref()
            .filter(|_| self.copied_from.is_some());
        from.map_or_else(|| manifest.run.clone(), |from| from.run.clone())
    }

    /// A driver that stands where the records end.
    fn driver(
        &self,
        pipeline: SharedPipeline,
        read: &Read,
        origin: Origin,
    ) -> Result<Box<Driver>, StartError> {
        let manifest = &read.manifest;
        let seed = manifest.seed;
        let machine = match &read.base {
            Some(kept) => {
                let state = kept.machine.clone().restore(&pipeline);
                let state = state.map_err(|fault| StoreError::damaged_state(read.store.folder(), &fault))?;
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
        let mut keeping = Keeping::new(read.store.clone(), read.epoch);
        keeping.told = read.told;
        let mut taken_up = TakenUp {
            epoch: read.epoch,
            end_told: read.end_told,
            repaired: read.repaired.clone(),
            events: read.events,
            replayed_from: manifest.replayed_from.as_ref().map(ToString::to_string),
            copied: self.copied_from.is_some(),
            ..TakenUp::default()
        };
        if let Some(kept) = &read.base {
            keeping.timers = kept.timers.clone();
            keeping.turns = kept.turns.clone();
            driver.before = Duration::from_nanos(kept.elapsed);
            taken_up.ended = kept.machine.is_finished().then(|| read.failure.clone());
            taken_up.begun = true;
            taken_up.end_kept = taken_up.ended.is_some() && read.end_told;
        }
        driver.keeping = Some(Box::new(keeping));
        driver.taken_up = Some(Box::new(taken_up));
        // What is told again belongs to the folder of its restart.
        read.store.resumed(driver.machine.state().totals.restarts)?;
        driver.replay(&read.records, read.known)?;
        if let Some(keeping) = &driver.keeping {
            run.simulated_before(&keeping.turns);
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

/// Where a failed run is retried in a pipeline, which is not the one that it was begun with where that was `changed`.
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
        .taken_up
        .as_ref()
        .and_then(|taken_up| taken_up.ended.as_ref())
    else {
        return Err(StartError::NotFailed { run: run() });
    };
    let Some(failure) = ended
        .as_ref()
        .filter(|failure| RunStatus::of(Some(*failure)) == RunStatus::Fail)
    else {
        return Err(StartError::Over(Box::new(Over {
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
    let node = pipeline.find(id).ok_or_else(|| StartError::Moved {
        run: run(),
        reason: format!("the run failed at `{id}`, which is gone"),
    })?;
    Ok(match point {
        RetryPoint::Stage(_) => RetryPoint::Stage(node),
        RetryPoint::Edges(_) => RetryPoint::Edges(node),
    })
}

/// Reads what a run folder holds.
fn read(opened: Opened) -> Result<Read, StartError> {
    let Opened {
        store,
        manifest,
        checkpoint,
        records: scan,
        repaired,
        events,
        end_told,
        epoch,
        restored,
    } = opened;
    let path = store.folder().to_owned();
    let store = Arc::new(store);
    let mut read = Read {
        store: store.clone(),
        manifest,
        base: None,
        failure: None,
        records: Vec::with_capacity(scan.records.len()),
        told: 0,
        repaired,
        events,
        known: Known::default(),
        artifacts: 0,
        end_told,
        epoch,
        restored,
    };
    let (mut first, mut certain) = (0, None);
    if let Some(checkpoint) = checkpoint {
        first = checkpoint.journal.records;
        read.told = first.saturating_sub(1);
        read.failure = checkpoint.failure;
        certain = checkpoint.identity.map(|identity| identity.pipeline);
        let state = checkpoint.state.as_deref().map_or("null", RawValue::get);
        let kept = serde_json::from_str(state);
        read.base = Some(kept.map_err(|error| StoreError::damaged_state(&path, &error))?);
    }
    for (number, record) in (first..).zip(scan.iter()) {
        let record = parsed(&path, number, record)?;
        read.artifacts = read.artifacts.max(record.artifacts);
        read.records.push((number, record));
    }
    read.check_pipeline(certain)?;
    read.begin_behind_change();
    // Events of what is before such a record were told before it was written.
    let is_behind = |(_, record): &(u64, Record)| record.untold == 0 && record.events <= events;
    if let Some(at) = read.records.iter().rposition(is_behind) {
        let behind = read.records.get(at).map_or(0, |(_, record)| record.events);
        read.known = Known {
            records: at,
            events: store.caused_behind(behind)?,
        };
    }
    Ok(read)
}

fn parsed(folder: &Path, number: u64, record: &[u8]) -> Result<Record, StoreError> {
    serde_json::from_slice(record).map_err(|error| StoreError::damaged_record(folder, number, &error))
}
