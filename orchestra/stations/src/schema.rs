//! The schema of the database, and its migrations.

/// `Orct`: the SQLite application id of the database.
pub(crate) const APPLICATION: i64 = 0x4f72_6374;

/// The statements that lead from each version of the schema to the next; the first one creates the database.
pub(crate) const MIGRATIONS: &[&str] = &["
CREATE TABLE workflows (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, active INTEGER, etag TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, archived_at INTEGER
);
CREATE TABLE workflow_versions (
    workflow_id TEXT NOT NULL REFERENCES workflows(id), version INTEGER NOT NULL, dot TEXT NOT NULL, hash TEXT NOT NULL,
    graph TEXT NOT NULL, attributes TEXT NOT NULL, origin TEXT NOT NULL, note TEXT NOT NULL, created_at INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, version)
);
CREATE TABLE workflow_stations (
    id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, version INTEGER NOT NULL, node TEXT NOT NULL,
    position INTEGER NOT NULL, name TEXT, type TEXT, prompt TEXT, output_context_keys TEXT NOT NULL, attributes TEXT NOT NULL,
    UNIQUE (workflow_id, version, node),
    FOREIGN KEY (workflow_id, version) REFERENCES workflow_versions(workflow_id, version)
);
CREATE TABLE station_transitions (
    id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, version INTEGER NOT NULL,
    source_station_id TEXT NOT NULL REFERENCES workflow_stations(id),
    target_station_id TEXT NOT NULL REFERENCES workflow_stations(id),
    ordinal INTEGER NOT NULL, label TEXT, condition TEXT, condition_type TEXT, condition_value TEXT,
    allow_revisit INTEGER NOT NULL, max_revisits INTEGER, attributes TEXT NOT NULL,
    FOREIGN KEY (workflow_id, version) REFERENCES workflow_versions(workflow_id, version)
);
CREATE INDEX transitions_of_version ON station_transitions (workflow_id, version, ordinal);
CREATE TRIGGER fixed_versions BEFORE UPDATE ON workflow_versions
    BEGIN SELECT RAISE(ABORT, 'a version of a workflow never changes'); END;
CREATE TRIGGER kept_versions BEFORE DELETE ON workflow_versions
    BEGIN SELECT RAISE(ABORT, 'a version of a workflow is never removed'); END;
CREATE TRIGGER fixed_stations BEFORE UPDATE ON workflow_stations
    BEGIN SELECT RAISE(ABORT, 'a version of a workflow never changes'); END;
CREATE TRIGGER kept_stations BEFORE DELETE ON workflow_stations
    BEGIN SELECT RAISE(ABORT, 'a version of a workflow is never removed'); END;
CREATE TRIGGER fixed_transitions BEFORE UPDATE ON station_transitions
    BEGIN SELECT RAISE(ABORT, 'a version of a workflow never changes'); END;
CREATE TRIGGER kept_transitions BEFORE DELETE ON station_transitions
    BEGIN SELECT RAISE(ABORT, 'a version of a workflow is never removed'); END;
", "
CREATE TABLE former_names (name TEXT PRIMARY KEY, workflow_id TEXT NOT NULL REFERENCES workflows(id));
CREATE INDEX local_texts ON workflow_versions (hash) WHERE origin = 'local';
"];

/// The version of the schema that this program knows.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;
