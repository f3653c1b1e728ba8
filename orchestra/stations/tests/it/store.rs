//! Workflows and their versions: nothing of them is lost, changed or overwritten.

use std::path::Path;
use std::process::{Command, Stdio};

use orchestra_stations::{StationError, StationStore, VersionOrigin, VersionText};

fn dot(text: &str) -> VersionText {
    VersionText::Dot(text.to_owned())
}

fn store(folder: &Path) -> StationStore {
    StationStore::open(folder.join("stations.sqlite")).unwrap()
}

const PICK: &str = "digraph { routing=first_match; start -> pick -> exit }";

#[test]
fn a_version_is_kept_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let text = "digraph shop {\n  // The comment stays.\n  start->pick; pick -> exit [label = \"Done\"]\n}\n";
    let made = store(dir.path())
        .create("shop", &dot(text), VersionOrigin::Http, "first")
        .unwrap();
    // Another process reads the same.
    let store = store(dir.path());
    let version = store.version("shop", 1).unwrap();
    assert_eq!(version.dot, text);
    assert_eq!(
        (version.summary.note.as_str(), version.summary.origin),
        ("first", VersionOrigin::Http)
    );
    assert_eq!(version.summary.hash.len(), 64);
    assert_eq!(version.rows.graph, "shop");
    assert_eq!(version.rows.transitions[1].label.as_deref(), Some("Done"));
    assert_eq!(store.workflow(&made.id).unwrap(), store.workflow("shop").unwrap());
}

#[test]
fn a_writer_who_has_not_seen_the_last_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let seen = store
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let changed = store
        .add_version(
            "shop",
            &seen.etag,
            &dot("digraph { start -> wrap -> exit }"),
            VersionOrigin::Local,
            "",
        )
        .unwrap();
    assert_eq!((changed.latest, changed.active), (2, None));
    for refused in [
        store.add_version("shop", &seen.etag, &dot(PICK), VersionOrigin::Local, ""),
        store.activate("shop", &seen.etag, 1),
        store.rename("shop", &seen.etag, "store"),
        store.archive("shop", &seen.etag),
    ] {
        let StationError::Changed { workflow, etag } = refused.unwrap_err() else {
            panic!("another error");
        };
        assert_eq!((workflow.as_str(), etag), ("shop", changed.etag.clone()));
    }
    assert_eq!(store.workflow("shop").unwrap(), changed);
}

#[test]
fn only_a_sound_version_becomes_active() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let made = store
        .create(
            "shop",
            &dot("digraph { start -> pick; pick -> nowhere_else }"),
            VersionOrigin::Local,
            "",
        )
        .unwrap();
    assert!(store.check("shop", 1).unwrap().has_errors());
    let StationError::Invalid { report } = store.activate("shop", &made.etag, 1).unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(report.source.name(), "stations:shop@1");
    assert!(report.has_errors());
    let none = store.load("shop", None, &Default::default()).err().unwrap();
    assert_eq!(none.code(), "no_active_version");
    let made = store
        .add_version("shop", &made.etag, &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let active = store.activate("shop", &made.etag, 2).unwrap();
    assert_eq!(active.active, Some(2));
    // A later version does not become active by itself.
    let later = store
        .add_version("shop", &active.etag, &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    assert_eq!((later.active, later.latest), (Some(2), 3));
    assert_eq!(
        store
            .load("shop", None, &Default::default())
            .unwrap()
            .source
            .name(),
        "stations:shop@2"
    );
}

#[test]
fn a_text_that_cannot_be_parsed_is_refused_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let refused = store.create("shop", &dot("digraph {\n  start -> }"), VersionOrigin::Local, "");
    let StationError::Invalid { report } = refused.unwrap_err() else {
        panic!("another error");
    };
    let first = report.errors().next().unwrap();
    assert_eq!(report.source.position(first.span.start).line, 2);
    assert!(store.list(true).unwrap().is_empty());
}

