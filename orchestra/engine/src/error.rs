//! Why an engine cannot be built, a run cannot start, or a run cannot go on.

use std::fmt;

use orchestra_core::{AnswerRefused, RunFailure};
use orchestra_graph::table::Text;
use orchestra_graph::{Difference, Pipeline, Position, did_you_mean};

use crate::id::{InvalidRunId, RunId};
use crate::needs::NeedFault;
use crate::store::StoreError;
use crate::workspace::WorkspaceError;

/// An engine that cannot be built.
///
/// ```
/// let error = orchestra_engine::Engine::builder().inherit_env(["A=B"]).build().unwrap_err();
/// assert_eq!(error.code(), "environment_name");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A name that no environment variable can have.
    #[error("`{}` cannot be the name of an environment variable", .name.escape_debug())]
    EnvironmentName {
        /// The name.
        name: String,
    },
}

impl BuildError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            BuildError::EnvironmentName { .. } => "environment_name",
        }
    }
}

/// A run that cannot start.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph poem { start -> write -> exit; write [prompt=\"Write a poem.\"] }";
/// let pipeline = load(Source::new("poem.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let error = Engine::builder().build()?.start_loaded(pipeline, ()).await.unwrap_err();
/// let StartError::Refused(refusals) = &error else { panic!("{error}") };
/// assert_eq!(refusals.list[0].code, "no_backend");
/// assert!(error.to_string().starts_with("pipeline `poem` cannot be run: poem.dot:1:40: node `write`"));
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The pipeline asks for what this engine does not have; everything that is missing is listed.
    #[error(transparent)]
    Refused(#[from] Refusals),
    /// The name of the run could not name a folder.
    #[error(transparent)]
    InvalidRunId(#[from] InvalidRunId),
    /// Values at the start have keys that only the engine writes (rule K1).
    #[error(
        "{} {}; name {} otherwise (`graph.*` holds the attributes of the graph)",
        list_of(keys),
        if keys.len() == 1 { "is a key that only the engine writes" } else { "are keys that only the engine writes" },
        if keys.len() == 1 { "it" } else { "them" }
    )]
    ReservedKeys {
        /// The keys.
        keys: Vec<String>,
    },
    /// The run folder could not be made, or cannot be gone on with.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The pipeline is not the one that the run was begun with (rule D6).
    #[error(transparent)]
    Changed(Box<Changed>),
    /// The pipeline was changed where the run stands.
    #[error(
        "run `{run}` cannot go on under the changed pipeline: {reason}; replay it from an earlier checkpoint"
    )]
    Moved {
        /// The run.
        run: String,
        /// What is not there any more.
        reason: String,
    },
    /// The run has ended, so there is nothing to go on with.
    #[error(transparent)]
    Over(Box<Over>),
    /// Nothing is left to be done at the checkpoint from which a run is to be replayed: there the other run had ended.
    #[error("run `{run}` had ended at the checkpoint `{checkpoint}`, so there is nothing to replay from it")]
    NothingToReplay {
        /// The other run.
        run: String,
        /// The checkpoint.
        checkpoint: String,
    },
    /// The run has not failed, so there is nothing to retry (rule D9).
    #[error("run `{run}` has not failed; resume it as it is")]
    NotFailed {
        /// The run.
        run: String,
    },
    /// The run would fail again in the same way, because only a changed pipeline helps (rule D9).
    #[error("run `{run}` would fail again in the same way: {failure}")]
    NothingToRetry {
        /// The run.
        run: String,
        /// How it failed.
        failure: Box<RunFailure>,
    },
    /// The run was simulated and is now to be run, or the reverse.
    #[error(
        "run `{run}` was {}; give the engine {}",
        if *.simulated { "simulated" } else { "not simulated" },
        if *.simulated { "the script of a simulation" } else { "no script" }
    )]
    Simulated {
        /// The run.
        run: String,
        /// Whether it was.
        simulated: bool,
    },
    /// The run cannot have the files that its stages are to work on.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// There is no tokio runtime to run on.
    #[error("a run needs a tokio runtime; start it from within one, such as under `#[tokio::main]`")]
    NoRuntime,
}

