//! Tests of stages that change the files of their own run while it is in progress: the run ends at once and names the
//! file.

#![cfg(unix)]

use crate::support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orchestra_engine::{Durability, Engine, Outcome, ResumeBuilder};
use support::{Acts, acts};

const GRAPH: &str = "start -> a -> b -> c -> exit";

type Change = fn(&Path);

fn append(path: &Path) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"forged\":true}\n").unwrap();
}

fn truncate(path: &Path) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(10).unwrap();
}

/// Replaces the file by a copy.
fn replace(path: &Path) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(copy, path).unwrap();
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// Hides the file under another name, so that processes that have it open can still use it.
fn hide(path: &Path) {
    fs::hard_link(path, path.with_extension("hidden")).unwrap();
    replace(path);
}

fn link(path: &Path) {
    let target = path.with_extension("target");
    fs::rename(path, &target).unwrap();
    std::os::unix::fs::symlink(target, path).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Runs a pipeline whose stage `b` changes a file. Returns the code and the text of the error, and how often `c` ran.
fn tampered(
    folder: &Path,
    name: &'static str,
    change: Change,
    durability: Durability,
) -> (String, String, usize) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = ran.clone();
    let stages = Acts::new()
        .on("b", move |stage| {
            change(&stage.run_dir().unwrap().join(name));
            std::future::ready(Outcome::success())
        })
        .on("c", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Outcome::success())
        });
    let error = runtime().block_on(async {
        let engine = Engine::builder().durability(durability).build().unwrap();
        let pause = engine.start(acts(GRAPH), Acts::new().on("a", |_| std::future::pending()));
        let paused = pause.run_dir(folder).await.unwrap();
        paused.pause("so that there is a checkpoint");
        paused.wait().await.unwrap();
        let run = engine.resume(folder, acts(GRAPH), stages).await.unwrap();
        run.wait().await.unwrap_err()
    });
    (
        error.code().to_owned(),
        error.to_string(),
        ran.load(Ordering::SeqCst),
    )
}

#[test]
fn a_stage_that_changes_the_files_of_its_run_ends_it_with_the_name_of_the_file() {
    let changes: [(&str, &[Change]); 4] = [
        ("journal.jsonl", &[append, truncate, replace, remove, hide, link]),
        (
            "checkpoint.json",
            &[append, truncate, replace, remove, hide, link],
        ),
        ("events.jsonl", &[append, truncate, replace, remove, hide, link]),
        ("owner.lock", &[replace, remove]),
    ];
    for durability in [Durability::Full, Durability::Process] {
        for (name, changes) in changes {
            for (at, change) in changes.iter().enumerate() {
                let dir = tempfile::tempdir().unwrap();
                let folder = dir.path().join("run");
                let (code, text, ran) = tampered(&folder, name, *change, durability);
                assert_eq!(code, "store_tampered", "{name} {at}: {text}");
                assert!(
                    text.contains(&format!("{name}` was changed during the run")),
                    "{text}"
                );
                // Events are only written when the run waits, so the next stage may have started.
                assert!(
                    ran == 0 || name == "events.jsonl",
                    "{name} {at}: a stage ran on top of it"
                );
            }
        }
    }
}

#[test]
fn a_run_that_was_tampered_with_goes_on_when_the_loss_is_accepted() {
    for change in [append as Change, truncate, remove] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("run");
        tampered(&folder, "journal.jsonl", change, Durability::Process);
        let go_on = |how: fn(ResumeBuilder) -> ResumeBuilder| {
            runtime().block_on(async {
                let engine = Engine::builder().build().unwrap();
                let run = how(engine.resume(&folder, acts(GRAPH), Acts::new())).await?;
                Ok::<_, orchestra_engine::StartError>(run.wait().await.unwrap())
            })
        };
        let result = match go_on(|resume| resume) {
            Ok(result) => result,
            Err(error) => {
                assert!(
                    ["journal_cut", "store_damaged", "store_no_run"].contains(&error.code()),
                    "{error}"
                );
                go_on(ResumeBuilder::accept_loss).unwrap()
            }
        };
        assert_eq!(result.path, ["start", "a", "b", "c", "exit"]);
    }
}

#[test]
fn a_run_whose_folder_was_removed_ends_at_once_and_makes_nothing_anew() {
    for inner in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("run");
        let stages = Acts::new().on("b", move |stage| async move {
            let folder = stage.run_dir().unwrap().to_owned();
            if inner {
                // Remove everything in the folder, but not the folder itself.
                for entry in fs::read_dir(&folder).unwrap() {
                    let path = entry.unwrap().path();
                    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                }
            } else {
                fs::remove_dir_all(&folder).unwrap();
            }
            // Without an error the stage would run forever.
            std::future::pending().await
        });
        let error = runtime().block_on(async {
            let engine = Engine::builder().build().unwrap();
            let start = engine.start(acts(GRAPH), stages).run_dir(&folder);
            let run = start.await.unwrap();
            tokio::time::timeout(std::time::Duration::from_secs(60), run.wait()).await
        });
        let error = error.expect("it stops by itself").unwrap_err();
        assert_eq!(error.code(), "run_folder_gone", "{error}");
        assert!(
            error.to_string().contains("was removed during the run"),
            "{error}"
        );
        assert_eq!(folder.exists(), inner);
        if inner {
            let left: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}
