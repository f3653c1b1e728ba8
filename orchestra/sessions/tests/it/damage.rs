//! Databases that are damaged, replaced or removed, and run folders as crashes leave them.
use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_sessions::{RunFilter, SessionError, SessionIndex, SessionStatus};
use rusqlite::Connection;
use serde_json::{Value, json};
use support::*;
use tempfile::TempDir;

/// Three runs, and the content of an index of them.
fn runs() -> (TempDir, Value) {
    let dir = tempfile::tempdir().unwrap();
    for (n, run) in ["one", "two", "three"].into_iter().enumerate() {
        let mut run = WrittenRun::new(dir.path(), run);
        for event in 0..20 + 15 * n as u64 {
            run.tell_nth(event);
        }
    }
    let expected = from_scratch(dir.path());
    assert_eq!(expected.as_array().unwrap().len(), 3);
    (dir, expected)
}

/// Changes the file of the closed index and checks that an index that is opened afterwards has the expected content.
fn recovers(dir: &Path, expected: &Value, what: &str, change: impl FnOnce(&Path)) {
    change(&database(dir));
    let index = SessionIndex::open(dir).unwrap();
    assert!(content(&index) == *expected, "{what}: the content differs");
}

#[test]
fn a_database_cut_short_at_any_length_is_made_anew() {
    let (dir, expected) = runs();
    let whole = fs::read(database(dir.path())).unwrap();
    assert!(whole.len() > 20_000);
    // Every length within the header and around the ends of pages.
    let lengths = (0..=whole.len()).filter(|length| *length <= 110 || (length + 1) % 1_024 <= 2);
    for length in lengths {
        recovers(dir.path(), &expected, &format!("cut to {length} bytes"), |file| {
            fs::write(file, &whole[..length]).unwrap();
        });
    }
}

#[test]
fn a_header_that_is_wrong_in_any_byte_does_no_harm() {
    let (dir, expected) = runs();
    for at in 0..100 {
        for mask in [0x01, 0xff] {
            recovers(
                dir.path(),
                &expected,
                &format!("byte {at} changed by {mask:#x}"),
                |file| {
                    let mut bytes = fs::read(file).unwrap();
                    bytes[at] ^= mask;
                    fs::write(file, bytes).unwrap();
                },
            );
        }
    }
}

#[test]
fn what_is_no_database_of_ours_is_replaced() {
    let (dir, expected) = runs();
    let sql = |sql: &'static str| {
        move |file: &Path| {
            let _ = fs::remove_file(file);
            Connection::open(file).unwrap().execute_batch(sql).unwrap();
        }
    };
    let recovers = |what: &str, change: &dyn Fn(&Path)| recovers(dir.path(), &expected, what, change);
    recovers("a text", &|file| fs::write(file, "not a database").unwrap());
    recovers("garbage", &|file| fs::write(file, vec![0xa5; 50_000]).unwrap());
    recovers("zeros", &|file| fs::write(file, vec![0; 50_000]).unwrap());
    recovers("no file", &|file| fs::remove_file(file).unwrap());
    recovers("an empty database", &sql("VACUUM"));
    recovers(
        "another program's",
        &sql("CREATE TABLE runs (x); PRAGMA application_id = 7; PRAGMA user_version = 1;"),
    );
    recovers(
        "our mark, and nothing else",
        &sql("PRAGMA application_id = 1332896627; PRAGMA user_version = 1;"),
    );
    for (what, damage) in [
        ("an older version", "PRAGMA user_version = 0"),
        ("a table that is missing", "DROP TABLE stages"),
        (
            "a column that is missing",
            "ALTER TABLE runs DROP COLUMN fencing_token",
        ),
        ("a value of a wrong kind", "UPDATE runs SET stages = 'many'"),
        ("a number out of range", "UPDATE stages SET visit = -1"),
        ("a word that is none", "UPDATE runs SET status = 'lost'"),
        ("a name that is none", "UPDATE runs SET run = '../' || run"),
        ("rows that are missing", "DELETE FROM runs WHERE run = 'two'"),
        ("an origin that is missing", "DELETE FROM origin"),
        (
            "stages that are not reported",
            "UPDATE transitions SET tested = '[}'",
        ),
    ] {
        recovers(what, &|file| {
            Connection::open(file).unwrap().execute_batch(damage).unwrap();
        });
    }
    #[cfg(unix)]
    recovers("a link that leads nowhere", &|file| {
        fs::remove_file(file).unwrap();
        std::os::unix::fs::symlink("nowhere", file).unwrap();
    });
}

