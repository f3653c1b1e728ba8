//! Tests of artifact files and indexes that are damaged, replaced or not writable (rule D2).
use crate::support;

use std::fs;

use crate::artifacts::{bytes, index, lines};
use orchestra_engine::{ArtifactError, ArtifactStore, Outcome, StoreError};
use serde_json::json;
use support::{Acts, acts, run_in};

#[test]
fn a_damaged_artifact_is_an_error_and_storing_it_again_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(dir.path()).unwrap();
    let info = store.store("log", "A log", bytes(150_000)).unwrap();
    let path = dir.path().join(format!("artifacts/{}.json", info.digest));
    let sound = fs::read(&path).unwrap();
    let damaged = |error: &ArtifactError| {
        assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("artifact `log` is damaged"), "{error}");
    };
    let mut flipped = sound.clone();
    flipped[77_777] ^= 1;
    let longer = [&sound[..], b" "].concat();
    for bytes in [&flipped, &sound[..sound.len() - 1], &longer, b""] {
        fs::write(&path, bytes).unwrap();
        damaged(&store.retrieve("log").unwrap_err());
    }
    fs::remove_file(&path).unwrap();
    damaged(&store.retrieve("log").unwrap_err());
    fs::create_dir(&path).unwrap();
    assert!(store.retrieve("log").is_err());
    assert!(
        store.store("log", "A log", bytes(150_000)).is_err(),
        "a folder is in the way"
    );
    fs::remove_dir(&path).unwrap();
    #[cfg(unix)]
    {
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, &sound).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(store.retrieve("log").is_err(), "a link is not followed");
        fs::write(&elsewhere, "mine").unwrap();
        store.store("log", "A log", bytes(150_000)).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
        assert_eq!(store.retrieve("log").unwrap(), bytes(150_000));
        fs::remove_file(&path).unwrap();
    }
    store.store("log", "A log", bytes(150_000)).unwrap();
    assert_eq!(store.retrieve("log").unwrap(), bytes(150_000));
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_folder_or_the_index_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (run_dir, elsewhere) = (dir.path().join("run"), dir.path().join("elsewhere"));
    fs::create_dir(&run_dir).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let store = ArtifactStore::open(&run_dir).unwrap();
    std::os::unix::fs::symlink(&elsewhere, run_dir.join("artifacts")).unwrap();
    assert_eq!(store.store("a", "A", 1).unwrap_err().code(), "store_not_plain");
    assert_eq!(
        ArtifactStore::open(&run_dir).unwrap_err().code(),
        "store_not_plain"
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    fs::remove_file(run_dir.join("artifacts")).unwrap();
    fs::create_dir(run_dir.join("artifacts")).unwrap();
    let target = elsewhere.join("target");
    fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, index(&run_dir)).unwrap();
    assert!(store.store("a", "A", 1).is_err());
    assert!(ArtifactStore::open(&run_dir).is_err());
    assert_eq!(fs::read(&target).unwrap(), b"mine");
}

