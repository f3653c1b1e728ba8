//! Queries on the tables.

use std::collections::HashMap;
use std::time::Duration;

use orchestra_engine::{RunId, TestedCondition, Timestamp};
use orchestra_graph::did_you_mean;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::database::DatabaseError;
use crate::error::SessionError;
use crate::folders::Folders;
use crate::question_row::WarningRow;
use crate::rows::{
    EdgeCount, NodeTotals, Page, Session, SessionStatus, StageRow, ToolCallRow, TransitionRow,
};
use crate::run_filter::RunFilter;
use crate::tables::{self, Columns, SESSION, time};

/// Minimum length of a text that is also searched in the middle of run ids.
const MIN_SIMILAR_LENGTH: usize = 3;

/// Returns the run with an id or with a unique prefix.
pub(crate) fn resolve(connection: &Connection, name: &str) -> Result<RunId, DatabaseError> {
    let mut exact = connection.prepare_cached("SELECT 1 FROM runs WHERE run = ?1")?;
    if let Ok(run) = RunId::new(name)
        && exact.query_row([name], |_| Ok(())).optional()?.is_some()
    {
        return Ok(run);
    }
    let mut all = connection.prepare_cached("SELECT run FROM runs ORDER BY run")?;
    let all = all.query_map([], |row| Columns::new(row).word(|name| RunId::new(name).ok()))?;
    let all: Vec<RunId> = all.collect::<Result<_, _>>()?;
    let begins = |run: &&RunId| !name.is_empty() && run.starts_with(name);
    let mut runs: Vec<RunId> = all.iter().filter(begins).cloned().collect();
    match runs.len() {
        1 => Ok(runs.remove(0)),
        0 => Err(SessionError::UnknownRun {
            name: name.to_owned(),
            similar: similar(name, &all),
        }
        .into()),
        _ => Err(SessionError::AmbiguousRun {
            prefix: name.to_owned(),
            runs,
        }
        .into()),
    }
}

/// Returns the runs that may be meant: those that contain the text, such as the end of a generated id, or the one with
/// the most similar spelling.
fn similar(name: &str, all: &[RunId]) -> Vec<RunId> {
    let lower = name.to_ascii_lowercase();
    let holds = |run: &&RunId| name.len() >= MIN_SIMILAR_LENGTH && run.to_ascii_lowercase().contains(&lower);
    let found: Vec<RunId> = all.iter().filter(holds).cloned().collect();
    if !found.is_empty() {
        return found;
    }
    let near = did_you_mean(name, all.iter().map(|run| &**run));
    all.iter().filter(|run| Some(&***run) == near).cloned().collect()
}

/// Returns a run.
pub(crate) fn session(
    connection: &Connection,
    folders: &Folders,
    run: &RunId,
) -> Result<Session, DatabaseError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {SESSION} FROM runs WHERE run = ?1"))?;
    let found = statement.query_row([&**run], tables::session)?;
    Ok(with_folder(folders, found))
}

pub(crate) fn with_folder(folders: &Folders, (mut session, elsewhere): (Session, bool)) -> Session {
    let inside = || folders.root().join(&*session.run);
    session.folder = if elsewhere {
        folders.pointer(&session.run).unwrap_or_default()
    } else {
        inside()
    };
    session
}

/// Returns the runs that match a filter, the latest first.
pub(crate) fn list(
    connection: &Connection,
    folders: &Folders,
    filter: &RunFilter,
) -> Result<Vec<Session>, DatabaseError> {
    // Runs without a start come last: SQLite considers NULL smaller than any value.
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {SESSION} FROM runs \
         WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR started < ?2) AND (?3 IS NULL OR started >= ?3) \
         AND (?4 = '' OR instr(?4, ' ' || status || ' ') > 0) \
         AND (?5 IS NULL OR CASE WHEN ?6 IS NULL THEN started IS NULL AND run < ?5 \
             ELSE started IS NULL OR started < ?6 OR (started = ?6 AND run < ?5) END) \
         ORDER BY started DESC, run DESC LIMIT ?7"
    ))?;
    let moment = |moment: Option<Timestamp>| moment.map(time);
    let statuses: String = filter
        .statuses
        .iter()
        .map(|status| format!(" {} ", status.word()))
        .collect();
    let rows = statement.query_map(
        (
            &filter.name,
            moment(filter.started_before),
            moment(filter.started_after),
            statuses,
            filter.after.as_ref().map(|after| &*after.run),
            moment(filter.after.as_ref().and_then(|after| after.started)),
            filter.limit.map_or(-1, |limit| tables::int(limit as u64)),
        ),
        tables::session,
    )?;
    rows.map(|row| Ok(with_folder(folders, row?))).collect()
}