#[test]
fn a_database_of_a_newer_version_is_left_alone_unless_it_is_to_be_rebuilt() {
    let (dir, expected) = runs();
    let file = database(dir.path());
    let connection = Connection::open(&file).unwrap();
    connection
        .execute_batch(
            "UPDATE origin SET version = 99; PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
    drop(connection);
    let before = fs::read(&file).unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let error = index.list(&RunFilter::all()).unwrap_err();
    assert!(matches!(error, SessionError::Newer { found: 99, .. }), "{error}");
    assert_eq!(error.code(), "session_newer");
    assert_eq!(fs::read(&file).unwrap(), before);
    index.rebuild().unwrap();
    assert_eq!(content(&index), expected);
}

#[test]
fn something_that_cannot_be_replaced_is_an_error_that_names_it() {
    let (dir, expected) = runs();
    let file = database(dir.path());
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let error = index.list(&RunFilter::all()).unwrap_err();
    assert!(
        matches!(&error, SessionError::Io { path, .. } if *path == fs::canonicalize(&file).unwrap()),
        "{error}"
    );
    fs::remove_dir(&file).unwrap();
    assert_eq!(content(&index), expected, "and it goes on when it is gone");
}

#[test]
fn a_copy_that_is_put_back_does_not_hide_what_came_after_it() {
    let (dir, _) = runs();
    let file = database(dir.path());
    let copy = dir.path().join("copy");
    fs::copy(&file, &copy).unwrap();
    let mut run = WrittenRun::new(dir.path(), "later");
    run.tell(started_run());
    let later = content(&SessionIndex::open(dir.path()).unwrap());
    fs::rename(&copy, &file).unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    assert_eq!(content(&index), later);
    // Also while it is open.
    fs::write(&copy, "nonsense").unwrap();
    fs::rename(&copy, &file).unwrap();
    assert_eq!(content(&index), later);
}

#[test]
fn a_database_that_is_taken_away_while_it_is_open_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let file = database(dir.path());
    let listener = index.listener();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    index.accept(&run.folder).unwrap();
    let endings = ["", "-wal", "-shm"];
    for n in 0..80 {
        listener(&run.tell_nth(n));
        index.flush().unwrap();
        let gone: Vec<PathBuf> = (endings.iter().enumerate())
            .filter(|(bit, _)| n >> bit & 1 == 1)
            .map(|(_, ending)| beside(&file, ending))
            .collect();
        for path in &gone {
            fs::remove_file(path).unwrap();
        }
        if n % 3 == 0 {
            let _ = fs::remove_file(dir.path().join(".sessions.lock"));
        }
        listener(&run.tell(log("plan")));
        index.flush().unwrap();
        assert_eq!(
            index.run("nightly").unwrap().summary.events,
            2 * (n + 1),
            "without {gone:?}"
        );
    }
    let live = content(&index);
    drop(index);
    assert_eq!(live, from_scratch(dir.path()));
}

#[test]
fn random_damage_is_survived_and_a_rebuild_mends_it() {
    let (dir, expected) = runs();
    let whole = fs::read(database(dir.path())).unwrap();
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut noticed = 0;
    for _ in 0..100 {
        let mut bytes = whole.clone();
        for _ in 0..=next(40) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
        fs::write(database(dir.path()), &bytes).unwrap();
        let index = SessionIndex::open(dir.path()).unwrap();
        for session in index.list(&RunFilter::all()).unwrap() {
            index.stages(&session.run).unwrap();
            index.transitions(&session.run).unwrap();
            index.tool_calls(&session.run).unwrap();
        }
        noticed += usize::from(content(&index) == expected);
        index.rebuild().unwrap();
        assert!(content(&index) == expected);
    }
    assert!(noticed > 30, "damage was noticed {noticed} times of 100");
}

#[test]
fn another_process_that_holds_the_database_too_long_is_an_error_and_later_none() {
    let (dir, expected) = runs();
    let index = SessionIndex::open_patiently(dir.path(), Duration::from_millis(50)).unwrap();
    assert_eq!(content(&index), expected);
    let mut run = WrittenRun::new(dir.path(), "later");
    run.tell(started_run());
    let holder = Connection::open(database(dir.path())).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = index.accept(&run.folder).unwrap_err();
    assert!(
        matches!(&error, SessionError::Busy { waited, .. } if *waited >= Duration::from_millis(50)),
        "{error}"
    );
    index.listener()(&run.tell(ended_run()));
    assert_eq!(index.flush().unwrap_err().code(), "session_busy");
    holder.execute_batch("ROLLBACK").unwrap();
    index.flush().unwrap();
    assert_eq!(index.run("later").unwrap().status, SessionStatus::Success);

    let gate = fs::File::open(dir.path().join(".sessions.lock")).unwrap();
    gate.lock().unwrap();
    assert_eq!(index.run("later").unwrap_err().code(), "session_busy");
    drop(gate);
    assert_eq!(index.run("later").unwrap().summary.events, 2);
}

#[test]
fn events_are_taken_in_once_however_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let other = SessionIndex::open(dir.path()).unwrap();
    let listener = index.listener();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    for n in 0..60 {
        let event = run.tell_nth(n);
        match n % 4 {
            // Notify twice, through another index too, or not at all.
            0 => {
                listener(&event);
                listener(&event);
            }
            1 => other.catch_up(&run.run).unwrap(),
            2 => index.flush().unwrap(),
            _ => {}
        }
    }
    index.flush().unwrap();
    let live = content(&index);
    assert_eq!(live[0]["session"]["events"], 60);
    assert_eq!(content(&other), live);
    drop((index, other));
    assert_eq!(live, from_scratch(dir.path()));
}

