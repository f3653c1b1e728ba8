//! The model of what a disk keeps in a loss of power.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;

use orchestra_engine::{Access, FileSystem};
use orchestra_fault_tests::command::scratch;
use orchestra_fault_tests::files::SimulatedFiles;
use orchestra_fault_tests::world::{Process, Rates, World};
use orchestra_oracle_tests::random::Random;

/// What a file may hold after a loss of power, over many of them; `None` where it is gone.
fn left(act: impl Fn(&SimulatedFiles, &std::path::Path)) -> BTreeSet<Option<Vec<u8>>> {
    let mut found = BTreeSet::new();
    for seed in 0..200 {
        let dir = scratch();
        let world = World::new(dir.path());
        let process = Process::new(world.clone(), 0, Rates::default(), Random::new(seed));
        let path = dir.path().join("file");
        act(&SimulatedFiles::new(process), &path);
        let remains = world.disk.lose_power(&mut Random::new(seed));
        world.disk.restore(remains).unwrap();
        found.insert(fs::read(&path).ok());
    }
    found
}

#[test]
fn what_was_never_synced_may_be_lost_or_not() {
    let found = left(|files, path| {
        let file = files.open(path, Access::New).unwrap();
        files.write_at(&file, b"one", 0).unwrap();
    });
    let expected = [None, Some(Vec::new()), Some(vec![0; 3]), Some(b"one".to_vec())];
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn what_was_synced_with_its_name_stays() {
    let found = left(|files, path| {
        let file = files.open(path, Access::New).unwrap();
        files.write_at(&file, b"one", 0).unwrap();
        files.sync_data(&file).unwrap();
        files.sync_folder(path.parent().unwrap()).unwrap();
    });
    assert_eq!(found, BTreeSet::from([Some(b"one".to_vec())]));
}

#[test]
fn a_name_that_was_not_synced_may_be_lost_with_all_that_was() {
    let found = left(|files, path| {
        let file = files.open(path, Access::New).unwrap();
        files.write_at(&file, b"one", 0).unwrap();
        files.sync_all(&file).unwrap();
    });
    assert_eq!(found, BTreeSet::from([None, Some(b"one".to_vec())]));
}

#[test]
fn a_rename_is_whole_or_not_at_all() {
    let found = left(|files, path| {
        let folder = path.parent().unwrap();
        let file = files.open(path, Access::New).unwrap();
        files.write_at(&file, b"old", 0).unwrap();
        files.sync_all(&file).unwrap();
        let draft = folder.join("draft");
        let file = files.open(&draft, Access::New).unwrap();
        files.write_at(&file, b"new", 0).unwrap();
        files.sync_all(&file).unwrap();
        files.sync_folder(folder).unwrap();
        files.rename(&draft, path).unwrap();
    });
    assert_eq!(
        found,
        BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())])
    );
}

#[test]
fn sectors_are_written_in_any_order() {
    let found = left(|files, path| {
        let file = files.open(path, Access::New).unwrap();
        files.sync_folder(path.parent().unwrap()).unwrap();
        files.write_at(&file, &[1; 512], 0).unwrap();
        files.write_at(&file, &[2; 512], 512).unwrap();
    });
    let hole = [vec![0; 512], vec![2; 512]].concat();
    assert!(
        found.contains(&Some(hole)),
        "the second may be there without the first"
    );
    assert!(!found.contains(&None));
}