/// Returns the runs with questions that wait for an answer, in the order of their ids.
pub(crate) fn asking(connection: &Connection, folders: &Folders) -> Result<Vec<Session>, DatabaseError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {SESSION} FROM runs INDEXED BY asking_runs WHERE unanswered <> '[]' ORDER BY run"
    ))?;
    let rows = statement.query_map([], tables::session)?;
    rows.map(|row| Ok(with_folder(folders, row?))).collect()
}

const STAGES: &str = "seq, changed, node, branch, position, visit, attempt, repeat, state, outcome, preferred_label, error, \
    will_retry, notes, started, ended, duration, input_tokens, output_tokens, cost_micros";

fn stage(row: &Row<'_>) -> rusqlite::Result<StageRow> {
    let mut next = Columns::new(row);
    Ok(StageRow {
        seq: next.count()?,
        changed: next.count()?,
        node: next.next()?,
        branch: next.next()?,
        index: next.count()?,
        visit: next.next()?,
        attempt: next.next()?,
        repeat: next.next()?,
        state: next.word(tables::stage_state)?,
        outcome: next.next()?,
        preferred_label: next.next()?,
        error: next.next()?,
        will_retry: next.next()?,
        notes: next.next()?,
        started: next.moment()?,
        ended: next.moment()?,
        duration: next.optional_count()?.map(Duration::from_micros),
        usage: next.usage()?,
    })
}

/// Returns stage attempts of a run in the order in which they began.
pub(crate) fn stages(
    connection: &Connection,
    run: &RunId,
    page: Page,
) -> Result<Vec<StageRow>, DatabaseError> {
    rows(connection, ("stages", STAGES, ""), run, page, stage)
}

