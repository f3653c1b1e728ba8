//! The state that all parts of a run share.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use orchestra_core::{EffectId, SharedPipeline};
use orchestra_graph::{Contract, NodeIndex};

use crate::artifacts::ArtifactStore;
use crate::budget::UsageMeter;
use crate::clock::Timestamp;
use crate::event::{EventKind, NodeName};
use crate::gates::pending_questions::PendingQuestions;
use crate::id::RunId;
use crate::lock::lock;
use crate::ownership::OwnedRun;
use crate::run::attempts::Attempts;
use crate::run::port::AttemptPort;
use crate::run::requests::Requests;
use crate::run::settings::RunSettings;
use crate::run::sink::Sink;
use crate::run::stage_files::StageFiles;
use crate::run::steering::{ActiveStage, Instruction, Watched};
use crate::run::stop::Stop;
use crate::run::write_failure::WriteFailure;
use crate::socket::SocketFile;
use crate::store::{RunStore, StageFile, StoreError};

/// The state that all parts of a run share. It has a field for each concern, with a lock of its own, because the driver,
/// the stages and other threads use them at the same time.
pub(crate) struct Run {
    pub(crate) pipeline: SharedPipeline,
    pub(crate) id: RunId,
    pub(crate) settings: Arc<RunSettings>,
    /// The contract of the pipeline; `None` if it declares nothing.
    pub(crate) contract: Option<Box<Contract>>,
    pub(crate) origin: Origin,
    /// The connection to the run, if another process decides about it and this one executes an attempt.
    pub(crate) port: Option<Arc<dyn AttemptPort>>,
    pub(crate) sink: Sink,
    /// The run folder; `None` if nothing is persisted.
    pub(crate) store: Option<Arc<dyn RunStore>>,
    pub(crate) stage_files: StageFiles,
    pub(crate) artifacts: OnceLock<ArtifactStore>,
    failure: WriteFailure,
    /// `true` while the driver waits. Events that are emitted meanwhile are flushed at once.
    waits: AtomicBool,
    pub(crate) stop: Stop,
    pub(crate) questions: PendingQuestions,
    /// The child runs that stages of this run started.
    pub(crate) children: Mutex<Vec<Weak<Run>>>,
    /// The socket through which other processes reach the run.
    control: Mutex<Option<SocketFile>>,
    pub(crate) attempts: Attempts,
    /// State that only runs with model stages need.
    pub(crate) models: OnceLock<Box<ModelStages>>,
}

/// The stage of another run that started this run. The usage of this run also counts for that stage.
#[derive(Clone)]
pub(crate) struct Parent {
    pub(crate) run: Arc<Run>,
    pub(crate) stage: EffectId,
}

/// The settings that a run was started with, besides its pipeline. Child runs get them from their parent run.
#[derive(Default)]
pub(crate) struct Origin {
    pub(crate) seed: u64,
    /// The number of parent runs around this one.
    pub(crate) depth: u32,
    /// The folder in which tools run; `None` for the working directory of the program. If a workspace provides a folder
    /// for the execution path, this is a path below it.
    pub(crate) working_dir: Option<PathBuf>,
    pub(crate) watched: Watched,
    /// `true` if child runs are resumed even if records of them are lost.
    pub(crate) accept_loss: bool,
    /// The stage of another run that started this run; `None` for an outermost run.
    pub(crate) parent: Option<Parent>,
}

/// State that only runs with model stages need. It is created when the first one needs it.
#[derive(Default)]
pub(crate) struct ModelStages {
    /// The requests of stages to the driver.
    pub(crate) requests: Requests,
    /// The usage meter of the run.
    pub(crate) meter: UsageMeter,
    /// The number of calls and of failed calls of each tool, by node.
    pub(crate) tools: Mutex<BTreeMap<(u32, String), (u64, u64)>>,
    /// The latest texts of stages, if the run persists no files.
    texts: Mutex<Texts>,
    /// The data that stages share, by type.
    pub(crate) data: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// Texts of stages by node, branch and file, each with its visit.
type Texts = HashMap<(String, String, StageFile), (u32, String)>;

impl ModelStages {
    pub(crate) fn texts(&self) -> MutexGuard<'_, Texts> {
        lock(&self.texts)
    }
}

impl Run {
    /// Creates a run. `events` is the number of events that other processes emitted before.
    pub(crate) fn new(
        pipeline: SharedPipeline,
        id: RunId,
        settings: Arc<RunSettings>,
        store: Option<Arc<dyn RunStore>>,
        origin: Origin,
        events: u64,
    ) -> Run {
        let contract = Contract::from_pipeline(&pipeline);
        Run {
            contract: (!contract.is_empty()).then(|| Box::new(contract)),
            sink: Sink::new(settings.callbacks.clone(), events),
            stage_files: StageFiles::new(&pipeline),
            pipeline,
            id,
            settings,
            origin,
            port: None,
            store,
            artifacts: OnceLock::new(),
            failure: WriteFailure::default(),
            waits: AtomicBool::new(false),
            stop: Stop::default(),
            questions: PendingQuestions::default(),
            children: Mutex::default(),
            control: Mutex::default(),
            attempts: Attempts::default(),
            models: OnceLock::new(),
        }
    }

    /// Emits an event. Creating an event is expensive, so callers check [`Sink::wanted`] first.
    pub(crate) fn emit(&self, kind: EventKind) {
        self.emit_at(self.settings.clock.now(), kind);
    }

