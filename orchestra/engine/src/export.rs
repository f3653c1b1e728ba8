//! Copies of runs that another process decides about, as run folders.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use orchestra_core::{
    Budget, Context, FailureCategory, Outcome, RunFailure, SavedState, SharedPipeline, State, Status,
};
use orchestra_graph::{Role, kind};
use serde_json::value::to_raw_value;

use crate::builtin::status;
use crate::clock::Timestamp;
use crate::event::{EventKind, NodeName, RunEvent, StageRef};
use crate::id::RunId;
use crate::journal::records::{CheckpointState, Entry, Record};
use crate::run::hosted_text::HostedText;
use crate::run::stage_files::StageFiles;
use crate::run::stored_text::parse_record;
use crate::run_status::RunStatus;
use crate::setup::pinned_source::pin;
use crate::store::{
    CHECKPOINT, Checkpoint, Durability, ExportTarget, FolderStore, JOURNAL, Manifest, PROTOCOL, RunStore,
    SCHEMA, StageFile, StoreError, present_copy,
};

/// The fencing token of the only owner that a copy has had.
const FENCING_TOKEN: u64 = 1;

/// Whether a run that another process decides about goes on.
///
/// ```
/// use orchestra_engine::ExportedPhase;
/// fn is_over(phase: &ExportedPhase) -> bool {
///     matches!(phase, ExportedPhase::Ended(_))
/// }
/// assert!(is_over(&ExportedPhase::Ended(None)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ExportedPhase {
    /// The run goes on.
    Running,
    /// The run was paused with this failure.
    Paused(RunFailure),
    /// The run has ended; with a failure, unless it succeeded.
    Ended(Option<RunFailure>),
}

/// A run that another process decides about, to be copied to a run folder.
///
/// [`write`](ExportedRun::write) stores the copy. Everything that reads run folders reads it: [`RunFolder`](crate::RunFolder),
/// the index of runs, and the commands that show runs. The other process has no journal of the machine, so the journal of
/// the copy has two records: the beginning, and the exported state. A [replay](crate::Engine::replay) can start from the
/// beginning (`cp_000000`), or from the exported state (`cp_000001`) if the run had not ended. Nobody but the other process
/// may go on with the run itself, so a copy is never resumed, answered or cancelled: that is refused with
/// [`StoreError::Exported`].
///
/// ```
/// use orchestra_core::{Context, Machine};
/// use orchestra_engine::{EventKind, ExportedPhase, ExportedRun, RunEvent, RunFolder, RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = orchestra_engine::SharedPipeline::from(loaded.pipeline().expect("sound"));
/// let (run, at) = (RunId::new("nightly-7")?, Timestamp::from_millis(1_000));
/// let machine = Machine::start(pipeline.clone(), Context::new(), 7, &mut Vec::new());
/// let mut exported = ExportedRun::new(run.clone(), "http://127.0.0.1:8080", pipeline, machine.saved());
/// (exported.started, exported.time) = (at, at);
/// exported.phase = ExportedPhase::Ended(None);
/// let kind = EventKind::PipelineStarted { name: "hello".to_owned(), goal: String::new() };
/// exported.events.push(RunEvent { seq: 1, time: at, run, kind });
///
/// let folder = directory.path().join("nightly-7");
/// assert!(exported.write(&folder)?);
/// assert!(!exported.write(&folder)?, "nothing has changed");
/// let copy = RunFolder::open(&folder)?;
/// assert_eq!(copy.manifest().exported_from.as_deref(), Some("http://127.0.0.1:8080"));
/// assert_eq!(copy.checkpoint()?.expect("the exported state").completed_nodes, ["start", "exit"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportedRun {
    /// The id of the run.
    pub run: RunId,
    /// The address at which the run is reached.
    pub server: String,
    /// The pipeline that the run follows.
    pub pipeline: SharedPipeline,
    /// The initial values of the context.
    pub params: Context,
    /// The limits on the usage of the run.
    pub budget: Budget,
    /// The time at which the run started.
    pub started: Timestamp,
    /// The time of the state.
    pub time: Timestamp,
    /// The time for which the run had been executed until then.
    pub executed: Duration,
    /// The state of the machine.
    pub machine: SavedState,
    /// Whether the run goes on.
    pub phase: ExportedPhase,
    /// All events so far.
    pub events: Vec<RunEvent>,
    /// The texts that stages stored, with the number of restarts of the run before. Of texts for the same file of the same
    /// visit, the last one counts.
    pub texts: Vec<(u32, HostedText)>,
}

