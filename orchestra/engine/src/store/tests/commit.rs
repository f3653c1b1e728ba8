//! Tests of shared syncs and of their recovery after a loss of power.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use super::{Chance, EIO, ENOSPC, Failing, commit, manifest, options, record, wait};
use crate::store::commit_log::{Whose, write};
use crate::store::files::FileSystem;
use crate::store::{
    Commit, Durability, FolderStore, Manifest, OpenOptions, Opened, RunStore, StoreOptions, Synced,
};

fn among() -> StoreOptions {
    StoreOptions {
        among_runs: true,
        ..options(Durability::Full)
    }
}

fn manifest_of(name: &str) -> Manifest {
    Manifest {
        run: name.to_owned(),
        ..manifest(Durability::Full)
    }
}

fn start(files: &Arc<Failing>, runs: &Path, name: &str) -> FolderStore {
    let store = FolderStore::create(files.clone(), &runs.join(name), among()).unwrap();
    store.manifest(&manifest_of(name)).unwrap();
    store
}

fn start_all(files: &Arc<Failing>, runs: &Path, count: usize) -> Vec<FolderStore> {
    (0..count)
        .map(|number| start(files, runs, &format!("run-{number}")))
        .collect()
}

fn later(store: &FolderStore) -> Commit {
    match store.sync().unwrap() {
        Synced::Later(commit) => commit,
        Synced::Done => panic!("it did not wait for others"),
    }
}

