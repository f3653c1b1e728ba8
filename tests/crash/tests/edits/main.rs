//! A run goes on although its pipeline was edited, or does not: the verdict for each kind of edit.
//!
//! `EDITS.md` beside this crate's manifest says them to people; `UPDATE=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic)]

mod table;

use std::fmt::Write as _;
use std::path::Path;

use orchestra_crash_tests::compare::{differences, remains};
use orchestra_crash_tests::files::{Blow, Strike};
use orchestra_crash_tests::harness::{Attempt, Exit, Runner, dir, in_parallel};
use orchestra_crash_tests::job::{Begin, Job};
use orchestra_crash_tests::log::{Log, LogEvent};
use orchestra_engine::RunFolder;
use serde_json::Value;
use table::EDITS;
use table::Verdict::{Accepted, GoesOn, Pauses, Refused};

fn report(exit: Exit) -> Value {
    match exit {
        Exit::Reported { report, .. } => report,
        Exit::Killed => panic!("nobody kills it"),
    }
}

/// How a run ended, in words; an error instead.
fn end(report: &Value) -> Result<String, (&str, &str)> {
    let ended = &report["ended"];
    match &report["error"] {
        Value::Null => {
            let path = ended["path"].as_array().unwrap().iter();
            let path: Vec<&str> = path.map(|node| node.as_str().unwrap()).collect();
            match ended["status"].as_str() {
                Some("success") => Ok(path.join(" ")),
                Some("paused") => Err(("paused", ended["failure"].as_str().unwrap())),
                _ => panic!("{report}"),
            }
        }
        error => Err((
            error["code"].as_str().unwrap(),
            error["message"].as_str().unwrap(),
        )),
    }
}

/// What was done twice although it was over; nothing may be.
fn done_twice(job: &Job) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    let mut twice = Vec::new();
    for line in Log::read(&job.log) {
        match line.said {
            LogEvent::Began(key, false) if done.contains(&key) => twice.push(key),
            LogEvent::Began(key, false) => done.push(key),
            _ => {}
        }
    }
    twice
}

