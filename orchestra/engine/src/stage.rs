//! What a handler sees of its stage.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orchestra_core::{Answer, Budget, Context, EffectId, Question, Reply, Usage};
use orchestra_graph::table::Constant;
use orchestra_graph::{Pipeline, Stage};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::artifacts::{ArtifactError, ArtifactStore};
use crate::builtin::codergen::keep;
use crate::clock::{Sleep, Timestamp};
use crate::control::control_folders;
use crate::event::EventKind;
use crate::id::RunId;
use crate::interview::{AskError, ask_until_accepted};
use crate::ledger::{OverBudget, Reservation, budget_of, stricter};
use crate::output::TextStream;
use crate::ownership::RunOwnership;
use crate::redact::Redactor;
use crate::requests::Request;
use crate::run::{Place, Run};
use crate::steering::{Active, ActiveStage};
use crate::store::{StageFile, StoreError};
use crate::stored_text::StoredText;
use crate::surroundings::{Fidelity, PastStage, Surroundings};
use crate::workspace::{Workplace, WorkspaceStage};

/// What a handler sees of its stage; cheap to clone (Attractor 4.1).
///
/// ```
/// use orchestra_engine::{Outcome, StageContext};
/// async fn count(stage: StageContext) -> Outcome {
///     let before = stage.context().get("count").and_then(|count| count.as_u64()).unwrap_or(0);
///     stage.log(format!("visit {} of `{}`", stage.visit(), stage.node().id()));
///     Outcome::success().set("count", before + 1)
/// }
/// ```
#[derive(Clone)]
pub struct StageContext {
    run: Arc<Run>,
    id: EffectId,
    context: Context,
    active: Option<Arc<ActiveStage>>,
    is_repeat: bool,
    /// What the attempt noted before it was cut short.
    notes: Option<Arc<[Value]>>,
    /// The answer to its next question, which came before this attempt was made again.
    answer: Option<Arc<Mutex<Option<Answer>>>>,
    /// Where it works; nothing where the run has no workspace.
    placed: Option<Arc<Placed>>,
}

/// Where a stage works.
struct Placed {
    place: Workplace,
    folder: PathBuf,
    files: Box<WorkspaceStage>,
}

impl StageContext {
    /// What a handler sees; `is_repeat` says whether the attempt was in flight when the run stopped.
    pub(crate) fn new(
        run: Arc<Run>,
        id: EffectId,
        context: Context,
        is_repeat: bool,
        notes: Option<Arc<[Value]>>,
    ) -> StageContext {
        let active = run.activate(&id);
        // An attempt that goes on behind its notes does not store again what it stored before them.
        if is_repeat && notes.is_none() {
            run.attempt_repeats(&id.name(&run.pipeline));
        }
        StageContext {
            run,
            id,
            context,
            active,
            is_repeat,
            notes,
            answer: None,
            placed: None,
        }
    }

    /// Gives the stage the answer to its next question.
    pub(crate) fn answered(mut self, answer: Option<Answer>) -> StageContext {
        self.answer = answer.map(|answer| Arc::new(Mutex::new(Some(answer))));
        self
    }

    /// Takes the answer that came before the question was put again, if it is one that the question takes.
    fn given_answer(&self, question: &Question) -> Option<Answer> {
        let given = self.answer.as_ref()?;
        let answer = given.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        match question.accept(&answer) {
            Ok(_) => Some(answer),
            Err(refused) => {
                self.log(format!("an earlier answer is not taken: {refused}"));
                None
            }
        }
    }

    /// The same with files to work on.
    pub(crate) fn placed(mut self, place: Workplace, files: Box<WorkspaceStage>) -> StageContext {
        let named = self.node().text("repo").and_then(|name| place.repository(name));
        let folder = named.unwrap_or(place.root());
        let folder = match self.run.below() {
            Some(below) => folder.join(below),
            None => folder.to_owned(),
        };
        self.placed = Some(Arc::new(Placed { place, folder, files }));
        self
    }

