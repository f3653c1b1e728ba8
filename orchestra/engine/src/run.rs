//! What all parts of one run share.

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

use crate::artifacts::{self, ArtifactError, ArtifactStore, Keeping};
use crate::asked::Asked;
use crate::clock::Timestamp;
use crate::control::SocketFile;
use crate::engine::Settings;
use crate::error::AnswerError;
use crate::event::{EventKind, NodeName};
use crate::id::RunId;
use crate::ledger::Ledger;
use crate::question_token::{QuestionRef, QuestionToken, TokenError};
use crate::questions::Questions;
use crate::registry::Registry;
use crate::requests::Requests;
use crate::shared::shared_nodes;
use crate::sink::Sink;
use crate::steering::{self, ActiveStage, Instruction};
use crate::store::{RunStore, StageFile, StagePlace, StoreError, TemporaryFolder};
use crate::workspace::RunFiles;

pub(crate) struct Run {
    pub(crate) pipeline: SharedPipeline,
    pub(crate) id: RunId,
    pub(crate) settings: Arc<Settings>,
    pub(crate) sink: Sink,
    /// The run folder; `None` where nothing is kept.
    pub(crate) store: Option<Arc<dyn RunStore>>,
    pub(crate) stop: Stop,
    pub(crate) questions: Questions,
    /// What only runs of long stages need.
    pub(crate) long: OnceLock<Box<LongStages>>,
    /// Whether a stage has yet to learn that the run was resumed (rule D7).
    resumed: AtomicBool,
    /// For each node whether several branches may run it at once; nothing where none do.
    shared: Box<[bool]>,
    pub(crate) origin: Origin,
    /// The files that its stages work on; nothing where no workspace gives them any.
    pub(crate) work: OnceLock<Box<RunFiles>>,
    pub(crate) own: Mutex<Own>,
    artifacts: OnceLock<ArtifactStore>,
    /// Whether any stage asked for a cancellation token, so that others need no look at the list.
    has_tokens: AtomicBool,
    /// Whether any stage used a model, so that others need no look at the list.
    pub(crate) has_usage: AtomicBool,
    /// Whether stages have a place for files.
    has_files: AtomicBool,
    /// Whether something could not be written.
    has_failed: AtomicBool,
    /// The outcomes of stages without files, which are written where somebody may look.
    later: Later,
    /// Whether the driver waits, so that what is told meanwhile is to be seen at once.
    waits: AtomicBool,
}

/// A stage that started a run within its own. What the one uses, the other uses too.
#[derive(Clone)]
pub(crate) struct Parent {
    pub(crate) run: Arc<Run>,
    pub(crate) stage: EffectId,
}

/// What a run was started with, beside its pipeline; what the runs that its stages start are given in turn.
#[derive(Default)]
pub(crate) struct Origin {
    pub(crate) registry: Arc<Registry>,
    pub(crate) seed: u64,
    /// In how many other runs this one runs.
    pub(crate) depth: u32,
    /// The folder in which its tools run, below that of the line where a workspace gives one; `None` for the program's own.
    pub(crate) working_dir: Option<PathBuf>,
    pub(crate) watched: Watched,
    /// Whether the runs that its stages started go on although records of them are lost.
    pub(crate) accept_loss: bool,
    /// The stage that started it, of another run.
    pub(crate) parent: Option<Parent>,
}

/// Whether somebody wants to know at which stages a run is.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Watched {
    #[default]
    No,
    Yes,
    /// And may tell these stages something.
    AndSteered,
}

/// What few stages need.
#[derive(Default)]
pub(crate) struct Own {
    temporary: Option<Arc<TemporaryFolder>>,
    tokens: Vec<(EffectId, CancellationToken)>,
    failure: Option<StoreError>,
    /// How often each node was simulated.
    turns: Vec<(NodeIndex, usize)>,
    /// The stages that run, in the order in which they began, where the run is watched.
    active: Vec<Arc<ActiveStage>>,
    /// What its manager has told it, and no stage has read yet.
    instructions: Vec<Instruction>,
    /// The runs that stages of this one have started.
    children: Vec<Weak<Run>>,
    /// The socket at which other processes reach the run.
    control: Option<SocketFile>,
    /// What the attempts that run have used of models.
    pub(crate) usage: Vec<(EffectId, Usage)>,
}

