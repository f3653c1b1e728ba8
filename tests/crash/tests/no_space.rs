//! Disks that are full, read-only or broken: a typed error, an intact checkpoint, and a run that goes on to its right end.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

use orchestra_crash_tests::compare::{promises, readable};
use orchestra_crash_tests::files::{Blow, Strike};
use orchestra_crash_tests::harness::{Attempt, Exit, Runner, dir, in_parallel};
use orchestra_crash_tests::job::{Begin, Graph, Job};
use orchestra_crash_tests::log::Log;
use orchestra_crash_tests::shapes::shape;
use orchestra_engine::RunFolder;
use serde_json::Value;

fn runner() -> Runner {
    Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner"))
}

fn of_shape(name: &str, runs: &Path) -> Job {
    Job::new(Graph::Shape(name.to_owned()), runs)
}

/// Runs a shape to its end; gives what is left.
fn expected(name: &str, dir: &Path) -> (Vec<Value>, u64) {
    let in_order = shape(name).at_once == 1;
    runner().whole(&of_shape(name, &dir.join(format!("{name}-whole"))), in_order)
}

/// What the error of a process is; `None` where it succeeded.
fn error(exit: &Exit) -> Option<&Value> {
    match exit {
        Exit::Reported { report, code } => {
            assert_eq!(*code == 0, report["error"].is_null(), "{report}");
            Some(&report["error"]).filter(|error| !error.is_null())
        }
        Exit::Killed => panic!("nobody kills it"),
    }
}

/// Lets a call fail in a run that has a checkpoint, and goes on with it.
fn fails(name: &str, blow: Blow) {
    let (dir, runner, shape) = (dir(), runner(), shape(name));
    let (expected, changes) = expected(name, dir.path());
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: shape.at_once,
        in_order: shape.at_once == 1,
    };
    let failures = in_parallel(dir.path(), name, |at, runs| {
        let first = Job {
            pause_after: Some(3),
            ..of_shape(name, runs)
        };
        let paused = runner.run(&first);
        let before = RunFolder::open(first.folder())
            .unwrap()
            .checkpoint()
            .unwrap()
            .unwrap();
        if error(&paused).is_some() || before.status != "paused" {
            return Err(format!("it does not pause: {paused:?}"));
        }
        let broken = Job {
            strike: Some(Strike { at, blow }),
            ..first.next(Begin::GoOn)
        };
        let said = runner.run(&broken);
        let Exit::Reported { report, .. } = &said else {
            return Err("nobody kills it".to_owned());
        };
        let struck = report["changes"].as_u64().unwrap() >= at;
        match error(&said) {
            // Not every call matters: one that only reserves space may fail.
            None => attempt.ended(&broken, &said)?,
            Some(error) if error["code"] == "store_io" => {
                let log = Log::read(&first.log);
                if !readable(&first.folder(), &log)? {
                    return Err("the run is gone".to_owned());
                }
                let after = RunFolder::open(first.folder())
                    .unwrap()
                    .checkpoint()
                    .unwrap()
                    .unwrap();
                if after.completed_nodes.len() < before.completed_nodes.len() {
                    return Err(format!("the checkpoint is lost: {:?}", after.completed_nodes));
                }
                let next = broken.next(Begin::GoOn);
                attempt.ended(&next, &runner.run(&next))?;
            }
            Some(other) => return Err(format!("it is {other}")),
        }
        Ok(struck)
    });
    println!("{name}: {failures} of about {changes} calls failed");
    assert!(failures > changes / 3, "only {failures} of {changes}");
}

#[test]
fn a_disk_that_breaks_at_any_call_of_a_chain() {
    fails("chain", Blow::Fails);
}

#[test]
fn a_disk_that_breaks_at_any_call_of_runs_within_a_run() {
    fails("children", Blow::Fails);
}

#[test]
fn a_disk_that_breaks_at_any_call_of_a_parallel_block() {
    fails("parallel", Blow::Fails);
}

#[test]
fn a_single_call_that_fails_when_half_is_written() {
    for name in ["chain", "parallel", "gates", "children", "restart"] {
        fails(name, Blow::FailsOnce);
    }
}

#[test]
fn a_disk_that_breaks_before_a_run_is_accepted_leaves_none() {
    let (dir, runner) = (dir(), runner());
    let (expected, _) = expected("chain", dir.path());
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: 1,
        in_order: true,
    };
    let failures = in_parallel(dir.path(), "new", |at, runs| {
        let job = Job {
            strike: Some(Strike {
                at,
                blow: Blow::Fails,
            }),
            ..of_shape("chain", runs)
        };
        let said = runner.run(&job);
        let Some(error) = error(&said) else {
            return Err("it succeeds without a disk".to_owned());
        };
        if error["code"] != "store_io" {
            return Err(error.to_string());
        }
        let log = Log::read(&job.log);
        promises(&log, 0)?;
        let accepted = readable(&job.folder(), &log)?;
        let next = job.next(Begin::GoOn);
        attempt.ended(&next, &runner.run(&next))?;
        Ok(!accepted)
    });
    assert!(failures > 5, "only {failures}");
}

