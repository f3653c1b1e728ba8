//! Tests of the ownership of a run, and of takeovers.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{Failing, checkpoint, commit, contents, create, event, open, options, record};
use crate::store::ownership::present;
use crate::store::{
    Durability, FolderStore, OpenOptions, Opened, Position, RunStore, StageFile, StoreError, system,
};

fn open_with(folder: &Path, take_over: bool) -> Result<Opened, StoreError> {
    FolderStore::open(system(), folder, options(Durability::Full), opening(take_over))
}

fn opening(take_over: bool) -> OpenOptions {
    OpenOptions {
        take_over,
        ..OpenOptions::default()
    }
}

fn refusal(opened: Result<Opened, StoreError>) -> StoreError {
    match opened {
        Ok(_) => panic!("it has an owner"),
        Err(error) => error,
    }
}

#[test]
fn a_run_has_one_owner_who_is_named_to_all_others() {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    let store = create(&folder);
    let error = refusal(open(&folder));
    assert_eq!(error.code(), "store_owned");
    let StoreError::Owned { by: Some(by), path } = &error else {
        panic!("{error}")
    };
    assert_eq!((by.pid, by.fencing_token, path), (std::process::id(), 1, &folder));
    let said = format!("is owned by process {} (`", std::process::id());
    assert!(error.to_string().contains(&said), "{error}");
    assert_eq!(present(&*system(), &folder).unwrap().as_ref(), Some(&**by));
    store.close().unwrap();
    assert_eq!(present(&*system(), &folder).unwrap(), None);
    let opened = open(&folder).unwrap();
    assert_eq!(opened.fencing_token, 2);
    assert_eq!(present(&*system(), &folder).unwrap().unwrap().fencing_token, 2);
}

