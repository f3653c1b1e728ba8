//! Changes to a run that no process executes: a question is answered, or the run is cancelled. No stage is executed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Answer, EffectId, Event, Question, Reply};
use orchestra_graph::Transform;

use crate::clock::Timestamp;
use crate::driver::recovery::OfflineEvent;
use crate::driver::state::Driver;
use crate::engine::Engine;
use crate::error::{Changed, RunError, StartError};
use crate::event::{EventKind, RunEvent, StageRef};
use crate::gates::answer_error::AnswerError;
use crate::handlers::resolved::Handlers;
use crate::id::RunId;
use crate::recovery::files::open_files;
use crate::result::RunResult;
use crate::run::stage_question::answer_text;
use crate::run::workspace::Workspace;
use crate::run_view::UnansweredQuestions;
use crate::script::Script;
use crate::setup::pinned_source::load_pinned;
use crate::store::{RunFolder, StoreError};

/// A run that no process executes, to answer one of its questions or to cancel it.
///
/// The pipeline is the one that the run folder holds, so neither its file nor its handlers are needed.
///
/// ```
/// use orchestra_engine::{Answer, Engine, PausedRun, RunStatus};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> ship [label=Ship]
///     ship [shape=parallelogram, tool_command="make ship"]; ship -> exit }"#;
/// # let load = || load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let run = engine.start(load(), ()).run_dir(&folder).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// run.pause("the shop closes");
/// run.wait().await?;
///
/// let answered = PausedRun::open(&folder)?.answer("ask", Answer::choice("Ship")).await?;
/// assert_eq!((answered.status, answered.path.join(" ")), (RunStatus::Paused, "start ask".to_owned()));
/// let cancelled = PausedRun::open(&folder)?.cancel("not needed any more").await?;
/// assert_eq!(cancelled.status, RunStatus::Cancelled);
/// # Ok(()) }
/// ```
pub struct PausedRun {
    folder: RunFolder,
    transforms: Vec<Arc<dyn Transform>>,
    workspace: Option<Arc<dyn Workspace>>,
}

/// An error that occurs when a run is answered or cancelled that no process executes.
///
/// ```
/// use orchestra_engine::{AnswerError, OfflineError};
/// let none = AnswerError::NoQuestion { gate: "approve".to_owned(), open: Vec::new() };
/// let error = OfflineError::from(none);
/// assert_eq!((error.code(), error.to_string().as_str()), ("no_question", "no question of `approve` is open"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfflineError {
    /// The run cannot be recovered: a process executes it after all, it has ended, or its folder is damaged.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The answer was refused.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The change could not be persisted.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl OfflineError {
    /// Returns the code of the error, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            OfflineError::Start(error) => error.code(),
            OfflineError::Answer(error) => error.code(),
            OfflineError::Run(error) => error.code(),
        }
    }
}

impl From<StoreError> for OfflineError {
    fn from(error: StoreError) -> OfflineError {
        OfflineError::Start(error.into())
    }
}

impl PausedRun {
    /// Opens the run in a folder.
    ///
    /// # Errors
    /// The folder holds no run.
    pub fn open(folder: impl AsRef<Path>) -> Result<PausedRun, StoreError> {
        Ok(PausedRun {
            folder: RunFolder::open(folder)?,
            transforms: Vec::new(),
            workspace: None,
        })
    }

    /// Sets the workspace of the run, which cleans up its files if the run ends.
    #[must_use]
    pub fn workspace(mut self, workspace: impl Workspace) -> PausedRun {
        self.workspace = Some(Arc::new(workspace));
        self
    }

    /// Sets the transforms with which the pipeline was loaded when the run began.
    #[must_use]
    pub fn transforms(mut self, transforms: impl IntoIterator<Item = Arc<dyn Transform>>) -> PausedRun {
        self.transforms.extend(transforms);
        self
    }

    /// Answers a question, named by its id or by its node (rule H2). The run processes the answer and remains paused.
    /// The answer to a question that a stage asked, not a gate, is delivered when the run is resumed.
    ///
    /// # Errors
    /// No such question is open, it does not accept the answer, or the run cannot be recovered or persisted.
    pub async fn answer(self, gate: &str, answer: Answer) -> Result<RunResult, OfflineError> {
        let folder = self.folder.path().to_owned();
        self.only(|driver| {
            let is_named = |question: &Question| question.id == gate || question.node == gate;
            let questions = driver.machine.questions();
            if let Some((id, question)) = questions.iter().find(|(_, question)| is_named(question)) {
                if answer.reply != Reply::Skipped {
                    question.accept(&answer).map_err(AnswerError::Refused)?;
                }
                let event = Event::Answered {
                    id: id.clone(),
                    answer,
                };
                return Ok(OfflineEvent { event, emits: None });
            }
            let of_stages = asked_by_stages(driver, &folder);
            let Some(asked) = of_stages.iter().find(|asked| is_named(&asked.question)) else {
                if let Some(child) = asking_child(&folder, is_named) {
                    let gate = gate.to_owned();
                    return Err(AnswerError::OfChild { gate, child });
                }
                let open = questions.iter().map(|(_, question)| question.node.clone());
                let of_stages = of_stages.iter().map(|asked| asked.question.node.clone());
                return Err(AnswerError::NoQuestion {
                    gate: gate.to_owned(),
                    open: open.chain(of_stages).collect(),
                });
            };
            asked.question.accept(&answer).map_err(AnswerError::Refused)?;
            let now = driver.run.settings.clock.now().as_millis();
            let completed = EventKind::InterviewCompleted {
                node: driver.run.name(asked.id.node),
                branch: asked.branch.clone(),
                question_id: asked.question.id.clone(),
                question: asked.question.text.clone(),
                answer: driver.run.redacted(&answer_text(&answer)).into_owned(),
                answered_by: answer.by,
                duration: Duration::from_millis(now.saturating_sub(asked.since.as_millis())),
            };
            Ok(OfflineEvent {
                event: Event::Answered {
                    id: asked.id.clone(),
                    answer: answer.to(asked.question.subject()),
                },
                emits: Some(completed),
            })
        })
        .await
    }

