//! The recovery of a run: a driver in the last state that the run folder proves (rules D1, D6, D9).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Machine, RetryPoint, SavedStateError, SharedPipeline, retry_point};
use orchestra_graph::{Contract, Difference, Mapping, NodeIndex, Transform};

use crate::driver::limits::Limits;
use crate::driver::recovery::Recovery;
use crate::driver::state::Driver;
use crate::error::{AlreadyFinished, Changed, StartError};
use crate::id::RunId;
use crate::journal::records::{CheckpointState, Entry};
use crate::journal::writer::{JournalWriter, nanos};
use crate::recovery::copy::copy_stages;
use crate::recovery::files::opened_files;
use crate::recovery::folder_state::FolderState;
use crate::run::state::{Origin, Run};
use crate::run_status::RunStatus;
use crate::setup::pinned_source::{load_pinned, pin};
use crate::setup::settings::EngineSettings;
use crate::store::{Manifest, OpenOptions, PinnedSource, StoreError};

/// The options of resuming a run.
#[derive(Clone, Default)]
pub(crate) struct ResumeOptions {
    pub(crate) limits: Limits,
    /// `true` if a changed pipeline is accepted.
    pub(crate) accept_changes: bool,
    pub(crate) open: OpenOptions,
    /// `true` if a run that failed is retried.
    pub(crate) retry: bool,
    /// `true` if a run that has ended is not an error: its result is returned again.
    pub(crate) may_be_over: bool,
    pub(crate) transforms: Vec<Arc<dyn Transform>>,
}

/// The settings for turning a run folder into a driver.
pub(crate) struct RecoveryTask {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) pipeline: SharedPipeline,
    pub(crate) options: ResumeOptions,
    /// The folder of another run, from which the files of stages are copied.
    pub(crate) copied_from: Option<PathBuf>,
    /// `true` if this is only a check, so that no files are copied.
    pub(crate) rehearses: bool,
    /// `true` if the stages that write context values are noted.
    pub(crate) traces_context: bool,
}

impl RecoveryTask {
    /// Creates a driver in the last state of a run. If the pipeline was changed and the change is accepted, carries the
    /// state over to the new pipeline.
    pub(crate) fn recover(self, mut read: FolderState, origin: Origin) -> Result<Box<Driver>, StartError> {
        if PinnedSource::from_pipeline(&self.pipeline).hash == read.manifest.pipeline.hash {
            let mut driver = self.driver(self.pipeline.clone(), &read, origin)?;
            if self.options.retry {
                let point = retry_point_of(&driver, &self.pipeline, false)?;
                driver.will_retry(point);
            }
            return Ok(driver);
        }
        let Manifest {
            pipeline, children, ..
        } = &read.manifest;
        let old = load_pinned(pipeline, children, &self.options.transforms);
        // A run that has ended does not need another pipeline.
        if let (true, false, Some(old)) = (read.is_over(), self.options.retry, &old) {
            return self.driver(old.clone(), &read, origin);
        }
        let (true, Some(old)) = (self.options.accept_changes, &old) else {
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
        runtime.block_on(opened_files(&before, &self.settings, &read.manifest))?;
        if !before.recovery.as_ref().is_some_and(|recovery| recovery.begun) {
            // The run has not begun, so there is no state to carry over.
            drop(before);
            let [old, new] = [&**old, &*self.pipeline].map(Contract::from_pipeline);
            let params = &read.manifest.params;
            let inputs = new.check_new_inputs(&old, |key| params.get(key));
            let types = new.check_changed_types(&old, |key| params.get(key));
            inputs
                .and(types)
                .map_err(|violations| self.contract_changed(&read.manifest, violations))?;
            (read.manifest.pipeline, read.manifest.children) = pin(&self.pipeline);
            read.store.manifest(&read.manifest)?;
            return self.driver(self.pipeline.clone(), &read, origin);
        }
        let point = if self.options.retry {
            Some(retry_point_of(&before, &self.pipeline, true)?)
        } else {
            None
        };
        let mapping = Mapping::between(old, &self.pipeline);
        let machine = before.machine.saved();
        let machine = machine
            .carry_over(old, &self.pipeline, &mapping)
            .map_err(|error| self.incompatible(&read.manifest, &error))?;
        read.failure = before.failure().cloned();
        let state = CheckpointState {
            machine,
            timers: journal.timers_over(&mapping),
            turns: journal.turns_over(&mapping),
            due: Vec::new(),
            elapsed: nanos(before.time.before),
            failure: read.failure.clone(),
        };
        read.applied = journal.applied;
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

    /// Converts the error of a state that cannot be carried over.
    fn incompatible(&self, manifest: &Manifest, error: &SavedStateError) -> StartError {
        if error.is_contract_violation() {
            return self.contract_changed(manifest, error.to_string());
        }
        StartError::IncompatibleState {
            run: self.named(manifest),
            reason: error.to_string(),
        }
    }

    fn contract_changed(&self, manifest: &Manifest, violations: String) -> StartError {
        StartError::ContractChanged {
            run: self.named(manifest),
            file: self.pipeline.file.to_string(),
            violations,
        }
    }

    /// Returns the id of the run for messages. For a replay that does not exist yet, this is the run that it starts
    /// from.
    fn named(&self, manifest: &Manifest) -> String {
        match &manifest.replayed_from {
            Some(from) if self.copied_from.is_some() => from.run.clone(),
            _ => manifest.run.clone(),
        }
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
            self.settings.run.clone(),
            Some(read.store.clone()),
            origin,
            read.events,
        ));
        run.stage_files.will_be_present();
        let mut driver = Driver::new(
            run.clone(),
            machine,
            self.options.limits.or_budget(manifest.budget),
        );
        let mut journal = JournalWriter::new(read.store.clone(), read.fencing_token);
        journal.applied = read.applied;
        let mut recovery = Recovery {
            fencing_token: read.fencing_token,
            end_emitted: read.end_emitted,
            repaired: read.repaired.clone(),
            events: read.events,
            replayed_from: manifest.replayed_from.as_ref().map(ToString::to_string),
            copied: self.copied_from.is_some(),
            lineage: self.traces_context.then(Box::default),
            ..Recovery::default()
        };
        if let Some(saved) = &read.base {
            journal.timers = saved.timers.clone();
            journal.turns = saved.turns.clone();
            driver.time.before = Duration::from_nanos(saved.elapsed);
            // A process that wrote a record since then may have begun them.
            if read.records.is_empty() {
                recovery.unbegun.clone_from(&saved.due);
            }
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
            run.attempts.simulated_before(&journal.turns);
        }
        if let Some(from) = self.copied_from.as_ref()
            && !self.rehearses
        {
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