#[test]
fn each_kind_of_edit_has_its_verdict() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let mut reported = String::from(
        "# Edits of a pipeline whose run goes on\n\n\
         Written by `UPDATE=1 cargo test -p orchestra-crash-tests --test edits`, and held to what the engine does.\n\
         A run is paused, its pipeline is edited, and another process goes on with it: without a word first, and where \
         that is refused\nby `accept_changes()`, which is `--accept-changes` on the command line.\n",
    );
    let mut wrong = Vec::new();
    for (number, edit) in EDITS.iter().enumerate() {
        let runs = dir.path().join(number.to_string());
        std::fs::create_dir_all(&runs).unwrap();
        let paused = edit.paused(&runner, &runs);
        write!(reported, "\n## {}. {}\n\n", number + 1, edit.name).unwrap();
        let first = report(runner.run(&edit.edited(&paused, Begin::GoOn)));
        let verdict = match end(&first) {
            Ok(path) => {
                writeln!(reported, "It goes on without a word: `{path}`.").unwrap();
                GoesOn
            }
            Err(("pipeline_changed", message)) => {
                let (_, difference) = message.split_once(":\n").unwrap();
                writeln!(reported, "Refused:\n\n```text\n{difference}\n```\n").unwrap();
                let second = report(runner.run(&edit.edited(&paused, Begin::Accept)));
                match end(&second) {
                    Ok(path) => {
                        writeln!(reported, "Accepted by name, it ends by `{path}`.").unwrap();
                        Accepted(path.leak())
                    }
                    Err(("paused", message)) => {
                        let (_, reason) = message.rsplit_once(": ").unwrap();
                        writeln!(
                            reported,
                            "Accepted by name, it pauses again, until the change is taken back: {reason}."
                        )
                        .unwrap();
                        let third = report(runner.run(&paused.next(Begin::Accept)));
                        end(&third).unwrap_or_else(|error| panic!("{}: {error:?}", edit.name));
                        Pauses(reason.split("; ").next().unwrap_or_default().to_owned().leak())
                    }
                    Err((code, message)) => {
                        let (_, reason) = message.split_once(": ").unwrap_or(("", message));
                        writeln!(reported, "Refused even then (`{code}`): {reason}.").unwrap();
                        // The run is none the worse for it.
                        let third = report(runner.run(&paused.next(Begin::GoOn)));
                        end(&third).unwrap_or_else(|error| panic!("{}: {error:?}", edit.name));
                        Refused(reason.split("; ").next().unwrap_or_default().to_owned().leak())
                    }
                }
            }
            Err(other) => panic!("{}: {other:?}", edit.name),
        };
        assert_eq!(done_twice(&paused), Vec::<String>::new(), "{}", edit.name);
        if verdict != edit.verdict {
            wrong.push(format!(
                "{}: {verdict:?} instead of {:?}",
                edit.name, edit.verdict
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("EDITS.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &reported).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == reported,
        "{} is not what happens; see UPDATE=1",
        path.display()
    );
}

#[test]
fn a_process_that_is_killed_while_it_accepts_a_change_leaves_a_run_that_goes_on() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let edit = EDITS
        .iter()
        .find(|edit| edit.name == "A new stage ahead")
        .unwrap();
    let whole = edit.paused(&runner, &dir.path().join("whole"));
    report(runner.run(&edit.edited(&whole, Begin::Accept)));
    let expected = remains(&whole.folder(), true).unwrap();
    let paused = edit.paused(&runner, &dir.path().join("paused"));
    let kills = in_parallel(dir.path(), "accept", |number, runs| {
        let copied = std::process::Command::new("cp")
            .args([
                "-a",
                &paused.runs.join("run").to_string_lossy(),
                &runs.to_string_lossy(),
            ])
            .status();
        assert!(copied.unwrap().success());
        let blow = if number % 2 == 1 { Blow::Before } else { Blow::Half };
        let job = Job {
            runs: runs.to_owned(),
            log: runs.with_extension("log"),
            strike: Some(Strike {
                at: number.div_ceil(2),
                blow,
            }),
            ..edit.edited(&paused, Begin::Accept)
        };
        let killed = runner.run(&job) == Exit::Killed;
        if killed {
            let last = report(runner.run(&job.next(Begin::Accept)));
            if last["error"]["code"] != "already_finished" {
                end(&last).map_err(|error| format!("{error:?}"))?;
            }
        }
        let left = remains(&job.folder(), true)?;
        if left == expected {
            Ok(killed)
        } else {
            Err(differences(&left, &expected).join("\n  "))
        }
    });
    println!("{kills} kills");
    assert!(kills > 40, "only {kills}");
}

#[test]
fn a_run_that_was_killed_goes_on_in_a_changed_pipeline() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let edit = EDITS
        .iter()
        .find(|edit| edit.name == "The label of a stage ahead")
        .unwrap();
    let graph = edit.graph(true);
    let (expected, changes) = runner.whole(&Job::new(graph, dir.path().join("whole")), true);
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: 1,
        in_order: true,
    };
    let kills = in_parallel(dir.path(), "killed", |at, runs| {
        let job = Job {
            strike: Some(Strike { at, blow: Blow::Half }),
            ..Job::new(edit.graph(false), runs)
        };
        let killed = runner.run(&job) == Exit::Killed;
        if killed && RunFolder::is_one(job.folder()) {
            let next = edit.edited(&job, Begin::Accept);
            attempt.ended(&next, &runner.run(&next))?;
        }
        Ok(killed)
    });
    println!("{kills} kills of {changes}");
    assert!(kills > 30, "only {kills}");
}

#[test]
fn a_run_that_is_over_is_not_touched_by_a_change() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let edit = EDITS
        .iter()
        .find(|edit| edit.name == "A new stage ahead")
        .unwrap();
    let job = Job::new(edit.graph(false), dir.path().join("runs"));
    end(&report(runner.run(&job))).unwrap();
    let kept = |name: &str| std::fs::read(job.folder().join(name)).unwrap();
    let before = [
        "manifest.json",
        "journal.jsonl",
        "checkpoint.json",
        "events.jsonl",
    ]
    .map(kept);
    for begin in [Begin::GoOn, Begin::Accept] {
        let said = report(runner.run(&edit.edited(&job, begin)));
        assert_eq!(end(&said).unwrap_err().0, "already_finished", "{begin:?}");
        let after = [
            "manifest.json",
            "journal.jsonl",
            "checkpoint.json",
            "events.jsonl",
        ]
        .map(kept);
        assert!(before == after, "{begin:?} changes a run that is over");
    }
}
