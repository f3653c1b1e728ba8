//! The errors of building an engine, and of starting, resuming and executing a run.

use std::borrow::Cow;
use std::fmt;

use orchestra_core::RunFailure;
use orchestra_graph::{Difference, Pipeline, Position, did_you_mean};

use crate::handlers::requirements::UnmetRequirement;
use crate::id::{InvalidRunId, RunId};
use crate::run::workspace::WorkspaceError;
use crate::store::StoreError;

/// An error that occurs when an engine is built.
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
    /// Returns the code of the error, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            BuildError::EnvironmentName { .. } => "environment_name",
        }
    }
}

/// An error that occurs when a run is started or resumed.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph poem { start -> write -> exit; write [prompt=\"Write a poem.\"] }";
/// let pipeline = load(Source::new("poem.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let error = Engine::builder().build()?.start(pipeline, ()).await.unwrap_err();
/// let StartError::Refused(refusals) = &error else { panic!("{error}") };
/// assert_eq!(refusals.list[0].code, "no_backend");
/// assert!(error.to_string().starts_with("pipeline `poem` cannot be run: poem.dot:1:40: node `write`"));
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The pipeline needs something that this engine does not have; everything missing is listed.
    #[error(transparent)]
    Refused(#[from] Refusals),
    /// The id of the run cannot be the name of a folder.
    #[error(transparent)]
    InvalidRunId(#[from] InvalidRunId),
    /// Initial context values have keys that only the engine writes (rule K1).
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
    /// The initial context values are not those that the pipeline declares as its inputs (rule T2).
    #[error("pipeline `{pipeline}` cannot be run: {violations}")]
    Inputs {
        /// The name of the pipeline.
        pipeline: String,
        /// The inputs that are missing, and those of another type.
        violations: String,
    },
    /// The run folder could not be created or opened.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The pipeline is not the one that the run began with (rule D6).
    #[error(transparent)]
    Changed(Box<Changed>),
    /// The changed pipeline lacks something that the current state of the run refers to.
    #[error(
        "run `{run}` cannot go on under the changed pipeline: {reason}; replay it from an earlier checkpoint"
    )]
    IncompatibleState {
        /// The id of the run.
        run: String,
        /// A message that says what is missing.
        reason: String,
    },
    /// The context of the run does not meet the contract of the changed pipeline (rule U4).
    #[error("run `{run}` cannot go on under the changed pipeline: {violations} in `{file}`")]
    ContractChanged {
        /// The id of the run.
        run: String,
        /// The file of the changed pipeline.
        file: String,
        /// The inputs that are missing, and the values of another type.
        violations: String,
    },
    /// The run has ended and cannot be resumed.
    #[error(transparent)]
    AlreadyFinished(Box<AlreadyFinished>),
    /// The other run had ended at the checkpoint from which it is to be replayed, so there is nothing left to do.
    #[error("run `{run}` had ended at the checkpoint `{checkpoint}`, so there is nothing to replay from it")]
    NothingToReplay {
        /// The id of the other run.
        run: String,
        /// The name of the checkpoint.
        checkpoint: String,
    },
    /// The run has not failed, so there is nothing to retry (rule D9).
    #[error("run `{run}` has not failed; resume it as it is")]
    NotFailed {
        /// The id of the run.
        run: String,
    },
    /// The run would fail again in the same way, because only a changed pipeline helps (rule D9).
    #[error("run `{run}` would fail again in the same way: {failure}")]
    NothingToRetry {
        /// The id of the run.
        run: String,
        /// The failure of the run.
        failure: Box<RunFailure>,
    },
    /// The run was simulated and is now to be executed, or the reverse.
    #[error(
        "run `{run}` was {}; give the engine {}",
        if *.simulated { "simulated" } else { "not simulated" },
        if *.simulated { "the script of a simulation" } else { "no script" }
    )]
    Simulated {
        /// The id of the run.
        run: String,
        /// `true` if the run was simulated.
        simulated: bool,
    },
    /// The workspace cannot provide the files that the stages work on.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// There is no tokio runtime to run on.
    #[error("a run needs a tokio runtime; start it from within one, such as under `#[tokio::main]`")]
    NoRuntime,
}

/// Formats keys for a message.
fn list_of(keys: &[String]) -> String {
    let list: Vec<String> = keys
        .iter()
        .map(|key| format!("`{}`", key.escape_debug()))
        .collect();
    list.join(", ")
}

