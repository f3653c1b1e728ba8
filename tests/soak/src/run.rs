//! One run of a scenario: its processes one after the other, and what disturbs each of them.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use orchestra_crash_tests::processes::Use;
use orchestra_engine::RunFolder;
use orchestra_oracle_tests::random::Random;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::scenario::Scenario;
use crate::{PROGRAM, check};

/// How long one process of a run may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most processes that a run may need.
const MOST_PROCESSES: usize = 24;

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How long a process stays frozen while another one goes on with its run. It may hold the lock of a repository, for
/// which the other one waits.
const FROZEN: Duration = Duration::from_secs(2);

/// How often another process tries what it is to do.
const TRY: Duration = Duration::from_millis(150);

/// What another process does to a run as part of its scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// It answers a gate.
    Answer {
        gate: &'static str,
        choice: &'static str,
    },
    /// It cancels the run in a stage.
    Cancel { stage: &'static str },
}

/// What happens to a process of a run at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// It is killed.
    Kill,
    /// It gets SIGTERM.
    Terminate,
    /// It gets SIGINT.
    Interrupt,
    /// Another process pauses the run.
    Pause,
    /// It is frozen, another process takes the run over, and it wakes while that goes on or when it has ended.
    TakeOver,
}

const KINDS: [Disturbance; 5] = [
    Disturbance::Kill,
    Disturbance::Terminate,
    Disturbance::Interrupt,
    Disturbance::Pause,
    Disturbance::TakeOver,
];

/// How a run came to its end.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    pub(crate) stops: u64,
    pub(crate) take_overs: u64,
    pub(crate) resumes: u64,
    pub(crate) most: Use,
}

/// A run of a scenario, and where it is.
pub(crate) struct Run<'r> {
    pub(crate) scenario: &'r Scenario,
    /// The folder of its project.
    pub(crate) project: PathBuf,
    /// The folder of run folders.
    pub(crate) runs: PathBuf,
    /// Its name, which is that of its folder.
    pub(crate) name: String,
    /// The program, and the folder for its temporary files.
    pub(crate) program: PathBuf,
    pub(crate) temporary: PathBuf,
    /// The disturbances, each with how long after the beginning of a process.
    pub(crate) plan: Vec<(Duration, Disturbance)>,
    pub(crate) tally: Tally,
    /// How many processes it had.
    processes: u32,
    /// Whether it paused by itself.
    paused: bool,
}

