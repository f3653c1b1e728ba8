//! The schema of the database.

/// The schema version. It is incremented whenever the tables or the fold change; a database of another version is
/// rebuilt.
pub(crate) const VERSION: i64 = 9;

/// Selects the version and the file number with which the database was created.
pub(crate) const ORIGIN: &str = "SELECT version, made_as FROM origin";

/// The schema. Times are milliseconds since 1970, durations are microseconds. The rows of a run are stored together, in
/// the order of its events.
pub(crate) const TABLES: &str = "
CREATE TABLE origin (version INTEGER NOT NULL, made_as INTEGER NOT NULL, token INTEGER NOT NULL, complete INTEGER NOT NULL);
CREATE TABLE runs (
    run TEXT PRIMARY KEY, elsewhere INTEGER NOT NULL, name TEXT NOT NULL, goal TEXT NOT NULL, file TEXT NOT NULL,
    status TEXT NOT NULL, simulated INTEGER NOT NULL, started INTEGER, updated INTEGER, ended INTEGER,
    code TEXT, reason TEXT, node TEXT,
    fencing_token INTEGER NOT NULL, checkpoints INTEGER NOT NULL, checkpoint TEXT,
    replayed_run TEXT, replayed_checkpoint TEXT, restarts INTEGER NOT NULL,
    stages INTEGER NOT NULL, failures INTEGER NOT NULL, repeats INTEGER NOT NULL,
    transitions INTEGER NOT NULL, tool_calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_micros INTEGER NOT NULL,
    events INTEGER NOT NULL, skipped_lines INTEGER NOT NULL,
    unanswered TEXT NOT NULL, snapshot TEXT,
    stamp INTEGER NOT NULL, position INTEGER NOT NULL, tail_length INTEGER NOT NULL, tail INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX latest_runs ON runs (started DESC, run DESC);
CREATE INDEX runs_of_files ON runs (file);
CREATE INDEX open_runs ON runs (run) WHERE status IN ('accepted', 'running');
CREATE INDEX asking_runs ON runs (run) WHERE unanswered <> '[]';
CREATE TABLE stages (
    run TEXT NOT NULL, seq INTEGER NOT NULL, changed INTEGER NOT NULL,
    node TEXT NOT NULL, branch TEXT, position INTEGER NOT NULL,
    visit INTEGER NOT NULL, attempt INTEGER NOT NULL, repeat INTEGER NOT NULL,
    state TEXT NOT NULL, outcome TEXT, preferred_label TEXT, error TEXT, will_retry INTEGER NOT NULL, notes TEXT,
    started INTEGER, ended INTEGER, duration INTEGER,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_micros INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE INDEX open_stages ON stages (run, node) WHERE state = 'running';
CREATE INDEX changed_stages ON stages (run, changed);
CREATE TABLE transitions (
    run TEXT NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL, branch TEXT,
    origin TEXT NOT NULL, target TEXT, edge INTEGER, rule TEXT NOT NULL, branches INTEGER, tested TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE tool_calls (
    run TEXT NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL, node TEXT NOT NULL, branch TEXT,
    tool TEXT NOT NULL, duration INTEGER NOT NULL, error TEXT,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE model_usage (
    run TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_micros INTEGER NOT NULL,
    PRIMARY KEY (run, provider, model)
) WITHOUT ROWID;
CREATE TABLE warnings (
    run TEXT NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL, node TEXT, branch TEXT,
    code TEXT NOT NULL, message TEXT NOT NULL, keys TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE edge_counts (
    run TEXT NOT NULL, origin TEXT NOT NULL, edge INTEGER NOT NULL,
    tested INTEGER NOT NULL, held INTEGER NOT NULL, taken INTEGER NOT NULL,
    PRIMARY KEY (run, origin, edge)
) WITHOUT ROWID;
";