/// Keys for a message.
fn list_of(keys: &[String]) -> String {
    let list: Vec<String> = keys
        .iter()
        .map(|key| format!("`{}`", key.escape_debug()))
        .collect();
    list.join(", ")
}

impl StartError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            StartError::Refused(_) => "refused",
            StartError::InvalidRunId(_) => "invalid_run_id",
            StartError::ReservedKeys { .. } => "reserved_key",
            StartError::Store(error) => error.code(),
            StartError::Changed(_) => "pipeline_changed",
            StartError::Moved { .. } => "position_gone",
            StartError::Over(_) => "run_over",
            StartError::NothingToReplay { .. } => "nothing_to_replay",
            StartError::NotFailed { .. } => "not_failed",
            StartError::NothingToRetry { .. } => "nothing_to_retry",
            StartError::Simulated { .. } => "simulated",
            StartError::Workspace(error) => error.code(),
            StartError::NoRuntime => "no_runtime",
        }
    }
}

/// What differs between the pipeline that a run was begun with and the one that it is to go on with (rule D6).
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("run");
/// # let of = |text: &str| load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let before = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }");
/// let run = engine.start_loaded(before, ()).run_dir(&folder).await?;
/// run.pause("lunch");
/// run.wait().await?;
/// let after = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Release] }");
/// let Err(StartError::Changed(changed)) = engine.resume_loaded(&folder, after, ()).await else { panic!("refused") };
/// assert!(changed.to_string().contains("Release"), "{changed}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Changed {
    /// The run.
    pub run: String,
    /// What differs; `None` where the text that the run was begun with is not understood any more.
    pub difference: Option<Difference>,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pipeline was changed since run `{}` began", self.run)?;
        match &self.difference {
            Some(difference) => write!(f, ":\n{}", difference.to_string().trim_end()),
            None => f.write_str(", and the text that it began with is not understood any more"),
        }
    }
}

impl std::error::Error for Changed {}

/// A run that has ended, and is asked to go on.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("run");
/// # let load = || load(Source::new("a.dot", "digraph { start -> exit }"), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// engine.start_loaded(load(), ()).run_dir(&folder).run_id("first").await?.wait().await?;
/// let error = engine.resume_loaded(&folder, load(), ()).await.unwrap_err();
/// assert_eq!((error.code(), error.to_string().as_str()), ("run_over", "run `first` has ended in success"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// The run.
    pub run: String,
    /// Why it did not succeed; `None` where it did.
    pub failure: Option<RunFailure>,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => write!(f, "run `{}` has ended in success", self.run),
            Some(failure) => write!(f, "run `{}` has ended: {failure}", self.run),
        }
    }
}

impl std::error::Error for Over {}

/// All that a pipeline asks for and an engine does not have. Nothing of it was run.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph { start -> a -> b -> exit; a [prompt=One]; b [type=deploy] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let error = Engine::builder().build()?.start_loaded(pipeline, ()).await.unwrap_err();
/// let StartError::Refused(refusals) = error else { panic!("it is refused") };
/// let codes: Vec<&str> = refusals.list.iter().map(|refusal| refusal.code).collect();
/// assert_eq!(codes, ["no_backend", "missing_handler"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// The name of the pipeline.
    pub pipeline: String,
    /// What is missing, in the order of the file; never empty.
    pub list: Vec<Refusal>,
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipeline `{}` cannot be run", self.pipeline)?;
        match &self.list[..] {
            [only] => write!(f, ": {only}"),
            list => list.iter().try_for_each(|refusal| write!(f, "\n  {refusal}")),
        }
    }
}

impl std::error::Error for Refusals {}