/// A process of a run that was frozen when another one took the run.
struct Frozen {
    child: Child,
    number: u32,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Where a check failed before it was woken, it must not stay.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a process of a run ended.
enum Ended {
    /// By itself, or because it was asked to.
    Left(ExitStatus),
    Killed,
    Frozen(Frozen),
}

/// Draws the disturbances of a run.
pub(crate) fn plan(random: &mut Random) -> Vec<(Duration, Disturbance)> {
    let count = random.weighted(&[25, 30, 20, 15, 10]);
    let mut plan = Vec::new();
    for _ in 0..count {
        // Most scenarios take less than a second; half of the disturbances come early.
        let limit = if random.chance(50) { 200 } else { 1_200 };
        let after = Duration::from_millis(random.below(limit) as u64);
        plan.push((after, KINDS[random.weighted(&[50, 12, 12, 13, 13])]));
    }
    plan
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        scenario: &'r Scenario,
        (project, runs, name): (PathBuf, PathBuf, String),
        (program, temporary): (PathBuf, PathBuf),
        plan: Vec<(Duration, Disturbance)>,
    ) -> Run<'r> {
        Run {
            scenario,
            project,
            runs,
            name,
            program,
            temporary,
            plan,
            tally: Tally::default(),
            processes: 0,
            paused: false,
        }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.runs.join(&self.name)
    }

    /// The file to which the tools log.
    pub(crate) fn log(&self) -> PathBuf {
        self.project.join("soak.log")
    }

    /// What marks all processes of the run.
    pub(crate) fn mark(&self) -> String {
        format!("ORCHESTRA_SOAK_RUN={}", self.name)
    }

    /// Runs and resumes until the run is over, then checks what is left.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let mut plan = std::mem::take(&mut self.plan).into_iter();
        let mut frozen: Vec<Frozen> = Vec::new();
        for _ in 0..MOST_PROCESSES {
            let disturbance = plan.next();
            let ended = self.process(disturbance, &frozen)?;
            if let Ended::Frozen(child) = ended {
                self.tally.take_overs += 1;
                frozen.push(child);
                continue;
            }
            let was_frozen = !frozen.is_empty();
            for frozen in frozen.drain(..) {
                self.tally.kills += u64::from(!self.wake(frozen)?);
            }
            match ended {
                Ended::Killed | Ended::Frozen(_) => self.tally.kills += 1,
                Ended::Left(status) => {
                    if self.found_it_owned(status, was_frozen) {
                        continue;
                    }
                    if self.is_over(status, disturbance)? {
                        return check::run(self);
                    }
                }
            }
        }
        Err(format!("it was not over after {MOST_PROCESSES} processes"))
    }

    /// A command of the program, in the project.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg0(PROGRAM)
            .args(arguments)
            .current_dir(&self.project)
            .stdin(Stdio::null())
            .env("HOME", self.project.join("home"))
            .env("TMPDIR", &self.temporary)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            // What it uses is looked at.
            .env("ORCHESTRA_DUMPABLE", "1")
            .env("ANTHROPIC_API_KEY", "key-of-the-soak-0123456789")
            .env("ORCHESTRA_SOAK_RUN", &self.name)
            .env("SOAK_PROCESS", self.processes.to_string())
            .env("SOAK_LOG", self.log())
            .env(
                "SOAK_DID",
                format!("sh {}", self.project.join("did.sh").display()),
            );
        command
    }

    /// One process that begins the run or goes on with it.
    fn process(
        &mut self,
        disturbance: Option<(Duration, Disturbance)>,
        frozen: &[Frozen],
    ) -> Result<Ended, String> {
        self.processes += 1;
        let number = self.processes;
        let runs = self.runs.to_string_lossy().into_owned();
        let folder = self.folder();
        let shown = folder.to_string_lossy().into_owned();
        let accepted = RunFolder::is_one(&folder);
        let mut arguments = if accepted {
            self.tally.resumes += 1;
            vec!["resume", &self.name, "--runs", &runs, "--json"]
        } else {
            let _ = std::fs::remove_dir_all(&folder);
            vec![
                "run",
                "pipeline.dot",
                "--runs",
                &runs,
                "--run-dir",
                &shown,
                "--json",
            ]
        };
        if accepted && !frozen.is_empty() {
            arguments.push("--take-over");
        }
        if !(self.paused && self.scenario.after_pause.contains(&"--max-tokens")) {
            arguments.extend(self.scenario.options);
        }
        if self.paused {
            arguments.extend(self.scenario.after_pause);
        }
        let output = |end: &str| {
            let path = self.project.join(format!("process-{number}.{end}"));
            File::create(&path).map_err(|error| format!("cannot make `{}`: {error}", path.display()))
        };
        let mut command = self.command(&arguments);
        command.stdout(output("out")?).stderr(output("err")?);
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start the program: {error}"))?;
        self.watch(child, number, disturbance, frozen)
    }

    /// Looks at a process until it has ended, and disturbs it when its time has come.
    fn watch(
        &mut self,
        mut child: Child,
        number: u32,
        disturbance: Option<(Duration, Disturbance)>,
        mut frozen: &[Frozen],
    ) -> Result<Ended, String> {
        let begun = Instant::now();
        let (mut due, mut acted, mut tried) = (disturbance, false, begun);
        loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                return Ok(Ended::Left(status));
            }
            if let Some(found) = Use::of_process(child.id()) {
                self.tally.most.raise(found);
            }
            if begun.elapsed() > FROZEN {
                for frozen in std::mem::take(&mut frozen) {
                    send(&frozen.child, Signal::CONT)?;
                }
            }
            if let Some((_, what)) = due.take_if(|(after, _)| begun.elapsed() >= *after) {
                let signal = |signal| send(&child, signal);
                match what {
                    Disturbance::Kill => {
                        signal(Signal::KILL)?;
                        child.wait().map_err(|error| error.to_string())?;
                        return Ok(Ended::Killed);
                    }
                    Disturbance::Terminate => signal(Signal::TERM)?,
                    Disturbance::Interrupt => signal(Signal::INT)?,
                    Disturbance::Pause => {
                        // Where it has not begun yet, or is over, there is nothing to pause.
                        self.call(&["pause", &self.name])?;
                    }
                    Disturbance::TakeOver if RunFolder::is_one(self.folder()) => {
                        signal(Signal::STOP)?;
                        return Ok(Ended::Frozen(Frozen { child, number }));
                    }
                    Disturbance::TakeOver => {}
                }
                self.tally.stops += u64::from(!matches!(what, Disturbance::TakeOver));
            }
            if let Some(action) = self.scenario.action.filter(|_| !acted && tried.elapsed() > TRY) {
                acted = self.act(action)?;
                tried = Instant::now();
            }
            if begun.elapsed() > PATIENCE {
                let stack = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
                let _ = send(&child, Signal::KILL);
                let _ = child.wait();
                let stack = stack.unwrap_or_default();
                return Err(format!(
                    "process {number} did not end within {PATIENCE:?}:\n{stack}"
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Does what another process is to do, where its time has come; says whether it was done.
    fn act(&self, action: Action) -> Result<bool, String> {
        let events = std::fs::read_to_string(self.folder().join("events.jsonl")).unwrap_or_default();
        let name = &self.name;
        match action {
            Action::Answer { gate, choice } => {
                let asked = format!(r#""event":"InterviewStarted","node":"{gate}""#);
                Ok(events.contains(&asked) && self.call(&["answer", name, gate, choice])? == 0)
            }
            Action::Cancel { stage } => {
                let begun = format!(r#""event":"StageStarted","node":"{stage}""#);
                Ok(events.contains(&begun) && self.call(&["cancel", name])? == 0)
            }
        }
    }

    /// Calls the program about the run; gives its exit code.
    pub(crate) fn call(&self, arguments: &[&str]) -> Result<i32, String> {
        let runs = self.runs.to_string_lossy().into_owned();
        let mut command = self.command(arguments);
        let output = command
            .args(["--runs", &runs])
            .output()
            .map_err(|error| error.to_string())?;
        let reported = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(code) if code != 101 => Ok(code),
            _ => Err(format!(
                "`{}` ended with {}: {reported}",
                arguments.join(" "),
                output.status
            )),
        }
    }

    /// Lets a frozen process go on: it finds out that it has lost the run, and leaves. Where whoever was to take the run over
    /// died before, it still owns it; it is killed, and `false` is returned.
    fn wake(&self, mut frozen: Frozen) -> Result<bool, String> {
        send(&frozen.child, Signal::CONT)?;
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = frozen.child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            if self.owner() == Some(frozen.child.id()) {
                send(&frozen.child, Signal::KILL)?;
                frozen.child.wait().map_err(|error| error.to_string())?;
                return Ok(false);
            }
            if begun.elapsed() > PATIENCE {
                let _ = send(&frozen.child, Signal::KILL);
                let _ = frozen.child.wait();
                return Err(format!(
                    "process {} lost the run and did not leave",
                    frozen.number
                ));
            }
            std::thread::sleep(LOOK);
        };
        let text = self.reported(frozen.number, "err");
        // Frozen in its last moments, it may have had nothing left to write.
        match status.code() {
            Some(7) => Ok(true),
            // Frozen before it owned the run, it finds it at its end.
            Some(2) if text.contains("already_finished") => Ok(true),
            Some(0 | 1 | 5 | 6 | 130) if !text.contains("panicked at") => Ok(true),
            _ => Err(format!(
                "process {} lost the run and left with {status}: {text}",
                frozen.number
            )),
        }
    }

    /// The process that `owner.lock` names.
    fn owner(&self) -> Option<u32> {
        let text = std::fs::read(self.folder().join("owner.lock")).ok()?;
        let said: Value = serde_json::from_slice(&text).ok()?;
        u32::try_from(said["pid"].as_u64()?).ok()
    }

    /// Whether a run is over whose process left so.
    fn is_over(
        &mut self,
        status: ExitStatus,
        disturbance: Option<(Duration, Disturbance)>,
    ) -> Result<bool, String> {
        let text = self.reported(self.processes, "err");
        let unexpected = |what: &str| Err(format!("process {} {what}: {status}\n{text}", self.processes));
        if text.contains("panicked at") {
            return unexpected("panicked");
        }
        let early = disturbance.map(|(_, what)| what);
        let Some(code) = status.code() else {
            // A signal that came before the program had a handler for it.
            let signals = [
                (Disturbance::Terminate, Signal::TERM),
                (Disturbance::Interrupt, Signal::INT),
            ];
            let mine = signals
                .into_iter()
                .any(|(what, signal)| early == Some(what) && status.signal() == Some(signal.as_raw()));
            return if mine { Ok(false) } else { unexpected("was killed") };
        };
        let out = self.reported(self.processes, "out");
        let last: Value = out
            .lines()
            .next_back()
            .and_then(|line| serde_json::from_str(line).ok())
            .unwrap_or_default();
        match (code, last["status"].as_str(), last["code"].as_str()) {
            (0, Some("success"), _) | (1, Some("fail"), _) | (130, Some("cancelled"), _) => Ok(true),
            (130, Some("paused"), _) => Ok(false),
            (130, _, _) if early.is_some() && !RunFolder::is_one(self.folder()) => Ok(false),
            // Stopped while it took the run up.
            (130, _, Some("stopped")) if early.is_some() => Ok(false),
            (5 | 6, Some("paused"), _) if !self.scenario.after_pause.is_empty() => {
                self.paused = true;
                Ok(false)
            }
            (2, _, Some("already_finished")) if self.processes > 1 => Ok(true),
            _ => unexpected("left"),
        }
    }

    /// Whether a process left because another one had the run for a moment: a frozen one keeps the folder locked, or an answer
    /// came while nobody executed the run.
    fn found_it_owned(&self, status: ExitStatus, was_frozen: bool) -> bool {
        let out = self.reported(self.processes, "out");
        let says = |code: &str| out.contains(&format!(r#""code":"{code}""#));
        let locked = was_frozen && says("store_busy");
        let answered = self.scenario.action.is_some() && says("store_owned");
        status.code() == Some(7) && (locked || answered)
    }

    /// What a process of the run wrote.
    fn reported(&self, number: u32, end: &str) -> String {
        let path = self.project.join(format!("process-{number}.{end}"));
        let bytes = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How many of its processes were disturbed.
    pub(crate) fn disturbed(&self) -> u64 {
        self.tally.kills + self.tally.stops + self.tally.take_overs
    }
}

fn send(child: &Child, signal: Signal) -> Result<(), String> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| "a process without a number".to_owned())?;
    kill_process(pid, signal).map_err(|error| format!("cannot send a signal: {error}"))
}

/// Writes the files of a scenario into its project.
pub(crate) fn write_project(scenario: &Scenario, project: &Path, model: &str) -> Result<(), String> {
    let write = |name: &str, text: &str| {
        let path = project.join(name);
        let folder = path.parent().unwrap_or(project);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    };
    for (name, text) in scenario.files {
        write(name, &text.replace("MODEL_SERVER", model))?;
    }
    // A line in one write, so that a kill leaves whole lines.
    write(
        "did.sh",
        "echo \"$SOAK_PROCESS $ORCHESTRA_NODE_ID $1\" >> \"$SOAK_LOG\"\n",
    )?;
    let Some((folder, files)) = scenario.repository else {
        return Ok(());
    };
    for (name, text) in files {
        write(&format!("{folder}/{name}"), text)?;
    }
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["add", "-A"],
        &["commit", "-q", "-m", "First version"],
    ] {
        check::git(&project.join(folder), words)?;
    }
    Ok(())
}