    /// Cancels the run.
    ///
    /// # Errors
    /// The run cannot be recovered or persisted.
    pub async fn cancel(self, reason: impl Into<String>) -> Result<RunResult, OfflineError> {
        let reason = reason.into();
        self.only(|_| {
            let event = Event::CancelRequested { reason };
            Ok(OfflineEvent { event, emits: None })
        })
        .await
    }

    /// Applies one event to the run, and pauses the run again if it has not ended.
    async fn only(
        self,
        only: impl FnOnce(&Driver) -> Result<OfflineEvent, AnswerError>,
    ) -> Result<RunResult, OfflineError> {
        let manifest = self.folder.manifest();
        let mut builder = Engine::builder();
        if manifest.simulated {
            // Without its nodes, the script simulates no stage and answers no gate.
            let script = manifest.script.clone().map(serde_json::from_value::<Script>);
            let script = script.and_then(Result::ok).unwrap_or_default();
            builder = builder.simulate(script.without_nodes());
        }
        let pipeline = load_pinned(&manifest.pipeline, &manifest.children, &self.transforms);
        let Some(pipeline) = pipeline else {
            let run = manifest.run.clone();
            return Err(StartError::Changed(Box::new(Changed {
                run,
                difference: None,
            }))
            .into());
        };
        let has_files = self.workspace.is_some();
        if let Some(workspace) = self.workspace {
            builder = builder.shared_workspace(workspace);
        }
        let engine = builder.assemble();
        let resume = engine
            .resume(self.folder.path(), pipeline, ())
            .transforms(self.transforms);
        let settings = resume.settings.clone();
        let mut driver = resume.recover().await?;
        let only = match only(&driver) {
            Ok(only) => only,
            Err(refused) => {
                if let Some(store) = &driver.run.store {
                    store.close()?;
                }
                return Err(refused.into());
            }
        };
        if let Some(recovery) = &mut driver.recovery {
            recovery.offline = Some(Box::new(only));
            recovery.due = Some(Vec::new());
        }
        if has_files {
            open_files(&mut driver, &settings, None).await?;
        }
        Ok(driver.drive(Handlers::none()).await?)
    }
}

/// A question that a stage asked, not a gate.
struct AskedByStage {
    id: EffectId,
    branch: Option<String>,
    question: Question,
    since: Timestamp,
}

/// Finds the unanswered questions of stages in flight in the events of the run.
fn asked_by_stages(driver: &Driver, folder: &Path) -> Vec<AskedByStage> {
    let events = RunFolder::open(folder).and_then(|folder| folder.events(1));
    let events: Vec<RunEvent> = events
        .unwrap_or_default()
        .into_iter()
        .filter_map(|event| serde_json::from_value(event).ok())
        .collect();
    let pipeline = &driver.run.pipeline;
    let gates = driver.machine.questions();
    let mut stages = driver.machine.pending();
    stages.retain(|id| gates.iter().all(|(gate, _)| gate != id));
    let asked = stages.into_iter().filter_map(|id| {
        let name = pipeline.stage(id.node).id();
        let path = (!id.branch.is_empty()).then(|| id.branch.name(pipeline));
        let (question, since) = events.iter().rev().find_map(|event| match &event.kind {
            EventKind::InterviewStarted {
                node,
                branch,
                question,
            } if **node == *name && *branch == path => Some(Some((Question::clone(question), event.time))),
            EventKind::InterviewCompleted { node, branch, .. }
            | EventKind::StageStarted {
                stage: StageRef { node, branch, .. },
                repeat: false,
                replay: false,
            } if **node == *name && *branch == path => Some(None),
            _ => None,
        })??;
        Some(AskedByStage {
            id,
            branch: path,
            question,
            since,
        })
    });
    asked.collect()
}

/// Returns the child run that asks such a question, by the events of the run.
fn asking_child(folder: &Path, is_named: impl Fn(&Question) -> bool) -> Option<RunId> {
    let mut questions = UnansweredQuestions::default();
    let events = RunFolder::open(folder).ok()?;
    events.each_event(|line| questions.apply_line(line)).ok()?;
    let mut of_children = questions.iter().filter(|open| open.parent_stage().is_some());
    of_children
        .find(|open| is_named(&open.question))
        .map(|open| open.run.clone())
}

impl fmt::Debug for PausedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausedRun")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