#[test]
fn names_are_checked_and_not_taken_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for bad in [
        "",
        " shop",
        "a/b",
        "a@1",
        "..",
        ".hidden",
        "a:b",
        "a\0b",
        &"x".repeat(101),
        "a\nb",
    ] {
        let refused = store.create(bad, &dot(PICK), VersionOrigin::Local, "");
        assert_eq!(refused.unwrap_err().code(), "workflow_name", "{bad:?}");
    }
    let shop = store
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    store
        .create("Büro 2.0", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let twice = store.create("shop", &dot(PICK), VersionOrigin::Local, "");
    assert_eq!(twice.unwrap_err().code(), "workflow_name_taken");
    let twice = store.rename("shop", &shop.etag, "Büro 2.0");
    assert_eq!(twice.unwrap_err().code(), "workflow_name_taken");
    let renamed = store.rename("shop", &shop.etag, "store").unwrap();
    assert_eq!((renamed.name.as_str(), renamed.id), ("store", shop.id));
    let unknown = store.workflow("stroe").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown workflow `stroe`; did you mean `store`?"
    );
}

#[test]
fn an_archived_workflow_is_kept_but_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let made = store
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let archived = store.archive("shop", &made.etag).unwrap();
    assert!(archived.archived_at.is_some());
    assert!(store.list(false).unwrap().is_empty());
    assert_eq!(store.list(true).unwrap(), std::slice::from_ref(&archived));
    let refused = store.add_version("shop", &archived.etag, &dot(PICK), VersionOrigin::Local, "");
    assert_eq!(refused.unwrap_err().code(), "workflow_archived");
    assert_eq!(store.version("shop", 1).unwrap().dot, PICK);
}

#[test]
fn versions_and_their_rows_can_be_neither_changed_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stations.sqlite");
    StationStore::open(&path)
        .unwrap()
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    for statement in [
        "UPDATE workflow_versions SET dot = ''",
        "DELETE FROM workflow_versions",
        "UPDATE workflow_stations SET prompt = 'other'",
        "DELETE FROM workflow_stations",
        "UPDATE station_transitions SET label = 'other'",
        "DELETE FROM station_transitions",
    ] {
        let error = connection.execute(statement, []).unwrap_err().to_string();
        assert!(error.contains("a version of a workflow"), "{statement}: {error}");
    }
}