/// One thing that a pipeline asks for and an engine does not have.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph {\n    start -> write -> exit\n    write [prompt=Poem]\n}";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let error = Engine::builder().build()?.start_loaded(pipeline, ()).await.unwrap_err();
/// let StartError::Refused(refusals) = error else { panic!("it is refused") };
/// let refusal = &refusals.list[0];
/// assert_eq!((refusal.code, refusal.position.line), ("no_backend", 3));
/// assert!(refusal.to_string().starts_with("a.dot:3:5: "));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of thing: `not_provided`, `no_backend`, `unknown_script_node`, or a code of
    /// [`NeedFault`].
    pub code: &'static str,
    /// The pipeline's file; empty where no place in it is at fault.
    pub file: Text,
    /// The place in the file.
    pub position: Position,
    /// What is missing and how to supply it.
    pub message: String,
}

impl Refusal {
    pub(crate) fn at(
        pipeline: &Pipeline,
        position: Position,
        code: &'static str,
        message: String,
    ) -> Refusal {
        Refusal {
            code,
            file: pipeline.file.clone(),
            position,
            message,
        }
    }

    /// The refusal of a handler set that does not give what the pipeline needs.
    pub(crate) fn of(pipeline: &Pipeline, fault: NeedFault) -> Refusal {
        let position = Position {
            line: fault.line,
            column: fault.column,
        };
        let message = format!("{}; {}", fault.message, fault.help);
        Refusal::at(pipeline, position, fault.code, message)
    }

    /// A word with the nearest of some others, where one is near.
    pub(crate) fn suggest<'c>(word: &str, others: impl IntoIterator<Item = &'c str>) -> String {
        match did_you_mean(word, others) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            let Position { line, column } = self.position;
            write!(f, "{}:{line}:{column}: ", self.file)?;
        }
        f.write_str(&self.message)
    }
}

/// A run that could not go on. A pipeline that fails is no such error but a [result](crate::RunResult).
///
/// ```
/// use orchestra_engine::{RunError, RunId};
/// let lost = RunError::Lost { run: RunId::new("one")?, reason: "the runtime was shut down".to_owned() };
/// assert_eq!(lost.to_string(), "run `one` was lost: the runtime was shut down");
/// assert_eq!(lost.code(), "lost");
/// # Ok::<(), orchestra_engine::InvalidRunId>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The run folder cannot be written; the last checkpoint is intact.
    #[error("run `{run}` cannot be kept: {source}")]
    Store {
        /// The run.
        run: RunId,
        /// What could not be done.
        source: StoreError,
    },
    /// The runtime was shut down, or the engine itself panicked.
    #[error("run `{run}` was lost: {reason}")]
    Lost {
        /// The run.
        run: RunId,
        /// How.
        reason: String,
    },
}

impl RunError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Store { source, .. } => source.code(),
            RunError::Lost { .. } => "lost",
        }
    }
}

/// An answer that was not taken.
///
/// ```
/// # use orchestra_engine::{Answer, AnswerError, Engine};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Yes] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = Engine::builder().build()?.start_loaded(pipeline, ()).await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// let refused = run.answer("ask", Answer::choice("No")).unwrap_err();
/// assert!(matches!(refused, AnswerError::Refused(_)));
/// assert_eq!(refused.to_string(), "`No` is none of the answers: [Y] Yes");
/// run.answer("ask", Answer::choice("yes"))?;
/// assert!(run.answer("ask", Answer::choice("yes")).is_err(), "it was answered");
/// assert!(run.wait().await?.is_success());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No such question is open; somebody else may have answered it.
    #[error("no question of `{gate}` is open{}", others(.open))]
    NoQuestion {
        /// What was named.
        gate: String,
        /// The gates whose questions are open.
        open: Vec<String>,
    },
    /// The question does not offer this answer; it stays open.
    #[error(transparent)]
    Refused(#[from] AnswerRefused),
}

impl AnswerError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            AnswerError::NoQuestion { .. } => "no_question",
            AnswerError::Refused(_) => "answer_refused",
        }
    }
}

fn others(open: &[String]) -> String {
    match open {
        [] => String::new(),
        open => format!("; open are those of {}", open.join(", ")),
    }
}
