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

#[test]
fn between_searches_new_removed_and_open_runs_are_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut ended = WrittenRun::new(dir.path(), "ended");
    ended.tell(started_run());
    ended.tell(failed_run(None));
    let mut open = WrittenRun::new(dir.path(), "open");
    open.tell(started_run());
    // A folder in which a run is about to be created.
    let begun = dir.path().join("begun");
    fs::create_dir(&begun).unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    index
        .set_search_interval(std::time::Duration::from_secs(3_600))
        .unwrap();
    let listed = || {
        let sessions = index.list(&RunFilter::all()).unwrap();
        let mut runs: Vec<_> = sessions
            .iter()
            .map(|session| (session.run.to_string(), session.status))
            .collect();
        runs.sort();
        runs
    };
    let of = |runs: &[(&str, SessionStatus)]| -> Vec<_> {
        runs.iter()
            .map(|(run, status)| ((*run).to_owned(), *status))
            .collect()
    };
    assert_eq!(
        listed(),
        of(&[("ended", SessionStatus::Fail), ("open", SessionStatus::Running)])
    );
    index.refresh().unwrap();

    WrittenRun::at(&begun, "begun", &json!({}));
    let mut removed = WrittenRun::new(dir.path(), "new");
    removed.tell(started_run());
    open.tell(failed_run(None));
    assert_eq!(
        listed(),
        of(&[
            ("begun", SessionStatus::Accepted),
            ("ended", SessionStatus::Fail),
            ("new", SessionStatus::Running),
            ("open", SessionStatus::Fail)
        ])
    );
    let changed = index.refresh().unwrap();
    let changed: Vec<_> = changed.iter().map(|run| &**run).collect();
    assert_eq!(changed, ["begun", "new", "open"], "the list had found them");
    assert!(index.refresh().unwrap().is_empty());

    fs::remove_dir_all(&removed.folder).unwrap();
    fs::remove_dir_all(&ended.folder).unwrap();
    assert_eq!(
        listed(),
        of(&[("begun", SessionStatus::Accepted), ("open", SessionStatus::Fail)])
    );

    assert_eq!(index.refresh().unwrap(), [ended.run, removed.run]);

    // What happens to ended runs waits for the interval.
    open.tell(resumed(2));
    assert!(index.refresh().unwrap().is_empty());
    index.set_search_interval(std::time::Duration::ZERO).unwrap();
    let found = std::iter::repeat_with(|| index.refresh().unwrap())
        .take(1_000_000)
        .find(|changed| !changed.is_empty());
    assert_eq!(found, Some(vec![open.run.clone()]));
}
