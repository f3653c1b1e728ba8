//! Many processes that share one index. Some of them are killed, while the database is removed repeatedly.
use crate::support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use orchestra_sessions::{RunFilter, SessionIndex};
use support::*;

const WORK: &str = "ORCHESTRA_SESSIONS_TEST_WORK";
const PROCESSES: usize = 16;
const UPDATES: u64 = 300;

/// Runs a function of this test program in another process.
fn spawn(work: &str, runs_dir: &Path, run: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "processes::work_of_a_process_of_its_own",
            "--nocapture",
        ])
        .env(WORK, work)
        .env("RUNS_DIR", runs_dir)
        .env("RUN", run)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the other tests run it, in processes of their own"]
fn work_of_a_process_of_its_own() {
    let Ok(work) = std::env::var(WORK) else { return };
    let runs_dir = std::env::var_os("RUNS_DIR").unwrap();
    let runs_dir = Path::new(&runs_dir);
    let index = SessionIndex::open(runs_dir).unwrap();
    match &*work {
        "update" | "update for ever" => {
            let mut run = WrittenRun::new(runs_dir, &std::env::var("RUN").unwrap());
            index.accept(&run.folder).unwrap();
            let listener = index.listener();
            let updates = if work == "update" { UPDATES } else { u64::MAX };
            for n in 0..updates {
                listener(&run.tell_nth(n));
                // Each event is applied in its own transaction, so that the processes compete as often as possible.
                index.flush().unwrap();
                if n == 20 {
                    println!("\nwell under way");
                }
            }
        }
        "rebuild" => {
            for _ in 0..10 {
                index.rebuild().unwrap();
                assert_eq!(index.list(&RunFilter::all()).unwrap().len(), 5);
            }
        }
        other => panic!("{other} is not known"),
    }
}

fn succeed(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}

fn update(runs_dir: &Path) -> Vec<Child> {
    (0..PROCESSES)
        .map(|n| spawn("update", runs_dir, &format!("run-{n}")))
        .collect()
}

fn all_updates_are_counted(runs_dir: &Path) {
    let index = SessionIndex::open(runs_dir).unwrap();
    let sessions = index.list(&RunFilter::all()).unwrap();
    assert_eq!(sessions.len(), PROCESSES);
    assert!(
        sessions
            .iter()
            .all(|session| session.summary.events == UPDATES && session.summary.stages > 30)
    );
    let found = content(&index);
    drop(index);
    assert!(
        found == from_scratch(runs_dir),
        "the index differs from one made anew"
    );
}

#[test]
fn sixteen_processes_update_one_index_hundreds_of_times_each() {
    let dir = tempfile::tempdir().unwrap();
    succeed(update(dir.path()));
    all_updates_are_counted(dir.path());
}

#[test]
fn a_database_that_is_deleted_under_load_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = database(dir.path());
    let mut children = update(dir.path());
    let mut deleted = 0;
    let mut written_then = 0;
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        // Wait until the processes have made progress, independently of the speed of the machine.
        let written = written(dir.path());
        if written < written_then + 90_000 || fs::remove_file(&file).is_err() {
            std::thread::yield_now();
            continue;
        }
        written_then = written;
        deleted += 1;
        // Alternately remove everything, or leave an orphaned log behind.
        if deleted % 2 == 0 {
            let _ = fs::remove_file(beside(&file, "-wal"));
            let _ = fs::remove_file(beside(&file, "-shm"));
        }
    }
    succeed(children);
    assert!(deleted >= 10, "it was deleted only {deleted} times");
    all_updates_are_counted(dir.path());
}

/// Returns the total size of the events of all runs.
fn written(runs_dir: &Path) -> u64 {
    let events = (0..PROCESSES).map(|n| runs_dir.join(format!("run-{n}/events.jsonl")));
    events
        .filter_map(|events| fs::metadata(events).ok())
        .map(|found| found.len())
        .sum()
}

#[test]
fn many_who_rebuild_at_once_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..5 {
        let mut run = WrittenRun::new(dir.path(), &format!("run-{n}"));
        for n in 0..100 {
            run.tell_nth(n);
        }
    }
    let expected = from_scratch(dir.path());
    succeed((0..6).map(|_| spawn("rebuild", dir.path(), "none")).collect());
    let index = SessionIndex::open(dir.path()).unwrap();
    assert_eq!(content(&index), expected);
}

#[test]
fn processes_that_are_killed_at_work_leave_an_index_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let mut children: Vec<Child> = (0..3)
            .map(|n| spawn("update for ever", dir.path(), &format!("run-{round}-{n}")))
            .collect();
        for child in &mut children {
            let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
            assert!(
                lines.any(|line| line.unwrap() == "well under way"),
                "a worker ended by itself"
            );
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let index = SessionIndex::open(dir.path()).unwrap();
        let sessions = index.list(&RunFilter::all()).unwrap();
        assert_eq!(sessions.len(), 3 * (round + 1));
        assert!(sessions.iter().all(|session| session.summary.events > 20));
    }
    let index = SessionIndex::open(dir.path()).unwrap();
    let found = content(&index);
    drop(index);
    assert_eq!(found, from_scratch(dir.path()));
}
