//! The import of databases of the earlier form.

use orchestra_graph::LoadOptions;
use orchestra_stations::{StationStore, VersionOrigin, VersionText};
use rusqlite::Connection;

const EARLIER: &str = r#"
CREATE TABLE workflows (id TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE workflow_stations (id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, position INTEGER NOT NULL,
    name TEXT NOT NULL, station_prompt TEXT, output_context_keys TEXT);
CREATE TABLE station_transitions (id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, source_station_id TEXT NOT NULL,
    target_station_id TEXT NOT NULL, condition TEXT, label TEXT, condition_type TEXT, condition_value TEXT,
    created_at TIMESTAMP NOT NULL);
INSERT INTO workflows VALUES ('w1', 'Review and merge');
INSERT INTO workflow_stations VALUES
    ('s2', 'w1', 1, 'Review', 'Review the change.', '["review_passed", "reviewer"]'),
    ('s1', 'w1', 0, 'Implement', 'Write the change.', NULL),
    ('s3', 'w1', 2, 'Merge', NULL, ''),
    ('s4', 'w1', 3, 'Review', 'Look again.', NULL);
INSERT INTO station_transitions VALUES
    ('t3', 'w1', 's2', 's4', NULL, 'Otherwise', 'success', NULL, '2025-11-08 10:00:02'),
    ('t2', 'w1', 's2', 's3', NULL, 'Passed', 'conditional', '{"key": "review_passed", "value": true}', '2025-11-08 10:00:01'),
    ('t1', 'w1', 's1', 's2', NULL, NULL, NULL, NULL, '2025-11-08 10:00:00');
"#;

#[test]
fn stations_and_transitions_become_a_pipeline_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.sqlite");
    Connection::open(&old).unwrap().execute_batch(EARLIER).unwrap();
    let before = std::fs::read(&old).unwrap();
    let store = StationStore::open(dir.path().join("stations.sqlite")).unwrap();
    let imported = store.import_earlier(&old).unwrap();
    assert_eq!(imported.len(), 1);
    assert_eq!((imported[0].stations, imported[0].transitions), (4, 3));
    assert_eq!(std::fs::read(&old).unwrap(), before);

    let loaded = store
        .load("Review and merge", Some(1), &LoadOptions::default())
        .unwrap();
    let errors: Vec<_> = loaded
        .report
        .errors()
        .map(|error| error.message.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{}", loaded.source.text());
    let rows = store.version("Review and merge", 1).unwrap().rows;
    let transitions: Vec<String> = rows
        .transitions
        .iter()
        .map(|at| {
            format!(
                "{} -> {} {}",
                at.source,
                at.target,
                at.condition_type.as_deref().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        transitions,
        [
            "start -> implement -",
            "implement -> review -",
            "review -> merge conditional",
            "review -> review_2 success",
            "merge -> exit -",
            "review_2 -> exit -",
        ]
    );
    assert_eq!(
        rows.stations[2].output_context_keys,
        ["review_passed", "reviewer"]
    );
    let workflow = store.workflow("Review and merge").unwrap();
    store.activate("Review and merge", &workflow.etag, 1).unwrap();
}

#[test]
fn an_import_that_fails_imports_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.sqlite");
    let connection = Connection::open(&old).unwrap();
    connection.execute_batch(EARLIER).unwrap();
    connection
        .execute_batch("INSERT INTO workflows VALUES ('w2', 'taken')")
        .unwrap();
    let store = StationStore::open(dir.path().join("stations.sqlite")).unwrap();
    let text = VersionText::Dot("digraph { start -> exit }".to_owned());
    store.create("taken", &text, VersionOrigin::Local, "").unwrap();
    assert_eq!(
        store.import_earlier(&old).unwrap_err().code(),
        "workflow_name_taken"
    );
    assert_eq!(store.list(true).unwrap().len(), 1);
    let other = dir.path().join("other.sqlite");
    Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE workflows (id, name)")
        .unwrap();
    Connection::open(&other)
        .unwrap()
        .execute_batch("INSERT INTO workflows VALUES ('a', 'b')")
        .unwrap();
    let error = store.import_earlier(&other).unwrap_err();
    assert!(error.to_string().contains("workflow_stations"), "{error}");
}
