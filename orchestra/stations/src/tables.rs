//! Writing versions to the tables, and reading them.

use orchestra_graph::Source;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::database::Failure;
use crate::derive::rows_of;
use crate::name::VersionName;
use crate::rows::{
    StationRow, TransitionRow, VersionOrigin, VersionSummary, Workflow, WorkflowRows, WorkflowVersion,
};

const WORKFLOW: &str = "SELECT id, name, active, (SELECT max(version) FROM workflow_versions WHERE workflow_id = id), etag, \
    created_at, updated_at, archived_at FROM workflows";

fn workflow(row: &Row<'_>) -> rusqlite::Result<Workflow> {
    let time = |at: i64| u64::try_from(at).unwrap_or_default();
    Ok(Workflow {
        id: row.get(0)?,
        name: row.get(1)?,
        active: row.get(2)?,
        latest: row.get(3)?,
        etag: row.get(4)?,
        created_at: time(row.get(5)?),
        updated_at: time(row.get(6)?),
        archived_at: row.get::<_, Option<i64>>(7)?.map(time),
    })
}

/// Returns the workflow with a name, an id or a former name.
pub(crate) fn find(connection: &Connection, name: &str) -> Result<Option<Workflow>, Failure> {
    let sql = format!(
        "{WORKFLOW} WHERE name = ?1 OR id = ?1 OR id = (SELECT workflow_id FROM former_names WHERE name = ?1) \
         ORDER BY name = ?1 DESC, id = ?1 DESC LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row([name], workflow).optional()?)
}

/// Returns the present name of a workflow, and then its former ones.
pub(crate) fn names(connection: &Connection, workflow: &Workflow) -> Result<Vec<String>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT name FROM former_names WHERE workflow_id = ?1 ORDER BY name")?;
    let former = statement.query_map([&workflow.id], |row| row.get(0))?;
    let names = std::iter::once(Ok(workflow.name.clone())).chain(former);
    Ok(names.collect::<Result<_, _>>()?)
}

/// Renames a workflow. Its former name stays its own, because runs bear it.
pub(crate) fn rename(connection: &Connection, workflow: &Workflow, name: &str) -> Result<(), Failure> {
    if workflow.name == name {
        return Ok(());
    }
    let mut keep =
        connection.prepare_cached("INSERT INTO former_names (name, workflow_id) VALUES (?1, ?2)")?;
    keep.execute([&workflow.name, &workflow.id])?;
    let mut forget = connection.prepare_cached("DELETE FROM former_names WHERE name = ?1")?;
    forget.execute([name])?;
    let mut rename = connection.prepare_cached("UPDATE workflows SET name = ?2 WHERE id = ?1")?;
    rename.execute([&*workflow.id, name])?;
    Ok(())
}

/// Returns whether a local program wrote a version with this hash.
pub(crate) fn is_local(connection: &Connection, hash: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM workflow_versions WHERE hash = ?1 AND origin = 'local')";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([hash], |row| row.get(0))?)
}

