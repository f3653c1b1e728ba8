//! Tests of stage folders across several processes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{EIO, Failing, contents};
use crate::store::files::{FileSystem, system};
use crate::store::stages::StageFolders;
use crate::store::{StageFile, StoreError};

fn stages(files: Arc<dyn FileSystem>, root: &Path) -> StageFolders {
    StageFolders::new(files, root.to_owned())
}

fn names(root: &Path) -> Vec<String> {
    let all = contents(root);
    all.keys().filter(|name| !name.ends_with('/')).cloned().collect()
}

#[test]
fn what_an_earlier_process_left_is_set_aside_once_and_what_belongs_to_the_visit_stays() {
    let stage_folder = super::tempdir();
    let root = stage_folder.path();
    let first = stages(system(), root);
    first.stage("a".into(), 1).unwrap();
    first.write("a".into(), StageFile::Status, b"1").unwrap();
    // The next process begins with the second visit.
    let second = stages(system(), root);
    second.stage("a".into(), 2).unwrap();
    assert_eq!(names(root), ["a/visits/1/status.json"]);
    second.write("a".into(), StageFile::Prompt, b"2").unwrap();
    // The process after that continues the same visit.
    let third = stages(system(), root);
    third.stage("a".into(), 2).unwrap();
    assert_eq!(names(root), ["a/prompt.md", "a/visits/1/status.json"]);
    third.write("a".into(), StageFile::Prompt, b"2, again").unwrap();
    assert_eq!(fs::read(root.join("a/prompt.md")).unwrap(), b"2, again");
    third.stage("a".into(), 3).unwrap();
    assert_eq!(names(root), ["a/visits/1/status.json", "a/visits/2/prompt.md"]);
    // A visit without files counts too.
    stages(system(), root).stage("a".into(), 4).unwrap();
    let fifth = stages(system(), root);
    fifth.stage("a".into(), 4).unwrap();
    fifth.write("a".into(), StageFile::Prompt, b"4").unwrap();
    stages(system(), root).stage("a".into(), 4).unwrap();
    assert!(names(root).contains(&"a/prompt.md".to_owned()));
}

#[test]
fn a_process_that_stopped_while_it_set_a_visit_aside_is_followed_by_one_that_finishes() {
    for call in 1.. {
        let stage_folder = super::tempdir();
        let root = stage_folder.path();
        let first = stages(system(), root);
        first.stage("a".into(), 1).unwrap();
        for (file, text) in [
            (StageFile::Status, "s"),
            (StageFile::Prompt, "p"),
            (StageFile::Response, "r"),
        ] {
            first.write("a".into(), file, text.as_bytes()).unwrap();
        }
        let failing = Arc::new(Failing::default());
        failing.set(call, usize::MAX, EIO);
        let stopped = stages(failing.clone(), root).stage("a".into(), 2);
        let next = stages(system(), root);
        next.stage("a".into(), 2).unwrap();
        next.write("a".into(), StageFile::Status, b"2").unwrap();
        assert_eq!(
            names(root),
            [
                "a/status.json",
                "a/visits/1/prompt.md",
                "a/visits/1/response.md",
                "a/visits/1/status.json"
            ],
            "call {call}"
        );
        if stopped.is_ok() {
            assert!(call > 6, "{call}");
            break;
        }
    }
}

#[test]
fn a_file_of_a_new_folder_is_made_in_one_step_and_what_stands_there_is_replaced() {
    let stage_folder = super::tempdir();
    let failing = Arc::new(Failing::default());
    let stages = stages(failing.clone(), stage_folder.path());
    stages.stage("a".into(), 1).unwrap();
    failing.set(0, 0, 0);
    stages.write("a".into(), StageFile::Status, b"1").unwrap();
    assert_eq!(failing.calls(), ["make", "write"]);
    stages.write("a".into(), StageFile::Status, b"2").unwrap();
    assert_eq!(
        failing.calls()[2..],
        ["make", "remove", "make", "write", "rename"]
    );
    assert_eq!(stages.read("a".into(), StageFile::Status).unwrap().unwrap(), b"2");
}

#[test]
fn a_run_that_was_restarted_goes_on_where_it_was() {
    let stage_folder = super::tempdir();
    let first = stages(system(), stage_folder.path());
    first.restarted(2).unwrap();
    first.stage("a".into(), 1).unwrap();
    let second = stages(system(), stage_folder.path());
    second.restarted(2).unwrap();
    let folder = second.stage("a".into(), 1).unwrap();
    assert!(folder.ends_with("restart-2/a"), "{}", folder.display());
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_folder_is_moved_aside_and_never_followed() {
    let stage_folder = super::tempdir();
    let (root, outside) = (
        stage_folder.path().join("run"),
        stage_folder.path().join("outside"),
    );
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    let stages = stages(system(), &root);
    stages.stage("a".into(), 1).unwrap();
    let plant = || {
        fs::remove_dir_all(root.join("a")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("a")).unwrap();
    };
    plant();
    let read = stages.read("a".into(), StageFile::Status);
    assert!(matches!(read.unwrap_err(), StoreError::NotPlain { .. }));
    stages.stage("a".into(), 1).unwrap();
    assert_eq!(stages.take_moved(), [root.join("a")]);
    plant();
    stages.write("a".into(), StageFile::Status, b"1").unwrap();
    assert_eq!(fs::read(root.join("a/status.json")).unwrap(), b"1");
    plant();
    stages.remove("a".into(), StageFile::Status).unwrap();
    assert_eq!(stages.take_moved().len(), 2);
    assert_eq!(names(&outside), Vec::<String>::new());
}
