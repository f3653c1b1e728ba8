//! The store against a plain map, through any changes, crashes, repeats and returns.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

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
    /// The process ends, in the middle of a line with so many bytes of garbage.
    Crash {
        garbage: Vec<u8>,
    },
    /// The attempt was in flight at the crash, and runs again.
    Repeat {
        by: u8,
    },
    /// A replay goes back over so many changes.
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

/// What is known without the store: the changes that stand, each with the position before it.
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
    let keeping = Keeping {
        threshold: 24,
        sync: false,
        ..Keeping::default()
    };
    ArtifactStore::kept_in(run_dir, keeping).unwrap()
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
        let place = tempfile::tempdir().unwrap();
        let mut store = open(place.path());
        let mut plain = Plain::new();
        for step in steps {
            let before = store.position();
            let mine = |by: u8| store.on_behalf_of(format!("n{by}#1/1"));
            match step {
                Step::Store { by, id, data } => {
                    mine(by).store(format!("id-{id}"), "Any", data.clone()).unwrap();
                    if store.position() > before {
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
                    if store.position() > before {
                        plain.push((before, by, None));
                    }
                }
                Step::Crash { garbage } => {
                    drop(store);
                    if before > 0 {
                        let index = place.path().join("artifacts/index.jsonl");
                        let mut file = fs::OpenOptions::new().append(true).open(index).unwrap();
                        file.write_all(&garbage).unwrap();
                    }
                    store = open(place.path());
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
        agree(&open(place.path()), &plain);
    }
}

#[test]
fn an_attempt_that_is_repeated_finds_the_artifacts_as_it_did_before() {
    let place = tempfile::tempdir().unwrap();
    let before = open(place.path());
    let done = before.on_behalf_of("a#1/1".to_owned());
    done.store("draft", "Draft", json!("first")).unwrap();
    done.store("notes", "Notes", json!("x".repeat(100))).unwrap();
    let cut_short = before.on_behalf_of("b#1/1".to_owned());
    cut_short.store("draft", "Draft", json!("second")).unwrap();
    cut_short.remove("notes").unwrap();
    cut_short.store("own", "Own", json!(1)).unwrap();
    let beside = before.on_behalf_of("fan#1:left/c#1/1".to_owned());
    beside.store("beside", "Beside", json!(2)).unwrap();

    let after = open(place.path());
    assert_eq!(
        after.len(),
        3,
        "what was stored is there until it is known to be repeated"
    );
    after.repeated("b#1/1").unwrap();
    after.repeated("never#1/1").unwrap();
    for store in [&after, &open(place.path())] {
        assert_eq!(store.retrieve("draft").unwrap(), "first");
        assert!(store.has("notes") && store.has("beside") && !store.has("own"));
    }
    let again = after.on_behalf_of("b#1/1".to_owned());
    again.store("draft", "Draft", json!("second")).unwrap();
    again.store("own", "Own", json!(1)).unwrap();
    assert_eq!(open(place.path()).len(), 4, "nothing is doubled");
}
