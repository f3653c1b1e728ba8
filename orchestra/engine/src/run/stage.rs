//! The view that a handler has of its stage.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orchestra_core::{Answer, Budget, Context, EffectId, Question, Usage};
use orchestra_graph::table::Constant;
use orchestra_graph::{Pipeline, Stage};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::artifacts::{ArtifactError, ArtifactStore};
use crate::budget::{OverBudget, node_budget, stricter};
use crate::clock::{Sleep, Timestamp};
use crate::event::EventKind;
use crate::id::RunId;
use crate::lock::lock;
use crate::ownership::RunOwnership;
use crate::process::ShellCommand;
use crate::redact::Redactor;
use crate::run::history::{Fidelity, PastStage, StageHistory};
use crate::run::model_output::TextStream;
use crate::run::requests::Request;
use crate::run::reservation::Reservation;
use crate::run::stage_files::OwnedStageFolder;
use crate::run::state::Run;
use crate::run::steering::{Active, ActiveStage};
use crate::run::stored_text::StoredText;
use crate::run::workplace::Workplace;
use crate::store::{StageFile, StoreError};

/// The view that a handler has of its stage; cheap to clone (Attractor 4.1).
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
    /// The notes that the attempt stored before it was interrupted.
    notes: Option<Arc<[Value]>>,
    /// The answer to the next question of the stage, if it was given before this attempt was repeated.
    answer: Option<Arc<Mutex<Option<Answer>>>>,
    /// The files of the stage; `None` if the run has no workspace.
    files: Option<Arc<EnteredFiles>>,
}

/// The files that a workspace provides for a stage.
struct EnteredFiles {
    workplace: Workplace,
    folder: PathBuf,
    saver: Box<dyn SaveFiles>,
}

/// Saves the files of a stage while its handler runs. Workspaces implement it; they are called with stages, so a stage
/// does not name them.
pub(crate) trait SaveFiles: Send + Sync {
    /// Saves the files for a checkpoint.
    ///
    /// # Errors
    /// Returns the reason for which the files could not be saved.
    fn save(&self) -> SavingFiles<'_>;
}

/// The future of files that are being saved.
pub(crate) type SavingFiles<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

impl StageContext {
    /// Creates the context of an attempt. `is_repeat` is `true` if the attempt was in flight when the run stopped.
    pub(crate) fn new(
        run: Arc<Run>,
        id: EffectId,
        context: Context,
        is_repeat: bool,
        notes: Option<Arc<[Value]>>,
    ) -> StageContext {
        let active = run.activate(&id);
        // An attempt that continues after its notes does not store again what it stored before them.
        if is_repeat && notes.is_none() {
            run.discard_attempt(&id.name(&run.pipeline));
        }
        StageContext {
            run,
            id,
            context,
            active,
            is_repeat,
            notes,
            answer: None,
            files: None,
        }
    }

    /// Sets the answer to the next question of the stage.
    pub(crate) fn answered(mut self, answer: Option<Answer>) -> StageContext {
        self.answer = answer.map(|answer| Arc::new(Mutex::new(Some(answer))));
        self
    }

    /// Takes the answer that was given before the attempt was repeated. Returns `None` if it belongs to another question,
    /// or if the question does not accept it. The question is redacted.
    pub(crate) fn given_answer(&self, question: &Question) -> Option<Answer> {
        let given = self.answer.as_ref()?;
        let answer = lock(given).take()?;
        if answer
            .question
            .as_ref()
            .is_some_and(|subject| subject != question.subject())
        {
            self.log("an earlier answer is not taken: it belongs to another question");
            return None;
        }
        match question.accept(&answer) {
            Ok(_) => Some(answer),
            Err(refused) => {
                self.log(format!("an earlier answer is not taken: {refused}"));
                None
            }
        }
    }

    /// Adds the files that the stage works on.
    pub(crate) fn with_workplace(mut self, workplace: Workplace, saver: Box<dyn SaveFiles>) -> StageContext {
        let named = self
            .node()
            .text("repo")
            .and_then(|name| workplace.repository(name));
        let folder = named.unwrap_or(workplace.root());
        let folder = match self.run.below() {
            Some(below) => folder.join(below),
            None => folder.to_owned(),
        };
        self.files = Some(Arc::new(EnteredFiles {
            workplace,
            folder,
            saver,
        }));
        self
    }