fn open(folder: &Path) -> Opened {
    let files = Arc::new(Failing::default());
    FolderStore::open(files, folder, among(), OpenOptions::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn count(opened: &Opened) -> u64 {
    for (number, found) in (0..).zip(opened.records.iter()) {
        assert_eq!(found, record(number));
    }
    opened.records.len() as u64
}

fn logs(runs: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(runs.join(".commits")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Copies all files, as they are after the process has ended.
fn copy(from: &Path, to: &Path) {
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

#[test]
fn a_run_alone_waits_for_its_own_disk_and_needs_no_log() {
    let stage_folder = super::tempdir();
    let files = Arc::new(Failing::default());
    let store = start(&files, stage_folder.path(), "one");
    files.set(0, 0, 0);
    for number in 0..10 {
        store.append(&record(number)).unwrap();
        assert!(matches!(store.sync().unwrap(), Synced::Done));
    }
    assert_eq!(files.count("sync_data"), 10);
    assert!(logs(stage_folder.path()).is_empty());
}

#[test]
fn many_runs_share_their_syncs() {
    const RUNS: usize = 100;
    let stage_folder = super::tempdir();
    let files = Arc::new(Failing::default());
    let stores = start_all(&files, stage_folder.path(), RUNS);
    for store in &stores {
        store.append(&record(0)).unwrap();
    }
    // Block the first write until all other requests have arrived.
    let (go, gone) = mpsc::channel::<()>();
    files.before(1, move || gone.recv().unwrap());
    let commits: Vec<Commit> = stores.iter().map(later).collect();
    go.send(()).unwrap();
    for commit in commits {
        wait(commit).unwrap();
    }
    let calls = files.calls();
    let named = |name: &str| calls.iter().filter(|call| **call == name).count();
    // The first alone or with some others, and the rest at once.
    assert!(named("sync_data") <= 2, "{calls:?}");
    assert!(named("write") <= 2, "{calls:?}");
    // All members leave, and no log remains.
    for store in &stores {
        store.close().unwrap();
    }
    drop(stores);
    while !logs(stage_folder.path()).is_empty() {
        std::thread::yield_now();
    }
    for number in 0..RUNS {
        assert_eq!(
            count(&open(&stage_folder.path().join(format!("run-{number}")))),
            1
        );
    }
}

/// Damages a journal that was never synced like a loss of power does.
fn lose(path: &Path, chance: &mut Chance) {
    let mut bytes = fs::read(path).unwrap();
    match chance.below(4) {
        0 => bytes.clear(),
        1 => bytes.fill(0),
        2 => {
            let sectors = bytes.len() / 512;
            for sector in 0..=sectors {
                if chance.below(2) == 0 {
                    let end = bytes.len().min((sector + 1) * 512);
                    bytes[sector * 512..end].fill(0);
                }
            }
        }
        _ => bytes.truncate(chance.below(bytes.len())),
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_was_committed_together_is_there_after_a_loss_of_power() {
    const RUNS: usize = 6;
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let stage_folder = super::tempdir();
        let (runs, after) = (
            stage_folder.path().join("runs"),
            stage_folder.path().join("after"),
        );
        let files = Arc::new(Failing::default());
        let stores = start_all(&files, &runs, RUNS);
        let (mut written, mut committed) = ([0; RUNS], [0; RUNS]);
        for _ in 0..chance.below(60) {
            let mut commits = Vec::new();
            for (at, store) in stores.iter().enumerate() {
                for _ in 0..chance.below(4) {
                    store.append(&record(written[at])).unwrap();
                    written[at] += 1;
                }
                if chance.below(3) > 0 && committed[at] < written[at] {
                    commits.push((at, later(store)));
                }
            }
            for (at, commit) in commits {
                wait(commit).unwrap();
                committed[at] = written[at];
            }
        }
        copy(&runs, &after);
        for number in 0..RUNS {
            lose(&after.join(format!("run-{number}/journal.jsonl")), &mut chance);
        }
        for (number, (least, most)) in committed.into_iter().zip(written).enumerate() {
            let opened = open(&after.join(format!("run-{number}")));
            let known = count(&opened);
            assert!(
                (least..=most).contains(&known),
                "seed {seed}: {least} <= {known} <= {most}"
            );
            opened.store.append(&record(known)).unwrap();
            opened.store.close().unwrap();
        }
        assert!(logs(&after).is_empty(), "seed {seed}");
        for (number, least) in committed.into_iter().enumerate() {
            let opened = open(&after.join(format!("run-{number}")));
            assert!(opened.repaired.is_empty() && count(&opened) > least);
        }
    }
}

#[test]
fn what_was_brought_back_is_said() {
    let stage_folder = super::tempdir();
    let (runs, after) = (
        stage_folder.path().join("runs"),
        stage_folder.path().join("after"),
    );
    let files = Arc::new(Failing::default());
    let stores = start_all(&files, &runs, 2);
    stores[0].append(&record(0)).unwrap();
    wait(later(&stores[0])).unwrap();
    copy(&runs, &after);
    fs::write(after.join("run-0/journal.jsonl"), "").unwrap();
    let opened = open(&after.join("run-0"));
    assert_eq!(count(&opened), 1);
    let said = opened.repaired.concat();
    assert!(
        said.contains("bytes of `journal.jsonl` were restored from what the run had shared"),
        "{said}"
    );
}

#[test]
fn lines_of_another_run_of_the_name_or_of_an_owner_that_was_followed_are_not_brought_back() {
    let stage_folder = super::tempdir();
    let (other, runs, after) = (
        stage_folder.path().join("other"),
        stage_folder.path().join("runs"),
        stage_folder.path().join("after"),
    );
    let files = Arc::new(Failing::default());
    let stores = start_all(&files, &runs, 2);
    let lines = {
        let source = start(&Arc::new(Failing::default()), &other, "run-0");
        source.append(&record(0)).unwrap();
        source.close().unwrap();
        fs::read(other.join("run-0/journal.jsonl")).unwrap()
    };
    let real = Whose {
        folder: "run-0".to_owned(),
        identity: manifest_of("run-0").identity(),
        fencing_token: 1,
    };
    drop(stores);
    let entry = |whose: &Whose| {
        let mut text = Vec::new();
        write(&mut text, whose, 0, &lines);
        text
    };
    let stranger = Whose {
        identity: 7,
        ..real.clone()
    };
    let earlier = Whose {
        fencing_token: 0,
        ..real.clone()
    };
    let outside = Whose {
        folder: "../other/run-0".to_owned(),
        ..real.clone()
    };
    let gone = Whose {
        folder: "no-such-run".to_owned(),
        ..real.clone()
    };
    for (whose, records) in [(stranger, 0), (earlier, 0), (outside, 0), (gone, 0), (real, 1)] {
        let _ = fs::remove_dir_all(&after);
        copy(&runs, &after);
        fs::create_dir_all(after.join(".commits")).unwrap();
        fs::write(after.join(".commits/1-1.log"), entry(&whose)).unwrap();
        assert_eq!(count(&open(&after.join("run-0"))), records, "{whose:?}");
        assert!(logs(&after).is_empty());
    }
}

#[test]
fn a_log_that_is_damaged_gives_back_all_that_can_be_read() {
    let stage_folder = super::tempdir();
    let (runs, after) = (
        stage_folder.path().join("runs"),
        stage_folder.path().join("after"),
    );
    let files = Arc::new(Failing::default());
    let stores = start_all(&files, &runs, 3);
    for store in &stores {
        store.append(&record(0)).unwrap();
        wait(later(store)).unwrap();
    }
    let log = logs(&runs).remove(0);
    let bytes = fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let name = log.file_name().unwrap().to_owned();
    let mut restored = [0; 3];
    for at in (0..end).step_by(3) {
        let _ = fs::remove_dir_all(&after);
        copy(&runs, &after);
        let mut changed = bytes[..end].to_vec();
        changed[at] ^= 0x10;
        fs::write(after.join(".commits").join(&name), changed).unwrap();
        let mut whole = 0;
        for (number, restored) in restored.iter_mut().enumerate() {
            let folder = after.join(format!("run-{number}"));
            fs::write(folder.join("journal.jsonl"), "").unwrap();
            let opened = open(&folder);
            *restored += count(&opened);
            whole += count(&opened);
            drop(opened);
            // One recovery restores all lines of a log.
            copy(
                &runs.join(format!("run-{}", (number + 1) % 3)),
                &after.join(format!("run-{}", (number + 1) % 3)),
            );
            fs::write(after.join(".commits").join(&name), &bytes[..end]).unwrap();
        }
        assert!(whole >= 2, "byte {at}");
    }
    assert!(restored.iter().all(|restored| *restored > 0), "{restored:?}");
}

#[test]
fn a_log_of_a_living_process_is_left_alone() {
    let stage_folder = super::tempdir();
    let files = Arc::new(Failing::default());
    let stores = start_all(&files, stage_folder.path(), 3);
    stores[0].append(&record(0)).unwrap();
    wait(later(&stores[0])).unwrap();
    stores[2].close().unwrap();
    let opened = open(&stage_folder.path().join("run-2"));
    assert_eq!(count(&opened), 0);
    assert_eq!(logs(stage_folder.path()).len(), 1);
    drop(opened);
    stores[1].append(&record(0)).unwrap();
    wait(later(&stores[1])).unwrap();
}

#[test]
fn a_log_that_cannot_be_written_costs_time_but_no_record() {
    let mut failures = 0;
    for (call, lasting) in (1..12).flat_map(|call| [(call, false), (call, true)]) {
        let stage_folder = super::tempdir();
        let files = Arc::new(Failing::default());
        let stores = start_all(&files, stage_folder.path(), 3);
        files.set_only(".commits", call, if lasting { usize::MAX } else { call }, ENOSPC);
        for round in 0..4 {
            for store in &stores {
                store.append(&record(round)).unwrap();
                commit(store).unwrap();
            }
        }
        failures += usize::from(files.calls().len() >= call);
        for (number, store) in stores.iter().enumerate() {
            store.close().unwrap();
            assert_eq!(
                count(&open(&stage_folder.path().join(format!("run-{number}")))),
                4,
                "call {call}"
            );
        }
    }
    assert!(failures > 15, "{failures}");
}

#[test]
fn a_journal_that_cannot_be_synced_ends_its_run_but_no_other() {
    let stage_folder = super::tempdir();
    let files = Arc::new(Failing::default());
    let (inside, outside) = (
        stage_folder.path().join("runs"),
        stage_folder.path().join("elsewhere"),
    );
    let neighbour = start(&files, &inside, "one");
    // A run outside of a folder of runs syncs its own journal.
    let lonely = FolderStore::create(files.clone(), &outside, options(Durability::Full)).unwrap();
    lonely.manifest(&manifest_of("lonely")).unwrap();
    lonely.append(&record(0)).unwrap();
    files.set(1, 1, EIO);
    assert_eq!(wait(later(&lonely)).unwrap_err().code(), "store_io");
    assert!(lonely.append(&record(1)).is_err());
    assert!(logs(stage_folder.path()).is_empty() && logs(&inside).is_empty());
    neighbour.append(&record(0)).unwrap();
    wait(later(&neighbour)).unwrap();
    assert_eq!(logs(&inside).len(), 1);
}

#[test]
fn a_log_that_has_grown_is_given_up_and_nothing_is_lost_on_the_way() {
    const RUNS: usize = 3;
    let stage_folder = super::tempdir();
    let (runs, after) = (
        stage_folder.path().join("runs"),
        stage_folder.path().join("after"),
    );
    let files = Arc::new(Failing::default());
    let stores = start_all(&files, &runs, RUNS);
    let large = format!("{{\"text\":\"{}\"}}", "y".repeat(700_000)).into_bytes();
    let mut names = std::collections::BTreeSet::new();
    for round in 0..16 {
        for store in &stores {
            store.append(&large).unwrap();
        }
        for store in &stores {
            commit(store).unwrap();
        }
        names.extend(logs(&runs));
        if round % 5 == 4 {
            let _ = fs::remove_dir_all(&after);
            copy(&runs, &after);
            for number in 0..RUNS {
                // This file system syncs nothing, but the journals contained everything when a sync was requested.
                assert_eq!(
                    open(&after.join(format!("run-{number}"))).records.len(),
                    round + 1
                );
            }
        }
    }
    assert!(names.len() >= 3, "{names:?}");
    assert!(files.count("sync_data") > 3 * RUNS);
    drop(stores);
}

#[test]
fn a_store_that_is_dropped_keeps_what_it_committed() {
    let stage_folder = super::tempdir();
    let files = Arc::new(Failing::default());
    let mut stores = start_all(&files, stage_folder.path(), 2);
    let store = stores.remove(0);
    store.append(&record(0)).unwrap();
    wait(later(&store)).unwrap();
    drop(store);
    let system: Arc<dyn FileSystem> = files.clone();
    let opened = FolderStore::open(
        system,
        &stage_folder.path().join("run-0"),
        among(),
        OpenOptions::default(),
    )
    .unwrap();
    assert_eq!(count(&opened), 1);
    opened.store.append(&record(1)).unwrap();
    wait(later(&opened.store)).unwrap();
}