#[test]
fn an_event_that_is_not_written_is_not_in_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    index.listener()(&run.next(ended_run()));
    index.flush().unwrap();
    assert_eq!(index.run("nightly").unwrap().status, SessionStatus::Running);
}

#[test]
fn a_line_that_is_not_whole_is_taken_in_when_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    let line = serde_json::to_vec(&run.next(ended_run())).unwrap();
    let (head, tail) = line.split_at(line.len() / 2);
    run.raw(head);
    assert_eq!(index.run("nightly").unwrap().summary.events, 1);
    run.raw(tail);
    assert_eq!(
        index.run("nightly").unwrap().summary.events,
        1,
        "its end is missing"
    );
    run.raw(b"\n");
    let session = index.run("nightly").unwrap();
    assert_eq!((session.summary.events, session.skipped_lines), (2, 0));
}

#[test]
fn lines_that_cannot_be_read_are_passed_over_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    run.tell(started_run());
    run.raw(b"\n{\"torn\n\xff\xfe\n");
    let newer = serde_json::to_string(&run.next(ended_run())).unwrap();
    run.raw(newer.replace("PipelineCompleted", "PipelineMelted").as_bytes());
    run.raw(b"\n");
    let huge = json!({
        "schema": "orchestra.event/1", "seq": u64::MAX, "time": "2026-11-21T15:30:00Z", "run": "nightly",
        "event": "StageLog", "node": "a", "message": "",
    });
    run.raw(format!("{huge}\n").as_bytes());
    // A line that is longer than any line of the engine.
    run.raw(&vec![b'x'; 17 << 20]);
    run.raw(b"\n");
    run.tell(began("build", 1, 1));
    let index = SessionIndex::open(dir.path()).unwrap();
    let session = index.run("nightly").unwrap();
    let summary = &session.summary;
    assert_eq!((session.skipped_lines, summary.events, summary.stages), (6, 3, 1));
    run.tell(ended_run());
    let session = index.run("nightly").unwrap();
    assert_eq!(
        (session.skipped_lines, session.status),
        (6, SessionStatus::Success)
    );
    let live = content(&index);
    drop(index);
    assert_eq!(live, from_scratch(dir.path()));
}

#[test]
fn events_that_a_crash_took_back_are_taken_back_here_too() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    for n in 0..30 {
        run.tell_nth(n);
    }
    assert_eq!(index.run("nightly").unwrap().summary.events, 30);
    // The last lines never reached the disk; other lines of the same length replace them.
    let events = run.folder.join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    let kept: Vec<&str> = text.lines().take(25).collect();
    fs::write(&events, kept.join("\n") + "\n").unwrap();
    assert_eq!(index.run("nightly").unwrap().summary.events, 25);
    let other: Vec<String> = text
        .lines()
        .skip(25)
        .map(|line| line.replace("still at it", "at something"))
        .collect();
    run.raw((other.join("\n") + "\n").as_bytes());
    run.tell(log("plan"));
    assert_eq!(index.run("nightly").unwrap().summary.events, 31);
    fs::remove_file(&events).unwrap();
    assert_eq!(index.run("nightly").unwrap().status, SessionStatus::Accepted);
    fs::write(&events, &text).unwrap();
    let live = content(&index);
    assert_eq!(live[0]["session"]["events"], 30);
    drop(index);
    assert_eq!(live, from_scratch(dir.path()));
}

#[test]
fn events_that_a_new_owner_copied_to_a_new_file_are_known_again() {
    let dir = tempfile::tempdir().unwrap();
    let index = SessionIndex::open(dir.path()).unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    for n in 0..30 {
        run.tell_nth(n);
    }
    let before = content(&index);
    let events = run.folder.join("events.jsonl");
    let copy = run.folder.join("copy");
    fs::copy(&events, &copy).unwrap();
    fs::rename(&copy, &events).unwrap();
    assert_eq!(content(&index), before);
    // Later writes of the previous owner have no effect.
    run.tell(ended_run());
    assert_eq!(content(&index), before);
}

#[test]
fn a_long_run_is_taken_in_by_several_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = WrittenRun::new(dir.path(), "nightly");
    for n in 0..9_000 {
        run.tell_nth(n);
    }
    let index = SessionIndex::open(dir.path()).unwrap();
    let session = index.run("nightly").unwrap();
    assert_eq!(session.summary.events, 9_000);
    assert_eq!(
        session.summary.transitions,
        index.transitions("nightly").unwrap().len() as u64
    );
    let stages = index.stages("nightly").unwrap();
    assert_eq!(session.summary.stages, stages.len() as u64);
    let totals = index.node_totals("nightly").unwrap();
    assert_eq!(
        totals
            .iter()
            .map(|node| node.usage)
            .sum::<orchestra_engine::Usage>(),
        session.summary.usage
    );
}

#[cfg(target_os = "linux")]
#[test]
fn where_nothing_can_be_written_the_index_is_made_in_memory() {
    // Nobody can create files there, not even root.
    let index = SessionIndex::open("/sys/kernel").unwrap();
    assert!(index.list(&RunFilter::all()).unwrap().is_empty());
}
