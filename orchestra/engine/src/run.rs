//! The state that all parts of a run share.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
#[cfg(unix)]
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use orchestra_core::{Answer, EffectId, Question, SharedPipeline, Usage};
use orchestra_graph::{NodeIndex, branch_id};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::artifacts::{self, ArtifactError, ArtifactOptions, ArtifactStore};
use crate::clock::Timestamp;
use crate::control::SocketFile;
use crate::engine::Settings;
use crate::error::AnswerError;
use crate::event::{EventKind, NodeName};
use crate::id::RunId;
use crate::pending_questions::PendingQuestions;
use crate::question_token::{QuestionRef, QuestionToken, TokenError};
use crate::registry::Registry;
use crate::requests::Requests;
use crate::shared::shared_nodes;
use crate::sink::Sink;
use crate::steering::{self, ActiveStage, Instruction};
use crate::store::{RunStore, StageFile, StageFolder, StoreError, TemporaryFolder};
use crate::usage_meter::UsageMeter;
use crate::workspace::RunFiles;

pub(crate) struct Run {
    pub(crate) pipeline: SharedPipeline,
    pub(crate) id: RunId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) sink: Sink,
    /// The run folder; `None` if nothing is persisted.
    pub(crate) store: Option<Arc<dyn RunStore>>,
    pub(crate) stop: Stop,
    pub(crate) questions: PendingQuestions,
    /// State that only runs with model stages need.
    pub(crate) long: OnceLock<Box<LongStages>>,
    /// `true` if the run was resumed and no stage has learned it yet (rule D7).
    resumed: AtomicBool,
    /// For each node, whether several branches may run it at once; empty if there is no such node.
    shared: Box<[bool]>,
    pub(crate) origin: Origin,
    /// The files that stages work on; empty if there is no workspace.
    pub(crate) work: OnceLock<Box<RunFiles>>,
    pub(crate) own: Mutex<Own>,
    artifacts: OnceLock<ArtifactStore>,
    /// `true` if any stage requested a cancellation token, so that other stages need not search the list.
    has_tokens: AtomicBool,
    /// `true` if any stage used a model, so that other stages need not search the list.
    pub(crate) has_usage: AtomicBool,
    /// `true` if stages have a folder for files.
    has_files: AtomicBool,
    /// `true` if a write failed.
    has_failed: AtomicBool,
    /// The outcomes of stages without files of their own. They are written when somebody may look into the run folder.
    later: Later,
    /// `true` while the driver waits. Events that are emitted meanwhile are flushed at once.
    waits: AtomicBool,
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
    pub(crate) registry: Arc<Registry>,
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

/// The tracking of a run's active stages.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Watched {
    #[default]
    No,
    Yes,
    /// The stages are tracked and may receive instructions.
    AndSteered,
}

/// State that few runs need.
#[derive(Default)]
pub(crate) struct Own {
    temporary: Option<Arc<TemporaryFolder>>,
    tokens: Vec<(EffectId, CancellationToken)>,
    failure: Option<StoreError>,
    /// The number of simulated visits of each node, not counting the first one.
    turns: Vec<(NodeIndex, usize)>,
    /// The running stages, in the order in which they began, if the run is watched.
    active: Vec<Arc<ActiveStage>>,
    /// The instructions of the manager that no stage has read yet.
    instructions: Vec<Instruction>,
    /// The child runs that stages of this run started.
    children: Vec<Weak<Run>>,
    /// The socket through which other processes reach the run.
    control: Option<SocketFile>,
    /// The model usage of running attempts.
    pub(crate) usage: Vec<(EffectId, Usage)>,
}

/// State that only runs with model stages need. It is created when the first one needs it.
#[derive(Default)]
pub(crate) struct LongStages {
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

impl LongStages {
    pub(crate) fn texts(&self) -> MutexGuard<'_, Texts> {
        lock(&self.texts)
    }
}

/// Maximum number of deferred outcomes. A recovery looks for missing status files in the same number of records.
pub(crate) const LATER: usize = 256;

/// Outcomes that are written when somebody may look into the run folder: when the run waits, or a stage uses the
/// folder.
#[derive(Default)]
struct Later {
    any: AtomicBool,
    list: Mutex<Vec<(EffectId, Vec<u8>)>>,
}

/// The location of a stage's files: the node and the name of its branch.
pub(crate) struct OwnedStageFolder<'r> {
    node: &'r str,
    branch: String,
}

impl OwnedStageFolder<'_> {
    pub(crate) fn as_ref(&self) -> StageFolder<'_> {
        StageFolder {
            node: self.node,
            branch: &self.branch,
        }
    }
}

