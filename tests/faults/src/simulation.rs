//! One seed: a run that goes from process to process until it has ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{Durability, Engine, RunError, RunFolder, RunResult, RunStatus, StartError};
use orchestra_oracle_tests::End;
use orchestra_oracle_tests::random::Random;

use crate::case::Case;
use crate::check;
use crate::clock::SimulatedClock;
use crate::files::SimulatedFiles;
use crate::model::agents;
use crate::stages::Actor;
use crate::world::{Counts, Process, Rates, World};

/// The name of the run.
const RUN: &str = "run";
/// After so many processes nothing more goes wrong.
const TROUBLED: u32 = 12;
/// So many processes are enough for any run.
const PROCESSES: u32 = 40;
/// What takes longer counts as what never ends.
const PATIENCE: Duration = Duration::from_secs(400 * 24 * 3600);

/// What came of a seed.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What must not happen, and did.
    pub violations: Vec<String>,
    /// How often what happened.
    pub counts: Counts,
    /// Everything that happened, in order.
    pub trace: Vec<String>,
}

/// How a process ended.
enum Ended {
    /// It died.
    Died,
    /// The run came to an end.
    Run(Box<RunResult>),
    /// The run had ended before.
    Over,
    /// The engine gave up, with this code.
    Failed(&'static str, String),
    /// Nothing can go on.
    Stuck,
}

impl Ended {
    /// The same without the folder of the disk, which is another each time.
    fn reported(self, root: &Path) -> Ended {
        match self {
            Ended::Failed(code, message) => Ended::Failed(code, without(root, &message)),
            ended => ended,
        }
    }
}

fn without(root: &Path, text: &str) -> String {
    text.replace(&format!("{}/", root.display()), "")
}

/// Simulates a seed in a folder that is there and empty.
pub fn simulate(seed: u64, root: &Path) -> Report {
    let case = Arc::new(Case::new(seed));
    let world = World::new(root);
    let mut chance = Random::new(seed ^ 0xfa17);
    let level = if chance.chance(80) {
        Durability::Full
    } else {
        Durability::Process
    };
    world.say(format_args!(
        "seed {seed}, {level:?}, by the rules: {:?}",
        case.expected.end
    ));
    for line in case.dot.lines() {
        world.say(format_args!("| {line}"));
    }
    let simulation = Simulation {
        case,
        world: world.clone(),
        level,
    };
    if let Err(violation) = simulation.run(&mut chance) {
        world.violated(without(root, &violation));
    }
    let report = Report {
        seed,
        violations: world.violations(),
        counts: world.counts(),
        trace: world.trace(),
    };
    let _ = world.disk.clear();
    report
}

struct Simulation {
    case: Arc<Case>,
    world: Arc<World>,
    level: Durability,
}

impl Simulation {
    fn folder(&self) -> PathBuf {
        self.world.disk.root().join(RUN)
    }

    fn run(&self, chance: &mut Random) -> Result<(), String> {
        for number in 0..PROCESSES {
            let is_troubled = number < TROUBLED;
            let rates = if is_troubled {
                Rates::random(chance)
            } else {
                Rates::default()
            };
            let process = Process::new(
                self.world.clone(),
                number,
                rates.at(self.level),
                Random::new(chance.number()),
            );
            self.world.count("processes");
            let ended = self.process(&process).reported(self.world.disk.root());
            if process.is_dead() {
                if let Some(remains) = process.remains() {
                    self.world.time.reboot();
                    self.world
                        .disk
                        .restore(remains)
                        .map_err(|error| error.to_string())?;
                }
                check::readable(&self.world, &self.folder())?;
                continue;
            }
            match ended {
                Ended::Died => return Err("it ended without having died".to_owned()),
                Ended::Stuck => return Err("the run is stuck: nothing can go on".to_owned()),
                Ended::Failed(code, message) => {
                    self.world
                        .say(format_args!("p{number} failed: {code}: {message}"));
                    self.world.count("processes that failed");
                    if process.failures() == 0 {
                        return Err(format!(
                            "nothing was wrong, and the engine gave up: {code}: {message}"
                        ));
                    }
                    if code != "store_io" {
                        return Err(format!("a call failed, and the engine says {code}: {message}"));
                    }
                    check::readable(&self.world, &self.folder())?;
                }
                Ended::Over => {
                    self.world.say(format_args!("p{number}: the run is over"));
                    return self.ended(None);
                }
                Ended::Run(result) => {
                    self.world.say(format_args!("p{number}: {}", result.status));
                    let waits = result.status == RunStatus::Paused;
                    if waits
                        && !matches!(self.case.expected.end, End::WaitsForHuman(_))
                        && self.case.is_certain
                    {
                        return Err(format!("the run is paused: {:?}", result.failure));
                    }
                    return self.ended(Some(&result));
                }
            }
        }
        Err(format!("the run does not end in {PROCESSES} processes"))
    }

    fn ended(&self, result: Option<&RunResult>) -> Result<(), String> {
        self.world.count("runs that ended");
        check::ended(&self.world, &self.case, &self.folder(), result)
    }

    /// Runs a process to its end.
    fn process(&self, process: &Arc<Process>) -> Ended {
        let time = self.world.time.clone();
        let limit = time.now() + PATIENCE;
        let stuck = Arc::new(tokio::sync::Notify::new());
        let (idle, reported) = (time.clone(), stuck.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || {
                if !idle.go_on() || idle.now() > limit {
                    reported.notify_one();
                }
            })
            .build();
        let Ok(runtime) = runtime else {
            return Ended::Failed("runtime", "no runtime".to_owned());
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = process.dies() => Ended::Died,
                ended = self.engine(process) => ended,
                () = stuck.notified() => Ended::Stuck,
            }
        })
    }

    async fn engine(&self, process: &Arc<Process>) -> Ended {
        let actor = Actor::new(process.clone(), self.case.clone());
        let heard = actor.clone();
        let agents = match agents(actor.clone()) {
            Ok(agents) => agents,
            Err(error) => return Ended::Failed("agents", error.to_string()),
        };
        let engine = Engine::builder()
            .backend(agents)
            .clock(SimulatedClock::new(self.world.time.clone()))
            .files(Arc::new(SimulatedFiles::new(process.clone())))
            .processes(actor.clone())
            .interviewer(actor.clone())
            .durability(self.level)
            .runs_dir(self.world.disk.root())
            .on_event(move |event| heard.on_event(event))
            .build();
        let engine = match engine {
            Ok(engine) => engine,
            Err(error) => return Ended::Failed(error.code(), error.to_string()),
        };
        let folder = self.folder();
        let pipeline = self.case.pipeline.clone();
        let started = if RunFolder::is_one(&folder) {
            engine.resume(&folder, pipeline, actor).await
        } else {
            // A run that was not accepted is none.
            if folder.exists() {
                let _ = std::fs::remove_dir_all(&folder);
                self.world.disk.forget(&folder);
            }
            engine.start(pipeline, actor).run_id(RUN).seed(7).await
        };
        let run = match started {
            Ok(run) => run,
            Err(StartError::AlreadyFinished(_)) => return Ended::Over,
            Err(error) => return Ended::Failed(error.code(), error.to_string()),
        };
        match run.wait().await {
            Ok(result) => Ended::Run(Box::new(result)),
            Err(error @ RunError::Store { .. }) => Ended::Failed(error.code(), chain(&error)),
            Err(error) => Ended::Failed(error.code(), error.to_string()),
        }
    }
}

/// An error with its reasons.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(reason) = next {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        next = reason.source();
    }
    text
}
