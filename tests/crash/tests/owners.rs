//! One owner a run: eight processes race for it, and one that was frozen when it was replaced writes nothing more.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use orchestra_crash_tests::compare::remains;
use orchestra_crash_tests::files::{Blow, Strike};
use orchestra_crash_tests::harness::{Exit, Runner, dir, in_parallel};
use orchestra_crash_tests::job::{Begin, Graph, Job};
use orchestra_crash_tests::shapes::shape;
use orchestra_engine::RunFolder;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

const RACERS: usize = 8;
const ROUNDS: u32 = 200;

fn runner() -> Runner {
    Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner"))
}

/// The error of a process that left with code 7.
fn refusal(exit: &Exit) -> (&str, &str) {
    match exit {
        Exit::Reported { report, code: 7 } => (
            report["error"]["code"].as_str().unwrap(),
            report["error"]["message"].as_str().unwrap(),
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_eight_processes_that_go_on_with_a_run_one_owns_it_and_the_others_name_it() {
    let (dir, runner) = (dir(), runner());
    let start = Job {
        pause_after: Some(0),
        ..Job::new(Graph::Shape("waiting".to_owned()), dir.path().join("runs"))
    };
    let Exit::Reported { report, code: 0 } = runner.run(&start) else {
        panic!("it pauses as soon as it can")
    };
    assert_eq!(report["ended"]["status"], "paused");
    let racer = Job {
        begin: Begin::Race,
        pause_after: Some(0),
        ..start.clone()
    };
    let barrier = File::create(start.barrier()).unwrap();
    for round in 1..=ROUNDS {
        barrier.lock().unwrap();
        let (input, line) = std::io::pipe().unwrap();
        let mut racers: Vec<Child> = (0..RACERS)
            .map(|_| {
                runner
                    .command(&racer)
                    .stdin(input.try_clone().unwrap())
                    .spawn()
                    .unwrap()
            })
            .collect();
        drop(input);
        for racer in &mut racers {
            racer.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        barrier.unlock().unwrap();
        let pids: Vec<u32> = racers.iter().map(Child::id).collect();
        let (sender, receiver) = channel();
        for racer in racers {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let pid = racer.id();
                let _ = sender.send((pid, Exit::from_output(&racer.wait_with_output().unwrap())));
            });
        }
        // The owner holds the run until the others are gone.
        let mut others = BTreeMap::new();
        for _ in 1..RACERS {
            let (pid, exit) = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            others.insert(pid, exit);
        }
        let owner = pids.iter().find(|pid| !others.contains_key(pid)).unwrap();
        for exit in others.values() {
            let (code, message) = refusal(exit);
            assert_eq!(code, "store_owned");
            assert!(
                message.contains(&format!("is owned by process {owner} (`")),
                "{message}"
            );
        }
        let run = RunFolder::open(start.folder()).unwrap();
        let known = run.owner().unwrap().unwrap();
        assert_eq!((known.pid, known.fencing_token), (*owner, u64::from(round) + 1));
        drop(line);
        let (_, exit) = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        let Exit::Reported { report, code: 0 } = &exit else {
            panic!("{exit:?}")
        };
        assert_eq!(report["ended"]["status"], "paused", "round {round}");
    }
    // What is left is a run like any other.
    let Exit::Reported { report, code: 0 } = runner.run(&start.next(Begin::GoOn)) else {
        panic!("it goes on")
    };
    assert_eq!(report["ended"]["status"], "success");
    let fresh = Job::new(Graph::Shape("waiting".to_owned()), dir.path().join("fresh"));
    let (expected, _) = runner.whole(&fresh, true);
    assert_eq!(remains(&start.folder(), true).unwrap(), expected[0]);
}

/// All files of a folder, and what they hold.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                ahead.push(path);
            } else {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The names of files that differ.
fn changed(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names = before.keys().chain(after.keys());
    let mut changed: Vec<String> = names
        .filter(|name| before.get(*name) != after.get(*name))
        .cloned()
        .collect();
    changed.dedup();
    changed
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

/// Waits until a process has stopped; says whether it has, or has ended.
fn has_stopped(child: &Child) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid(child)), options)
        .unwrap()
        .unwrap()
        .stopped()
}

