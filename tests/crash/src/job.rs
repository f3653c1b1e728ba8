//! What a process of the tests is to do, and what it says that came of it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orchestra_engine::{
    Canceller, Durability, Engine, EventKind, FileSystem, RunError, RunFolder, RunHandle, SharedPipeline,
    StartError, StoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::FastClock;
use crate::files::{Strike, StruckFiles};
use crate::log::Log;
use crate::shapes::{pipeline, shape};
use crate::stages::{Act, Echo, input_ends, interviewer};

/// What a process is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The pipeline.
    pub graph: Graph,
    /// The folder of runs.
    pub runs: PathBuf,
    /// The run.
    pub run: String,
    /// Where it logs.
    pub log: PathBuf,
    /// Which of the processes of the run it is, from 0.
    pub process: u32,
    /// How many runs there are of this name, with a number behind it; 0 for one without.
    pub many: u32,
    /// How it begins.
    pub begin: Begin,
    /// What the run's records survive.
    pub durability: Durability,
    /// At which change of the file system something happens.
    pub strike: Option<Strike>,
    /// Whether each change of the file system is reported.
    pub tells: bool,
    /// Behind how many ends of stages it pauses; 0 for when standard input ends.
    pub pause_after: Option<u64>,
}

/// A pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Graph {
    /// A shape, by its name.
    Shape(String),
    /// A text, and those of the pipelines that its stages run, by their files.
    Text(String, Vec<(String, String)>),
}

/// How a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begin {
    /// With a new run.
    Start,
    /// It goes on with the runs that are there, and with new ones where none is.
    GoOn,
    /// It goes on with a run in a changed pipeline.
    Accept,
    /// It takes a run from its owner.
    TakeOver,
    /// It says that it is there, and goes on with a run when the barrier is open.
    Race,
}

impl Job {
    /// A run of a shape, from its start.
    pub fn new(graph: Graph, runs: impl Into<PathBuf>) -> Job {
        let runs = runs.into();
        Job {
            graph,
            log: runs.with_extension("log"),
            runs,
            run: "run".to_owned(),
            process: 0,
            many: 0,
            begin: Begin::Start,
            durability: Durability::Full,
            strike: None,
            tells: false,
            pause_after: None,
        }
    }

    /// The next process of the same run.
    #[must_use]
    pub fn next(&self, begin: Begin) -> Job {
        Job {
            begin,
            process: self.process + 1,
            strike: None,
            tells: false,
            pause_after: None,
            ..self.clone()
        }
    }