/// What only runs need whose stages talk with models, made when the first one does.
#[derive(Default)]
pub(crate) struct LongStages {
    /// What they ask of the driver.
    pub(crate) requests: Requests,
    /// What they may use of models.
    pub(crate) ledger: Ledger,
    /// What they ask people.
    pub(crate) asked: Asked,
    /// How often the stages of each node called each tool, and how often that failed.
    pub(crate) tools: Mutex<BTreeMap<(u32, String), (u64, u64)>>,
    /// The latest texts of stages of a run that keeps no files.
    texts: Mutex<Texts>,
    /// What they share, by its type.
    pub(crate) data: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// Texts of stages by node, branch and file, each with its visit.
type Texts = HashMap<(String, String, StageFile), (u32, String)>;

impl LongStages {
    pub(crate) fn texts(&self) -> MutexGuard<'_, Texts> {
        lock(&self.texts)
    }
}

/// So many outcomes are kept for later at most; the same number is looked at when a run is taken up.
pub(crate) const LATER: usize = 256;

/// Outcomes that are written where somebody may look: when the run waits, or a stage looks into the run folder.
#[derive(Default)]
struct Later {
    any: AtomicBool,
    list: Mutex<Vec<(EffectId, Vec<u8>)>>,
}

/// Which files a stage has, with the name of its branch.
pub(crate) struct Place<'r> {
    node: &'r str,
    branch: String,
}

impl Place<'_> {
    pub(crate) fn as_ref(&self) -> StagePlace<'_> {
        StagePlace {
            node: self.node,
            branch: &self.branch,
        }
    }
}

/// The wish that a run end, or stop where it is.
#[derive(Default)]
pub(crate) struct Stop {
    requested: AtomicBool,
    /// Whether the run is to be gone on with later.
    pause: AtomicBool,
    reason: Mutex<Option<String>>,
    notify: Notify,
}

impl Stop {
    /// The run is to end. The first reason stands.
    pub(crate) fn request(&self, reason: String) {
        if !self.requested() {
            self.pause.store(false, Ordering::Release);
        }
        self.wish(reason);
    }

    /// The run is to stop where it is. The first wish stands.
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

    /// The run stops where it is, whatever the reason; what its stages run does too.
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

    /// Waits for the wish; only the driver does.
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
            questions: Questions::default(),
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

    /// Tells whoever listens. Making an event costs; ask [`Sink::wanted`] first.
    pub(crate) fn emit(&self, kind: EventKind) {
        self.emit_at(self.settings.clock.now(), kind);
    }

    /// Tells whoever listens what happened at a time.
    pub(crate) fn emit_at(&self, time: Timestamp, kind: EventKind) {
        if let Err(failure) = self.sink.emit(&self.id, time, self.store.as_deref(), kind) {
            self.broken(failure);
        }
        if self.waits.load(Ordering::Acquire) {
            self.show();
        }
    }

    /// Lets others see what was told.
    fn show(&self) {
        if let Some(Err(failure)) = self.store.as_ref().map(|store| store.flush()) {
            self.broken(failure);
        }
    }

    /// The driver begins to wait: everything is to be seen.
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

    /// Will write the outcome of a stage: a stage that has no files costs no folder while others wait for it.
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

    /// Writes what was kept for later.
    pub(crate) fn write_later(&self) {
        if !self.later.any.swap(false, Ordering::AcqRel) {
            return;
        }
        let list = std::mem::take(&mut *lock(&self.later.list));
        let Some(store) = &self.store else {
            return;
        };
        for (id, status) in list {
            let place = self.place(&id);
            let written = store
                .stage(place.as_ref(), id.visit)
                .and_then(|_| store.write(place.as_ref(), StageFile::Status, &status));
            if let Err(failure) = written {
                return self.broken(failure);
            }
        }
    }

    pub(crate) fn name(&self, node: NodeIndex) -> NodeName {
        NodeName::new(&self.pipeline, node)
    }

    /// The folder of the outermost run around this one; `None` where nothing is kept.
    pub(crate) fn root_folder(&self) -> Option<&Path> {
        match &self.origin.parent {
            Some(parent) => parent.run.root_folder(),
            None => self.store.as_deref().map(RunStore::folder),
        }
    }

    /// The run that no stage of another one has started, around this one or this one itself.
    pub(crate) fn outermost(self: &Arc<Run>) -> Arc<Run> {
        match &self.origin.parent {
            Some(parent) => parent.run.outermost(),
            None => self.clone(),
        }
    }

    /// Where stages keep files: the run folder, else a temporary one that is made at the first need.
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

    /// Where stages keep files, if any stage needed it yet.
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

    /// Whether stages have a place for files already.
    pub(crate) fn has_files(&self) -> bool {
        self.has_files.load(Ordering::Acquire)
    }

    /// The run folder, for somebody who may look into it.
    pub(crate) fn shown_dir(&self) -> Option<&Path> {
        self.write_later();
        self.run_dir()
    }

