//! A simulated run, in which a test determines the outcomes of stages.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Answer, BuildError, Disk, Engine, HandlerSet, InterviewError, Interviewer, Kinds, Outcome, Question,
    Registry, Reply, RunError, RunEvent, RunResult, Script, ScriptedOutcome, SharedInterviewer,
    SharedPipeline, StartError, Status,
};
use orchestra_graph::{LoadOptions, Loaded, Pipeline, Source, load, load_bytes, render};
use serde_json::Value;

use crate::check::{answered_gate, check_script};
use crate::clock::{FakeClock, in_paused_time};
use crate::coverage::Coverage;
use crate::error::ScriptError;
use crate::node::NodeOf;
use crate::run::SimulationRun;

/// The id of every simulated run, so that two runs of one simulation are identical.
const RUN_ID: &str = "simulation";

/// The time limit of a simulated run that would otherwise wait forever.
const MAX_RUN_TIME: Duration = Duration::from_secs(365 * 86_400);

/// An error that keeps a simulation from running.
///
/// ```
/// use orchestra_testkit::{Simulation, SimulationError};
/// let error = Simulation::load("digraph { start -> biuld; build -> exit }").unwrap_err();
/// assert!(matches!(error, SimulationError::Invalid { .. }));
/// assert!(error.to_string().contains("pipeline.dot:1:20"), "{error}");
///
/// let simulation = Simulation::load("digraph { start -> build -> exit }")?.outcome("biuld", ["fail"]);
/// let error = simulation.try_run().unwrap_err();
/// assert_eq!(error.to_string(), "the pipeline has no node `biuld`; did you mean `build`?");
/// # Ok::<(), SimulationError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The file of the pipeline cannot be read.
    #[error("cannot read the pipeline `{}`: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The pipeline has errors.
    #[error("the pipeline is invalid:\n{report}")]
    Invalid {
        /// The diagnostics with their positions.
        report: String,
    },
    /// The script does not fit the pipeline.
    #[error("{}", with_help(.0))]
    Script(#[from] ScriptError),
    /// The engine cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The run cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run cannot continue.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The system cannot provide a thread or timer for the run.
    #[error("the simulation cannot run: {0}")]
    Runtime(#[from] std::io::Error),
}

fn with_help(error: &ScriptError) -> String {
    match error.help() {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}

/// A simulated run of a pipeline. A test determines the outcomes of stages, and time passes only when nothing else can
/// happen.
///
/// A stage without an outcome succeeds at once. No model is called, no tool is run, and no handler is needed. A human
/// gate must be answered: silence never approves. Two runs of one simulation are identical, including their times.
///
/// The function `simulate()` of a compiled pipeline's module creates a simulation whose nodes are the variants of the
/// module's `Node`. In a loaded pipeline, nodes are strings.
///
/// ```
/// use orchestra_testkit::Simulation;
/// let text = r#"digraph {
///     start -> draft -> review
///     draft  [prompt="Draft it", max_retries=2]
///     review [shape=hexagon, label="Ship it?"]
///     review -> exit  [label="[A] Approve"]
///     review -> draft [label="[F] Fix"]
/// }"#;
/// let run = Simulation::load(text)?
///     .outcome("draft", ["fail", "success"])
///     .answer("review", "Fix")
///     .answer("review", "Approve")
///     .run();
/// run.assert_success()
///     .assert_path(["start", "draft", "review", "draft", "review", "exit"]);
/// assert_eq!(run.error_history().len(), 1);
/// # Ok::<(), orchestra_testkit::SimulationError>(())
/// ```
#[must_use = "a simulation does nothing until it is run"]
pub struct Simulation<N: ?Sized = str> {
    pipeline: SharedPipeline,
    script: Script,
    /// The nodes that have answers; they must be gates.
    gates: Vec<String>,
    params: BTreeMap<String, Value>,
    seed: u64,
    max_time: Option<Duration>,
    registry: Option<Registry>,
    interviewer: Option<SharedInterviewer>,
    nodes: PhantomData<fn(&N)>,
}

impl Simulation {
    /// Creates a simulation of any pipeline. Nodes are strings.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph { start -> build -> exit }"), &Default::default());
    /// let run = orchestra_testkit::Simulation::from_pipeline(loaded.pipeline().expect("sound")).run();
    /// assert_eq!(run.path(), &["start", "build", "exit"]);
    /// ```
    pub fn from_pipeline(pipeline: impl Into<SharedPipeline>) -> Simulation {
        Simulation::new(pipeline.into())
    }

    /// Creates a simulation of a pipeline in a string. Child pipelines are not loaded; a stage that runs one is
    /// simulated like any other.
    ///
    /// # Errors
    ///
    /// Returns an error if the pipeline has errors.
    pub fn load(text: &str) -> Result<Simulation, SimulationError> {
        let loaded = load(Source::new("pipeline.dot", text), &LoadOptions::default());
        Simulation::from_loaded(&loaded)
    }

    /// Creates a simulation of a pipeline in a file, including its child pipelines. A [script](Simulation::script) may
    /// contain the nodes of all of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if the pipeline has errors.
    pub fn load_file(path: impl AsRef<Path>) -> Result<Simulation, SimulationError> {
        let path = path.as_ref();
        let options = LoadOptions {
            children: Some(&Disk),
            ..LoadOptions::default()
        };
        let bytes = Disk::read_at_most(path, options.limits.bytes as u64 + 1);
        let bytes = bytes.map_err(|source| SimulationError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let name = path.to_string_lossy().replace('\\', "/");
        Simulation::from_loaded(&load_bytes(&name, &bytes, &options))
    }

    fn from_loaded(loaded: &Loaded) -> Result<Simulation, SimulationError> {
        if let Some(pipeline) = loaded.pipeline() {
            return Ok(Simulation::from_pipeline(pipeline));
        }
        let children = loaded.descendants().into_iter().map(|child| &child.loaded.report);
        let reports = std::iter::once(&loaded.report).chain(children);
        let texts: Vec<String> = reports
            .map(|report| render::text(report, render::Style::Plain).trim_end().to_owned())
            .filter(|text| !text.is_empty())
            .collect();
        Err(SimulationError::Invalid {
            report: texts.join("\n\n"),
        })
    }
}

impl<N: ?Sized> Simulation<N> {
    fn new(pipeline: SharedPipeline) -> Simulation<N> {
        Simulation {
            pipeline,
            script: Script::new(),
            gates: Vec::new(),
            params: BTreeMap::new(),
            seed: 0,
            max_time: None,
            registry: None,
            interviewer: None,
            nodes: PhantomData,
        }
    }

    /// Used by generated code.
    #[doc(hidden)]
    pub fn compiled(pipeline: &'static Pipeline) -> Simulation<N> {
        Simulation::new(pipeline.into())
    }

    /// Appends outcomes of a stage. Each attempt takes the next one, and the last one repeats. An outcome may be a name
    /// such as `"fail"`, a `Status`, an `Outcome`, or a variant of the outcome enum of a handler.
    ///
    /// ```
    /// use orchestra_engine::Outcome;
    /// use orchestra_testkit::Simulation;
    /// let text = "digraph { start -> upload -> exit; upload [prompt=Upload, max_retries=3] }";
    /// let run = Simulation::load(text)?
    ///     .outcome("upload", ["fail"])
    ///     .outcome("upload", [Outcome::fail_terminal("the key is refused")])
    ///     .run();
    /// let reasons: Vec<&str> = run.error_history().iter().map(|failed| &*failed.reason).collect();
    /// assert_eq!(reasons, ["simulated failure", "the key is refused"]);
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    pub fn outcome(
        mut self,
        node: impl NodeOf<N>,
        outcomes: impl IntoIterator<Item = impl ScriptedOutcome>,
    ) -> Simulation<N> {
        self.script = self.script.outcomes(node.id(), outcomes);
        self
    }

    /// Sets the durations of the attempts of a stage. Each attempt takes the next one, and the last one repeats. By
    /// default, attempts take no time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use orchestra_testkit::Simulation;
    /// let text = "digraph { start -> train -> exit; train [prompt=Train, timeout=2h, max_retries=1, retry_jitter=false] }";
    /// let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    /// let run = Simulation::load(text)?.takes("train", [hours(3), hours(1)]).run();
    /// run.assert_success();
    /// assert_eq!(run.error_history()[0].reason, "timed out after 2h");
    /// assert_eq!(run.duration(), hours(3) + Duration::from_millis(200));
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    pub fn takes(
        mut self,
        node: impl NodeOf<N>,
        durations: impl IntoIterator<Item = Duration>,
    ) -> Simulation<N> {
        self.script = self.script.takes(node.id(), durations);
        self
    }

    /// Appends an answer of a human gate. Each visit takes the next answer, and the last one repeats. The choice is a
    /// variant of the module's enum for the gate, or a string: a key, a label, a target, or any other answer that the
    /// gate accepts.
    ///
    /// ```
    /// use orchestra_engine::{Answer, RunFailure};
    /// use orchestra_testkit::Simulation;
    /// let text = r#"digraph {
    ///     start -> ship
    ///     ship [shape=hexagon, label="Ship it?"]
    ///     ship -> exit [label="[Y] Yes"]
    ///     ship -> stop [label="[N] No"]
    ///     stop [prompt=Stop, end=fail]
    /// }"#;
    /// Simulation::load(text)?.answer("ship", "N").run().assert_path(["start", "ship", "stop"]);
    /// let skipped = Simulation::load(text)?.answer("ship", Answer::skipped()).run();
    /// assert!(matches!(skipped.failure(), Some(RunFailure::StageFailed { .. })));
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    pub fn answer(mut self, gate: impl NodeOf<N>, choice: impl Into<Answer>) -> Simulation<N> {
        let outcome = match choice.into().reply {
            Reply::Chosen(choices) => Outcome::success().prefer(choices.join(", ")),
            Reply::TimedOut => Outcome::custom("timeout"),
            _ => Outcome::new(Status::Skipped),
        };
        self.gates.push(gate.id().to_owned());
        self.script = self.script.outcomes(gate.id(), [outcome]);
        self
    }

    /// Lets a human gate time out. A gate without a `timeout` pauses the run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use orchestra_testkit::Simulation;
    /// let text = r#"digraph {
    ///     start -> ship
    ///     ship [shape=hexagon, label="Ship it?", timeout=2d, "human.default_choice"=No]
    ///     ship -> exit [label="[Y] Yes"]
    ///     ship -> stop [label="[N] No"]
    ///     stop [prompt=Stop, end=fail]
    /// }"#;
    /// let run = Simulation::load(text)?.unanswered("ship").run();
    /// run.assert_path(["start", "ship", "stop"]);
    /// assert_eq!(run.duration(), Duration::from_secs(2 * 86_400));
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    pub fn unanswered(self, gate: impl NodeOf<N>) -> Simulation<N> {
        self.answer(gate, Answer::timed_out())
    }

    /// Replaces all outcomes, durations and answers by a script, such as one [from a file](crate::read_script).
    ///
    /// ```
    /// use orchestra_testkit::{Simulation, read_script};
    /// let simulation = Simulation::load("digraph { start -> build -> exit; build [max_retries=1, prompt=Build] }")?;
    /// let run = simulation.script(read_script("build: [fail, success]")?).run();
    /// assert_eq!(run.error_history().len(), 1);
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    pub fn script(mut self, script: Script) -> Simulation<N> {
        self.gates.clear();
        self.script = script;
        self
    }

    /// Runs these handlers for real. [Scripted](Simulation::outcome) stages, models, tools, and kinds without one of
    /// these handlers remain simulated. If a handler sleeps, simulated time passes. While a handler waits for anything
    /// outside of the program, such as a socket, simulated time may jump ahead.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use orchestra_engine::{Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, StageContext, Words};
    /// use orchestra_testkit::Simulation;
    ///
    /// // What `#[handler("count.lines")]` writes for a function.
    /// struct CountLines;
    /// impl Handler for CountLines {
    ///     fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
    ///         Box::pin(async move {
    ///             let lines = stage.context().text("text").lines().count();
    ///             Outcome::success().set("lines", lines).into()
    ///         })
    ///     }
    /// }
    /// # const COUNT: KindSpec = KindSpec { kind: "count.lines", fields: &[], words: Words::Open };
    /// # impl HandlerSet for CountLines {
    /// #     const KINDS: Kinds = Kinds::List(&[COUNT]);
    /// #     fn register(self, registry: &mut Registry) {
    /// #         registry.add(COUNT, Arc::new(self));
    /// #     }
    /// # }
    ///
    /// let text = r#"digraph { start -> write -> count -> exit; write [prompt=Write]; count [type="count.lines"] }"#;
    /// let run = Simulation::load(text)?
    ///     .handlers(CountLines)
    ///     .outcome("write", [Outcome::success().set("text", "one\ntwo")])
    ///     .run();
    /// assert_eq!(run.context().get("lines"), Some(&2.into()));
    /// # Ok::<(), orchestra_testkit::SimulationError>(())
    /// ```
    pub fn handlers(mut self, handlers: impl HandlerSet) -> Simulation<N> {
        handlers.register(self.registry.get_or_insert_default());
        self
    }

    /// Sets the interviewer for gates without an answer, and for questions of handlers that run for real.
    pub fn interviewer(mut self, interviewer: impl Interviewer) -> Simulation<N> {
        self.interviewer = Some(SharedInterviewer::new(interviewer));
        self
    }

    /// Sets a context value at the start.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<Value>) -> Simulation<N> {
        self.params.insert(key.into(), value.into());
        self
    }

    /// Sets the seed of all randomness in the run, such as the jitter of delays. The default is 0.
    pub fn seed(mut self, seed: u64) -> Simulation<N> {
        self.seed = seed;
        self
    }

    /// Sets the time limit of the run. The default is one year, or no limit if [handlers run](Simulation::handlers).
    pub fn max_time(mut self, limit: Duration) -> Simulation<N> {
        self.max_time = Some(limit);
        self
    }

    /// Returns an empty coverage of the pipeline.
    pub fn coverage(&self) -> Coverage {
        Coverage::new(self.pipeline.clone())
    }

    /// Runs to the end, which may be a failure or a gate without an answer. May be called anywhere, also within an
    /// async runtime, and repeatedly.
    ///
    /// # Panics
    ///
    /// Panics if the simulation does not fit the pipeline, in the cases in which [`try_run`](Simulation::try_run)
    /// fails.
    #[track_caller]
    #[allow(clippy::panic, reason = "a test fails by panicking")]
    pub fn run(&self) -> SimulationRun<N> {
        match self.try_run() {
            Ok(run) => run,
            Err(error) => panic!("pipeline `{}`: {error}", self.pipeline.name),
        }
    }

    /// Like [`run`](Simulation::run), but returns errors.
    ///
    /// # Errors
    ///
    /// Returns an error if a node, an outcome or an answer does not fit the pipeline, or if the engine does not meet a
    /// requirement of the pipeline.
    pub fn try_run(&self) -> Result<SimulationRun<N>, SimulationError> {
        for gate in &self.gates {
            answered_gate(&self.pipeline, gate)?;
        }
        check_script(&self.pipeline, &self.script)?;
        let script = match self.registry {
            Some(_) => self.script.clone().run_handlers(),
            None => self.script.clone(),
        };
        let builder = Engine::builder().simulate(script);
        let builder = match &self.interviewer {
            Some(interviewer) => builder.interviewer(interviewer.clone()),
            None => builder.interviewer(Nobody),
        };
        let handlers = Handlers(self.registry.clone().unwrap_or_default());
        let (pipeline, params, seed) = (self.pipeline.clone(), self.params.clone(), self.seed);
        // If everything is simulated, only a bug can wait forever.
        let limit = self.max_time.or(self.registry.is_none().then_some(MAX_RUN_TIME));
        let (result, events) = in_paused_time(|| async move {
            let engine = builder.clock(FakeClock::new()).build()?;
            let mut start = engine.start(pipeline, handlers).run_id(RUN_ID).seed(seed);
            for (key, value) in params {
                start = start.param(key, value);
            }
            if let Some(limit) = limit {
                start = start.max_time(limit);
            }
            let run = start.await?;
            let mut stream = run.events();
            let result = run.wait().await?;
            let mut events: Vec<RunEvent> = Vec::new();
            while let Some(event) = stream.recv().await {
                events.push(Arc::unwrap_or_clone(event));
            }
            Ok::<(RunResult, Vec<RunEvent>), SimulationError>((result, events))
        })??;
        Ok(SimulationRun::new(result, events))
    }
}

impl<N: ?Sized> Clone for Simulation<N> {
    fn clone(&self) -> Simulation<N> {
        Simulation {
            pipeline: self.pipeline.clone(),
            script: self.script.clone(),
            gates: self.gates.clone(),
            params: self.params.clone(),
            seed: self.seed,
            max_time: self.max_time,
            registry: self.registry.clone(),
            interviewer: self.interviewer.clone(),
            nodes: PhantomData,
        }
    }
}

impl<N: ?Sized> fmt::Debug for Simulation<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("pipeline", &self.pipeline.name)
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// Handlers that several runs share.
struct Handlers(Registry);

impl HandlerSet for Handlers {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, registry: &mut Registry) {
        for kind in self.0.kinds() {
            if let (Some(spec), Some(handler)) = (self.0.spec(kind), self.0.get(kind)) {
                registry.add(*spec, handler.clone());
            }
        }
    }
}

/// An interviewer that answers no question, because silence never approves.
struct Nobody;

impl Interviewer for Nobody {
    async fn ask(&self, _: Question) -> Result<Answer, InterviewError> {
        Err(InterviewError::unavailable(
            "the simulation has no answer for it; give one by `.answer(..)`, or let its time run out by `.unanswered(..)`",
        ))
    }
}