    /// The run folders.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.names().iter().map(|run| self.runs.join(run)).collect()
    }

    /// The folder of the one run.
    pub fn folder(&self) -> PathBuf {
        self.runs.join(&self.run)
    }

    /// The file whose lock holds racers back.
    pub fn barrier(&self) -> PathBuf {
        self.runs.with_extension("barrier")
    }

    fn names(&self) -> Vec<String> {
        match self.many {
            0 => vec![self.run.clone()],
            many => (0..many).map(|number| format!("{}-{number}", self.run)).collect(),
        }
    }

    /// Does it; says what came of it, and by which code to leave.
    pub async fn run(&self) -> (Value, u8) {
        let files = Arc::new(StruckFiles::new(self.strike, self.tells));
        let ended = self.end(files.clone()).await;
        let changes = files.changes();
        match ended {
            Ok(ended) => (json!({ "ended": ended, "changes": changes }), 0),
            Err(Failed { code, message, exit }) => {
                let error = json!({ "code": code, "message": message });
                (json!({ "error": error, "changes": changes }), exit)
            }
        }
    }

    async fn end(&self, files: Arc<dyn FileSystem>) -> Result<Value, Failed> {
        let log = Log::open(&self.log, self.process);
        let reported = log.clone();
        let pausing: Arc<std::sync::OnceLock<Canceller>> = Arc::default();
        let (pauses, ends, after) = (pausing.clone(), AtomicU64::new(0), self.pause_after);
        let engine = Engine::builder()
            .clock(FastClock::new())
            .files(files)
            .durability(self.durability)
            .runs_dir(&self.runs)
            .backend(Echo(log.clone()))
            .interviewer(interviewer())
            .on_event(move |event| {
                reported.reported(event);
                if matches!(event.kind, EventKind::StageCompleted { .. })
                    && Some(ends.fetch_add(1, Ordering::SeqCst) + 1) == after
                    && let Some(canceller) = pauses.get()
                {
                    canceller.pause("so far");
                }
            })
            .build()
            .map_err(|error| Failed::new("build", &error, 1))?;
        let act = Act::new(log, self.pause_after == Some(0));
        let pipeline = match &self.graph {
            Graph::Shape(name) => shape(name).pipeline(),
            Graph::Text(text, children) => pipeline(text, children),
        };
        let pipeline = SharedPipeline::from(pipeline);
        let mut runs = Vec::new();
        for name in self.names() {
            let folder = self.runs.join(&name);
            let start = || engine.start(pipeline.clone(), act.clone()).run_id(&name).seed(7);
            let resume = || engine.resume(&folder, pipeline.clone(), act.clone());
            if self.begin == Begin::Race {
                wait_for_all(&self.barrier());
            }
            let run = match self.begin {
                Begin::Start => start().await,
                // A run that was not accepted is none.
                Begin::GoOn if !RunFolder::is_one(&folder) => {
                    let _ = std::fs::remove_dir_all(&folder);
                    start().await
                }
                Begin::GoOn | Begin::Race => resume().await,
                Begin::TakeOver => resume().take_over().await,
                Begin::Accept => resume().accept_changes().await,
            };
            match run {
                // One of several may have ended before the process was killed.
                Err(StartError::AlreadyFinished(_)) if self.many > 0 => {}
                run => runs.push(run?),
            }
        }
        let mut ended = Value::Null;
        for run in &runs {
            let _ = pausing.set(run.canceller());
        }
        if self.pause_after == Some(0) {
            tokio::spawn(async move {
                input_ends().await;
                if let Some(canceller) = pausing.get() {
                    canceller.pause("so far");
                }
            });
        }
        for run in runs {
            ended = finish(run).await?;
        }
        Ok(ended)
    }
}

async fn finish(run: RunHandle) -> Result<Value, Failed> {
    let result = run.wait().await?;
    Ok(json!({
        "status": result.status,
        "path": result.path,
        "failure": result.failure.as_ref().map(ToString::to_string),
        "restarts": result.restarts,
        "usage": result.usage,
    }))
}

/// Says that this process is there, and waits until nobody locks a file any more.
fn wait_for_all(barrier: &Path) {
    let _ = std::io::stdout()
        .write_all(b"r")
        .and_then(|()| std::io::stdout().flush());
    File::open(barrier).unwrap().lock_shared().unwrap();
}

/// Why a run did not come to an end.
struct Failed {
    code: &'static str,
    message: String,
    exit: u8,
}

impl Failed {
    fn new(code: &'static str, error: &impl ToString, exit: u8) -> Failed {
        let message = error.to_string();
        Failed { code, message, exit }
    }
}

/// As of the command line.
fn exit_of(error: &StoreError) -> u8 {
    match error {
        StoreError::Owned { .. } | StoreError::Busy { .. } | StoreError::OwnershipLost { .. } => 7,
        _ => 1,
    }
}

impl From<StartError> for Failed {
    fn from(error: StartError) -> Failed {
        let exit = match &error {
            StartError::Store(error) => exit_of(error),
            _ => 1,
        };
        Failed::new(error.code(), &error, exit)
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Failed {
        let exit = match &error {
            RunError::Store { source, .. } => exit_of(source),
            _ => 1,
        };
        Failed::new(error.code(), &error, exit)
    }
}