#[test]
fn a_file_that_may_not_grow_any_more() {
    let (dir, runner) = (dir(), runner());
    let (expected, _) = expected("bulky", dir.path());
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: 1,
        in_order: true,
    };
    let failures = in_parallel(dir.path(), "limit", |number, runs| {
        let job = of_shape("bulky", runs);
        let mut command = Command::new("sh");
        // In blocks of 512 bytes. Without the trap the system would end the process.
        let script = "trap '' XFSZ; ulimit -f \"$1\"; exec \"$2\" \"$3\"";
        let plain = runner.command(&job);
        command.args(["-c", script, "sh", &(6 * number).to_string()]);
        command.arg(plain.get_program()).args(plain.get_args());
        let said = Exit::from_output(&command.output().unwrap());
        let Some(error) = error(&said) else {
            attempt.ended(&job, &said)?;
            return Ok(false);
        };
        let message = error["message"].as_str().unwrap();
        if error["code"] != "store_io" || !message.contains("File too large") {
            return Err(error.to_string());
        }
        let next = job.next(Begin::GoOn);
        attempt.ended(&next, &runner.run(&next))?;
        Ok(true)
    });
    println!("{failures} limits were too low");
    assert!(failures > 5, "only {failures}");
}

/// Does what a script says in a place of its own, in which it may mount; `None` where the system does not let it.
fn in_own_place(script: &str, arguments: &[&str]) -> Option<Output> {
    let alone = |script: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh"]);
        command.args(arguments).output()
    };
    let try_out = "mkdir -p \"$1\"; mount -t tmpfs none \"$1\"";
    let may = alone(try_out, &arguments[..1]).is_ok_and(|output| output.status.success());
    if !may {
        println!("skipped: nothing can be mounted here");
        return None;
    }
    Some(alone(script, arguments).unwrap())
}

/// What two processes say, one of which is to fail for a reason; what is left at the end is held to what is expected.
fn full_and_not(
    script: &str,
    size: &str,
    first: &Job,
    second: &Job,
    reason: &str,
    expected: &[Value],
) -> bool {
    let runner = runner();
    let mounted = first.runs.parent().unwrap();
    let out = mounted.with_extension("out");
    let text = |job: &Job| serde_json::to_string(job).unwrap();
    let program = runner.command(first).get_program().to_str().unwrap().to_owned();
    let arguments = [
        mounted.to_str().unwrap(),
        out.to_str().unwrap(),
        size,
        &program,
        &text(first),
        &text(second),
    ];
    let Some(output) = in_own_place(script, &arguments) else {
        return true;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let reported = String::from_utf8_lossy(&output.stderr);
    let reports = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let reports: Vec<Value> = reports.collect();
    assert!(
        output.status.success() && reports.len() == 2,
        "{said}\n{reported}"
    );
    let failed = !reports[0]["error"].is_null();
    if failed {
        assert_eq!(reports[0]["error"]["code"], "store_io", "{}", reports[0]);
        let message = reports[0]["error"]["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
    let attempt = Attempt {
        runner: &runner,
        expected,
        at_once: 1,
        in_order: true,
    };
    let second = Job {
        runs: out.join("runs"),
        ..second.clone()
    };
    let code = i32::from(!reports[1]["error"].is_null());
    let said = Exit::Reported {
        report: reports[1].clone(),
        code,
    };
    attempt
        .ended(&second, &said)
        .unwrap_or_else(|difference| panic!("{size}: {difference}"));
    std::fs::remove_dir_all(&out).unwrap();
    failed
}

#[test]
fn a_disk_that_is_full() {
    let dir = dir();
    let (expected, _) = expected("bulky", dir.path());
    let script = r#"
        mount -t tmpfs -o size="$3" none "$1"
        mkdir "$1/runs"
        "$4" "$5" || true
        mount -o remount,size=64m "$1"
        "$4" "$6" || true
        cp -a "$1" "$2"
    "#;
    let mut failures = 0;
    let sizes = ["40k", "64k", "80k", "100k", "120k", "140k"];
    for size in sizes {
        let first = Job {
            log: dir.path().join(format!("{size}.log")),
            ..of_shape("bulky", &dir.path().join(size).join("runs"))
        };
        let second = first.next(Begin::GoOn);
        failures += usize::from(full_and_not(
            script,
            size,
            &first,
            &second,
            "No space left",
            &expected,
        ));
    }
    assert!(failures >= 4, "only {failures} were too small");
}

#[test]
fn a_run_folder_that_may_not_be_written() {
    let dir = dir();
    let (expected, _) = expected("bulky", dir.path());
    let script = r#"
        mount -t tmpfs none "$1"
        cp -a "$1.before" "$1/runs"
        mount -o remount,ro "$1"
        "$4" "$5" || true
        mount -o remount,rw "$1"
        "$4" "$6" || true
        cp -a "$1" "$2"
    "#;
    let before = Job {
        pause_after: Some(3),
        log: dir.path().join("paused.log"),
        ..of_shape("bulky", &dir.path().join("read-only.before"))
    };
    assert_eq!(error(&runner().run(&before)), None);
    let first = Job {
        runs: dir.path().join("read-only").join("runs"),
        ..before.next(Begin::GoOn)
    };
    let second = first.next(Begin::GoOn);
    assert!(full_and_not(
        script,
        "1m",
        &first,
        &second,
        "Read-only file system",
        &expected
    ));
}
