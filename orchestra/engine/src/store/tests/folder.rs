//! Tests that leave and reopen a run folder, intact and damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    Chance, EIO, ENOSPC, EROFS, Failing, checkpoint, commit, contents, create, edit, edits, event, manifest,
    open, options, put, record,
};
use crate::store::{
    Durability, FolderStore, OpenOptions, Opened, Position, RunFolder, RunStore, StageFile, StoreError,
    system,
};

fn stage_folder() -> (tempfile::TempDir, PathBuf) {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    (stage_folder, folder)
}

fn append(store: &FolderStore, records: std::ops::Range<u64>) {
    for number in records {
        store.append(&record(number)).unwrap();
        commit(store).unwrap();
    }
}

fn failed(opened: Result<Opened, StoreError>) -> StoreError {
    match opened {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// Checks the content of an opened run. Returns the number of known records.
fn known(opened: &Opened) -> u64 {
    let from = opened.records.from.records;
    for (at, found) in (from..).zip(opened.records.iter()) {
        assert_eq!(found, record(at), "record {at}");
    }
    if let Some(checkpoint) = &opened.checkpoint {
        assert_eq!(checkpoint.journal, opened.records.from);
        let state = checkpoint.state.as_ref().unwrap().get();
        assert_eq!(state, format!(r#"{{"records":{from}}}"#));
    }
    from + opened.records.len() as u64
}

fn save(store: &FolderStore) {
    let position = store.position();
    let state = format!(r#"{{"records":{}}}"#, position.records);
    store.checkpoint(&checkpoint(&state, position)).unwrap();
}

#[test]
fn a_run_that_was_left_at_any_moment_goes_on_with_all_that_was_written() {
    let (_place, folder) = stage_folder();
    let store = create(&folder);
    append(&store, 0..4);
    store.event(&event(1)).unwrap();
    store.event(&event(2)).unwrap();
    store.flush().unwrap();
    store.event(&event(3)).unwrap();
    drop(store);
    let opened = open(&folder).unwrap();
    assert_eq!((known(&opened), opened.fencing_token, opened.events), (4, 2, 2));
    assert_eq!(opened.manifest, manifest(Durability::Full));
    assert!(
        opened.checkpoint.is_none() && opened.repaired.is_empty(),
        "{:?}",
        opened.repaired
    );
    save(&opened.store);
    append(&opened.store, 4..6);
    opened.store.event(&event(3)).unwrap();
    opened.store.close().unwrap();
    let opened = open(&folder).unwrap();
    assert_eq!((known(&opened), opened.records.len(), opened.events), (6, 2, 3));
    assert!(opened.repaired.is_empty(), "{:?}", opened.repaired);
}

#[test]
fn a_folder_that_holds_no_run_is_refused_with_what_to_do() {
    let (_place, folder) = stage_folder();
    fs::create_dir(&folder).unwrap();
    let error = failed(open(&folder));
    assert_eq!(error.code(), "store_no_run");
    assert!(error.to_string().contains("which can be removed"), "{error}");
    // A run that stopped before it began.
    let (_place, folder) = place_of_unborn();
    assert_eq!(failed(open(&folder)).code(), "store_no_run");
    assert!(!RunFolder::is_one(&folder));
    // A run that has lost its journal.
    let (_place, folder) = place_of(3);
    fs::remove_file(folder.join("journal.jsonl")).unwrap();
    let error = failed(open(&folder));
    assert!(
        error
            .to_string()
            .contains("has no `journal.jsonl`; restore the file"),
        "{error}"
    );
}

fn place_of_unborn() -> (tempfile::TempDir, PathBuf) {
    let (stage_folder, folder) = stage_folder();
    drop(FolderStore::create(system(), &folder, options(Durability::Full)).unwrap());
    (stage_folder, folder)
}

/// Creates a run with some records and a checkpoint in their middle.
fn place_of(records: u64) -> (tempfile::TempDir, PathBuf) {
    let (stage_folder, folder) = stage_folder();
    let store = create(&folder);
    append(&store, 0..records / 2);
    save(&store);
    append(&store, records / 2..records);
    store.close().unwrap();
    (stage_folder, folder)
}

#[test]
fn a_checkpoint_cut_at_any_length_is_passed_over_and_that_is_said() {
    let (_place, folder) = place_of(6);
    let path = folder.join("checkpoint.json");
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        put(&path, &whole[..length]);
        let opened = open(&folder).unwrap();
        assert!(opened.checkpoint.is_none());
        assert_eq!((known(&opened), opened.records.len()), (6, 6), "length {length}");
        let said = opened.repaired.concat();
        assert!(
            said.contains("the checkpoint was passed over: `")
                && said.contains("checkpoint.json` is damaged")
        );
    }
    fs::remove_file(&path).unwrap();
    let opened = open(&folder).unwrap();
    assert_eq!(
        (known(&opened), opened.records.len(), opened.repaired.len()),
        (6, 6, 0)
    );
}

#[test]
fn no_bit_of_a_checkpoint_can_be_changed_unseen() {
    let (_place, folder) = place_of(4);
    let path = folder.join("checkpoint.json");
    let whole = fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        put(&path, &changed);
        let opened = open(&folder).unwrap();
        assert!(opened.checkpoint.is_none(), "bit {bit}");
        assert_eq!((known(&opened), opened.repaired.len()), (4, 1), "bit {bit}");
    }
}

#[test]
fn no_random_edit_of_any_file_is_taken_for_the_truth() {
    const WORKERS: u64 = 4;
    let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| scope.spawn(move || edit_at_random((worker..edits()).step_by(WORKERS as usize))))
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let refused: u64 = counts.iter().map(|(refused, _)| refused).sum();
    let repaired: u64 = counts.iter().map(|(_, repaired)| repaired).sum();
    assert!(refused > 500 && repaired > 500, "{refused} {repaired}");
}

/// Opens a folder after one random edit for each seed. Returns how often it was refused, and how often repaired.
fn edit_at_random(seeds: impl Iterator<Item = u64>) -> (u64, u64) {
    let (_place, folder) = place_of(8);
    let files = ["checkpoint.json", "journal.jsonl", "manifest.json", "owner.lock"];
    let whole: Vec<Vec<u8>> = files
        .iter()
        .map(|name| fs::read(folder.join(name)).unwrap())
        .collect();
    let (mut refused, mut repaired) = (0, 0);
    let disk = Arc::new(Failing::default());
    for seed in seeds {
        let mut chance = Chance(seed);
        for (name, whole) in files.iter().zip(&whole) {
            put(&folder.join(name), whole);
        }
        let at = chance.below(files.len());
        let mut changed = whole[at].clone();
        edit(&mut changed, &mut chance);
        put(&folder.join(files[at]), &changed);
        match FolderStore::open(
            disk.clone(),
            &folder,
            options(Durability::Full),
            OpenOptions::default(),
        ) {
            Ok(opened) => {
                let known = known(&opened);
                assert_eq!(opened.manifest, manifest(Durability::Full), "seed {seed}");
                // Nothing proves that complete lines are missing at the end, after the checkpoint.
                let written = changed
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                let cut = at == 1 && whole[1].starts_with(&changed[..written]);
                assert!(known == 8 || cut || !opened.repaired.is_empty(), "seed {seed}");
                repaired += u64::from(!opened.repaired.is_empty());
            }
            Err(error) => {
                let code = error.code();
                assert!(
                    ["store_damaged", "store_version", "journal_cut"].contains(&code),
                    "seed {seed}: {error}"
                );
                refused += 1;
            }
        }
    }
    (refused, repaired)
}

#[test]
fn a_journal_that_lacks_what_the_checkpoint_stands_behind_is_refused() {
    let (_place, folder) = place_of(6);
    let path = folder.join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // Shorter than the position of the checkpoint.
    put(&path, &whole[..line]);
    let error = failed(open(&folder));
    assert_eq!(error.code(), "journal_cut");
    let said = error.to_string();
    assert!(
        said.contains("ends behind record 1, but") && said.contains("was written behind record 3"),
        "{said}"
    );
    // Of another run.
    let (_other, other) = stage_folder();
    let store = create(&other);
    for number in 0..6 {
        store.append(&record(number + 1)).unwrap();
    }
    store.close().unwrap();
    fs::copy(other.join("journal.jsonl"), &path).unwrap();
    assert_eq!(failed(open(&folder)).code(), "store_foreign");
    // Damaged before the position of the checkpoint.
    let mut changed = whole.clone();
    changed[line * 2] ^= 1;
    changed.truncate(whole.len() / 2 - 20);
    put(&path, &changed);
    assert_eq!(failed(open(&folder)).code(), "store_damaged");
}

#[test]
fn a_form_that_is_not_known_is_refused_by_its_name() {
    let (_place, folder) = place_of(2);
    for (name, key) in [("manifest.json", "manifest"), ("checkpoint.json", "checkpoint")] {
        let path = folder.join(name);
        let whole = fs::read_to_string(&path).unwrap();
        let newer = whole.replace(&format!("orchestra.{key}/1"), &format!("orchestra.{key}/2"));
        let body = newer.rsplit_once("\"checksum\"").unwrap().0.to_owned();
        let sum = crc32fast::hash(body.as_bytes());
        fs::write(&path, format!("{body}\"checksum\":\"crc32:{sum:08x}\"}}\n")).unwrap();
        let error = failed(open(&folder));
        assert_eq!(error.code(), "store_version");
        let said = format!("has the form `orchestra.{key}/2`, and this version reads `orchestra.{key}/1`");
        assert!(error.to_string().contains(&said), "{error}");
        put(&path, whole.as_bytes());
    }
    let path = folder.join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    let body = whole.rsplit_once(",\n\"checksum\"").unwrap().0;
    fs::write(
        &path,
        body.replace("\"protocol\": 1", "\"protocol\": 2") + "\n}\n",
    )
    .unwrap();
    assert!(
        failed(open(&folder))
            .to_string()
            .contains("has the form `protocol 2`")
    );
}

#[test]
fn a_manifest_with_anything_behind_its_checksum_is_damaged() {
    let (_place, folder) = place_of(2);
    let path = folder.join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    for behind in [" ", "\n", " \n", "\t\n\n"] {
        fs::write(&path, whole.replace("\"seed\": ", "\"seed\": 1") + behind).unwrap();
        assert_eq!(failed(open(&folder)).code(), "store_damaged", "{behind:?}");
    }
}

#[test]
fn the_last_line_of_a_checkpoint_is_the_checksum_of_all_before_it() {
    let (_place, folder) = place_of(2);
    let text = fs::read_to_string(folder.join("checkpoint.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["state"], serde_json::json!({"records": 1}));
    assert_eq!(json["journal"]["records"], 1);
    assert_eq!(json["completed_nodes"], serde_json::json!(["start", "write"]));
    let start = text.trim_end().rfind('\n').unwrap() + 1;
    let sum = crc32fast::hash(&text.as_bytes()[..start]);
    assert_eq!(&text[start..], format!("\"checksum\":\"crc32:{sum:08x}\"}}\n"));
}

#[test]
fn an_event_that_was_not_written_to_its_end_is_cut_off() {
    let (_place, folder) = stage_folder();
    let store = create(&folder);
    for seq in 1..=40 {
        store.event(&event(seq)).unwrap();
    }
    store.close().unwrap();
    let path = folder.join("events.jsonl");
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len())
        .filter(|at| whole[*at] == b'\n')
        .map(|at| at + 1)
        .collect();
    for length in (whole.len() - 300..=whole.len()).chain([0, 1, 50]) {
        put(&path, &whole[..length]);
        let lines = ends.iter().filter(|end| **end <= length).count();
        let torn = length - lines.checked_sub(1).map_or(0, |last| ends[last]);
        assert_eq!(RunFolder::open(&folder).unwrap().events(1).unwrap().len(), lines);
        let opened = open(&folder).unwrap();
        assert_eq!(
            (opened.events, opened.repaired.len()),
            (lines as u64, usize::from(torn > 0)),
            "{length}"
        );
        // Without a record that counts them, events are not emitted again.
        opened.store.event(&event(lines as u64 + 1)).unwrap();
        opened.store.flush().unwrap();
        assert_eq!(RunFolder::open(&folder).unwrap().events(1).unwrap().len(), lines);
        opened.store.append(&record(0)).unwrap();
        opened.store.close().unwrap();
        assert_eq!(
            RunFolder::open(&folder).unwrap().events(1).unwrap().len(),
            lines + 1
        );
    }
}

#[test]
fn without_a_journal_a_run_goes_on_from_its_last_checkpoint() {
    let (_place, folder) = stage_folder();
    let store = FolderStore::create(system(), &folder, options(Durability::None)).unwrap();
    store.manifest(&manifest(Durability::None)).unwrap();
    assert!(!store.keeps_journal() && !store.wants_checkpoint());
    assert_eq!(store.append(&record(0)).unwrap(), Position::default());
    store.sync().unwrap();
    store
        .checkpoint(&checkpoint("{\"records\":0}", Position::default()))
        .unwrap();
    store.close().unwrap();
    assert!(!folder.join("journal.jsonl").exists());
    // The decision at the start of the run applies.
    let opened = open(&folder).unwrap();
    assert!(opened.checkpoint.is_some() && !opened.store.keeps_journal());
}

#[test]
fn a_checkpoint_is_wanted_when_the_journal_has_outgrown_the_last_one() {
    let (_place, folder) = stage_folder();
    let store = create(&folder);
    let large = format!("{{\"text\":\"{}\"}}", "y".repeat(10_000)).into_bytes();
    let mut written = Vec::new();
    for _ in 0..60 {
        store.append(&large).unwrap();
        if store.wants_checkpoint() {
            let state = format!("\"{}\"", "z".repeat(150_000));
            store.checkpoint(&checkpoint(&state, store.position())).unwrap();
            written.push(store.position().records);
        }
    }
    // First after 64 KiB, then after as many bytes as the checkpoint has.
    assert_eq!(written, [7, 22, 37, 52]);
    drop(store);
    let store = open(&folder).unwrap().store;
    let mut more = 0;
    while !store.wants_checkpoint() {
        store.append(&large).unwrap();
        more += 1;
    }
    assert_eq!(more, 7, "15 behind the one with 52 records");
}

/// Performs one step of a short run like a driver. Counts the records that are committed.
fn run(store: &FolderStore, counted: &mut u64, number: u64) -> Result<(), StoreError> {
    store.stage("build".into(), number as u32 + 1)?;
    store.append(&record(number))?;
    commit(store)?;
    *counted += 1;
    store.write("build".into(), StageFile::Status, b"{}")?;
    store.event(&event(number + 1))?;
    store.flush()?;
    if number % 2 == 1 {
        let state = format!(r#"{{"records":{}}}"#, number + 1);
        store.checkpoint(&checkpoint(&state, store.position()))?;
    }
    Ok(())
}

#[test]
fn a_disk_that_fails_at_any_call_costs_nothing_that_counted() {
    let failing = Arc::new(Failing::default());
    for error in [ENOSPC, EIO, EROFS] {
        let mut calls = 0;
        for (call, lasting) in (1..).flat_map(|call| [(call, false), (call, true)]) {
            let (_place, folder) = stage_folder();
            failing.set(call, if lasting { usize::MAX } else { call }, error);
            let (mut counted, mut complete) = (0, false);
            let made = FolderStore::create(failing.clone(), &folder, options(Durability::Full))
                .and_then(|store| store.manifest(&manifest(Durability::Full)).map(|()| store));
            let failure = match &made {
                Err(failure) => Some(failure.code()),
                Ok(store) => {
                    let mut done = (0..4).try_for_each(|number| run(store, &mut counted, number));
                    if done.is_ok() {
                        done = store.close();
                        complete = done.is_ok();
                    }
                    done.err().map(|failure| failure.code())
                }
            };
            drop(made);
            let happened = failing.calls().len();
            assert!(failure.is_none_or(|code| code == "store_io"), "{failure:?}");
            failing.set(0, 0, 0);
            if RunFolder::is_one(&folder) {
                let opened = open(&folder).unwrap_or_else(|error| panic!("call {call}: {error}"));
                assert!(known(&opened) >= counted, "call {call}");
                opened.store.append(&record(known(&opened))).unwrap();
                assert!(opened.events <= 4);
            } else {
                assert_eq!(counted, 0, "call {call}");
            }
            calls = call;
            if complete && happened < call {
                break;
            }
        }
        assert!(calls > 60, "{calls}");
    }
}

#[test]
fn what_others_see_is_what_was_handed_over_and_looking_changes_nothing() {
    let (stage_folder, folder) = stage_folder();
    let store = create(&folder);
    append(&store, 0..3);
    store.event(&event(1)).unwrap();
    store.event(&event(2)).unwrap();
    store.flush().unwrap();
    store.event(&event(3)).unwrap();
    let before = contents(&folder);
    let view = RunFolder::open(&folder).unwrap();
    assert_eq!(view.manifest(), &manifest(Durability::Full));
    assert_eq!(view.records().unwrap().len(), 3);
    assert_eq!(view.records().unwrap()[1].1["event"]["NodeFinished"], 1);
    let numbers: Vec<_> = view
        .events(2)
        .unwrap()
        .iter()
        .map(|event| event["seq"].clone())
        .collect();
    assert_eq!(numbers, [2]);
    assert_eq!(view.owner().unwrap().unwrap().pid, std::process::id());
    assert!(view.checkpoint().unwrap().is_none());
    assert_eq!(contents(&folder), before);
    save(&store);
    let seen = view.checkpoint().unwrap().unwrap();
    assert_eq!(
        (seen.status.as_str(), seen.current_node.as_str()),
        ("running", "write")
    );
    let before = contents(&folder);
    assert!(view.events(1).unwrap().len() == 3 && view.checkpoint().unwrap().is_some());
    assert_eq!(
        contents(&folder),
        before,
        "a checkpoint hands over what came before it"
    );
    assert_eq!(RunFolder::list(stage_folder.path()).unwrap(), [folder]);
    assert_eq!(
        RunFolder::list(stage_folder.path().join("nowhere")).unwrap(),
        Vec::<PathBuf>::new()
    );
    assert!(RunFolder::open(Path::new("nowhere")).is_err());
}