/// A request to end or pause a run.
#[derive(Default)]
pub(crate) struct Stop {
    requested: AtomicBool,
    /// `true` if the run is to be resumed later.
    pause: AtomicBool,
    reason: Mutex<Option<String>>,
    notify: Notify,
}

impl Stop {
    /// Requests the end of the run. The first request wins.
    pub(crate) fn request(&self, reason: String) {
        if !self.requested() {
            self.pause.store(false, Ordering::Release);
        }
        self.wish(reason);
    }

    /// Requests a pause of the run. The first request wins.
    pub(crate) fn request_pause(&self, reason: String) {
        if !self.requested() {
            self.pause.store(true, Ordering::Release);
        }
        self.wish(reason);
    }

    fn wish(&self, reason: String) {
        lock(&self.reason).get_or_insert(reason);
        self.requested.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Marks the stop as a pause, whatever its reason, so that child runs are paused too.
    pub(crate) fn pauses(&self) {
        self.pause.store(true, Ordering::Release);
    }

    pub(crate) fn is_pause(&self) -> bool {
        self.pause.load(Ordering::Acquire)
    }

    pub(crate) fn requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    pub(crate) fn reason(&self) -> String {
        lock(&self.reason).clone().unwrap_or_default()
    }

    /// Waits for a request. Only the driver calls this.
    pub(crate) async fn wait(&self) {
        while !self.requested() {
            self.notify.notified().await;
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    pub(crate) fn new(
        pipeline: SharedPipeline,
        id: RunId,
        settings: Arc<Settings>,
        store: Option<Arc<dyn RunStore>>,
        origin: Origin,
        events: u64,
    ) -> Run {
        Run {
            shared: shared_nodes(&pipeline),
            questions: PendingQuestions::default(),
            long: OnceLock::new(),
            resumed: AtomicBool::new(false),
            pipeline,
            id,
            sink: Sink::new(settings.callbacks.clone(), events),
            settings,
            has_files: AtomicBool::new(store.is_some()),
            store,
            stop: Stop::default(),
            work: OnceLock::new(),
            origin,
            own: Mutex::default(),
            artifacts: OnceLock::new(),
            has_tokens: AtomicBool::new(false),
            has_usage: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            later: Later::default(),
            waits: AtomicBool::new(false),
        }
    }

    /// Emits an event. Creating an event is expensive, so callers check [`Sink::wanted`] first.
    pub(crate) fn emit(&self, kind: EventKind) {
        self.emit_at(self.settings.clock.now(), kind);
    }

    /// Emits an event with the given time.
    pub(crate) fn emit_at(&self, time: Timestamp, kind: EventKind) {
        if let Err(failure) = self.sink.emit(&self.id, time, self.store.as_deref(), kind) {
            self.broken(failure);
        }
        if self.waits.load(Ordering::Acquire) {
            self.show();
        }
    }

    /// Flushes emitted events, so that other processes see them.
    fn show(&self) {
        if let Some(Err(failure)) = self.store.as_ref().map(|store| store.flush()) {
            self.broken(failure);
        }
    }

    /// Prepares for a wait of the driver: writes deferred outcomes and flushes events.
    pub(crate) fn wait_begins(&self) {
        if self.store.is_some() {
            self.waits.store(true, Ordering::Release);
            self.write_later();
            self.show();
        }
    }

    pub(crate) fn wait_ends(&self) {
        self.waits.store(false, Ordering::Release);
    }

    /// Defers writing the outcome of a stage, so that a stage without files costs no folder while other stages wait for
    /// it.
    pub(crate) fn keep_later(&self, id: &EffectId, status: Vec<u8>) {
        let mut list = lock(&self.later.list);
        list.push((id.clone(), status));
        let many = list.len() >= LATER;
        drop(list);
        self.later.any.store(true, Ordering::Release);
        if many {
            self.write_later();
        }
    }

    /// Writes the deferred outcomes.
    pub(crate) fn write_later(&self) {
        if !self.later.any.swap(false, Ordering::AcqRel) {
            return;
        }
        let list = std::mem::take(&mut *lock(&self.later.list));
        let Some(store) = &self.store else {
            return;
        };
        for (id, status) in list {
            let stage_folder = self.stage_folder(&id);
            let written = store
                .stage(stage_folder.as_ref(), id.visit)
                .and_then(|_| store.write(stage_folder.as_ref(), StageFile::Status, &status));
            if let Err(failure) = written {
                return self.broken(failure);
            }
        }
    }

    pub(crate) fn name(&self, node: NodeIndex) -> NodeName {
        NodeName::new(&self.pipeline, node)
    }

    /// Returns the folder of the outermost run. Returns `None` if nothing is persisted.
    pub(crate) fn root_folder(&self) -> Option<&Path> {
        match &self.origin.parent {
            Some(parent) => parent.run.root_folder(),
            None => self.store.as_deref().map(RunStore::folder),
        }
    }

    /// Returns the outermost run: this run, or the parent run that no stage of another run started.
    pub(crate) fn outermost(self: &Arc<Run>) -> Arc<Run> {
        match &self.origin.parent {
            Some(parent) => parent.run.outermost(),
            None => self.clone(),
        }
    }

    /// Returns the store of stage files: the run folder, or a temporary folder that is created on first use.
    pub(crate) fn files(&self) -> Result<Arc<dyn RunStore>, StoreError> {
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        let mut own = lock(&self.own);
        if let Some(temporary) = &own.temporary {
            return Ok(temporary.clone());
        }
        let temporary = Arc::new(TemporaryFolder::create(&self.id)?);
        own.temporary = Some(temporary.clone());
        self.has_files.store(true, Ordering::Release);
        Ok(temporary)
    }

    /// Returns the store of stage files. Returns `None` if no stage has needed it yet.
    pub(crate) fn present_files(&self) -> Option<Arc<dyn RunStore>> {
        if let Some(store) = &self.store {
            return Some(store.clone());
        }
        if !self.has_files() {
            return None;
        }
        let temporary = lock(&self.own).temporary.clone()?;
        Some(temporary)
    }

    /// Returns whether there is a store of stage files already.
    pub(crate) fn has_files(&self) -> bool {
        self.has_files.load(Ordering::Acquire)
    }

    /// Writes deferred outcomes and returns the run folder, for a caller that may look into it.
    pub(crate) fn shown_dir(&self) -> Option<&Path> {
        self.write_later();
        self.run_dir()
    }

    pub(crate) fn run_dir(&self) -> Option<&Path> {
        self.store.as_deref().map(RunStore::folder)
    }

    pub(crate) fn stage_dir(&self, id: &EffectId) -> Result<PathBuf, StoreError> {
        self.write_later();
        let folder = self.files()?.stage(self.stage_folder(id).as_ref(), id.visit);
        self.warn_moved(id);
        folder
    }

    /// Emits a warning about each conflicting file that was moved aside for the files of stages.
    pub(crate) fn warn_moved(&self, id: &EffectId) {
        let Some(files) = self.present_files() else {
            return;
        };
        for path in files.take_moved() {
            self.emit(EventKind::StageWarning {
                node: self.name(id.node),
                branch: (!id.branch.is_empty()).then(|| id.branch.name(&self.pipeline)),
                code: "planted_file".to_owned(),
                message: format!(
                    "`{}` was in the way of the files that the engine keeps, and was moved aside",
                    path.display()
                ),
                keys: Vec::new(),
            });
        }
    }

    /// Returns the location of a stage's files.
    pub(crate) fn stage_folder(&self, id: &EffectId) -> OwnedStageFolder<'_> {
        let branch = if self.is_shared(id.node) && !id.branch.is_empty() {
            let steps = id.branch.steps().iter();
            let names: Vec<String> = steps.map(|step| branch_id(&self.pipeline, step.edge)).collect();
            names.join(".")
        } else {
            String::new()
        };
        OwnedStageFolder {
            node: self.pipeline.stage(id.node).id(),
            branch,
        }
    }

    /// Returns the location of a node's files in the branch with the given name.
    pub(crate) fn stage_folder_in(&self, node: NodeIndex, branch: String) -> OwnedStageFolder<'_> {
        OwnedStageFolder {
            node: self.pipeline.stage(node).id(),
            branch: if self.is_shared(node) {
                branch
            } else {
                String::new()
            },
        }
    }

    /// Returns whether several branches may run a node at once.
    fn is_shared(&self, node: NodeIndex) -> bool {
        self.shared.get(node.at()).copied().unwrap_or_default()
    }

    /// Starts a new folder for stage files, because the run is restarted (rule R9).
    pub(crate) fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        self.write_later();
        match self.present_files() {
            Some(files) => files.restarted(restart),
            None => Ok(()),
        }
    }