/// Returns the stage attempts that began or changed after an event, in the order in which they began: the first `most`
/// that changed, and those that the last event of these changed too.
pub(crate) fn changed_stages(
    connection: &Connection,
    run: &RunId,
    since: u64,
    most: usize,
) -> Result<Vec<StageRow>, DatabaseError> {
    let sql = format!(
        "SELECT {STAGES} FROM stages INDEXED BY changed_stages WHERE run = ?1 AND changed > ?2 AND changed <= \
             coalesce((SELECT changed FROM stages INDEXED BY changed_stages WHERE run = ?1 AND changed > ?2 \
                 ORDER BY changed LIMIT 1 OFFSET ?3), ?4) \
         ORDER BY seq"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let last = tables::int(most.saturating_sub(1) as u64);
    let rows = statement.query_map((&**run, tables::int(since), last, i64::MAX), stage)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns how often the edges of a run were tested and taken, by their nodes.
pub(crate) fn edge_counts(connection: &Connection, run: &RunId) -> Result<Vec<EdgeCount>, DatabaseError> {
    let sql =
        "SELECT origin, edge, tested, held, taken FROM edge_counts WHERE run = ?1 ORDER BY origin, edge";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([&**run], edge_count)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the number of runs of each file.
pub(crate) fn runs_of_files(connection: &Connection) -> Result<HashMap<String, u64>, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT file, count(*) FROM runs GROUP BY file")?;
    let rows = statement.query_map([], |row| {
        let mut next = Columns::new(row);
        Ok((next.next()?, next.count()?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn edge_count(row: &Row<'_>) -> rusqlite::Result<EdgeCount> {
    let mut next = Columns::new(row);
    Ok(EdgeCount {
        from: next.next()?,
        edge: next.next()?,
        tested: next.count()?,
        held: next.count()?,
        taken: next.count()?,
    })
}

/// Returns the latest failed attempts in order.
pub(crate) fn failed_stages(
    connection: &Connection,
    run: &RunId,
    most: usize,
) -> Result<Vec<StageRow>, DatabaseError> {
    let from = ("stages", STAGES, "AND error IS NOT NULL");
    rows(connection, from, run, Page::Last { most }, stage)
}

/// Returns the attempts in progress, and those that were interrupted and neither repeated nor left by a transition.
pub(crate) fn open_stages(connection: &Connection, run: &RunId) -> Result<Vec<StageRow>, DatabaseError> {
    let open = "AND (state = 'running' OR state IN ('cancelled', 'interrupted') \
        AND NOT EXISTS (SELECT 1 FROM stages later WHERE later.run = stages.run AND later.seq > stages.seq \
            AND later.node = stages.node AND later.branch IS stages.branch) \
        AND NOT EXISTS (SELECT 1 FROM transitions later WHERE later.run = stages.run AND later.seq > stages.seq \
            AND later.branch IS stages.branch))";
    rows(connection, ("stages", STAGES, open), run, Page::ALL, stage)
}

const TRANSITIONS: &str = "seq, time, branch, origin, target, edge, rule, branches, tested";

/// Returns transitions of a run in order.
pub(crate) fn transitions(
    connection: &Connection,
    run: &RunId,
    page: Page,
) -> Result<Vec<TransitionRow>, DatabaseError> {
    rows(connection, ("transitions", TRANSITIONS, ""), run, page, |row| {
        let mut next = Columns::new(row);
        Ok(TransitionRow {
            seq: next.count()?,
            time: next.moment()?.unwrap_or(Timestamp::from_millis(0)),
            branch: next.next()?,
            from: next.next()?,
            to: next.next()?,
            edge: next.next()?,
            rule: next.next()?,
            branches: next.next()?,
            tested: next.word(|tested| serde_json::from_str::<Vec<TestedCondition>>(tested).ok())?,
        })
    })
}

const TOOL_CALLS: &str = "seq, time, node, branch, tool, duration, error";

fn tool_call(row: &Row<'_>) -> rusqlite::Result<ToolCallRow> {
    let mut next = Columns::new(row);
    Ok(ToolCallRow {
        seq: next.count()?,
        time: next.moment()?.unwrap_or(Timestamp::from_millis(0)),
        node: next.next()?,
        branch: next.next()?,
        tool: next.next()?,
        duration: Duration::from_micros(next.count()?),
        error: next.next()?,
    })
}

/// Returns tool calls of a run in the order in which they ended.
pub(crate) fn tool_calls(
    connection: &Connection,
    run: &RunId,
    page: Page,
) -> Result<Vec<ToolCallRow>, DatabaseError> {
    rows(connection, ("tool_calls", TOOL_CALLS, ""), run, page, tool_call)
}

const WARNINGS: &str = "seq, time, node, branch, code, message, keys";

/// Returns warnings of a run in order.
pub(crate) fn warnings(
    connection: &Connection,
    run: &RunId,
    page: Page,
) -> Result<Vec<WarningRow>, DatabaseError> {
    rows(connection, ("warnings", WARNINGS, ""), run, page, |row| {
        let mut next = Columns::new(row);
        Ok(WarningRow {
            seq: next.count()?,
            time: next.moment()?.unwrap_or(Timestamp::from_millis(0)),
            node: next.next()?,
            branch: next.next()?,
            code: next.next()?,
            message: next.next()?,
            keys: next.word(|keys| serde_json::from_str(keys).ok())?,
        })
    })
}

/// Returns the totals of each node of a run with this status, in the order in which the nodes were first visited.
pub(crate) fn node_totals(
    connection: &Connection,
    run: &RunId,
    status: SessionStatus,
) -> Result<Vec<NodeTotals>, DatabaseError> {
    let mut totals: Vec<NodeTotals> = Vec::new();
    let mut indices: HashMap<String, usize> = HashMap::new();
    let mut of = |node: String, add: &mut dyn FnMut(&mut NodeTotals)| {
        let index = *indices.entry(node).or_insert_with_key(|node| {
            totals.push(NodeTotals {
                node: node.clone(),
                ..NodeTotals::default()
            });
            totals.len() - 1
        });
        if let Some(totals) = totals.get_mut(index) {
            add(totals);
        }
    };
    each(
        connection,
        ("stages", STAGES, ""),
        run,
        Page::ALL,
        stage,
        |mut stage| {
            let state = stage.node_state(status);
            of(std::mem::take(&mut stage.node), &mut |totals| {
                totals.state = state;
                totals.visits += u64::from(stage.attempt == 1 && !stage.repeat);
                totals.attempts += 1;
                totals.failures += u64::from(stage.error.is_some());
                totals.repeats += u64::from(stage.repeat);
                totals.duration = totals.duration.saturating_add(stage.duration.unwrap_or_default());
                totals.usage += stage.usage;
                if stage.outcome.is_some() {
                    totals.outcome = stage.outcome.take();
                }
            });
        },
    )?;
    let from = ("tool_calls", TOOL_CALLS, "");
    each(connection, from, run, Page::ALL, tool_call, |call| {
        of(call.node, &mut |totals| totals.tool_calls += 1);
    })?;
    Ok(totals)
}

/// A table, its columns, and an additional condition.
type From = (&'static str, &'static str, &'static str);

fn rows<T>(
    connection: &Connection,
    from: From,
    run: &RunId,
    page: Page,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, DatabaseError> {
    let mut rows = Vec::new();
    each(connection, from, run, page, read, |row| rows.push(row))?;
    Ok(rows)
}

/// Reads rows of a run one after the other, in the order of their events.
fn each<T>(
    connection: &Connection,
    (table, columns, more): From,
    run: &RunId,
    page: Page,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    mut take: impl FnMut(T),
) -> Result<(), DatabaseError> {
    let select = |order: &str| {
        format!(
            "SELECT {columns} FROM {table} WHERE run = ?1 AND seq > ?2 {more} ORDER BY seq {order} LIMIT ?3"
        )
    };
    let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (sql, after, most) = match page {
        Page::After { seq, most } => (select(""), bound(seq), most),
        Page::Last { most } => (
            format!("SELECT * FROM ({}) ORDER BY seq", select("DESC")),
            0,
            most,
        ),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    for row in statement.query_map((&**run, after, bound(most as u64)), read)? {
        take(row?);
    }
    Ok(())
}