/// The copy of a run in a run folder.
///
/// ```
/// use orchestra_engine::ExportedCopy;
/// let folder = tempfile::tempdir()?;
/// assert_eq!(ExportedCopy::read(folder.path().join("nightly-7"))?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportedCopy {
    /// The address at which the run is reached.
    pub server: String,
    /// The time at which the run started.
    pub started: Timestamp,
    /// The time of the copied state.
    pub time: Timestamp,
    /// The number of events.
    pub events: u64,
    /// `true` if the run had ended, so that the copy is final.
    pub has_ended: bool,
}

impl ExportedCopy {
    /// Reads the facts of a copy. Returns `None` if the folder is missing or empty.
    ///
    /// # Errors
    /// Fails if the folder holds something else, or a damaged copy.
    pub fn read(folder: impl AsRef<Path>) -> Result<Option<ExportedCopy>, StoreError> {
        let Some(present) = present_copy(folder.as_ref())? else {
            return Ok(None);
        };
        let (time, events) = present.taken;
        let is_open = |status: &str| status == RUNNING || status == RunStatus::Paused.word();
        Ok(Some(ExportedCopy {
            server: present.manifest.exported_from.unwrap_or_default(),
            started: present.manifest.started,
            time,
            events,
            has_ended: present
                .checkpoint
                .is_some_and(|checkpoint| !is_open(&checkpoint.status)),
        }))
    }
}

/// The status of a run that goes on, in a checkpoint.
const RUNNING: &str = "running";