    pub(crate) fn run_dir(&self) -> Option<&Path> {
        self.store.as_deref().map(RunStore::folder)
    }

    pub(crate) fn stage_dir(&self, id: &EffectId) -> Result<PathBuf, StoreError> {
        self.write_later();
        let folder = self.files()?.stage(self.place(id).as_ref(), id.visit);
        self.tell_moved(id);
        folder
    }

    /// Tells of what stood in the way of the files of stages, and was moved aside.
    pub(crate) fn tell_moved(&self, id: &EffectId) {
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

    /// Which files a stage has.
    pub(crate) fn place(&self, id: &EffectId) -> Place<'_> {
        let branch = if self.is_shared(id.node) && !id.branch.is_empty() {
            let steps = id.branch.steps().iter();
            let names: Vec<String> = steps.map(|step| branch_id(&self.pipeline, step.edge)).collect();
            names.join(".")
        } else {
            String::new()
        };
        Place {
            node: self.pipeline.stage(id.node).id(),
            branch,
        }
    }

    /// Which files a stage has in a branch of that name.
    pub(crate) fn place_in(&self, node: NodeIndex, branch: String) -> Place<'_> {
        Place {
            node: self.pipeline.stage(node).id(),
            branch: if self.is_shared(node) {
                branch
            } else {
                String::new()
            },
        }
    }

    /// Whether several branches may run a node at once.
    fn is_shared(&self, node: NodeIndex) -> bool {
        self.shared.get(node.at()).copied().unwrap_or_default()
    }

    /// The run begins anew (rule R9).
    pub(crate) fn restarted(&self, restart: u32) -> Result<(), StoreError> {
        self.write_later();
        match self.present_files() {
            Some(files) => files.restarted(restart),
            None => Ok(()),
        }
    }

    /// A token that is cancelled when this attempt is.
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

    /// Forgets the token of an attempt that has ended; one that was cut short is cancelled.
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

    /// A text without secrets.
    pub(crate) fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.settings.redactor {
            Some(redactor) => redactor.text(text),
            None => Cow::Borrowed(text),
        }
    }

    /// Says that the run was resumed.
    pub(crate) fn is_resumed(&self) {
        self.resumed.store(true, Ordering::Release);
    }

    /// Whether the run was resumed and nobody has asked since.
    pub(crate) fn take_resumed(&self) -> bool {
        self.resumed.swap(false, Ordering::AcqRel)
    }

    /// Keeps a failure to write; it ends the run.
    pub(crate) fn broken(&self, failure: StoreError) {
        lock(&self.own).failure.get_or_insert(failure);
        self.has_failed.store(true, Ordering::Release);
    }

    /// Looks whether a failure is one of the disk, or another owner's doing, and not of the stage that is told of it.
    pub(crate) fn may_be_broken(&self, failure: &StoreError) {
        if let Some(failure) = failure.of_all() {
            self.broken(failure);
        }
    }

    /// Ends the run if its folder is not this process's any more, or is gone, even while its stages run.
    pub(crate) fn check_folder(&self) {
        if let Some(Err(failure)) = self.store.as_ref().map(|store| store.still_mine()) {
            self.broken(failure);
            self.stop.request("the run folder is lost".to_owned());
        }
    }

    /// Whether something could not be written.
    pub(crate) fn is_broken(&self) -> bool {
        let artifacts = self.artifacts.get();
        self.has_failed.load(Ordering::Acquire) || artifacts.is_some_and(ArtifactStore::has_failed)
    }

    /// The first failure to write.
    pub(crate) fn take_failure(&self) -> Option<StoreError> {
        if !self.is_broken() {
            return None;
        }
        let artifacts = || self.artifacts.get().and_then(ArtifactStore::take_failure);
        lock(&self.own).failure.take().or_else(artifacts)
    }

    /// How often a node was simulated before.
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

    /// Goes on counting how often nodes were simulated.
    pub(crate) fn simulated_before(&self, turns: &[(u32, usize)]) {
        let turns = turns.iter().filter(|(_, turns)| *turns > 0);
        lock(&self.own).turns = turns.map(|(node, turns)| (NodeIndex(*node), turns - 1)).collect();
    }

    /// The artifacts, read from the run folder at the first need (Attractor 5.5).
    pub(crate) fn artifacts(&self) -> Result<ArtifactStore, ArtifactError> {
        if let Some(artifacts) = self.artifacts.get() {
            return Ok(artifacts.clone());
        }
        let keeping = Keeping {
            threshold: self.settings.artifact_threshold,
            files: self.settings.files(),
            durability: self.settings.durability(),
            clock: self.settings.clock.clone(),
            redactor: self.settings.redactor.clone(),
            ..Keeping::default()
        };
        let opened = match self.store.clone() {
            Some(store) => {
                let folder = store.folder().to_owned();
                let guard = Arc::new(move || store.still_mine());
                ArtifactStore::kept_in(&folder, Keeping { guard, ..keeping })?
            }
            None => ArtifactStore::kept_in_memory(keeping),
        };
        Ok(self.artifacts.get_or_init(|| opened).clone())
    }

    /// How many changes the artifacts have seen; `None` where nobody looked at them.
    pub(crate) fn artifact_changes(&self) -> Option<u64> {
        self.artifacts.get().map(ArtifactStore::changes)
    }

    /// How many artifacts the run has.
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

    /// Nothing is stored any more.
    pub(crate) fn close_artifacts(&self) {
        if let Some(Err(error)) = self.artifacts.get().map(ArtifactStore::close) {
            tracing::warn!("the index of the artifacts is not closed: {error}");
        }
    }

    /// An attempt that the stop of the run cut short begins again: what it did to the artifacts is void (rule D1).
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

    /// Keeps a stage among those that run, where somebody may want to know.
    pub(crate) fn activate(&self, id: &EffectId) -> Option<Arc<ActiveStage>> {
        let folder = match self.origin.watched {
            Watched::No => return None,
            Watched::Yes => None,
            // Now it is open for this visit; later another may have begun.
            Watched::AndSteered => self.stage_dir(id).ok(),
        };
        let stage = Arc::new(ActiveStage::new(id, folder));
        lock(&self.own).active.push(stage.clone());
        Some(stage)
    }

    /// The stages that run, in the order in which they began; only a watched run knows.
    pub(crate) fn active_stages(&self) -> Vec<Arc<ActiveStage>> {
        let mut own = lock(&self.own);
        own.active.retain(|stage| !stage.is_over());
        own.active.clone()
    }

    /// Keeps an instruction until a stage reads it.
    pub(crate) fn instruct(&self, instruction: Instruction) {
        lock(&self.own).instructions.push(instruction);
    }

    /// Takes the instructions that a stage of this run may read: those that were given to it or to a stage that is over,
    /// and those that were given to the stage around this run.
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

    /// Keeps a run that a stage of this one has started, so that its questions can be answered from here.
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

    /// The open questions of this run, and of those that its stages have started.
    pub(crate) fn open_questions(&self) -> Vec<Question> {
        let mut open = self.questions.list();
        open.extend(self.long.get().iter().flat_map(|long| long.asked.list()));
        open.extend(self.children().iter().flat_map(|child| child.open_questions()));
        open
    }

    /// The same with the tokens by which other processes answer them.
    pub(crate) fn questions_with_tokens(&self) -> Result<Vec<(Question, QuestionToken)>, TokenError> {
        let mut open = self.questions.with_tokens()?;
        if let Some(long) = self.long.get() {
            open.extend(long.asked.with_tokens()?);
        }
        for child in self.children() {
            open.extend(child.questions_with_tokens()?);
        }
        Ok(open)
    }

    /// Answers a question of this run or, where it has none of that name, of one that its stages have started.
    pub(crate) fn answer(&self, named: QuestionRef<'_>, answer: Answer) -> Result<(), AnswerError> {
        let mut answered = self.questions.answer(named, answer.clone());
        if let (Err(AnswerError::NoQuestion { open, .. }), Some(long)) = (&mut answered, self.long.get()) {
            match long.asked.answer(named, answer.clone()) {
                Err(AnswerError::NoQuestion { open: others, .. }) => open.extend(others),
                other => return other,
            }
        }
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

    /// The files whose names are moved away when another process takes the run over; open as long as the run lives.
    #[cfg(unix)]
    pub(crate) fn locks(&self) -> Vec<RawFd> {
        self.store.as_ref().map(|store| store.locks()).unwrap_or_default()
    }

    /// Returns whether no other process has taken the run over (rule D5).
    pub(crate) fn is_owned(&self) -> bool {
        let store = self.store.as_ref();
        store.is_none_or(|store| store.still_mine().is_ok())
    }

    /// Keeps the socket at which other processes reach the run, until the run is closed.
    pub(crate) fn listens_at(&self, socket: SocketFile) {
        let mut own = lock(&self.own);
        if !self.sink.is_closed() {
            own.control = Some(socket);
        }
    }

    /// Lets go of what only a running run needs.
    pub(crate) fn close(&self) {
        self.sink.close();
        self.close_artifacts();
        let mut own = lock(&self.own);
        let (temporary, control) = (own.temporary.take(), own.control.take());
        drop(own);
        drop((temporary, control));
    }
}