#[test]
fn a_torn_end_of_the_index_is_cut_and_damage_before_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(dir.path()).unwrap();
    store.store("a", "First", json!({"x": 1})).unwrap();
    store.store("b", "Second", json!([true, "two"])).unwrap();
    let (path, sound) = (index(dir.path()), lines(dir.path()));
    let ends: Vec<usize> = (0..sound.len())
        .filter(|at| sound[*at] == b'\n')
        .map(|at| at + 1)
        .collect();
    assert_eq!(ends.len(), 3);
    for length in 0..sound.len() {
        for zeros in [0, 700] {
            let mut bytes = sound[..length].to_vec();
            bytes.resize(length + zeros, 0);
            fs::write(&path, &bytes).unwrap();
            let whole = ends.iter().filter(|end| **end <= length).count();
            let opened = ArtifactStore::open(dir.path()).unwrap();
            assert_eq!(opened.len(), whole.saturating_sub(1), "cut at {length}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "reading changes nothing");
            // Each append syncs the disk, so test only some of the lengths.
            if length % 16 != 0 && !ends.contains(&length) {
                continue;
            }
            opened.store("c", "Third", length).unwrap();
            let again = ArtifactStore::open(dir.path()).unwrap();
            assert_eq!(
                (again.len(), again.retrieve("c").unwrap()),
                (opened.len(), json!(length))
            );
        }
    }
    for at in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        // A last line without its end counts as incomplete.
        match ArtifactStore::open(dir.path()) {
            Ok(opened) => {
                assert!(at / 8 >= ends[1], "bit {at} was overlooked");
                assert_eq!(
                    (opened.len(), opened.retrieve("a").unwrap()),
                    (1, json!({"x": 1}))
                );
            }
            Err(ArtifactError::Store(StoreError::Damaged { line, offset, .. })) => {
                let before = ends.iter().filter(|end| **end <= at / 8).count();
                assert!(line as usize <= before + 1, "bit {at} was found in line {line}");
                assert!(offset as usize <= at / 8);
            }
            Err(other) => panic!("bit {at}: {other}"),
        }
    }
    let lines: Vec<&[u8]> = sound.split_inclusive(|byte| *byte == b'\n').collect();
    for order in [&[0, 2][..], &[0, 2, 1], &[0, 1, 1, 2], &[1, 2], &[0, 0, 1, 2]] {
        let mixed: Vec<u8> = order.iter().flat_map(|at| lines[*at].to_vec()).collect();
        fs::write(&path, &mixed).unwrap();
        let error = ArtifactStore::open(dir.path()).unwrap_err();
        assert_eq!(error.code(), "store_damaged", "{order:?}");
    }
}

#[tokio::test]
async fn a_damaged_index_fails_the_stage_that_looks_at_it() {
    let dir = tempfile::tempdir().unwrap();
    let handlers = Acts::new()
        .on("a", |stage| async move {
            let folder = stage.run_dir().unwrap().join("artifacts");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("index.jsonl"), "not an index\n").unwrap();
            Outcome::success()
        })
        .on("b", |stage| async move {
            match stage.artifacts() {
                Ok(_) => Outcome::success(),
                Err(error) => Outcome::fail(error.to_string()),
            }
        });
    let result = run_in(dir.path(), acts("start -> a -> b -> exit"), handlers).await;
    let failure = result.failure.unwrap().to_string();
    assert!(
        failure.contains("index.jsonl` is damaged at line 1 (byte 0)"),
        "{failure}"
    );
}

#[cfg(unix)]
#[test]
fn who_finds_another_index_in_the_place_of_its_own_writes_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let frozen = ArtifactStore::open(dir.path()).unwrap();
    frozen.store("a", "A", 1).unwrap();
    let path = index(dir.path());
    // A process that takes over a run replaces each appended file by a copy.
    fs::copy(&path, path.with_extension("copy")).unwrap();
    fs::rename(path.with_extension("copy"), &path).unwrap();
    let owner = ArtifactStore::open(dir.path()).unwrap();
    owner.store("b", "B", 2).unwrap();
    let bytes = lines(dir.path());
    for thawed in [
        frozen.store("c", "C", 3).unwrap_err(),
        frozen.remove("a").unwrap_err(),
    ] {
        assert_eq!(thawed.code(), "store_tampered");
    }
    assert!(frozen.has("a") && !frozen.has("c"));
    assert_eq!(lines(dir.path()), bytes);
    owner.store("d", "D", 4).unwrap();
    assert_eq!(ArtifactStore::open(dir.path()).unwrap().len(), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(dir.path()).unwrap();
    fs::write(dir.path().join("artifacts"), "in the way").unwrap();
    assert_eq!(store.store("a", "A", 1).unwrap_err().code(), "store_not_plain");
    assert!(store.is_empty());
    fs::remove_file(dir.path().join("artifacts")).unwrap();
    store.store("a", "A", 1).unwrap();
    // An index that disappears during a run is not created again.
    fs::remove_file(index(dir.path())).unwrap();
    assert_eq!(store.store("b", "B", 1).unwrap_err().code(), "store_tampered");
    assert!(store.has("a") && !store.has("b"));
}