    /// The node, with its attributes.
    pub fn node(&self) -> Stage<'_> {
        self.run.pipeline.stage(self.id.node)
    }

    /// An attribute of the node.
    pub fn attribute(&self, name: &str) -> Option<&Constant> {
        self.node().attribute(name)
    }

    /// The pipeline that the run follows.
    pub fn pipeline(&self) -> &Pipeline {
        &self.run.pipeline
    }

    /// The goal of the pipeline; empty where it has none.
    pub fn goal(&self) -> &str {
        self.run.pipeline.goal()
    }

    /// The run's context as it was when the stage began. A change is made by the outcome.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The run.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// Which visit of the node this is, from 1.
    pub fn visit(&self) -> u32 {
        self.id.visit
    }

    /// Which attempt of the visit this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.id.attempt
    }

    /// Which of the attempts this is that the node may have, from 1, and how many those are at most (rule Y1).
    pub fn attempts(&self) -> (u32, u32) {
        (self.id.attempt, self.node().row().retry.attempts)
    }

    /// The branch of a parallel block in which the stage runs, such as `fan#1:left`; `None` on the main line.
    pub fn branch(&self) -> Option<String> {
        (!self.id.branch.is_empty()).then(|| self.id.branch.name(&self.run.pipeline))
    }

    /// Asks a person something, besides the gates of the pipeline (Attractor 6.1): the engine's interviewer, and whoever
    /// [looks at the run](crate::RunHandle::questions) from outside. The first answer counts. One that the question does not
    /// take is asked for again. The question's own time-out, if it has one, is for the handler to keep. An answer that was
    /// given while nobody executed the run ([`PausedRun::answer`](crate::PausedRun::answer)) is returned at once.
    ///
    /// # Errors
    /// The engine has no interviewer or nobody can be asked, which suspends the run; or the question could not be put.
    pub async fn ask(&self, mut question: Question) -> Result<Answer, AskError> {
        if let Some(answer) = self.given_answer(&question) {
            return Ok(answer);
        }
        let Some(interviewer) = &self.run.settings.interviewer else {
            return Err(AskError::waits("the engine has no interviewer"));
        };
        if question.node.is_empty() {
            self.node().id().clone_into(&mut question.node);
        }
        if let Some(redactor) = &self.run.settings.redactor {
            redactor.question(&mut question);
        }
        let run = &self.run;
        let (_open, outside) = run.long().asked.open(&mut question, &self.attempt_key());
        if run.sink.wanted() {
            run.emit(EventKind::InterviewStarted {
                node: run.name(self.id.node),
                branch: self.branch(),
                question: Box::new(question.clone()),
            });
        }
        let began = run.settings.clock.elapsed();
        let answer = tokio::select! {
            biased;
            Ok(answer) = outside => answer,
            answer = ask_until_accepted(interviewer, &question) => answer.map_err(AskError::of_interviewer)?,
        };
        if run.sink.wanted() {
            run.emit(EventKind::InterviewCompleted {
                node: run.name(self.id.node),
                branch: self.branch(),
                question: question.text.clone(),
                answer: run.redacted(&said(&answer)).into_owned(),
                answered_by: answer.by,
                duration: run.settings.clock.elapsed().saturating_sub(began),
            });
        }
        Ok(answer)
    }

    /// Asks a person as [`ask`](StageContext::ask) does, and takes no silence for an answer: one that is skipped or timed
    /// out suspends the run until somebody answers.
    ///
    /// # Errors
    /// As those of [`ask`](StageContext::ask).
    pub async fn require_answer(&self, question: Question) -> Result<Answer, AskError> {
        let answer = self.ask(question).await?;
        match answer.reply {
            Reply::Skipped | Reply::TimedOut => Err(AskError::waits("the question was not answered")),
            _ => Ok(answer),
        }
    }

    /// The time, by the engine's clock, which a test may have replaced.
    pub fn now(&self) -> Timestamp {
        self.run.settings.clock.now()
    }

    /// Waits by the engine's clock, which a test may have replaced.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.run.settings.clock.sleep(duration)
    }

    /// Returns what says whether the run of this stage, or that around it, is still this process's: for what changes things
    /// outside of the run folder.
    pub fn ownership(&self) -> RunOwnership {
        RunOwnership::of(&self.run.outermost())
    }

    /// A key such as `build#2/1` that is the same when the attempt is repeated after a crash, for calls that must
    /// not happen twice.
    pub fn attempt_key(&self) -> String {
        self.id.name(&self.run.pipeline)
    }

    /// Returns a key such as `20260101-120000-1a2b3c/build#2` that no other stage of any run has, and that is the same for
    /// every attempt of this visit of the node: what it identifies must happen once, however often it is tried.
    pub fn stage_key(&self) -> String {
        let attempt = self.attempt_key();
        let visit = attempt.rsplit_once('/').map_or(&*attempt, |(visit, _)| visit);
        format!("{}/{visit}", self.run_id())
    }

    /// Whether this attempt was in flight when the run stopped, and is run again (rule D1). What it did outside of the
    /// run may have happened already; [`attempt_key`](StageContext::attempt_key) is the same as then.
    pub fn is_repeat(&self) -> bool {
        self.is_repeat
    }
    /// Keeps something for the case that this attempt is cut short and repeated: what a long stage has done so far. It
    /// returns when the note is as durable as the outcome of a stage (rule D1), and never where the run stops first.
    ///
    /// What the attempt used until then is kept too.
    pub async fn note(&self, note: impl Into<Value>) {
        self.keep_note(note.into(), false).await;
    }

    /// As [`note`](StageContext::note); the run can also be replayed from here, by a checkpoint of its own.
    pub async fn note_checkpoint(&self, note: impl Into<Value>) {
        self.keep_note(note.into(), true).await;
    }

    async fn keep_note(&self, note: Value, checkpoint: bool) {
        if let (true, Some(placed), Some(work)) = (checkpoint, &self.placed, self.run.work_files()) {
            match work.session.save(&placed.files).await {
                Ok(Some(snapshot)) => work.keep(&self.id, snapshot),
                Ok(None) => {}
                Err(error) => self.log(format!("the files are not in this checkpoint: {error}")),
            }
        }
        let (done, kept) = oneshot::channel();
        let id = self.id.clone();
        self.run.request(Request::Note {
            id,
            note,
            checkpoint,
            done,
        });
        if kept.await.is_err() {
            // The driver is gone, and this stage with it.
            std::future::pending::<()>().await;
        }
    }

    /// What the attempt noted before it was cut short; empty where it was not.
    pub fn notes(&self) -> &[Value] {
        self.notes.as_deref().unwrap_or_default()
    }

    /// Where in the run the stage is: what came before it, and how much of that its model may see (Attractor 5.4).
    ///
    /// The first stage that asks after a resume, and would see a whole conversation, is given `summary:high` instead
    /// (rule D7).
    pub async fn surroundings(&self) -> Surroundings {
        let (done, told) = oneshot::channel();
        let id = self.id.clone();
        self.run.request(Request::Look { id, done });
        let mut around = told.await.unwrap_or_else(|_| Surroundings::unknown());
        around.tools = self.run.tool_calls();
        // A stage that goes on behind its notes has its conversation in them.
        if around.fidelity == Fidelity::Full && self.notes().is_empty() && self.run.take_resumed() {
            around.fidelity = Fidelity::SummaryHigh;
            around.degraded = true;
        }
        around
    }

    /// Returns how nodes ended last, as this stage sees them: in its branch, else on the line around it (rule F1). Nodes that
    /// have not ended are left out. Without names all nodes are meant.
    ///
    /// ```
    /// use orchestra_engine::{CodergenBackend, CodergenReply, CodergenRequest, BackendError, Engine, StageFile};
    /// # use orchestra_graph::{Source, load};
    /// struct Echo;
    /// impl CodergenBackend for Echo {
    ///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
    ///         let stage = request.stage;
    ///         let plan = stage.latest_stages(Some(vec!["plan".to_owned()])).await;
    ///         let record = plan.first().and_then(|plan| plan.record.clone());
    ///         let text = record.and_then(|record| stage.stage_text(&record, StageFile::Response, 1 << 20));
    ///         Ok(text.map_or("three steps".to_owned(), |text| format!("did: {text}")).into())
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let text = "digraph { start -> plan -> write -> exit; plan [prompt=a]; write [prompt=b] }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let engine = Engine::builder().backend(Echo).build()?;
    /// let result = engine.start_loaded(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.context.text("last_response"), "did: three steps");
    /// # Ok(()) }
    /// ```
    pub async fn latest_stages(&self, nodes: Option<Vec<String>>) -> Vec<PastStage> {
        let (done, told) = oneshot::channel();
        let id = self.id.clone();
        self.run.request(Request::Latest { id, nodes, done });
        told.await.unwrap_or_default()
    }

    /// Reads what an earlier stage left, named by its [record](PastStage::record): the whole text where it has at most
    /// `most` bytes, else both ends. `None` where the stage left nothing of that kind.
    pub fn stage_text(&self, record: &str, file: StageFile, most: usize) -> Option<StoredText> {
        self.run.stage_text(record, file, most)
    }

    /// Replaces what `prompt.md` of the stage says by what the model was really told.
    ///
    /// # Errors
    /// The run folder cannot be written; the run ends as soon as the stage does.
    pub fn keep_prompt(&self, text: &str) -> Result<(), StoreError> {
        self.keep(StageFile::Prompt, text)
    }

    /// Writes `response.md` of the stage; for those that give an outcome and no text.
    ///
    /// # Errors
    /// The run folder cannot be written; the run ends as soon as the stage does.
    pub fn keep_response(&self, text: &str) -> Result<(), StoreError> {
        self.run.remember(&self.id, StageFile::Response, text);
        self.keep(StageFile::Response, text)
    }

    /// Keeps the conversation of the stage with its model, for stages that go on with it (rule F5). Its form is the
    /// backend's own.
    ///
    /// # Errors
    /// The run folder cannot be written; the run ends as soon as the stage does.
    pub fn keep_conversation(&self, text: &str) -> Result<(), StoreError> {
        self.run.remember(&self.id, StageFile::Conversation, text);
        self.keep(StageFile::Conversation, text)
    }

    /// Names this visit of the node, such as `fan#1:left/build#2`, for [`stage_text`](StageContext::stage_text).
    pub fn record(&self) -> String {
        let name = self.attempt_key();
        let name = match self.id.restart {
            0 => name.as_str(),
            _ => name.split_once('/').map_or(name.as_str(), |(_, name)| name),
        };
        name.rsplit_once('/')
            .map_or(name, |(record, _)| record)
            .to_owned()
    }

    fn keep(&self, file: StageFile, text: &str) -> Result<(), StoreError> {
        let kept = keep(self, file, text);
        if let Err(failure) = &kept {
            self.run.may_be_broken(failure);
        }
        kept
    }

    /// Something that all stages of the run share, made when the first one asks; it goes when the run ends, and is not
    /// there after a resume.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.run.shared_data()
    }

    /// A text without the secrets that the engine [knows of](crate::EngineBuilder::secrets).
    pub fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.run.redacted(text)
    }

    /// What takes secrets out; `None` where the engine knows of none.
    pub fn redactor(&self) -> Option<&Redactor> {
        self.run.settings.redactor.as_ref()
    }

    /// Something that takes a text as it comes and tells it, without secrets, to those who want to see it now
    /// ([`EngineBuilder::on_text`](crate::EngineBuilder::on_text)). It is kept nowhere.
    pub fn text(&self) -> TextStream {
        TextStream::of(&self.run, &self.id)
    }

    /// What bounds the calls of this stage: budgets of the run, of the stage's node, and of those around them, the least of
    /// each kind.
    pub fn budget(&self) -> Budget {
        let own = budget_of(|name| self.node().attribute(name));
        stricter(own, self.run.bounds())
    }

    /// Sets aside what a call of a model may use at most. Where other calls have set aside too much, it waits for them;
    /// so calls that are made only with a reservation never go beyond what the run may use.
    ///
    /// # Errors
    /// The call might go beyond what the run, or the node by its own `max_tokens` and `max_cost`, may use. A backend
    /// that returns the error suspends the run, or fails the stage where it is the node's budget.
    pub async fn reserve(&self, most: Usage) -> Result<Reservation, OverBudget> {
        Reservation::of(&self.run, &self.id, most).await
    }

    /// The artifacts of the run, for data that is too large for its context (Attractor 5.5).
    ///
    /// # Errors
    /// Those that the run folder holds cannot be read, or are damaged.
    pub fn artifacts(&self) -> Result<ArtifactStore, ArtifactError> {
        Ok(self.run.artifacts()?.on_behalf_of(self.attempt_key()))
    }

    /// The run folder; `None` where nothing is kept.
    pub fn run_dir(&self) -> Option<&Path> {
        self.run.shown_dir()
    }

    /// Returns the folders that belong to the engine; models do not reach into them.
    #[doc(hidden)]
    pub fn engine_folders(&self) -> EngineFolders {
        let mut run = &self.run;
        while let Some(parent) = &run.origin.parent {
            run = &parent.run;
        }
        EngineFolders {
            runs: self.run.settings.runs_dir.clone(),
            run: run.run_dir().map(Path::to_owned),
            control: control_folders(),
        }
    }

    /// The folder of the stage, made at the first call. Without a run folder it is a temporary one, which is removed
    /// when the run has ended.
    ///
    /// # Errors
    /// The folder could not be made.
    pub fn stage_dir(&self) -> Result<PathBuf, StoreError> {
        let folder = self.run.stage_dir(&self.id);
        if let Err(failure) = &folder {
            self.run.may_be_broken(failure);
        }
        folder
    }

    /// The folder in which the work of the stage is to be done: that which a [workspace](StageContext::workplace) gives, of
    /// the repository that the node's `repo` names; that of a supervised pipeline (`stack.child_workdir`); `None` for the
    /// program's own.
    pub fn working_dir(&self) -> Option<&Path> {
        match &self.placed {
            Some(placed) => Some(&placed.folder),
            None => self.run.origin.working_dir.as_deref(),
        }
    }

    /// The files that the workspace of the run gives the stage; `None` where the run has none.
    pub fn workplace(&self) -> Option<&Workplace> {
        self.placed.as_ref().map(|placed| &placed.place)
    }

    /// A token that is cancelled when this attempt is: at its timeout, or when the run is cancelled. The handler's
    /// future is dropped then, so only tasks that the handler started on its own need this.
    pub fn cancellation(&self) -> CancellationToken {
        self.run.token(&self.id)
    }

    /// Takes the instructions of a manager loop that supervises this run, oldest first (Attractor 4.11, rule F7): those
    /// that were given while this stage runs, and those that no earlier stage read. An instruction that was repeated
    /// meanwhile is returned once.
    ///
    /// Each instruction also stands in the [folder of the stage](StageContext::stage_dir) that ran when it was given, as
    /// `steer-001.md`. This call renames that file to `steer-001.read.md` and emits a
    /// [`SteeringRead`](EventKind::SteeringRead) event.
    pub fn instructions(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for instruction in self.run.take_instructions(&self.id) {
            let file = instruction.mark_read();
            if self.run.sink.wanted() {
                self.run.emit(EventKind::SteeringRead {
                    node: self.run.name(self.id.node),
                    branch: self.branch(),
                    cycle: instruction.cycle,
                    instruction: self.run.redacted(&instruction.text).into_owned(),
                    file: file.map(|file| file.to_string_lossy().into_owned()),
                });
            }
            if !texts.contains(&instruction.text) {
                texts.push(instruction.text);
            }
        }
        texts
    }

    /// Tells those who follow the run, by an event.
    pub fn log(&self, message: impl Into<String>) {
        let message = self.run.redacted(&message.into()).into_owned();
        let node = self.run.name(self.id.node);
        tracing::info!(node = %node, "{message}");
        if self.run.sink.wanted() {
            self.run.emit(EventKind::StageLog { node, message });
        }
    }

    /// Adds to what this attempt has used of models: tokens, and what they cost. A stage may call it more than once,
    /// also before it fails; what an attempt used stands in the event of its end.
    pub fn record_usage(&self, usage: Usage) {
        if !usage.is_zero() {
            self.run.add_usage(&self.id, usage);
        }
    }

    /// Tells those who follow the run that a tool which the stage called has ended, and why it failed, if it did.
    pub fn record_tool_call(&self, tool: &str, duration: Duration, error: Option<&str>) {
        self.run.count_tool_call(self.id.node, tool, error.is_some());
        if self.run.sink.wanted() {
            self.run.emit(EventKind::ToolCallCompleted {
                node: self.run.name(self.id.node),
                branch: self.branch(),
                tool: self.run.redacted(tool).into_owned(),
                error: error.map(|error| self.run.redacted(error).into_owned()),
                duration,
            });
        }
    }

    /// To be kept as long as the stage runs, whatever the handler does with its context.
    pub(crate) fn active(&self) -> Option<Active> {
        self.active.clone().map(Active)
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Which files the stage has.
    pub(crate) fn id(&self) -> &EffectId {
        &self.id
    }

    pub(crate) fn place(&self) -> Place<'_> {
        self.run.place(&self.id)
    }
}

/// The folders that belong to the engine, wherever they are.
///
/// ```
/// assert!(orchestra_engine::EngineFolders::default().runs.is_none());
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct EngineFolders {
    /// The folder of run folders.
    pub runs: Option<PathBuf>,
    /// The folder of the run, or of the outermost run around it.
    pub run: Option<PathBuf>,
    /// Those in which the owners of runs listen.
    pub control: Vec<PathBuf>,
}

/// An answer in words.
pub(crate) fn said(answer: &Answer) -> String {
    match &answer.reply {
        Reply::Chosen(said) => said.join(", "),
        Reply::TimedOut => "timed out".to_owned(),
        _ => "skipped".to_owned(),
    }
}

impl fmt::Debug for StageContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageContext")
            .field("run", &self.run.id)
            .field("attempt", &self.attempt_key())
            .finish_non_exhaustive()
    }
}