/// Returns the workflows, sorted by name.
pub(crate) fn list(connection: &Connection, archived: bool) -> Result<Vec<Workflow>, Failure> {
    let sql = format!("{WORKFLOW} WHERE ?1 OR archived_at IS NULL ORDER BY name");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([archived], workflow)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Writes a version with its rows.
pub(crate) fn insert_version(
    connection: &Connection,
    workflow: &str,
    version: &VersionSummary,
    dot: &str,
) -> Result<(), Failure> {
    let rows = rows_of(&Source::new(source_name(workflow, version.version), dot));
    let VersionSummary {
        version,
        hash,
        origin,
        note,
        created_at,
    } = version;
    connection
        .prepare_cached(
            "INSERT INTO workflow_versions (workflow_id, version, dot, hash, graph, attributes, origin, note, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            workflow,
            version,
            dot,
            hash,
            rows.graph,
            json(&rows.attributes),
            origin.word(),
            note,
            i64::try_from(*created_at).unwrap_or(i64::MAX),
        ])?;
    let station_id = |node: &str| format!("{workflow}/{version}/{node}");
    let mut insert = connection.prepare_cached(
        "INSERT INTO workflow_stations (id, workflow_id, version, node, position, name, type, prompt, output_context_keys, \
         attributes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for (position, station) in (0_i64..).zip(&rows.stations) {
        insert.execute(params![
            station_id(&station.node),
            workflow,
            version,
            station.node,
            position,
            station.name,
            station.kind,
            station.prompt,
            json(&station.output_context_keys),
            json(&station.attributes),
        ])?;
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO station_transitions (id, workflow_id, version, source_station_id, target_station_id, ordinal, label, \
         condition, condition_type, condition_value, allow_revisit, max_revisits, attributes) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    for (ordinal, transition) in (0_i64..).zip(&rows.transitions) {
        insert.execute(params![
            format!("{workflow}/{version}/{ordinal}"),
            workflow,
            version,
            station_id(&transition.source),
            station_id(&transition.target),
            ordinal,
            transition.label,
            transition.condition,
            transition.condition_type,
            transition.condition_value,
            transition.allow_revisit,
            transition.max_revisits,
            json(&transition.attributes),
        ])?;
    }
    Ok(())
}

/// Returns the name of a version as that of a file, with which diagnostics and runs name it.
pub(crate) fn source_name(workflow: &str, version: u32) -> String {
    let version = Some(version);
    VersionName { workflow, version }.file()
}

const SUMMARY: &str = "version, hash, origin, note, created_at";

fn summary(row: &Row<'_>) -> rusqlite::Result<VersionSummary> {
    let origin: String = row.get(2)?;
    Ok(VersionSummary {
        version: row.get(0)?,
        hash: row.get(1)?,
        // An unknown origin is treated like the one that is trusted least.
        origin: VersionOrigin::parse(&origin).unwrap_or(VersionOrigin::Http),
        note: row.get(3)?,
        created_at: u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
    })
}

/// Returns the versions of a workflow, the latest first.
pub(crate) fn versions(connection: &Connection, workflow: &str) -> Result<Vec<VersionSummary>, Failure> {
    let sql = format!("SELECT {SUMMARY} FROM workflow_versions WHERE workflow_id = ?1 ORDER BY version DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([workflow], summary)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns a version with its rows.
pub(crate) fn version(
    connection: &Connection,
    workflow: &str,
    number: u32,
) -> Result<Option<WorkflowVersion>, Failure> {
    let sql = format!(
        "SELECT {SUMMARY}, dot, graph, attributes FROM workflow_versions WHERE workflow_id = ?1 AND version = ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row(params![workflow, number], |row| {
        Ok(WorkflowVersion {
            summary: summary(row)?,
            dot: row.get(5)?,
            rows: WorkflowRows {
                graph: row.get(6)?,
                attributes: parsed(row, 7)?,
                ..WorkflowRows::default()
            },
        })
    });
    let Some(mut version) = found.optional()? else {
        return Ok(None);
    };
    let mut statement = connection.prepare_cached(
        "SELECT node, name, type, prompt, output_context_keys, attributes FROM workflow_stations \
         WHERE workflow_id = ?1 AND version = ?2 ORDER BY position",
    )?;
    let stations = statement.query_map(params![workflow, number], |row| {
        Ok(StationRow {
            node: row.get(0)?,
            name: row.get(1)?,
            kind: row.get(2)?,
            prompt: row.get(3)?,
            output_context_keys: parsed(row, 4)?,
            attributes: parsed(row, 5)?,
        })
    })?;
    version.rows.stations = stations.collect::<Result<_, _>>()?;
    let mut statement = connection.prepare_cached(
        "SELECT source.node, target.node, label, condition, condition_type, condition_value, allow_revisit, max_revisits, \
         station_transitions.attributes FROM station_transitions \
         JOIN workflow_stations source ON source.id = source_station_id \
         JOIN workflow_stations target ON target.id = target_station_id \
         WHERE station_transitions.workflow_id = ?1 AND station_transitions.version = ?2 ORDER BY ordinal",
    )?;
    let transitions = statement.query_map(params![workflow, number], |row| {
        Ok(TransitionRow {
            source: row.get(0)?,
            target: row.get(1)?,
            label: row.get(2)?,
            condition: row.get(3)?,
            condition_type: row.get(4)?,
            condition_value: row.get(5)?,
            allow_revisit: row.get(6)?,
            max_revisits: row.get(7)?,
            attributes: parsed(row, 8)?,
        })
    })?;
    version.rows.transitions = transitions.collect::<Result<_, _>>()?;
    Ok(Some(version))
}

fn json(value: &impl Serialize) -> String {
    // Lists and maps of text and numbers can always be serialized.
    serde_json::to_string(value).unwrap_or_default()
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}
