//! Kills processes before, during and after git calls. The process that resumes the run loses nothing, is not blocked,
//! and leaves the user's repositories unchanged. The suite tries 6 points; set `ORCHESTRA_KILLS=500` to try more and
//! other points.

#![cfg(unix)]

use crate::pair;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orchestra_engine::{RunResult, StartError};
use orchestra_workspace::{
    Git, GitCommand, GitError, GitOutput, GitWorkspace, Sweep, SweepMode, SystemGit, UnmergedCommits, sweep,
};
use pair::{LIST, NAMES, Pair, pipeline};

/// The variable with the folder in which the process to kill works.
const PLACE: &str = "ORCHESTRA_KILLS_PLACE";
/// The variable with the call at which to kill, and the moment: `17 before`, `17 in 800` (microseconds), `17 behind`.
/// Unset for a process that must survive.
const POINT: &str = "ORCHESTRA_KILLS_POINT";
/// The variable with the number of points to try.
const COUNT: &str = "ORCHESTRA_KILLS";
const LEAST: usize = 6;

/// Two branches conflict, a stage resolves the conflict, and other stages write before and after.
const FLOW: &str = "digraph t {
    node [shape=parallelogram]
    start [shape=Mdiamond]; exit [shape=Msquare]
    start -> prepare -> fan
    prepare [tool_command=\"echo prepared > backend/prepared.txt\"]
    fan [shape=component]
    fan -> left -> join; fan -> right -> join; fan -> third -> join
    left [tool_command=\"for r in backend frontend; do sed -i 's/^two$/two left/' $r/list.txt; done\"]
    right [tool_command=\"for r in backend frontend; do sed -i 's/^two$/two right/' $r/list.txt; done\"]
    third [tool_command=\"echo third > frontend/third.txt\"]
    join [shape=tripleoctagon]
    join -> resolve -> last -> exit
    resolve [tool_command=\"for r in backend frontend; do sed -i -e '/^<<<<<<</d' -e '/^|||||||/,/^>>>>>>>/d' $r/list.txt; done\"]
    last [tool_command=\"echo last > frontend/last.txt\"]
}";

/// A git that kills the process that calls it.
struct Dying {
    git: SystemGit,
    calls: AtomicUsize,
    point: Option<(usize, String)>,
}

impl Dying {
    fn new() -> Dying {
        let point = std::env::var(POINT).ok().and_then(|point| {
            let (at, when) = point.split_once(' ')?;
            Some((at.parse().ok()?, when.to_owned()))
        });
        Dying {
            git: SystemGit::find().unwrap(),
            calls: AtomicUsize::new(0),
            point,
        }
    }
}

impl Git for Dying {
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let when = self
            .point
            .as_ref()
            .filter(|(at, _)| *at == call)
            .map(|(_, when)| when.as_str());
        match when {
            Some("before") => die(),
            Some("behind") => {
                let _ = self.git.run(command);
                die()
            }
            Some(within) => {
                let micros: u64 = within.trim_start_matches("in ").parse().unwrap();
                let killer = Killer::start();
                std::thread::spawn(move || die_within(Duration::from_micros(micros), killer));
                let done = self.git.run(command);
                // The command ended before the kill.
                die_after(done)
            }
            None => self.git.run(command),
        }
    }
}

fn die() -> ! {
    let me = rustix::process::getpid();
    let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

fn die_after<T>(_done: T) -> ! {
    die()
}

/// A shell that stops this process, kills its children, and then kills this process.
///
/// A process that killed its own children could still record that they were killed, as the failure of a stage.
struct Killer(Child);

impl Killer {
    fn start() -> Killer {
        const SCRIPT: &str = "read pids; kill -STOP $PPID; for pid in $pids; do kill -KILL -- -$pid $pid; done; kill -KILL $PPID";
        let shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Killer(shell.unwrap())
    }

    /// The children of this process except the shell.
    fn victims(&self) -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let shell = self.0.id().to_string();
        lists
            .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter(|pid| *pid != shell)
            .collect()
    }

    fn kill(mut self, victims: &[String]) -> ! {
        let mut input = self.0.stdin.take().unwrap();
        writeln!(input, "{}", victims.join(" ")).unwrap();
        loop {
            std::thread::park();
        }
    }
}

/// Kills the git process that has just started, and this process.
fn die_within(time: Duration, killer: Killer) {
    let mut victims = killer.victims();
    while victims.is_empty() {
        victims = killer.victims();
    }
    let began = std::time::Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
    killer.kill(&victims)
}

/// Starts or resumes the run, and cleans up afterwards. Returns the number of git calls.
async fn run(scratch: &Path) -> usize {
    let git = Arc::new(Dying::new());
    let mut builder = GitWorkspace::builder(scratch.join(".orchestra/worktrees")).git(git.clone());
    for name in NAMES {
        builder = builder.repository(name, scratch.join(name));
    }
    let workspace = builder.build().unwrap();
    let runs = scratch.join(".orchestra/runs");
    let engine = orchestra_engine::Engine::builder()
        .workspace(workspace.clone())
        .durability(orchestra_engine::Durability::Process)
        .runs_dir(&runs)
        .build()
        .unwrap();
    let folder = runs.join("first");
    let ended = if folder.join("manifest.json").exists() {
        match engine.resume(&folder, pipeline(FLOW), ()).await {
            Ok(run) => Some(run.wait().await.unwrap()),
            Err(StartError::AlreadyFinished(_)) => None,
            Err(error) => panic!("{error}"),
        }
    } else {
        let _ = std::fs::remove_dir_all(&folder);
        let run = engine.start(pipeline(FLOW), ()).run_id("first").await.unwrap();
        Some(run.wait().await.unwrap())
    };
    if let Some(RunResult {
        failure: Some(failure),
        ..
    }) = ended
    {
        panic!("{failure}");
    }
    for (repository, prefix) in workspace.repositories().unwrap() {
        let options = Sweep {
            prefix: &prefix,
            worktrees: workspace.worktrees().to_owned(),
            is_live: &|_| false,
            now: std::time::SystemTime::now(),
            unmerged: UnmergedCommits::Keep,
            mode: SweepMode::Remove,
        };
        let swept = sweep(&repository, &options).unwrap();
        assert!(
            swept.branches.iter().all(|branch| branch != "orchestra/t/first"),
            "{swept:?}"
        );
    }
    git.calls.load(Ordering::SeqCst)
}

/// Not a test by itself: started by the test below.
#[test]
#[ignore = "a part of another test"]
fn killed() {
    let Ok(scratch) = std::env::var(PLACE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let calls = runtime.block_on(run(Path::new(&scratch)));
    println!("calls {calls}");
}

/// Runs a process to its end. Returns the number that it printed, or its output if it failed.
fn process(scratch: &Path, point: Option<&str>) -> Result<usize, String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "kills::killed", "--ignored", "--nocapture"])
        .env(PLACE, scratch)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .stdin(Stdio::null())
        .env_remove(POINT);
    if let Some(point) = point {
        command.env(POINT, point);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let calls = text
        .lines()
        .find_map(|line| line.split_once("calls ")?.1.trim().parse().ok());
    calls.ok_or_else(|| format!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns points that are spread evenly over the calls: in turn during, before and after a call.
fn points(calls: usize, wanted: usize) -> Vec<String> {
    let of = |at: usize| {
        let call = 1 + at * calls / wanted % calls;
        match at % 3 {
            0 => format!("{call} in {}", (at * 397) % 2_500),
            1 => format!("{call} behind"),
            _ => format!("{call} before"),
        }
    };
    (0..wanted).map(of).collect()
}

fn try_one(point: &str) {
    let pair = Pair::new();
    let before = pair.users();
    let folder = pair.folder();
    // A point after the last call of this run kills nobody.
    let survived = process(&folder, Some(point)).is_ok();
    if !survived {
        let went_on = process(&folder, None);
        assert!(went_on.is_ok(), "{point}: {}", went_on.unwrap_err());
    }
    assert_eq!(pair.users(), before, "{point}");
    for name in NAMES {
        let session = "orchestra/t/first";
        assert_eq!(
            pair.on(name, session, "list.txt"),
            LIST.replace("two", "two left"),
            "{point}"
        );
        assert_eq!(
            pair.git(
                name,
                &["rev-list", "--count", "--merges", &format!("main..{session}")]
            )
            .trim(),
            if name == "backend" { "2" } else { "3" },
            "{point}"
        );
        assert_eq!(pair.lost(name), Vec::<String>::new(), "{point}");
        assert_eq!(pair.branches(name), [session], "{point}");
        assert_eq!(pair.trees(name), 0, "{point}");
    }
    assert_eq!(
        pair.on("frontend", "orchestra/t/first", "last.txt"),
        "last\n",
        "{point}"
    );
}

#[test]
fn whoever_goes_on_behind_a_kill_loses_nothing_and_is_not_held_up() {
    let pair = Pair::new();
    let calls = process(&pair.folder(), None).unwrap();
    let wanted = std::env::var(COUNT)
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(LEAST);
    let points = points(calls, wanted);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    try_one(point);
                }
            });
        }
    });
}