/// Each process adds 12 versions; `STATIONS_EDITS=500` adds more.
#[test]
fn processes_that_write_at_the_same_time_lose_no_version() {
    const PROCESSES: usize = 8;
    let edits: usize = std::env::var("STATIONS_EDITS").map_or(12, |text| text.parse().unwrap());
    // The test starts this program again, once for each process.
    if let Some(folder) = std::env::var_os("STATIONS_WRITER") {
        let store = store(Path::new(&folder));
        let mut written = 0;
        while written < edits {
            let seen = store.workflow("shop").unwrap();
            match store.add_version("shop", &seen.etag, &dot(PICK), VersionOrigin::Local, "") {
                Ok(_) => written += 1,
                Err(StationError::Changed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    store(dir.path())
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let writers: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "store::processes_that_write_at_the_same_time_lose_no_version",
                ])
                .env("STATIONS_WRITER", dir.path())
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect();
    for writer in writers {
        let output = writer.unwrap().wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let versions = store(dir.path()).versions("shop").unwrap();
    assert_eq!(versions.len(), 1 + PROCESSES * edits);
}

#[test]
fn a_damaged_or_foreign_file_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stations.sqlite");
    StationStore::open(&path)
        .unwrap()
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[1_000..end].fill(0x5a);
    for (content, name) in [
        (bytes, "damaged"),
        (b"SQLite format 3\0 but not really".to_vec(), "no database"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, &content).unwrap();
        let error = StationStore::open(&path).unwrap_err();
        assert_eq!(error.code(), "stations_damaged", "{name}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), content, "{name}");
    }
    let foreign = dir.path().join("foreign.sqlite");
    rusqlite::Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE notes (text)")
        .unwrap();
    assert_eq!(
        StationStore::open(&foreign).unwrap_err().code(),
        "stations_damaged"
    );
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stations.sqlite");
    drop(StationStore::open(&path).unwrap());
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = StationStore::open(&path).unwrap_err();
    assert!(
        matches!(
            &error,
            StationError::Newer {
                found: 99,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mode = std::fs::metadata(store.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_former_name_stays_with_its_workflow() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let shop = store
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let renamed = store.rename("shop", &shop.etag, "store").unwrap();
    assert_eq!(store.workflow("shop").unwrap(), renamed);
    assert_eq!(store.names("store").unwrap(), ["store", "shop"]);
    let taken = store.create("shop", &dot(PICK), VersionOrigin::Local, "");
    assert_eq!(
        taken.unwrap_err().to_string(),
        "`shop` is a former name of workflow `store`, and its runs bear it; choose another name"
    );
    let other = store
        .create("other", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let taken = store.rename("other", &other.etag, "shop").unwrap_err();
    assert_eq!(taken.code(), "workflow_name_taken");
    // The workflow itself may take it again.
    let back = store.rename("store", &renamed.etag, "shop").unwrap();
    assert_eq!((back.name.as_str(), &back.id), ("shop", &shop.id));
    assert_eq!(store.names("shop").unwrap(), ["shop", "store"]);
    // A name that is an id would hide the workflow with this id.
    let taken = store.rename("other", &other.etag, &shop.id).unwrap_err();
    assert_eq!(taken.code(), "workflow_name_taken");
}

#[test]
fn only_a_text_that_a_local_program_wrote_is_local() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let shop = store.create("shop", &dot(PICK), VersionOrigin::Http, "").unwrap();
    assert!(!store.is_local(PICK).unwrap());
    store
        .add_version("shop", &shop.etag, &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    assert!(store.is_local(PICK).unwrap());
    assert!(!store.is_local(&format!("{PICK} ")).unwrap());
}

#[test]
fn two_versions_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let shop = store
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    let wrapped = "digraph { routing=first_match; start -> pick -> wrap -> exit }";
    let shop = store
        .add_version("shop", &shop.etag, &dot(wrapped), VersionOrigin::Local, "")
        .unwrap();
    assert!(store.difference(("shop", 1), ("shop", 1)).unwrap().is_empty());
    let difference = store.difference(("shop", 1), ("shop", 2)).unwrap().to_string();
    assert!(difference.contains("wrap"), "{difference}");
    store
        .add_version(
            "shop",
            &shop.etag,
            &dot("digraph { pick }"),
            VersionOrigin::Local,
            "",
        )
        .unwrap();
    let invalid = store.difference(("shop", 1), ("shop", 3)).unwrap_err();
    assert_eq!(invalid.code(), "invalid_workflow");
    let missing = store.difference(("shop", 4), ("shop", 1)).unwrap_err();
    assert_eq!(missing.code(), "unknown_version");
}

#[test]
fn a_database_of_an_earlier_version_is_copied_and_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stations.sqlite");
    let made = StationStore::open(&path)
        .unwrap()
        .create("shop", &dot(PICK), VersionOrigin::Local, "")
        .unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("DROP TABLE former_names; DROP INDEX local_texts; PRAGMA user_version = 1")
        .unwrap();
    let store = StationStore::open(&path).unwrap();
    assert_eq!(store.workflow("shop").unwrap(), made);
    store.rename("shop", &made.etag, "store").unwrap();
    assert_eq!(store.names("shop").unwrap(), ["store", "shop"]);
    let backup = rusqlite::Connection::open(dir.path().join("stations.sqlite.version-1")).unwrap();
    let version: i64 = backup
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 1);
}