#[test]
fn a_frozen_owner_that_thaws_in_the_middle_of_a_stage_writes_nothing() {
    let (dir, runner) = (dir(), runner());
    let job = Job::new(Graph::Shape("waiting".to_owned()), dir.path().join("runs"));
    let (input, line) = std::io::pipe().unwrap();
    let mut frozen = runner.command(&job).stdin(input).spawn().unwrap();
    frozen.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    kill_process(pid(&frozen), Signal::STOP).unwrap();
    assert!(has_stopped(&frozen));

    // It is not gone, so others are refused until one asks for it by name.
    let exit = runner.run(&job.next(Begin::GoOn));
    let (code, message) = refusal(&exit);
    assert_eq!(code, "store_owned");
    assert!(message.contains(&format!("process {}", frozen.id())), "{message}");
    let Exit::Reported { report, code: 0 } = runner.run(&job.next(Begin::TakeOver)) else {
        panic!("it takes the run over")
    };
    assert_eq!(report["ended"]["status"], "success");
    let before = contents(&job.folder());

    drop(line);
    kill_process(pid(&frozen), Signal::CONT).unwrap();
    let exit = Exit::from_output(&frozen.wait_with_output().unwrap());
    let (code, message) = refusal(&exit);
    assert_eq!(code, "store_ownership_lost", "{message}");
    assert!(message.contains("this process writes nothing more"), "{message}");
    assert_eq!(changed(&before, &contents(&job.folder())), Vec::<String>::new());
    let fresh = Job::new(Graph::Shape("waiting".to_owned()), dir.path().join("fresh"));
    let (expected, _) = runner.whole(&fresh, true);
    assert_eq!(remains(&job.folder(), true).unwrap(), expected[0]);
}

/// Freezes the owner of a shape at every change, and lets it go on when the run was taken from it.
fn frozen_at_every_step(name: &str) {
    let (dir, runner) = (dir(), runner());
    let graph = || Graph::Shape(name.to_owned());
    let in_order = shape(name).at_once == 1;
    let (expected, changes) = runner.whole(&Job::new(graph(), dir.path().join("whole")), in_order);
    let calls = AtomicU64::new(0);
    let frozen = in_parallel(dir.path(), "frozen", |at, runs| {
        let job = Job {
            strike: Some(Strike {
                at,
                blow: Blow::Stops,
            }),
            ..Job::new(graph(), runs)
        };
        let mut frozen = runner.command(&job).spawn().unwrap();
        if !has_stopped(&frozen) {
            let exit = Exit::from_output(&frozen.wait_with_output().unwrap());
            // How many changes there are depends on what shares a sync, so each run is held to its own number.
            return match &exit {
                Exit::Reported { code: 0, report } if report["changes"].as_u64() < Some(at) => Ok(false),
                other => Err(format!("it did not freeze: {other:?}")),
            };
        }
        let is_one = RunFolder::is_one(job.folder());
        let mut before = BTreeMap::new();
        if is_one {
            let exit = runner.run(&job.next(Begin::TakeOver));
            // It may have frozen behind its last word.
            let is_over = matches!(&exit, Exit::Reported { report, .. }
                if report["ended"]["status"] == "success" || report["error"]["code"] == "already_finished");
            if !is_over {
                kill_process(pid(&frozen), Signal::KILL).unwrap();
                frozen.wait().unwrap();
                return Err(format!("it cannot be taken over: {exit:?}"));
            }
            before = contents(&job.folder());
        }
        kill_process(pid(&frozen), Signal::CONT).unwrap();
        let exit = Exit::from_output(&frozen.wait_with_output().unwrap());
        if !is_one {
            // Nobody could take over what was not there yet.
            return matches!(exit, Exit::Reported { code: 0, .. })
                .then_some(true)
                .ok_or(format!("{exit:?}"));
        }
        // Between the look at who owns the run and the call itself nothing can be put. So a call for a stage's file that
        // was about to be made is made; those by which the engine goes on lead nowhere.
        let changed = changed(&before, &contents(&job.folder()));
        match changed.as_slice() {
            [] => {}
            [only] if only.contains('/') && !only.starts_with("artifacts") => {
                calls.fetch_add(1, Ordering::SeqCst);
                return Ok(true);
            }
            _ => return Err(format!("it changed {changed:?}, and said {exit:?}")),
        }
        match &exit {
            Exit::Reported { code: 7, report } if report["error"]["code"] == "store_ownership_lost" => {}
            // It froze in the last three changes, which replace the checkpoint of a run that is over.
            Exit::Reported { code: 0, report } if Some(at + 4) > report["changes"].as_u64() => {}
            other => return Err(format!("{other:?}")),
        }
        if remains(&job.folder(), in_order)? == expected[0] {
            Ok(true)
        } else {
            Err("the end differs".to_owned())
        }
    });
    let calls = calls.into_inner();
    println!("{name}: frozen at {frozen} of {changes} changes; {calls} calls were made for files of stages");
    assert!(calls < frozen / 10, "{calls} calls were made");
}

#[test]
fn an_owner_that_froze_at_any_step_of_a_commit_writes_nothing_when_it_thaws() {
    frozen_at_every_step("chain");
}

#[test]
fn who_takes_a_run_over_has_the_runs_within_it_too() {
    frozen_at_every_step("children");
}