impl StartError {
    /// Returns the code of the error, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            StartError::Refused(_) => "refused",
            StartError::InvalidRunId(_) => "invalid_run_id",
            StartError::ReservedKeys { .. } => "reserved_key",
            StartError::Inputs { .. } => "inputs",
            StartError::Store(error) => error.code(),
            StartError::Changed(_) => "pipeline_changed",
            StartError::IncompatibleState { .. } => "incompatible_state",
            StartError::ContractChanged { .. } => "contract_changed",
            StartError::AlreadyFinished(_) => "already_finished",
            StartError::NothingToReplay { .. } => "nothing_to_replay",
            StartError::NotFailed { .. } => "not_failed",
            StartError::NothingToRetry { .. } => "nothing_to_retry",
            StartError::Simulated { .. } => "simulated",
            StartError::Workspace(error) => error.code(),
            StartError::NoRuntime => "no_runtime",
        }
    }
}

/// The difference between the pipeline that a run began with and the one that it is resumed with (rule D6).
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// # let of = |text: &str| load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// let before = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }");
/// let run = engine.start(before, ()).run_dir(&folder).await?;
/// run.pause("lunch");
/// run.wait().await?;
/// let after = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Release] }");
/// let Err(StartError::Changed(changed)) = engine.resume(&folder, after, ()).await else { panic!("refused") };
/// assert!(changed.to_string().contains("Release"), "{changed}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Changed {
    /// The id of the run.
    pub run: String,
    /// The difference; `None` if the source that the run began with is no longer valid.
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

/// The error of resuming a run that has ended.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// # let load = || load(Source::new("a.dot", "digraph { start -> exit }"), &LoadOptions::default()).pipeline().expect("sound");
/// let engine = Engine::builder().build()?;
/// engine.start(load(), ()).run_dir(&folder).run_id("first").await?.wait().await?;
/// let error = engine.resume(&folder, load(), ()).await.unwrap_err();
/// assert_eq!((error.code(), error.to_string().as_str()), ("already_finished", "run `first` has ended in success"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlreadyFinished {
    /// The id of the run.
    pub run: String,
    /// The failure of the run; `None` if it succeeded.
    pub failure: Option<RunFailure>,
}

impl fmt::Display for AlreadyFinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => write!(f, "run `{}` has ended in success", self.run),
            Some(failure) => write!(f, "run `{}` has ended: {failure}", self.run),
        }
    }
}

impl std::error::Error for AlreadyFinished {}

/// Everything that a pipeline needs and an engine does not have. No stage was executed.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph { start -> a -> b -> exit; a [prompt=One]; b [type=deploy] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let error = Engine::builder().build()?.start(pipeline, ()).await.unwrap_err();
/// let StartError::Refused(refusals) = error else { panic!("it is refused") };
/// let codes: Vec<&str> = refusals.list.iter().map(|refusal| refusal.code).collect();
/// assert_eq!(codes, ["no_backend", "missing_handler"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The missing items, in the order of the file; never empty.
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

/// One item that a pipeline needs and an engine does not have.
///
/// ```
/// use orchestra_engine::{Engine, StartError};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph {\n    start -> write -> exit\n    write [prompt=Poem]\n}";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let error = Engine::builder().build()?.start(pipeline, ()).await.unwrap_err();
/// let StartError::Refused(refusals) = error else { panic!("it is refused") };
/// let refusal = &refusals.list[0];
/// assert_eq!((refusal.code, refusal.position.line), ("no_backend", 3));
/// assert!(refusal.to_string().starts_with("a.dot:3:5: "));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the refusal: `not_provided`, `no_backend`, `no_command`, `reserved_kind`, `unknown_script_node`, or
    /// a code of [`UnmetRequirement`].
    pub code: &'static str,
    /// The file of the pipeline; empty if the refusal concerns no position in it.
    pub file: Cow<'static, str>,
    /// The position in the file.
    pub position: Position,
    /// A message that says what is missing and how to supply it.
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

    /// Creates the refusal of a handler set that does not meet a requirement of the pipeline.
    pub(crate) fn new(pipeline: &Pipeline, error: UnmetRequirement) -> Refusal {
        let position = Position {
            line: error.line,
            column: error.column,
        };
        let message = format!("{}; {}", error.message, error.help);
        Refusal::at(pipeline, position, error.code, message)
    }

    /// Returns a suggestion of the most similar name. Returns an empty string if no name is similar.
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

/// An error that prevents a run from continuing. The failure of a pipeline is a [result](crate::RunResult), not an
/// error.
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
        /// The id of the run.
        run: RunId,
        /// The operation that failed.
        source: StoreError,
    },
    /// The runtime was shut down, or the engine itself panicked.
    #[error("run `{run}` was lost: {reason}")]
    Lost {
        /// The id of the run.
        run: RunId,
        /// The cause, as a message.
        reason: String,
    },
}

impl RunError {
    /// Returns the code of the error, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Store { source, .. } => source.code(),
            RunError::Lost { .. } => "lost",
        }
    }
}
