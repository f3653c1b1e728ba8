//! Tests that compare the store to a plain map through arbitrary changes, crashes, repeats and rewinds.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::store::tests::Failing;

#[derive(Clone, Debug)]
enum Step {
    Store {
        by: u8,
        id: u8,
        data: Value,
    },
    Remove {
        by: u8,
        id: u8,
    },
    Clear {
        by: u8,
    },
    /// The process dies in the middle of a line and leaves this garbage.
    Crash {
        garbage: Vec<u8>,
    },
    /// The attempt was in flight during the crash and runs again.
    Repeat {
        by: u8,
    },
    /// A replay undoes this many changes.
    Rewind {
        changes: u8,
    },
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    let (by, id) = (0..3_u8, 0..4_u8);
    prop_oneof![
        8 => (by.clone(), id.clone(), data()).prop_map(|(by, id, data)| Step::Store { by, id, data }),
        2 => (by.clone(), id).prop_map(|(by, id)| Step::Remove { by, id }),
        1 => by.clone().prop_map(|by| Step::Clear { by }),
        2 => prop::collection::vec(1..=9_u8, 0..40).prop_map(|garbage| Step::Crash { garbage }),
        2 => by.prop_map(|by| Step::Repeat { by }),
        1 => (0..4_u8).prop_map(|changes| Step::Rewind { changes }),
    ]
}

/// The model: the changes that are in effect, each with the position before it.
type Plain = Vec<(u64, u8, Option<(u8, Option<Value>)>)>;

fn fold(plain: &Plain) -> BTreeMap<String, Value> {
    let mut map = BTreeMap::new();
    for (_, _, change) in plain {
        match change {
            Some((id, Some(data))) => drop(map.insert(format!("id-{id}"), data.clone())),
            Some((id, None)) => drop(map.remove(&format!("id-{id}"))),
            None => map.clear(),
        }
    }
    map
}

fn open(run_dir: &Path) -> ArtifactStore {
    open_by(system(), Durability::Process, run_dir)
}

fn open_by(files: Arc<dyn FileSystem>, durability: Durability, run_dir: &Path) -> ArtifactStore {
    let options = ArtifactOptions {
        threshold: 24,
        files,
        durability,
        ..ArtifactOptions::default()
    };
    ArtifactStore::kept_in(run_dir, options).unwrap()
}