    /// Returns a token that is cancelled when this attempt is.
    pub(crate) fn token(&self, id: &EffectId) -> CancellationToken {
        let mut own = lock(&self.own);
        if let Some((_, token)) = own.tokens.iter().find(|(of, _)| of == id) {
            return token.clone();
        }
        let token = CancellationToken::new();
        own.tokens.push((id.clone(), token.clone()));
        self.has_tokens.store(true, Ordering::Release);
        token
    }

    /// Drops the token of an attempt that has ended. Cancels it if `cancel` is `true`.
    pub(crate) fn release_token(&self, id: &EffectId, cancel: bool) {
        if !self.has_tokens.load(Ordering::Acquire) {
            return;
        }
        let mut own = lock(&self.own);
        let Some(at) = own.tokens.iter().position(|(of, _)| of == id) else {
            return;
        };
        let (_, token) = own.tokens.swap_remove(at);
        drop(own);
        if cancel {
            token.cancel();
        }
    }

    /// Returns a text with secrets removed.
    pub(crate) fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.settings.redactor {
            Some(redactor) => redactor.text(text),
            None => Cow::Borrowed(text),
        }
    }

    /// Marks the run as resumed.
    pub(crate) fn is_resumed(&self) {
        self.resumed.store(true, Ordering::Release);
    }

    /// Returns whether the run was resumed, and removes the mark.
    pub(crate) fn take_resumed(&self) -> bool {
        self.resumed.swap(false, Ordering::AcqRel)
    }

    /// Stores a write failure, which ends the run. Only the first one is stored.
    pub(crate) fn broken(&self, failure: StoreError) {
        lock(&self.own).failure.get_or_insert(failure);
        self.has_failed.store(true, Ordering::Release);
    }

    /// Stores a failure if the disk or another owner caused it, rather than the stage that receives it.
    pub(crate) fn may_be_broken(&self, failure: &StoreError) {
        if let Some(failure) = failure.of_all() {
            self.broken(failure);
        }
    }

    /// Stops the run, even while its stages execute, if its folder is gone or belongs to another process.
    pub(crate) fn check_folder(&self) {
        if let Some(Err(failure)) = self.store.as_ref().map(|store| store.check_ownership()) {
            self.broken(failure);
            self.stop.request("the run folder is lost".to_owned());
        }
    }

    /// Returns whether a write failed.
    pub(crate) fn is_broken(&self) -> bool {
        let artifacts = self.artifacts.get();
        self.has_failed.load(Ordering::Acquire) || artifacts.is_some_and(ArtifactStore::has_failed)
    }

    /// Takes the first write failure.
    pub(crate) fn take_failure(&self) -> Option<StoreError> {
        if !self.is_broken() {
            return None;
        }
        let artifacts = || self.artifacts.get().and_then(ArtifactStore::take_failure);
        lock(&self.own).failure.take().or_else(artifacts)
    }

    /// Returns how often a node was simulated before, and counts one more visit.
    pub(crate) fn next_turn(&self, node: NodeIndex) -> usize {
        let mut own = lock(&self.own);
        match own.turns.iter_mut().find(|(of, _)| *of == node) {
            Some((_, turns)) => {
                *turns += 1;
                *turns
            }
            None => {
                own.turns.push((node, 0));
                0
            }
        }
    }

    /// Restores the number of simulated visits of each node.
    pub(crate) fn simulated_before(&self, turns: &[(u32, usize)]) {
        let turns = turns.iter().filter(|(_, turns)| *turns > 0);
        lock(&self.own).turns = turns.map(|(node, turns)| (NodeIndex(*node), turns - 1)).collect();
    }

    /// Returns the artifacts, which are read from the run folder on first use (Attractor 5.5).
    pub(crate) fn artifacts(&self) -> Result<ArtifactStore, ArtifactError> {
        if let Some(artifacts) = self.artifacts.get() {
            return Ok(artifacts.clone());
        }
        let options = ArtifactOptions {
            threshold: self.settings.artifact_threshold,
            files: self.settings.files(),
            durability: self.settings.durability(),
            clock: self.settings.clock.clone(),
            redactor: self.settings.redactor.clone(),
            ..ArtifactOptions::default()
        };
        let opened = match self.store.clone() {
            Some(store) => {
                let folder = store.folder().to_owned();
                let guard = Arc::new(move || store.check_ownership());
                ArtifactStore::kept_in(&folder, ArtifactOptions { guard, ..options })?
            }
            None => ArtifactStore::kept_in_memory(options),
        };
        Ok(self.artifacts.get_or_init(|| opened).clone())
    }

    /// Returns the number of changes to the artifacts. Returns `None` if nobody has used them.
    pub(crate) fn artifact_changes(&self) -> Option<u64> {
        self.artifacts.get().map(ArtifactStore::changes)
    }

    /// Returns the number of artifacts of the run.
    pub(crate) fn artifact_count(&self) -> u64 {
        let kept = || self.run_dir().is_some_and(artifacts::are_kept_in);
        if self.artifacts.get().is_none() && !kept() {
            return 0;
        }
        self.artifacts().map_or_else(
            |error| {
                tracing::warn!("the artifacts cannot be counted: {error}");
                0
            },
            |artifacts| artifacts.len() as u64,
        )
    }

    /// Closes the artifact store.
    pub(crate) fn close_artifacts(&self) {
        if let Some(Err(error)) = self.artifacts.get().map(ArtifactStore::close) {
            tracing::warn!("the index of the artifacts is not closed: {error}");
        }
    }

    /// Discards the changes of an interrupted attempt to the artifacts, because the attempt is repeated (rule D1).
    pub(crate) fn attempt_repeats(&self, attempt_key: &str) {
        if !self.run_dir().is_some_and(artifacts::are_kept_in) {
            return;
        }
        let void = self
            .artifacts()
            .and_then(|artifacts| artifacts.repeated(attempt_key));
        if let Err(error) = void {
            self.broken(error.into());
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
        let stage = Arc::new(ActiveStage::new(id, folder));
        lock(&self.own).active.push(stage.clone());
        Some(stage)
    }

    /// Returns the running stages in the order in which they began. The list is empty if the run is not watched.
    pub(crate) fn active_stages(&self) -> Vec<Arc<ActiveStage>> {
        let mut own = lock(&self.own);
        own.active.retain(|stage| !stage.is_over());
        own.active.clone()
    }

    /// Stores an instruction until a stage reads it.
    pub(crate) fn instruct(&self, instruction: Instruction) {
        lock(&self.own).instructions.push(instruction);
    }

    /// Takes the instructions that a stage of this run may read: those given to it or to a stage that has ended, and
    /// those given to the stage that started this run.
    pub(crate) fn take_instructions(&self, reader: &EffectId) -> Vec<Instruction> {
        let mut taken = match &self.origin.parent {
            Some(parent) => parent.run.take_instructions(&parent.stage),
            None => Vec::new(),
        };
        let Own {
            active, instructions, ..
        } = &mut *lock(&self.own);
        taken.extend(steering::take(instructions, active, reader));
        taken
    }

    /// Registers a child run, so that its questions can be answered through this run.
    pub(crate) fn adopt(&self, child: &Arc<Run>) {
        let mut own = lock(&self.own);
        own.children.retain(|child| child.strong_count() > 0);
        own.children.push(Arc::downgrade(child));
    }

    fn children(&self) -> Vec<Arc<Run>> {
        lock(&self.own)
            .children
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Returns the open questions of this run and of its child runs.
    pub(crate) fn open_questions(&self) -> Vec<Question> {
        let mut open = self.questions.list();
        open.extend(self.children().iter().flat_map(|child| child.open_questions()));
        open
    }

    /// Returns the open questions with the tokens by which other processes answer them.
    pub(crate) fn questions_with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut open = self.questions.with_tokens()?;
        for child in self.children() {
            open.extend(child.questions_with_tokens()?);
        }
        Ok(open)
    }

    /// Answers a question of this run, or of a child run if this run has no question of that name.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut answered = self.questions.answer(named, answer.clone());
        for child in self.children() {
            let Err(AnswerError::NoQuestion { open, .. }) = &mut answered else {
                break;
            };
            match child.answer(named, answer.clone()) {
                Err(AnswerError::NoQuestion { open: others, .. }) => open.extend(others),
                other => return other,
            }
        }
        answered
    }

    /// Returns the lock files of the run. They stay open as long as the run lives, and lose their names when another
    /// process takes the run over.
    #[cfg(unix)]
    pub(crate) fn locks(&self) -> Vec<RawFd> {
        self.store.as_ref().map(|store| store.locks()).unwrap_or_default()
    }

    /// Returns whether no other process has taken the run over (rule D5).
    pub(crate) fn is_owned(&self) -> bool {
        let store = self.store.as_ref();
        store.is_none_or(|store| store.check_ownership().is_ok())
    }

    /// Stores the socket through which other processes reach the run, until the run is closed.
    pub(crate) fn listens_at(&self, socket: SocketFile) {
        let mut own = lock(&self.own);
        if !self.sink.is_closed() {
            own.control = Some(socket);
        }
    }

    /// Releases the resources that only a running run needs.
    pub(crate) fn close(&self) {
        self.sink.close();
        self.close_artifacts();
        let mut own = lock(&self.own);
        let (temporary, control) = (own.temporary.take(), own.control.take());
        drop(own);
        drop((temporary, control));
    }
}