#[test]
fn the_epoch_rises_with_each_owner_even_if_the_lock_file_was_lost() {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    drop(create(&folder));
    for fencing_token in 2..5 {
        let opened = open(&folder).unwrap();
        assert_eq!(opened.fencing_token, fencing_token);
        let record = format!(r#"{{"fencing_token":{fencing_token}}}"#);
        opened.store.append(record.as_bytes()).unwrap();
    }
    std::fs::remove_file(folder.join("owner.lock")).unwrap();
    assert_eq!(open(&folder).unwrap().fencing_token, 5);
    std::fs::write(folder.join("owner.lock"), "").unwrap();
    assert_eq!(open(&folder).unwrap().fencing_token, 5);
    assert_eq!(open(&folder).unwrap().fencing_token, 6);
}

#[cfg(target_os = "linux")]
#[test]
fn who_keeps_the_folder_locked_is_named_also_to_one_that_takes_over() {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    drop(create(&folder));
    let held = std::fs::File::open(&folder).unwrap();
    held.lock().unwrap();
    let error = refusal(open_with(&folder, true));
    assert_eq!(error.code(), "store_busy");
    let said = format!("stays locked by process {},", std::process::id());
    assert!(error.to_string().contains(&said), "{error}");
    drop(held);
    assert_eq!(open_with(&folder, true).unwrap().fencing_token, 2);
}

#[cfg(unix)]
#[test]
fn who_is_taken_over_is_told_by_whom_while_the_new_owner_rewrites_its_lock() {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    let old = create(&folder);
    let _new = open_with(&folder, true).unwrap();
    // The new owner has written its shorter content, but has not cut off the rest of the longer one yet.
    let lock = folder.join("owner.lock");
    let mut file = std::fs::OpenOptions::new().append(true).open(lock).unwrap();
    file.write_all(b"acing\":true}\n").unwrap();
    let error = old.append(&record(0)).unwrap_err();
    assert_eq!(error.code(), "store_ownership_lost", "{error}");
}

#[cfg(unix)]
#[test]
fn who_is_taken_over_writes_nothing_more_and_is_told_by_whom() {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    let old = create(&folder);
    old.stage("build".into(), 1).unwrap();
    for number in 0..3 {
        old.append(&record(number)).unwrap();
        old.event(&event(number + 1)).unwrap();
    }
    old.flush().unwrap();
    let new = open_with(&folder, true).unwrap();
    assert_eq!((new.fencing_token, new.records.len(), new.events), (2, 3, 3));
    assert_eq!(refusal(open(&folder)).code(), "store_owned");
    let before = contents(&folder);
    let lost = |done: Result<(), StoreError>| {
        let error = done.unwrap_err();
        assert_eq!(error.code(), "store_ownership_lost");
        let said = format!("was taken over by process {} (`", std::process::id());
        assert!(error.to_string().contains(&said), "{error}");
    };
    lost(old.append(&record(3)).map(drop));
    lost(commit(&old));
    lost(old.stage("build".into(), 2).map(drop));
    lost(old.write("build".into(), StageFile::Status, b"{}"));
    lost(old.remove("build".into(), StageFile::Status));
    lost(old.restarted(1));
    lost(old.checkpoint(&checkpoint("{}", Position::default())));
    // Waiting events of the old owner have no effect.
    old.event(&event(4)).unwrap();
    lost(old.flush());
    lost(old.close());
    assert_eq!(contents(&folder), before);
    new.store.append(&record(3)).unwrap();
    drop((old, new));
    assert_eq!(open(&folder).unwrap().records.len(), 4);
}

#[cfg(unix)]
#[test]
fn whatever_an_owner_was_doing_when_it_was_taken_over_the_new_one_has_all_that_counted() {
    let mut calls = 0;
    for call in 1.. {
        let stage_folder = super::tempdir();
        let folder = stage_folder.path().join("run");
        let failing = Arc::new(Failing::default());
        drop(create(&folder));
        let old = FolderStore::open(
            failing.clone(),
            &folder,
            options(Durability::Full),
            OpenOptions::default(),
        )
        .unwrap();
        let (path, new) = (folder.clone(), Arc::new(std::sync::Mutex::new(None)));
        let slot = new.clone();
        failing.before(call, move || {
            let opened = open_with(&path, true).unwrap();
            let seen = contents(&path);
            *slot.lock().unwrap() = Some((opened, seen));
        });
        let mut counted = 0;
        let mut failed = None;
        for number in 0..3 {
            let appended = old.store.append(&record(number));
            let done = appended.and_then(|_| commit(&old.store)).and_then(|()| {
                counted += 1;
                old.store
                    .checkpoint(&checkpoint(&number.to_string(), old.store.position()))
            });
            if let Err(error) = done {
                failed = Some(error);
                break;
            }
        }
        let Some((opened, seen)) = new.lock().unwrap().take() else {
            assert!(failed.is_none());
            calls = call;
            break;
        };
        let failed = failed.unwrap_or_else(|| commit(&old.store).unwrap_err());
        assert_eq!(failed.code(), "store_ownership_lost", "call {call}");
        let known = opened.records.from.records + opened.records.len() as u64;
        assert!(known >= counted, "call {call}: {known} of {counted}");
        assert_eq!(contents(&folder), seen, "call {call}");
        opened.store.append(&record(known)).unwrap();
    }
    assert!(calls > 20, "{calls}");
}

#[cfg(unix)]
#[test]
fn a_take_over_that_failed_midway_is_finished_by_the_next_owner() {
    for call in 1.. {
        let stage_folder = super::tempdir();
        let folder = stage_folder.path().join("run");
        let old = create(&folder);
        old.append(&record(0)).unwrap();
        commit(&old).unwrap();
        let failing = Arc::new(Failing::default());
        failing.set(call, usize::MAX, super::EIO);
        let taken = FolderStore::open(failing.clone(), &folder, options(Durability::Full), opening(true));
        if taken.is_ok() {
            assert!(call > 10, "{call}");
            break;
        }
        if commit(&old).is_ok() {
            continue;
        }
        // The old owner was fenced off already. The files that it may write to are replaced before the run is resumed.
        let opened = open(&folder).unwrap();
        assert_eq!(opened.records.len(), 1, "call {call}");
        let links = |name: &str| {
            use std::os::unix::fs::MetadataExt;
            std::fs::metadata(folder.join(name)).unwrap().ino()
        };
        let inode = links("journal.jsonl");
        drop(opened);
        assert_eq!(open(&folder).unwrap().records.len(), 1);
        assert_eq!(
            links("journal.jsonl"),
            inode,
            "nothing is replaced once it is done"
        );
    }
}

const ROUNDS: usize = 60;
const RACERS: usize = 8;

#[test]
fn of_eight_processes_that_open_a_run_one_gets_it_and_the_others_name_it() {
    let stage_folder = super::tempdir();
    for round in 0..ROUNDS {
        drop(create(&stage_folder.path().join(round.to_string())));
    }
    let mut racers: Vec<_> = (0..RACERS)
        .map(|_| {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--ignored",
                    "--exact",
                    "--nocapture",
                    "store::tests::owner::racer",
                ])
                .env("ORCHESTRA_RACE", stage_folder.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            (child, input, BufReader::new(output).lines())
        })
        .collect();
    for round in 0..ROUNDS {
        for (_, input, _) in &mut racers {
            writeln!(input, "{round}").unwrap();
        }
        let (mut winners, mut named) = (Vec::new(), Vec::new());
        for (child, _, lines) in &mut racers {
            let said = lines.map(Result::unwrap).find_map(|line| {
                let (_, said) = line.split_once("said ")?;
                Some(said.to_owned())
            });
            match said.as_deref() {
                Some("won") => winners.push(child.id().to_string()),
                Some(other) => named.push(other.to_owned()),
                None => panic!("a racer is gone"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(named, vec![winners[0].clone(); RACERS - 1], "round {round}");
    }
    for (mut child, input, _) in racers {
        drop(input);
        child.wait().unwrap();
    }
}

/// A process of the race: it opens the run of each round and holds it until the next.
#[test]
#[ignore = "the race starts it"]
fn racer() {
    let Some(stage_folder) = std::env::var_os("ORCHESTRA_RACE") else {
        return;
    };
    let mut held = Vec::new();
    for round in std::io::stdin().lines() {
        match open(&Path::new(&stage_folder).join(round.unwrap())) {
            Ok(opened) => {
                held.push(opened);
                println!("said won");
            }
            Err(StoreError::Owned { by: Some(by), .. }) => println!("said {}", by.pid),
            Err(error) => println!("said {error}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_lock_that_a_killed_owner_left_to_a_process_that_it_was_starting_is_waited_for() {
    let stage_folder = super::tempdir();
    let folder = stage_folder.path().join("run");
    let store = create(&folder);
    let path = folder.join("owner.lock");
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let said = std::fs::read_to_string(&path).unwrap();
    let (own, other) = (std::process::id(), gone.id());
    std::fs::write(
        &path,
        said.replace(&format!("\"pid\":{own}"), &format!("\"pid\":{other}")),
    )
    .unwrap();
    let next = std::thread::scope(|scope| {
        let next = scope.spawn(|| open(&folder));
        // A process that waits for the lock keeps the folder locked.
        let guarded = std::fs::File::open(&folder).unwrap();
        while guarded.try_lock().is_ok() {
            guarded.unlock().unwrap();
            assert!(!next.is_finished(), "it does not wait");
            std::thread::yield_now();
        }
        drop(store);
        next.join().unwrap()
    });
    assert_eq!(next.unwrap().fencing_token, 2);
}