    /// Returns the node, with its attributes.
    pub fn node(&self) -> Stage<'_> {
        self.run.pipeline.stage(self.id.node)
    }

    /// Returns an attribute of the node.
    pub fn attribute(&self, name: &str) -> Option<Constant<&str>> {
        self.node().attribute(name)
    }

    /// Returns the pipeline of the run.
    pub fn pipeline(&self) -> &Pipeline {
        &self.run.pipeline
    }

    /// Returns the goal of the pipeline. It is empty if the pipeline has none.
    pub fn goal(&self) -> &str {
        self.run.pipeline.goal()
    }

    /// Returns the context of the run as it was when the stage began. Only the outcome can change the context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// Returns the number of this visit of the node, starting at 1.
    pub fn visit(&self) -> u32 {
        self.id.visit
    }

    /// Returns the number of this attempt of the visit, starting at 1.
    pub fn attempt(&self) -> u32 {
        self.id.attempt
    }

    /// Returns the number of this attempt, starting at 1, and the maximum number of attempts of the node (rule Y1).
    pub fn attempts(&self) -> (u32, u32) {
        (self.id.attempt, self.node().row().retry.attempts)
    }

    /// Returns the branch of a parallel block in which the stage runs, such as `fan#1:left`. Returns `None` on the main
    /// path.
    pub fn branch(&self) -> Option<String> {
        (!self.id.branch.is_empty()).then(|| self.id.branch.name(&self.run.pipeline))
    }

    /// Returns the wall-clock time of the engine's clock, which a test may have replaced.
    pub fn now(&self) -> Timestamp {
        self.run.settings.clock.now()
    }

    /// Returns the time of the engine's clock since a fixed but arbitrary moment, to measure durations.
    pub fn elapsed(&self) -> Duration {
        self.run.settings.clock.elapsed()
    }

    /// Waits with the engine's clock, which a test may have replaced.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.run.settings.clock.sleep(duration)
    }

    /// Returns a check of whether this process still owns the outermost run of this stage. Use it before changing
    /// something outside of the run folder.
    pub fn ownership(&self) -> RunOwnership {
        RunOwnership::new(self.run.outermost())
    }

    /// Returns a key such as `build#2/1` that is the same when the attempt is repeated after a crash. Use it for calls
    /// that must not happen twice.
    pub fn attempt_key(&self) -> String {
        self.id.name(&self.run.pipeline)
    }

    /// Returns a key such as `20260101-120000-1a2b3c/build#2` that is unique among the stages of all runs and the same
    /// for every attempt of this visit of the node. Use it for calls that must happen once, regardless of the number of
    /// attempts.
    pub fn stage_key(&self) -> String {
        let attempt = self.attempt_key();
        let visit = attempt.rsplit_once('/').map_or(&*attempt, |(visit, _)| visit);
        format!("{}/{visit}", self.run_id())
    }

    /// Returns whether this attempt was in flight when the run stopped and is executed again (rule D1). Its effects
    /// outside of the run may have happened already; [`attempt_key`](StageContext::attempt_key) is the same as before.
    pub fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// Stores a note for a repeat of this attempt, such as the work that a long stage has done so far. It also stores
    /// the usage of the attempt so far. Returns when the note is as durable as the outcome of a stage (rule D1). Never
    /// returns if the run stops first.
    pub async fn note(&self, note: impl Into<Value>) {
        self.keep_note(note.into(), false).await;
    }

    /// Stores a note like [`note`](StageContext::note), with a checkpoint from which the run can be replayed.
    pub async fn note_checkpoint(&self, note: impl Into<Value>) {
        self.keep_note(note.into(), true).await;
    }

    async fn keep_note(&self, note: Value, checkpoint: bool) {
        if let (true, Some(files)) = (checkpoint, &self.files)
            && let Err(error) = files.saver.save().await
        {
            self.log(format!("the files are not in this checkpoint: {error}"));
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
            // The driver has been dropped, and it drops this stage too.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the notes that the attempt stored before it was interrupted. The list is empty if it was not.
    pub fn notes(&self) -> &[Value] {
        self.notes.as_deref().unwrap_or_default()
    }

    /// Returns the history of the stage: what came before it in the run, and how much of that its model may see
    /// (Attractor 5.4).
    ///
    /// After a resume, the first stage that calls this and would see a whole conversation gets `summary:high` instead
    /// (rule D7).
    pub async fn history(&self) -> StageHistory {
        let (done, reply) = oneshot::channel();
        let id = self.id.clone();
        self.run.request(Request::Look { id, done });
        let mut around = reply.await.unwrap_or_else(|_| StageHistory::unknown());
        around.tools = self.run.tool_calls();
        // A stage that continues after its notes has its conversation in them.
        if around.fidelity == Fidelity::Full && self.notes().is_empty() && self.run.attempts.take_resumed() {
            around.fidelity = Fidelity::SummaryHigh;
            around.degraded = true;
        }
        around
    }

    /// Returns the latest outcomes of nodes as this stage sees them: those of its branch, else those of the outer
    /// execution paths (rule F1). Nodes that have not ended are left out. Returns the outcomes of all nodes if `nodes`
    /// is `None`.
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
    /// let result = engine.start(pipeline, ()).await?.wait().await?;
    /// assert_eq!(result.context.text("last_response"), "did: three steps");
    /// # Ok(()) }
    /// ```
    pub async fn latest_stages(&self, nodes: Option<Vec<String>>) -> Vec<PastStage> {
        let (done, reply) = oneshot::channel();
        let id = self.id.clone();
        self.run.request(Request::Latest { id, nodes, done });
        reply.await.unwrap_or_default()
    }

    /// Reads a text that an earlier stage stored, named by its [record](PastStage::record). Returns the complete text
    /// if it has at most `most` bytes, else its two ends. Returns `None` if the stage stored no such text.
    pub fn stage_text(&self, record: &str, file: StageFile, most: usize) -> Option<StoredText> {
        self.run.stage_text(record, file, most)
    }

    /// Replaces the `prompt.md` of the stage with the prompt that the model received.
    ///
    /// # Errors
    /// The run folder cannot be written; the run ends as soon as the stage does.
    pub fn keep_prompt(&self, text: &str) -> Result<(), StoreError> {
        self.keep(StageFile::Prompt, text)
    }

    /// Writes the `response.md` of the stage, for stages that return an outcome without a text.
    ///
    /// # Errors
    /// The run folder cannot be written; the run ends as soon as the stage does.
    pub fn keep_response(&self, text: &str) -> Result<(), StoreError> {
        self.run.remember(&self.id, StageFile::Response, text);
        self.keep(StageFile::Response, text)
    }

    /// Stores the conversation of the stage with its model, for stages that continue it (rule F5). The backend
    /// determines its format.
    ///
    /// # Errors
    /// The run folder cannot be written; the run ends as soon as the stage does.
    pub fn keep_conversation(&self, text: &str) -> Result<(), StoreError> {
        self.run.remember(&self.id, StageFile::Conversation, text);
        self.keep(StageFile::Conversation, text)
    }

    /// Returns the name of this visit of the node, such as `fan#1:left/build#2`, for
    /// [`stage_text`](StageContext::stage_text).
    pub fn record(&self) -> String {
        self.id.record(&self.run.pipeline)
    }

    fn keep(&self, file: StageFile, text: &str) -> Result<(), StoreError> {
        let written = self.write_file(file, text);
        if let Err(failure) = &written {
            self.run.escalate(failure);
        }
        written
    }

    /// Writes a file of the stage if the run stores files, here or elsewhere.
    pub(crate) fn write_file(&self, file: StageFile, text: &str) -> Result<(), StoreError> {
        match &self.run.store {
            Some(store) => {
                let text = self.run.redacted(text);
                self.run.stage_files.will_be_present();
                let folder = self.stage_folder();
                store.stage(folder.as_ref(), self.visit())?;
                store.write(folder.as_ref(), file, text.as_bytes())
            }
            None => {
                // The process that has the run stores it.
                if self.run.port.is_some() {
                    self.run.remember(&self.id, file, text);
                }
                Ok(())
            }
        }
    }

    /// Returns a value that all stages of the run share. It is created by the first call, dropped when the run ends,
    /// and not restored after a resume.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.run.shared_data()
    }

    /// Returns a text without the [secrets](crate::EngineBuilder::secrets) of the engine.
    pub fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.run.redacted(text)
    }

    /// Returns the redactor of secrets. Returns `None` if the engine has no secrets.
    pub fn redactor(&self) -> Option<&Redactor> {
        self.run.settings.redactor.as_ref()
    }

    /// Returns a stream for the output of the model. Its text is passed on at once, without secrets, to the callbacks
    /// of [`EngineBuilder::on_text`](crate::EngineBuilder::on_text). It is not stored.
    pub fn text(&self) -> TextStream {
        TextStream::new(&self.run, &self.id)
    }

    /// Returns the budget for the calls of this stage: the strictest limits of the run, of the node, and of the parent
    /// runs with their nodes.
    pub fn budget(&self) -> Budget {
        let own = node_budget(self.node());
        stricter(own, self.run.bounds())
    }

    /// Reserves the maximum usage of a call of a model. If other calls have reserved too much, it waits for them. So
    /// calls that are only made with a reservation never exceed the budget of the run.
    ///
    /// # Errors
    /// The call might exceed the budget of the run, or that of the node (`max_tokens` and `max_cost`). A backend that
    /// returns the error suspends the run, or fails the stage if it is the budget of the node.
    pub async fn reserve(&self, most: Usage) -> Result<Reservation, OverBudget> {
        Reservation::new(&self.run, &self.id, most).await
    }

    /// Returns the artifacts of the run, for data that is too large for its context (Attractor 5.5).
    ///
    /// # Errors
    /// The artifacts in the run folder cannot be read, or are damaged.
    pub fn artifacts(&self) -> Result<ArtifactStore, ArtifactError> {
        Ok(self.run.artifacts()?.on_behalf_of(self.attempt_key()))
    }

    /// Returns the run folder. Returns `None` if nothing is persisted.
    pub fn run_dir(&self) -> Option<&Path> {
        self.run.shown_dir()
    }

    /// Returns the folder of the stage, which is created by the first call. Without a run folder it is a temporary
    /// folder, which is removed when the run has ended.
    ///
    /// # Errors
    /// The folder could not be created.
    pub fn stage_dir(&self) -> Result<PathBuf, StoreError> {
        let folder = self.run.stage_dir(&self.id);
        if let Err(failure) = &folder {
            self.run.escalate(failure);
        }
        folder
    }

    /// Returns the folder in which the stage must work. With a [workspace](StageContext::workplace), it is the folder
    /// of the repository that the `repo` of the node names. In a supervised pipeline, it is set by
    /// `stack.child_workdir`. Returns `None` for the working directory of the program.
    pub fn working_dir(&self) -> Option<&Path> {
        match &self.files {
            Some(files) => Some(&files.folder),
            None => self.run.origin.working_dir.as_deref(),
        }
    }

    /// Returns the files that the workspace of the run provides for the stage. Returns `None` if the run has no
    /// workspace.
    pub fn workplace(&self) -> Option<&Workplace> {
        self.files.as_ref().map(|files| &files.workplace)
    }

    /// Returns a token that is cancelled when this attempt is: at its timeout, or when the run is cancelled. The future
    /// of the handler is dropped then, so only tasks that the handler has spawned need the token.
    pub fn cancellation(&self) -> CancellationToken {
        self.run.attempts.tokens.get(&self.id)
    }

    /// Takes the instructions of a manager loop that supervises this run, oldest first (Attractor 4.11, rule F7): those
    /// that were given while this stage runs, and those that no earlier stage has read. An instruction that was
    /// repeated is returned once.
    ///
    /// Each instruction is also a file `steer-001.md` in the [folder of the stage](StageContext::stage_dir) that ran
    /// when it was given. This call renames that file to `steer-001.read.md` and emits a
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

    /// Emits a message as an event.
    pub fn log(&self, message: impl Into<String>) {
        let message = self.run.redacted(&message.into()).into_owned();
        let node = self.run.name(self.id.node);
        tracing::info!(node = %node, "{message}");
        if self.run.sink.wanted() {
            self.run.emit(EventKind::StageLog { node, message });
        }
    }

    /// Emits a warning about a problem that the stage works around. `code` is the machine-readable problem.
    pub fn warn(&self, code: &str, message: impl Into<String>) {
        let message = self.run.redacted(&message.into()).into_owned();
        let node = self.run.name(self.id.node);
        tracing::warn!(node = %node, code, "{message}");
        if self.run.sink.wanted() {
            self.run.emit(EventKind::StageWarning {
                node,
                branch: self.branch(),
                code: code.to_owned(),
                message,
                keys: Vec::new(),
            });
        }
    }

    /// Returns a guard that is stored as long as the stage runs, even if the handler drops its context.
    pub(crate) fn active(&self) -> Option<Active> {
        self.active.clone().map(Active)
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Returns the id of the attempt.
    pub(crate) fn id(&self) -> &EffectId {
        &self.id
    }

    pub(crate) fn stage_folder(&self) -> OwnedStageFolder<'_> {
        self.run.stage_folder(&self.id)
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

impl ShellCommand {
    /// Assigns the command to a stage, so that a process that takes over the run can end the command. After such a
    /// takeover the command is not started. The command also gets the
    /// [variables](crate::Engine::with_command_variables) that the engine sets for the stage.
    ///
    /// ```
    /// use orchestra_engine::StageContext;
    /// use orchestra_engine::process::ShellCommand;
    ///
    /// fn tests(stage: &StageContext) -> ShellCommand {
    ///     ShellCommand::new("cargo test").of_stage(stage)
    /// }
    /// ```
    pub fn of_stage(self, stage: &StageContext) -> Self {
        let run = stage.run();
        let key = stage.attempt_key();
        let variables = run.settings.variables.iter().flat_map(|of| of(&run.id, &key));
        let command = variables.fold(self, |command, (name, value)| command.variable(name, value));
        command.of_run(RunOwnership::new(run.clone()))
    }
}
