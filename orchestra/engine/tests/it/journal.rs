//! Tests of interrupted run folders that are damaged, shared or taken over, through the engine.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use orchestra_engine::{Engine, Outcome, RunFolder, RunStatus, StartError, StoreError};
use support::{Acts, FileCall, HookedFiles, acts, event_lines};
use tokio::sync::{Barrier, Notify};

const GRAPH: &str = "start -> a -> b -> c -> exit";

fn engine() -> Engine {
    Engine::builder()
        .files(HookedFiles::new(|_| Ok(())))
        .build()
        .unwrap()
}

/// Returns stages that record that they ran. One of them may never end.
fn noting(ran: &Arc<Mutex<Vec<String>>>, stuck: &'static str) -> Acts {
    let mut all = Acts::new();
    for node in ["a", "b", "c"] {
        let ran = ran.clone();
        all = all.on(node, move |_| {
            ran.lock().unwrap().push(node.to_owned());
            async move {
                if node == stuck {
                    std::future::pending::<()>().await;
                }
                Outcome::success().set(node, "done")
            }
        });
    }
    all
}

/// Creates a run whose process ended while `c` was in flight. Returns its folder.
fn left(dir: &Path) -> PathBuf {
    let folder = dir.join("run");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ran = Arc::default();
    runtime.block_on(async {
        let start = engine().start(acts(GRAPH), noting(&ran, "c"));
        let _run = start.run_dir(&folder).await.unwrap();
        while ran.lock().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
    });
    // Drop everything without an orderly end.
    drop(runtime);
    folder
}

/// Resumes a run. Returns the stages that ran, or the error code.
fn go_on(folder: &Path) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ran = Arc::default();
    runtime.block_on(async {
        let resume = engine().resume(folder, acts(GRAPH), noting(&ran, ""));
        let run = resume.await.map_err(|error| error.code().to_owned())?;
        let result = run.wait().await.map_err(|error| error.code().to_owned())?;
        assert_eq!(result.path, ["start", "a", "b", "c", "exit"]);
        for node in ["a", "b", "c"] {
            assert_eq!(result.context.text(node), "done");
        }
        Ok::<(), String>(())
    })?;
    let ran = ran.lock().unwrap().clone();
    Ok(ran)
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target)
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn dir() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.unwrap()
}

fn repaired(folder: &Path) -> String {
    let events = event_lines(folder);
    let resumed = events.iter().find(|event| event["event"] == "PipelineResumed");
    resumed.map_or_else(String::new, |event| event["repaired"].to_string())
}

#[test]
fn a_run_that_was_left_runs_again_only_what_was_in_flight() {
    let dir = dir();
    let folder = left(dir.path());
    assert_eq!(go_on(&folder).unwrap(), ["c"]);
    assert_eq!(repaired(&folder), "null");
    assert_eq!(go_on(&folder).unwrap_err(), "already_finished");
}

#[test]
fn a_journal_cut_where_no_other_file_proves_it_costs_the_stages_behind_the_cut_and_no_other() {
    let dir = dir();
    let folder = left(dir.path());
    let journal = fs::read(folder.join("journal.jsonl")).unwrap();
    let end = journal.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let lines: Vec<usize> = (0..end)
        .filter(|at| journal[*at] == b'\n')
        .map(|at| at + 1)
        .collect();
    let target = dir.path().join("cut");
    let mut again = Vec::new();
    for length in (0..end).step_by(23).chain(lines.iter().copied()) {
        copy(&folder, &target);
        fs::write(target.join("journal.jsonl"), &journal[..length]).unwrap();
        fs::remove_file(target.join("events.jsonl")).unwrap();
        let ran = go_on(&target).unwrap();
        assert!(
            ["a", "b", "c"].ends_with(&ran.iter().map(String::as_str).collect::<Vec<_>>()),
            "{ran:?}"
        );
        // A run without its first record starts again.
        let torn = length > lines[0] && !lines.contains(&length);
        assert_eq!(repaired(&target).contains("cut off"), torn, "{length}");
        again.push(ran.len());
    }
    for expected in 1..=3 {
        assert!(again.contains(&expected), "{again:?}");
    }
}

