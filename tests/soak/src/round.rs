//! A round: each scenario once, in an order by chance, over one folder of runs and one model server, beside readers.
//! At its end the index must list the run folders, and `cleanup` must leave nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use orchestra_model_server_tests::Wire;
use orchestra_oracle_tests::random::Random;
use serde_json::Value;

use crate::model::Model;
use crate::observe::size;
use crate::report::Report;
use crate::run::{self, Run};
use crate::scenario::{SCENARIOS, Scenario};
use crate::server::Server;
use crate::{Options, check};

/// How long readers rest between two looks.
const REST: Duration = Duration::from_millis(150);

/// A round, with its folder.
pub(crate) struct Round {
    number: u64,
    seed: u64,
    jobs: usize,
    program: PathBuf,
    folder: PathBuf,
    /// The scenarios in their order, each with its name in this round.
    scenarios: Vec<&'static Scenario>,
    model: Model,
}

impl Round {
    /// Makes the folder of a round, and draws its order.
    pub(crate) fn new(number: u64, folder: &Path, itself: &Path, options: &Options) -> Result<Round, String> {
        let folder = folder.join(format!("round-{number}"));
        for name in ["runs", "tmp"] {
            std::fs::create_dir_all(folder.join(name))
                .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
        }
        let seed = Random::new(options.seed ^ number.rotate_left(32)).number();
        let mut random = Random::new(seed);
        let mut scenarios: Vec<&Scenario> = SCENARIOS
            .iter()
            .filter(|scenario| options.only.as_deref().is_none_or(|only| only == scenario.name))
            .collect();
        for at in (1..scenarios.len()).rev() {
            scenarios.swap(at, random.below(at + 1));
        }
        Ok(Round {
            number,
            seed,
            jobs: options.jobs.max(1),
            program: options.program.clone().unwrap_or_else(|| itself.to_owned()),
            folder,
            scenarios,
            model: Model::start(seed)?,
        })
    }