    /// Emits an event with the given time.
    pub(crate) fn emit_at(&self, time: Timestamp, kind: EventKind) {
        self.report_question(time, &kind);
        if let Err(failure) = self.sink.emit(&self.id, time, self.store.as_deref(), kind) {
            self.fail(failure);
        }
        if self.waits.load(Ordering::Acquire) {
            self.flush();
        }
    }

    /// Flushes emitted events, so that other processes see them.
    fn flush(&self) {
        if let Some(Err(failure)) = self.store.as_ref().map(|store| store.flush()) {
            self.fail(failure);
        }
    }

    /// Prepares for a wait of the driver: flushes events.
    pub(crate) fn wait_begins(&self) {
        if self.store.is_some() {
            self.waits.store(true, Ordering::Release);
            self.flush();
        }
    }

    pub(crate) fn wait_ends(&self) {
        self.waits.store(false, Ordering::Release);
    }

    pub(crate) fn name(&self, node: NodeIndex) -> NodeName {
        NodeName::new(&self.pipeline, node)
    }

    /// Returns a text with secrets removed.
    pub(crate) fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.settings.redactor {
            Some(redactor) => redactor.text(text),
            None => Cow::Borrowed(text),
        }
    }

    /// Returns the outermost run: this run, or the parent run that no stage of another run started.
    pub(crate) fn outermost(self: &Arc<Run>) -> Arc<Run> {
        match &self.origin.parent {
            Some(parent) => parent.run.outermost(),
            None => self.clone(),
        }
    }

    /// Returns the folder in which the stages of a child run work (`stack.child_workdir`), as a path below the folder
    /// of the execution path. Returns `None` for an outermost run: the workspace, not the working folder of the engine,
    /// determines where its stages work.
    pub(crate) fn below(&self) -> Option<&Path> {
        self.origin.parent.as_ref()?;
        self.origin.working_dir.as_deref()
    }

    /// Ends the run with a failure to write its files. Only the first failure counts.
    pub(crate) fn fail(&self, failure: StoreError) {
        self.failure.set(failure);
    }

    /// Ends the run with a failure if the disk or another owner caused it, rather than the stage that receives it.
    pub(crate) fn escalate(&self, failure: &StoreError) {
        if let Some(failure) = failure.of_all() {
            self.fail(failure);
        }
    }

    /// Returns whether a write failed.
    pub(crate) fn has_failed(&self) -> bool {
        let artifacts = self.artifacts.get();
        self.failure.is_set() || artifacts.is_some_and(ArtifactStore::has_failed)
    }

    /// Takes the first write failure.
    pub(crate) fn take_failure(&self) -> Option<StoreError> {
        if !self.has_failed() {
            return None;
        }
        let artifacts = || self.artifacts.get().and_then(ArtifactStore::take_failure);
        self.failure.take().or_else(artifacts)
    }

    /// Stops the run, even while its stages execute, if its folder is gone or belongs to another process.
    pub(crate) fn check_folder(&self) {
        if let Some(Err(failure)) = self.store.as_ref().map(|store| store.check_ownership()) {
            self.fail(failure);
            self.stop.request("the run folder is lost".to_owned());
        }
    }

    /// Registers a running stage. Returns `None` if the run is not watched.
    pub(crate) fn activate(&self, id: &EffectId) -> Option<Arc<ActiveStage>> {
        let folder = match self.origin.watched {
            Watched::No => return None,
            Watched::Yes => None,
            // The folder is opened for this visit now; a later visit may have begun when an instruction arrives.
            Watched::AndSteered => self.stage_dir(id).ok(),
        };
        Some(self.attempts.steering.begin(id, folder))
    }

    /// Takes the instructions that a stage of this run may read: those given to it or to a stage that has ended, and
    /// those given to the stage that started this run.
    pub(crate) fn take_instructions(&self, reader: &EffectId) -> Vec<Instruction> {
        let mut taken = match &self.origin.parent {
            Some(parent) => parent.run.take_instructions(&parent.stage),
            None => Vec::new(),
        };
        taken.extend(self.attempts.steering.take(reader));
        taken
    }

    /// Returns the state that only runs with model stages need. Creates it if necessary.
    pub(crate) fn models(&self) -> &ModelStages {
        self.models.get_or_init(Box::default)
    }

    /// Stores the socket through which other processes reach the run, until the run is closed.
    #[cfg_attr(
        not(unix),
        allow(dead_code, reason = "elsewhere no other process can reach a run")
    )]
    pub(crate) fn listens_at(&self, socket: SocketFile) {
        let mut control = lock(&self.control);
        if !self.sink.is_closed() {
            *control = Some(socket);
        }
    }

    /// Releases the resources that only a running run needs.
    pub(crate) fn close(&self) {
        self.sink.close();
        self.close_artifacts();
        drop(self.stage_files.take_temporary());
        let control = lock(&self.control).take();
        drop(control);
    }
}

impl OwnedRun for Run {
    fn is_owned(&self) -> bool {
        let store = self.store.as_ref();
        store.is_none_or(|store| store.check_ownership().is_ok())
    }

    #[cfg(unix)]
    fn locks(&self) -> Vec<RawFd> {
        self.store.as_ref().map(|store| store.locks()).unwrap_or_default()
    }

    #[cfg(unix)]
    fn root_folder(&self) -> Option<&Path> {
        match &self.origin.parent {
            Some(parent) => parent.run.root_folder(),
            None => self.store.as_deref().map(RunStore::folder),
        }
    }
}