#[test]
fn a_journal_with_a_bit_changed_is_refused_or_loses_only_its_last_record() {
    let dir = dir();
    let folder = left(dir.path());
    let journal = fs::read(folder.join("journal.jsonl")).unwrap();
    let end = journal.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let target = dir.path().join("changed");
    let mut refused = 0;
    for bit in (0..end * 8).step_by(61) {
        copy(&folder, &target);
        let mut changed = journal[..end].to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        fs::write(target.join("journal.jsonl"), &changed).unwrap();
        match go_on(&target) {
            Err(code) => {
                // An apparently incomplete last record is refused because the events name it.
                assert!(["store_damaged", "journal_cut"].contains(&&*code), "{code}");
                refused += 1;
            }
            Ok(ran) => {
                assert!(repaired(&target).contains("cut off"), "bit {bit}");
                assert_eq!(ran.last().unwrap(), "c");
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[tokio::test]
async fn runs_side_by_side_share_their_syncs_and_leave_no_log() {
    const RUNS: usize = 40;
    let dir = dir();
    let (shared, records) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (syncs, writes) = (shared.clone(), records.clone());
    let disk = HookedFiles::new(move |call| {
        match call {
            FileCall::Writes(path) if path.ends_with("journal.jsonl") => {
                writes.fetch_add(1, Ordering::SeqCst);
            }
            FileCall::Syncs(path) if path.extension().is_some_and(|extension| extension == "log") => {
                syncs.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        Ok(())
    });
    let engine = Engine::builder()
        .files(disk.clone())
        .runs_dir(dir.path())
        .build()
        .unwrap();
    let together = Arc::new(Barrier::new(RUNS));
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let mut stages = Acts::new();
        for node in ["a", "b", "c"] {
            let together = together.clone();
            stages = stages.on(node, move |_| {
                let together = together.clone();
                async move {
                    together.wait().await;
                    Outcome::success()
                }
            });
        }
        let start = engine.start(acts(GRAPH), stages).run_id(format!("run-{number}"));
        runs.push(start.await.unwrap());
    }
    for run in runs {
        assert!(run.wait().await.unwrap().is_success());
    }
    let (shared, records) = (shared.load(Ordering::SeqCst), records.load(Ordering::SeqCst));
    assert!(
        0 < shared && shared < records,
        "{shared} syncs for {records} records"
    );
    assert_eq!(RunFolder::list(dir.path()).unwrap().len(), RUNS);
    while fs::read_dir(dir.path().join(".commits"))
        .unwrap()
        .next()
        .is_some()
    {
        tokio::task::yield_now().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn an_owner_that_comes_back_after_a_take_over_writes_nothing_and_says_why() {
    let dir = dir();
    let folder = dir.path().join("run");
    let thaw = Arc::new(Notify::new());
    let (wake, began) = (thaw.clone(), Arc::new(Notify::new()));
    let begins = began.clone();
    let frozen = Acts::new().on("b", move |stage| {
        let (wake, begins) = (wake.clone(), begins.clone());
        async move {
            stage.stage_dir().unwrap();
            begins.notify_one();
            wake.notified().await;
            Outcome::success()
        }
    });
    let old = engine()
        .start(acts(GRAPH), frozen)
        .run_dir(&folder)
        .await
        .unwrap();
    began.notified().await;
    let refused = engine()
        .resume(&folder, acts(GRAPH), Acts::new())
        .await
        .unwrap_err();
    let StartError::Store(StoreError::Owned { by: Some(by), .. }) = &refused else {
        panic!("{refused}")
    };
    assert_eq!(by.pid, std::process::id());
    let new = engine()
        .resume(&folder, acts(GRAPH), Acts::new())
        .take_over()
        .await
        .unwrap();
    let result = new.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Success);
    let seen = |name: &str| fs::read(folder.join(name)).unwrap();
    let names = [
        "journal.jsonl",
        "events.jsonl",
        "checkpoint.json",
        "manifest.json",
        "owner.lock",
        "b/status.json",
    ];
    let before = names.map(seen);
    thaw.notify_one();
    let error = old.wait().await.unwrap_err();
    assert_eq!(error.code(), "store_ownership_lost", "{error}");
    assert_eq!(names.map(seen), before);
    assert_eq!(RunFolder::open(&folder).unwrap().owner().unwrap(), None);
}