impl ExportedRun {
    /// Creates the copy of a run without events and texts, in a state of its machine.
    pub fn new(
        run: RunId,
        server: impl Into<String>,
        pipeline: SharedPipeline,
        machine: SavedState,
    ) -> ExportedRun {
        ExportedRun {
            run,
            server: server.into(),
            pipeline,
            params: Context::new(),
            budget: Budget::default(),
            started: Timestamp::from_millis(0),
            time: Timestamp::from_millis(0),
            executed: Duration::ZERO,
            machine,
            phase: ExportedPhase::Running,
            events: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Writes the copy to a folder, which becomes a run folder. An earlier copy is replaced as a whole, so readers see one
    /// or the other. Returns whether the folder was changed. Blocks for as long as that takes.
    ///
    /// # Errors
    /// The state does not fit the pipeline, the folder holds a run that is no copy of this one, another process is writing
    /// the copy, or the disk fails.
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<bool, StoreError> {
        let folder = folder.as_ref();
        let state = self.machine.clone().restore(&self.pipeline);
        let state = state.map_err(|error| StoreError::damaged_state(folder, &error))?;
        let manifest = self.manifest(&state);
        let target = ExportTarget::open(folder, &manifest.belonging())?;
        if let Some(present) = ExportedCopy::read(folder)?
            && (present.time, present.events) >= (self.time, self.last_event())
        {
            return Ok(false);
        }
        let store = target.create()?;
        self.write_journal(&store, &manifest, &state)?;
        store.close()?;
        target.publish()?;
        Ok(true)
    }

    /// Returns the sequence number of the last event.
    fn last_event(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    fn manifest(&self, state: &State) -> Manifest {
        let (pipeline, children) = pin(&self.pipeline);
        Manifest {
            schema: SCHEMA.to_owned(),
            protocol: PROTOCOL,
            run: self.run.to_string(),
            name: self.pipeline.name.to_string(),
            goal: self.pipeline.goal().to_owned(),
            file: self.pipeline.file.to_string(),
            started: self.started,
            seed: state.totals.seed,
            simulated: false,
            script: None,
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            durability: Durability::Full,
            pipeline,
            children,
            params: self.params.clone(),
            max_time: None,
            budget: self.budget,
            workspace: None,
            replayed_from: None,
            exported_from: Some(self.server.clone()),
        }
    }

    fn write_journal(
        &self,
        store: &FolderStore,
        manifest: &Manifest,
        state: &State,
    ) -> Result<(), StoreError> {
        let identity = Some(manifest.belonging());
        let begin = Entry::Begin {
            run: manifest.run.clone(),
            protocol: PROTOCOL,
            identity: identity.clone(),
            boot: None,
        };
        append(store, self.started, 0, begin)?;
        for event in &self.events {
            store.event(event)?;
        }
        let failure = match &self.phase {
            ExportedPhase::Running => None,
            ExportedPhase::Paused(failure) => Some(failure),
            ExportedPhase::Ended(failure) => failure.as_ref(),
        };
        let reached = CheckpointState {
            machine: self.machine.clone(),
            timers: Vec::new(),
            turns: Vec::new(),
            due: Vec::new(),
            elapsed: u64::try_from(self.executed.as_nanos()).unwrap_or(u64::MAX),
            failure: failure
                .filter(|_| matches!(self.phase, ExportedPhase::Ended(_)))
                .cloned(),
        };
        let json = |source| StoreError::Json {
            path: store.folder().join(CHECKPOINT),
            source,
        };
        let saved = to_raw_value(&reached).map_err(json)?;
        let restored = Entry::Restored {
            state: Box::new(reached),
            identity: identity.clone(),
        };
        append(store, self.time, self.last_event(), restored)?;
        self.write_stages(store)?;
        let status = match &self.phase {
            ExportedPhase::Running => RUNNING,
            _ => RunStatus::from_failure(failure).word(),
        };
        let checkpoint = Checkpoint::new(&manifest.run, self.time, &self.pipeline, state, status, failure);
        store.checkpoint(&checkpoint.with_state(saved, store.position(), identity))?;
        // A folder without a manifest is not a run.
        store.manifest(manifest)
    }

    /// Writes the files of stages, in the order of the events.
    fn write_stages(&self, store: &FolderStore) -> Result<(), StoreError> {
        let mut stages = StageWriter {
            pipeline: &self.pipeline,
            files: StageFiles::new(&self.pipeline),
            store,
            restart: 0,
            texts: HashMap::new(),
        };
        for (restart, text) in &self.texts {
            let visit = stages.texts.entry((*restart, text.record.clone())).or_default();
            visit.retain(|earlier| earlier.file != text.file);
            visit.push(text);
        }
        self.events.iter().try_for_each(|event| stages.write(&event.kind))
    }
}

/// Writes the files of stages.
struct StageWriter<'e> {
    pipeline: &'e SharedPipeline,
    files: StageFiles,
    store: &'e FolderStore,
    /// The number of restarts so far.
    restart: u32,
    /// The texts that are not written yet, by the number of restarts and the record of the visit.
    texts: HashMap<(u32, String), Vec<&'e HostedText>>,
}

impl StageWriter<'_> {
    fn write(&mut self, event: &EventKind) -> Result<(), StoreError> {
        match event {
            EventKind::PipelineRestarted { restart, .. } => {
                self.restart = *restart;
                self.store.restarted(*restart)
            }
            EventKind::InterviewStarted { node, question, .. } => {
                self.write_interview(node, &question.id, StageFile::Prompt, &question.text)
            }
            EventKind::InterviewCompleted {
                node,
                question_id,
                answer,
                ..
            } => self.write_interview(node, question_id, StageFile::Response, answer),
            EventKind::StageCompleted {
                stage,
                outcome,
                preferred_label,
                notes,
                ..
            } => {
                let mut ended = Outcome::new(outcome.clone());
                ended.preferred_label.clone_from(preferred_label);
                ended.notes.clone_from(notes);
                self.write_end(stage, Some(&ended))
            }
            EventKind::StageFailed {
                stage,
                error,
                category,
                ..
            } => self.write_end(stage, Some(&failed(error, *category))),
            EventKind::StageCancelled { stage, .. } => self.write_end(stage, None),
            _ => Ok(()),
        }
    }

    /// Writes the texts of a visit, and its outcome as far as its event says.
    fn write_end(&mut self, stage: &StageRef, outcome: Option<&Outcome>) -> Result<(), StoreError> {
        let record = match &stage.branch {
            Some(branch) => format!("{branch}/{}#{}", stage.node, stage.visit),
            None => format!("{}#{}", stage.node, stage.visit),
        };
        let parsed =
            parse_record(&record).map(|(node, branch, visit)| (self.pipeline.find(node), branch, visit));
        let Some((Some(node), branch, visit)) = parsed else {
            return Ok(());
        };
        let location = self.files.location_in_branch(self.pipeline, node, branch);
        let texts = self.texts.remove(&(self.restart, record)).unwrap_or_default();
        for text in texts {
            self.store.stage(location.as_ref(), visit)?;
            self.store
                .write(location.as_ref(), text.file, text.text.as_bytes())?;
        }
        let Some(outcome) = outcome else { return Ok(()) };
        let is_exit = self.pipeline.stage(node).row().role == Role::Exit;
        // As in a run of the engine, a stage that succeeds without files gets no folder.
        if is_exit || outcome.status.is_success() && !self.store.has_folder(location.as_ref()) {
            return Ok(());
        }
        self.store.stage(location.as_ref(), visit)?;
        self.store
            .write(location.as_ref(), StageFile::Status, &status::write(outcome))
    }

    /// Writes the question of a gate, or its answer.
    fn write_interview(
        &self,
        node: &NodeName,
        question: &str,
        file: StageFile,
        text: &str,
    ) -> Result<(), StoreError> {
        // The id of a gate's question is the name of its attempt, such as `restart-1/approve#2/1`.
        let attempt = question.strip_prefix(&*format!("restart-{}/", self.restart));
        let record = attempt
            .unwrap_or(question)
            .rsplit_once('/')
            .map(|(record, _)| record);
        let gate = self.pipeline.find(node);
        let is_gate = |index| self.pipeline.stage(index).kind() == kind::WAIT_HUMAN;
        if let Some(index) = gate.filter(|index| is_gate(*index))
            && let Some((_, branch, visit)) = record.and_then(parse_record)
        {
            let location = self.files.location_in_branch(self.pipeline, index, branch);
            self.store.stage(location.as_ref(), visit)?;
            self.store.write(location.as_ref(), file, text.as_bytes())?;
        }
        Ok(())
    }
}

fn failed(error: &str, category: FailureCategory) -> Outcome {
    let mut outcome = Outcome::new(Status::Fail);
    outcome.failure_reason = Some(error.to_owned());
    outcome.failure_category = category;
    outcome
}

fn append(store: &FolderStore, at: Timestamp, events: u64, entry: Entry) -> Result<(), StoreError> {
    let record = Record {
        fencing_token: FENCING_TOKEN,
        at: at.as_millis(),
        real: 0,
        events,
        unapplied: 0,
        artifacts: 0,
        entry,
    };
    let json = serde_json::to_vec(&record).map_err(|source| StoreError::Json {
        path: store.folder().join(JOURNAL),
        source,
    })?;
    store.append(&json).map(drop)
}
