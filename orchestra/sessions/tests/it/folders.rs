//! Tests of the index with run folders that lie elsewhere, are removed or damaged, or hold no run.

use std::fs;

use orchestra_engine::Timestamp;
use orchestra_sessions::{RunFilter, SessionError, SessionIndex, SessionStatus};
use serde_json::json;

use crate::support::*;

#[test]
fn a_run_in_a_folder_of_its_own_is_listed_and_survives_the_loss_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let runs_dir = dir.path().join("runs");
    let folder = dir.path().join("elsewhere");
    let mut run = WrittenRun::at(&folder, "far", &json!({}));
    run.tell(started_run());
    let index = SessionIndex::open(&runs_dir).unwrap();
    assert_eq!(&*index.accept(&folder).unwrap(), "far");
    let folder = fs::canonicalize(folder).unwrap();
    assert_eq!(index.run("far").unwrap().folder, folder);
    let before = content(&index);
    drop(index);
    fs::remove_file(database(&runs_dir)).unwrap();
    let index = SessionIndex::open(&runs_dir).unwrap();
    assert_eq!(content(&index), before);

    let near = WrittenRun::new(&runs_dir, "near");
    let twin = WrittenRun::at(&dir.path().join("twin"), "near", &json!({}));
    let error = index.accept(&twin.folder).unwrap_err();
    assert!(
        matches!(&error, SessionError::Taken { taken_by, .. } if taken_by.ends_with("near")),
        "{error}"
    );
    assert_eq!(index.accept(&near.folder).unwrap(), near.run);

    index.forget(&run.run).unwrap();
    assert_eq!(index.run("far").unwrap_err().code(), "unknown_run");
    assert!(folder.is_dir());
}

#[test]
fn a_folder_without_a_run_is_not_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path().join("runs")).unwrap();
    let code = |folder: &std::path::Path| index.accept(folder).unwrap_err().code();
    assert_eq!(code(&dir.path().join("missing")), "session_io");
    assert_eq!(code(dir.path()), "not_a_run");
    fs::write(dir.path().join("manifest.json"), "{}").unwrap();
    assert_eq!(code(dir.path()), "not_a_run", "its manifest names no run");
    assert!(index.list(&RunFilter::all()).unwrap().is_empty());
}

#[test]
fn a_run_goes_from_the_list_with_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    for n in 0..30 {
        run.tell_nth(n);
    }
    assert_eq!(index.run("nightly").unwrap().summary.events, 30);
    fs::remove_dir_all(&run.folder).unwrap();
    assert!(index.list(&RunFilter::all()).unwrap().is_empty());
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    assert_eq!(index.run("nightly").unwrap().summary.events, 1);
    assert_eq!(
        index.stages("nightly").unwrap(),
        [],
        "nothing is left of the run before"
    );
}

#[test]
fn what_stands_in_the_runs_folder_beside_runs_is_passed_by() {
    let dir = tempfile::tempdir().unwrap();
    let run = WrittenRun::new(dir.path(), "nightly");
    for other in ["no-manifest", "with blank", ".hidden"] {
        fs::create_dir(dir.path().join(other)).unwrap();
    }
    for other in ["with blank", ".hidden"] {
        fs::write(dir.path().join(other).join("manifest.json"), "{}").unwrap();
    }
    fs::write(dir.path().join("file"), "").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&run.folder, dir.path().join("link")).unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let list = index.list(&RunFilter::all()).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].run, run.run);
}

#[test]
fn a_manifest_that_cannot_be_understood_does_not_hide_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    fs::write(run.folder.join("manifest.json"), "{ torn").unwrap();
    run.tell(started_run());
    let index = SessionIndex::open(dir.path()).unwrap();
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (&*session.name, session.status),
        ("release", SessionStatus::Running)
    );
    assert_eq!(
        session.summary.started,
        Some(Timestamp::from_millis(START + 1_000))
    );
}