fn agree(store: &ArtifactStore, plain: &Plain) {
    let map = fold(plain);
    let ids: Vec<String> = store.list().into_iter().map(|info| info.id).collect();
    assert_eq!(ids, map.keys().cloned().collect::<Vec<_>>());
    for (id, data) in &map {
        assert_eq!(&store.retrieve(id).unwrap(), data, "{id}");
        let info = store.info(id).unwrap();
        assert_eq!(info.is_file_backed, info.size_bytes > 24);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_store_is_a_map_that_survives(steps in prop::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let mut plain = Plain::new();
        for step in steps {
            let before = store.changes();
            let mine = |by: u8| store.on_behalf_of(format!("n{by}#1/1"));
            match step {
                Step::Store { by, id, data } => {
                    mine(by).store(format!("id-{id}"), "Any", data.clone()).unwrap();
                    if store.changes() > before {
                        plain.push((before, by, Some((id, Some(data)))));
                    }
                }
                Step::Remove { by, id } => {
                    if mine(by).remove(&format!("id-{id}")).unwrap() {
                        plain.push((before, by, Some((id, None))));
                    }
                }
                Step::Clear { by } => {
                    mine(by).clear().unwrap();
                    if store.changes() > before {
                        plain.push((before, by, None));
                    }
                }
                Step::Crash { garbage } => {
                    drop(store);
                    if before > 0 {
                        let index = dir.path().join("artifacts/index.jsonl");
                        let bytes = fs::read(&index).unwrap();
                        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
                        let bytes = [&bytes[..end], &garbage, &bytes[end..]].concat();
                        fs::write(index, bytes).unwrap();
                    }
                    store = open(dir.path());
                }
                Step::Repeat { by } => {
                    store.repeated(&format!("n{by}#1/1")).unwrap();
                    plain.retain(|(_, of, _)| *of != by);
                }
                Step::Rewind { changes } => {
                    let to = before.saturating_sub(u64::from(changes));
                    store.rewind(to).unwrap();
                    plain.retain(|(at, ..)| (*at).max(1) < to);
                }
            }
            agree(&store, &plain);
        }
        agree(&open(dir.path()), &plain);
    }
}

#[test]
fn an_attempt_that_is_repeated_finds_the_artifacts_as_it_did_before() {
    let dir = tempfile::tempdir().unwrap();
    let before = open(dir.path());
    let done = before.on_behalf_of("a#1/1".to_owned());
    done.store("draft", "Draft", json!("first")).unwrap();
    done.store("notes", "Notes", json!("x".repeat(100))).unwrap();
    let cut_short = before.on_behalf_of("b#1/1".to_owned());
    cut_short.store("draft", "Draft", json!("second")).unwrap();
    cut_short.remove("notes").unwrap();
    cut_short.store("own", "Own", json!(1)).unwrap();
    let beside = before.on_behalf_of("fan#1:left/c#1/1".to_owned());
    beside.store("beside", "Beside", json!(2)).unwrap();

    let after = open(dir.path());
    assert_eq!(
        after.len(),
        3,
        "what was stored is there until it is known to be repeated"
    );
    after.repeated("b#1/1").unwrap();
    after.repeated("never#1/1").unwrap();
    for store in [&after, &open(dir.path())] {
        assert_eq!(store.retrieve("draft").unwrap(), "first");
        assert!(store.has("notes") && store.has("beside") && !store.has("own"));
    }
    let again = after.on_behalf_of("b#1/1".to_owned());
    again.store("draft", "Draft", json!("second")).unwrap();
    again.store("own", "Own", json!(1)).unwrap();
    assert_eq!(open(dir.path()).len(), 4, "nothing is doubled");
}

/// Returns text that is large enough for a file of its own, or small enough to be inline.
fn text(large: bool, fill: &str) -> Value {
    Value::String(fill.repeat(if large { 100 } else { 2 }))
}

type Change = fn(&ArtifactStore) -> Result<(), ArtifactError>;

/// The changes that a run may make to its artifacts.
const CHANGES: &[Change] = &[
    |store| store.store("small", "Small", text(false, "a")).map(drop),
    |store| store.store("large", "Large", text(true, "b")).map(drop),
    |store| store.store("small", "Small", text(true, "b")).map(drop),
    |store| store.store("other", "Other", text(true, "c")).map(drop),
    |store| store.remove("large").map(drop),
    |store| store.repeated("b#1/1"),
    |store| store.rewind(3),
    |store| store.store("large", "Large", text(true, "d")).map(drop),
    |store| store.clear(),
    |store| store.store("large", "Large", text(false, "e")).map(drop),
];

fn contents(store: &ArtifactStore) -> BTreeMap<String, Value> {
    let infos = store.list().into_iter();
    infos
        .map(|info| (info.id.clone(), store.retrieve(&info.id).unwrap()))
        .collect()
}

#[test]
fn whichever_call_fails_or_is_the_last_what_was_stored_is_there() {
    let files = Arc::new(Failing::default());
    let mut seen = 0;
    for change in 0..CHANGES.len() {
        for (from_then_on, error) in [(false, 28), (false, 30), (false, 5), (true, 5)] {
            for call in 1.. {
                let dir = tempfile::tempdir().unwrap();
                files.set(0, 0, 0);
                let store =
                    open_by(files.clone(), Durability::Full, dir.path()).on_behalf_of("b#1/1".to_owned());
                for before in &CHANGES[..change] {
                    before(&store).unwrap();
                }
                let before = contents(&store);
                files.set(call, if from_then_on { usize::MAX } else { call }, error);
                let done = CHANGES[change](&store);
                if files.calls().len() < call {
                    done.unwrap();
                    break;
                }
                seen += 1;
                let reported = format!("change {change}, call {call} of {:?}", files.calls());
                let now = contents(&store);
                match &done {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.code(), "store_io", "{reported}: {error}");
                        assert_eq!(now, before, "{reported}");
                    }
                }
                files.set(0, 0, 0);
                let after = open_by(files.clone(), Durability::Full, dir.path());
                let found = contents(&after);
                if done.is_ok() {
                    assert_eq!(found, now, "{reported}");
                } else if from_then_on {
                    // The change may or may not have become durable before the failure.
                    drop(store);
                    CHANGES[change](&after.on_behalf_of("b#1/1".to_owned())).unwrap();
                    continue;
                } else {
                    assert_eq!(found, before, "{reported}");
                }
                drop(after);
                // Once the disk works again, so does the store.
                CHANGES[change](&store).unwrap();
                let now = contents(&store);
                drop(store);
                assert_eq!(
                    contents(&open_by(files.clone(), Durability::Full, dir.path())),
                    now,
                    "{reported}"
                );
            }
        }
    }
    assert!(seen > 100, "only {seen} failures were tried");
}

