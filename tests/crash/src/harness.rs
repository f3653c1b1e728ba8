//! Starts processes, and holds what they leave to what an uninterrupted run leaves.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::compare::{differences, promises, readable, remains};
use crate::files::Strike;
use crate::job::{Begin, Job};
use crate::log::{Line, Log, LogEvent};

/// A folder for runs. What a killed process wrote is there on every file system, so one in memory serves as well, where
/// syncing takes no time.
///
/// # Panics
/// It cannot be made.
pub fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// The program that does jobs, and how many of its processes run at once.
#[derive(Clone, Debug)]
pub struct Runner {
    program: PathBuf,
}

/// What became of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Exit {
    /// It was killed.
    Killed,
    /// It said what came of its job.
    Reported {
        /// What.
        report: Value,
        /// The code by which it left.
        code: i32,
    },
}

impl Runner {
    /// The program.
    pub fn new(program: impl Into<PathBuf>) -> Runner {
        let program = program.into();
        Runner { program }
    }

    /// A process that is about to do a job.
    pub fn command(&self, job: &Job) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(serde_json::to_string(job).unwrap());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Does a job, and waits for its end.
    pub fn run(&self, job: &Job) -> Exit {
        let output = self.command(job).output().unwrap();
        Exit::from_output(&output)
    }

    /// Runs to the end without any harm; gives what is left of each run, and how many changes it took.
    pub fn whole(&self, job: &Job, in_order: bool) -> (Vec<Value>, u64) {
        let (report, code) = match self.run(job) {
            Exit::Reported { report, code } => (report, code),
            Exit::Killed => panic!("nobody kills it"),
        };
        assert_eq!(code, 0, "{report}");
        promises(&Log::read(&job.log), 0).unwrap();
        let folders = job.folders();
        let left = folders.iter().map(|folder| remains(folder, in_order).unwrap());
        (left.collect(), report["changes"].as_u64().unwrap())
    }

    /// Does a job in a process that is killed from outside when it reported of so many changes.
    pub fn kill_at(&self, job: &Job, changes: u64) -> Exit {
        let mut child = self.command(job).spawn().unwrap();
        let mut said = Vec::new();
        let mut reported = 0;
        let mut output = child.stdout.take().unwrap();
        let mut bytes = [0; 64];
        loop {
            let length = output.read(&mut bytes).unwrap();
            if length == 0 {
                break;
            }
            said.extend_from_slice(&bytes[..length]);
            reported += bytes[..length].iter().filter(|byte| **byte == b'.').count() as u64;
            if reported >= changes {
                child.kill().unwrap();
                break;
            }
        }
        output.read_to_end(&mut said).unwrap();
        let mut output = child.wait_with_output().unwrap();
        output.stdout = said;
        Exit::from_output(&output)
    }
}

impl Exit {
    /// What became of a process, by what it wrote.
    pub fn from_output(output: &std::process::Output) -> Exit {
        use std::os::unix::process::ExitStatusExt;
        if output.status.signal() == Some(9) {
            return Exit::Killed;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // What waits for the end of the input says so on a thread of its own, perhaps behind the report.
        let mut lines = text.lines().rev();
        let report = lines.find_map(|line| serde_json::from_str(line).ok());
        let (Some(report), Some(code)) = (report, output.status.code()) else {
            let reported = String::from_utf8_lossy(&output.stderr);
            panic!(
                "a process left with {}, and said: {text}{reported}",
                output.status
            );
        };
        Exit::Reported { report, code }
    }
}

/// One way to kill a run: its processes in order, the last of which is not harmed.
pub struct Attempt<'r> {
    /// The program.
    pub runner: &'r Runner,
    /// What uninterrupted runs leave.
    pub expected: &'r [Value],
    /// How many stages may be in flight at once.
    pub at_once: usize,
    /// Whether events have one order.
    pub in_order: bool,
}

impl Attempt<'_> {
    /// Begins a run, and strikes its processes one after the other; behind that it goes on to the end. Says how many of
    /// the processes were killed.
    ///
    /// # Errors
    /// What was lost, done twice, or came out otherwise.
    pub fn of(&self, first: &Job, strikes: &[Strike]) -> Result<usize, String> {
        let mut job = first.clone();
        let mut killed = 0;
        for strike in strikes {
            job.strike = Some(*strike);
            match self.runner.run(&job) {
                Exit::Killed => killed += 1,
                said => {
                    self.ended(&job, &said)?;
                    return Ok(killed);
                }
            }
            job = self.after_kill(&job)?;
        }
        let said = self.runner.run(&job);
        self.ended(&job, &said)?;
        Ok(killed)
    }

    /// Looks at what a kill left; gives the job of the next process.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn after_kill(&self, job: &Job) -> Result<Job, String> {
        let log = Log::read(&job.log);
        for folder in job.folders() {
            readable(&folder, &log)?;
        }
        Ok(job.next(Begin::GoOn))
    }

    /// Holds the end of a run to that of one that was not harmed.
    ///
    /// # Errors
    /// What differs.
    pub fn ended(&self, job: &Job, said: &Exit) -> Result<(), String> {
        match said {
            Exit::Reported { code: 0, .. } => {}
            // It was killed behind its last word, and is over.
            Exit::Reported { report, .. }
                if job.process > 0 && report["error"]["code"] == "already_finished" => {}
            other => return Err(format!("the run does not end: {other:?}")),
        }
        let log = Log::read(&job.log);
        promises(&log, self.at_once * job.folders().len())?;
        for (folder, expected) in job.folders().iter().zip(self.expected) {
            let left = remains(folder, self.in_order)?;
            if left != *expected {
                let differences = differences(&left, expected).join("\n  ");
                return Err(format!("the end differs:\n  {differences}\n{}", reported(&log)));
            }
        }
        Ok(())
    }
}

/// What a log says of stages, for people.
fn reported(log: &[Line]) -> String {
    let of_stages = log.iter().filter(|line| !matches!(line.said, LogEvent::Saved(_)));
    of_stages.map(|line| format!("{line:?}\n")).collect()
}

/// Does work in as many threads as there are processors, each with a folder of its own, until nothing is left to do; the
/// work says whether there is more. The number that it is given grows from 1.
///
/// # Panics
/// The work failed; the message names all that did.
pub fn in_parallel(dir: &Path, name: &str, work: impl Fn(u64, &Path) -> Result<bool, String> + Sync) -> u64 {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst) + 1;
                    let runs = dir.join(format!("{name}-{number}"));
                    std::fs::create_dir_all(&runs).unwrap();
                    match work(number, &runs) {
                        Ok(true) => {
                            done.fetch_add(1, Ordering::SeqCst);
                            std::fs::remove_dir_all(&runs).unwrap();
                            let _ = std::fs::remove_file(runs.with_extension("log"));
                        }
                        Ok(false) => break,
                        Err(failure) => {
                            let mut failures = failures.lock().unwrap();
                            failures.push(format!("{name} {number}: {failure}"));
                            if failures.len() >= 3 {
                                break;
                            }
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
    done.into_inner()
}