    /// Runs all scenarios, as long as the time is not over; the first round runs each.
    pub(crate) fn run(self, end: Instant, report: &mut Report) {
        let server = match self.serve() {
            Ok(server) => server,
            Err(what) => {
                report.fail(format!("round {}: {what}", self.number));
                return;
            }
        };
        let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Mutex::new(&mut *report);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.read(&over));
            let clients = [
                scope.spawn(|| server.read(self.seed ^ 1, &over)),
                scope.spawn(|| server.follow(self.seed ^ 2, &over)),
                scope.spawn(|| server.follow(self.seed ^ 3, &over)),
            ];
            let workers: Vec<_> = (0..self.jobs)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let at = next.fetch_add(1, Ordering::SeqCst);
                            let scenario = self.scenarios.get(usize::try_from(at).unwrap_or(usize::MAX));
                            let Some(scenario) = scenario else { return };
                            if self.number > 0 && Instant::now() >= end {
                                return;
                            }
                            self.one(at, scenario, &shared);
                        }
                    })
                })
                .collect();
            for worker in workers {
                if worker.join().is_err() {
                    lock(&shared).fail(format!("round {}: a worker panicked", self.number));
                }
            }
            over.store(true, Ordering::SeqCst);
            for client in clients {
                let what = match client.join() {
                    Ok(Ok(())) => continue,
                    Ok(Err(what)) => what,
                    Err(_) => "it panicked".to_owned(),
                };
                lock(&shared).fail(format!("round {}: a client: {what}", self.number));
            }
            match reader.join() {
                Ok(Ok(looks)) => lock(&shared).looks += looks,
                Ok(Err(what)) => lock(&shared).fail(format!("round {}: a reader: {what}", self.number)),
                Err(_) => lock(&shared).fail(format!("round {}: a reader panicked", self.number)),
            }
        });
        report.rounds += 1;
        report.faults += self.model.faults();
        let unmatched = self.model.unmatched();
        if let Some(request) = unmatched.first() {
            report.fail(format!(
                "round {}: no rule fits a request: {request:.600}",
                self.number
            ));
        }
        if !report.failures.is_empty() {
            return;
        }
        let cleaned = self.clean_up(report).and_then(|()| {
            // The server has seen that the runs are gone.
            match server.get("/api/v1/runs")?["runs"].as_array() {
                Some(runs) if runs.is_empty() => server.end(),
                runs => Err(format!("the server lists runs that were removed: {runs:?}")),
            }
        });
        match cleaned {
            Ok(served) => report.server.add(served),
            Err(what) => {
                report.fail(format!("round {}: {what}", self.number));
                return;
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// One run of a scenario.
    fn one(&self, at: u64, scenario: &'static Scenario, report: &Mutex<&mut Report>) {
        let mut random = Random::new(self.seed ^ (at + 1).rotate_left(48));
        let name = format!("{}-{}", scenario.name.replace('_', "-"), self.number);
        let plan = run::plan(&mut random);
        let mut one = Run::new(
            scenario,
            (self.folder.join(&name), self.folder.join("runs"), name.clone()),
            (self.program.clone(), self.folder.join("tmp")),
            plan.clone(),
        );
        let model = self.model.server.base(Wire::Anthropic);
        let ended = std::fs::create_dir_all(&one.project)
            .map_err(|error| error.to_string())
            .and_then(|()| run::write_project(scenario, &one.project, &model))
            .and_then(|()| one.finish());
        let mut report = lock(report);
        report.add(scenario.name, &one.tally);
        if let Err(what) = ended {
            report.fail_in(
                scenario.name,
                format!(
                    "round {}, `{name}`, seed {:#x}, plan {plan:?}:\n{what}\nproject: {}, run: {}",
                    self.number,
                    self.seed,
                    one.project.display(),
                    one.folder().display(),
                ),
            );
        }
    }

    /// Looks at runs while they go; says how often.
    fn read(&self, over: &AtomicBool) -> Result<u64, String> {
        let mut looks = 0;
        let mut random = Random::new(!self.seed);
        while !over.load(Ordering::SeqCst) {
            let listed = self.listed()?;
            looks += 1;
            if !listed.is_empty() {
                let run = random.pick(&listed)["run"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let command = *random.pick(&["status", "checkpoints"]);
                self.call(&[command, &run])?;
                looks += 1;
            }
            std::thread::sleep(REST);
        }
        Ok(looks)
    }

    /// What `status` lists.
    fn listed(&self) -> Result<Vec<Value>, String> {
        let text = self.call(&["status"])?;
        let objects = text.lines().map(serde_json::from_str::<Value>);
        objects
            .collect::<Result<_, _>>()
            .map_err(|error| format!("`status` wrote no JSON: {error}"))
    }

    /// Starts a server over the runs.
    fn serve(&self) -> Result<Server, String> {
        Server::start(self.command(&["serve", "--listen", "127.0.0.1:0"]))
    }

    /// Returns a command of the program on the folder of runs.
    fn command(&self, arguments: &[&str]) -> Command {
        let run = Run::new(
            &SCENARIOS[0],
            (self.folder.clone(), self.folder.join("runs"), "reader".to_owned()),
            (self.program.clone(), self.folder.join("tmp")),
            Vec::new(),
        );
        let runs = self.folder.join("runs");
        let runs = runs.to_string_lossy();
        run.command(&[arguments, &["--json", "--runs", &runs]].concat())
    }

    /// Calls the program, which must succeed; gives what it wrote.
    fn call(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self
            .command(arguments)
            .output()
            .map_err(|error| format!("cannot start the program: {error}"))?;
        if !output.status.success() {
            let reported = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "`{}` left with {}: {reported}",
                arguments.join(" "),
                output.status
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Compares index and folders, removes all runs, and checks that nothing of them is left.
    fn clean_up(&self, report: &mut Report) -> Result<(), String> {
        let runs = self.folder.join("runs");
        check::index(&self.listed()?, &runs)?;
        report.largest = report.largest.max(size(&runs).0);
        self.call(&["cleanup", "--older-than", "0s", "--force"])?;
        check::index(&self.listed()?, &runs)?;
        let mut left = Vec::new();
        for entry in std::fs::read_dir(&runs).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // The index and its lock stay.
            if !name.starts_with(".sessions") {
                left.push(name);
            }
        }
        // An empty log of shared commits is none.
        left.retain(|name| size(&runs.join(name)).1 > 0);
        if !left.is_empty() {
            return Err(format!("`cleanup` left {left:?} beside the index"));
        }
        let temporary = size(&self.folder.join("tmp"));
        if temporary.1 > 0 {
            return Err(format!(
                "{} files are left in the folder for temporary files",
                temporary.1
            ));
        }
        for scenario in &self.scenarios {
            let Some((repository, _)) = scenario.repository else {
                continue;
            };
            let name = format!("{}-{}", scenario.name.replace('_', "-"), self.number);
            let project = self.folder.join(name);
            if !project.is_dir() {
                continue;
            }
            let refs = check::git(
                &project.join(repository),
                &["for-each-ref", "--format=%(refname)"],
            )?;
            if refs != "refs/heads/main\n" {
                return Err(format!("`cleanup` left refs:\n{refs}"));
            }
            let trees = check::git(&project.join(repository), &["worktree", "list", "--porcelain"])?;
            if trees.matches("worktree ").count() != 1 {
                return Err(format!("`cleanup` left trees:\n{trees}"));
            }
            let trees = size(&project.join(".orchestra").join("worktrees"));
            if trees.1 > 0 {
                return Err(format!("`cleanup` left {} files of trees", trees.1));
            }
        }
        Ok(())
    }
}

fn lock<'l, 'r>(report: &'l Mutex<&'r mut Report>) -> std::sync::MutexGuard<'l, &'r mut Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}