#[test]
fn a_content_is_durable_before_the_index_names_it() {
    let files = Arc::new(Failing::default());
    let dir = tempfile::tempdir().unwrap();
    let store = open_by(files.clone(), Durability::Full, dir.path());
    store.store("first", "First", text(false, "a")).unwrap();
    let calls = |then: &dyn Fn()| -> Vec<&str> {
        files.set(0, 0, 0);
        then();
        files
            .calls()
            .into_iter()
            .filter(|call| *call != "remove")
            .collect()
    };
    let large = calls(&|| drop(store.store("large", "Large", text(true, "b")).unwrap()));
    assert_eq!(
        large,
        [
            "make",
            "write",
            "sync_all",
            "rename",
            "sync_folder",
            "write",
            "sync_data"
        ]
    );
    // A second name for the same content, and a small artifact, are only lines of the index.
    let twin = calls(&|| drop(store.store("twin", "Twin", text(true, "b")).unwrap()));
    assert_eq!(twin, ["sync_folder", "write", "sync_data"]);
    let small = calls(&|| drop(store.store("small", "Small", text(false, "c")).unwrap()));
    assert_eq!(small, ["write", "sync_data"]);
    let again = calls(&|| drop(store.store("small", "Small", text(false, "c")).unwrap()));
    assert!(again.is_empty());
    drop(store);
    let loose = open_by(files.clone(), Durability::Process, dir.path());
    let unsynced = calls(&|| drop(loose.store("more", "More", text(true, "d")).unwrap()));
    assert!(
        !unsynced.iter().any(|call| call.starts_with("sync")),
        "{unsynced:?}"
    );
}

#[test]
fn a_run_of_another_process_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let options = ArtifactOptions {
        threshold: 24,
        guard: Arc::new(move || {
            let path = path.clone();
            Err(StoreError::OwnershipLost { path, by: None })
        }),
        ..ArtifactOptions::default()
    };
    let store = ArtifactStore::kept_in(dir.path(), options).unwrap();
    for large in [true, false] {
        let error = store.store("a", "A", text(large, "a")).unwrap_err();
        assert_eq!(error.code(), "store_ownership_lost");
    }
    assert!(store.is_empty());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn going_back_to_a_position_finds_the_artifacts_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(dir.path()).unwrap();
    let start = store.changes();
    store.store("draft", "First draft", text(true, "a")).unwrap();
    store.store("notes", "Notes", "short").unwrap();
    let then = store.changes();
    store.store("draft", "Second draft", text(true, "b")).unwrap();
    store.remove("notes").unwrap();
    store.rewind(then).unwrap();
    for store in [&store, &ArtifactStore::open(dir.path()).unwrap()] {
        assert_eq!(store.retrieve("draft").unwrap(), text(true, "a"));
        assert_eq!(store.retrieve("notes").unwrap(), "short");
    }
    let now = store.changes();
    store.rewind(now).unwrap();
    assert_eq!(store.changes(), now, "there was nothing behind it");
    store.rewind(start).unwrap();
    assert!(store.is_empty() && ArtifactStore::open(dir.path()).unwrap().is_empty());
}
