//! The index on its thread: catches up with the run folders, and answers queries from the database.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use orchestra_engine::{EventCursor, EventReader, RunId};
use rusqlite::Connection;

use crate::database::{Access, Database, DatabaseError};
use crate::error::SessionError;
use crate::folders::{self, Folders, FoundRun};
use crate::rows::Session;
use crate::search::Search;
use crate::tables::{self, Columns};

/// Maximum number of events in one transaction, so that other processes can write in between.
const MAX_EVENTS: usize = 4_096;

pub(crate) struct Store {
    pub(crate) folders: Folders,
    pub(crate) database: Database,
    /// The interval between searches of all runs. `None` if each call searches.
    pub(crate) search_interval: Option<Duration>,
    /// The last search of all runs. All that it found is in the index.
    last_search: Option<Search>,
    /// The runs whose changes were found by searches.
    changed: BTreeSet<RunId>,
}

/// The runs that must be up to date.
#[derive(Clone, Copy)]
pub(crate) enum RunSelection<'w> {
    All,
    Only(&'w BTreeSet<RunId>),
}

/// Identifies a database. A rebuilt database has another token, though its file may have the same inode number.
type Token = i64;

/// The runs to catch up with.
struct Plan {
    /// The runs, each with the minimum offset to reach.
    runs: Vec<(RunId, u64)>,
    /// The token of a database that is incomplete until all of these runs are in it.
    completes: Option<Token>,
    /// The search that found these runs.
    search: Option<Search>,
}

impl Store {
    pub(crate) fn new(folder: &Path, patience: Duration) -> Result<Store, SessionError> {
        Ok(Store {
            folders: Folders::new(folder.to_owned()),
            database: Database::new(folder, patience)?,
            search_interval: None,
            last_search: None,
            changed: BTreeSet::new(),
        })
    }

    /// Applies the changes in the run folders that are not in the index. On return, the index contains everything that
    /// was in the folders at the time of the call.
    pub(crate) fn catch_up(&mut self, selection: RunSelection<'_>) -> Result<(), SessionError> {
        loop {
            let Plan {
                mut runs,
                completes,
                search,
            } = self.plan(selection)?;
            if search.is_some() {
                self.changed.extend(runs.iter().map(|(run, _)| run.clone()));
            }
            if runs.is_empty() && completes.is_none() {
                self.last_search = search.or(self.last_search.take());
                return Ok(());
            }
            let folders = &self.folders;
            while !runs.is_empty() {
                let done = self.database.transaction(Access::Write, |connection| {
                    let mut event_budget = MAX_EVENTS;
                    let mut done = 0;
                    for (run, target) in &runs {
                        if !catch_up_with(connection, folders, run, *target, &mut event_budget)? {
                            break;
                        }
                        done += 1;
                    }
                    Ok(done)
                })?;
                runs.drain(..done);
            }
            if let Some(token) = completes {
                self.complete(token)?;
            }
            // This or another process may have recreated the database in between.
            if self.is_complete()? {
                self.last_search = search.or(self.last_search.take());
                return Ok(());
            }
        }
    }

    /// Reads from a database that contains all runs.
    pub(crate) fn read<T>(
        &mut self,
        selection: RunSelection<'_>,
        mut read: impl FnMut(&Connection, &Folders) -> Result<T, DatabaseError>,
    ) -> Result<T, SessionError> {
        loop {
            self.catch_up(selection)?;
            let folders = &self.folders;
            let answer =
                self.database
                    .transaction(Access::Read, |connection| match incomplete(connection)? {
                        Some(_) => Ok(None),
                        None => read(connection, folders).map(Some),
                    })?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    /// Returns the runs whose changes were found by searches since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<RunId> {
        std::mem::take(&mut self.changed)
    }

    /// Marks a database as complete if it is still the one with this token. If it was replaced, the new one may lack
    /// runs that are not in the plan.
    fn complete(&mut self, token: Token) -> Result<(), SessionError> {
        self.database.transaction(Access::Write, |connection| {
            connection.execute("UPDATE origin SET complete = 1 WHERE token = ?1", [token])?;
            Ok(())
        })
    }

    fn is_complete(&mut self) -> Result<bool, SessionError> {
        self.database
            .transaction(Access::Read, |connection| Ok(incomplete(connection)?.is_none()))
    }

    fn plan(&mut self, selection: RunSelection<'_>) -> Result<Plan, SessionError> {
        let folders = &self.folders;
        let interval = self.search_interval;
        let recent = self
            .last_search
            .as_ref()
            .filter(|search| interval.is_some_and(|interval| !search.is_over(interval)));
        self.database.transaction(Access::Read, |connection| {
            let completes = incomplete(connection)?;
            let mut plan = Plan {
                runs: Vec::new(),
                completes,
                search: None,
            };
            match selection {
                RunSelection::Only(runs) if completes.is_none() => {
                    for run in runs {
                        let known = tables::cursor(connection, run)?;
                        plan.compare(
                            run,
                            known.map(|(cursor, stamp)| (cursor.offset, stamp)),
                            folders.find(run).as_ref(),
                        );
                    }
                }
                _ => match recent.filter(|_| completes.is_none()) {
                    Some(search) => plan.compare_open(connection, folders, search.clone())?,
                    None => plan.compare_all(connection, folders)?,
                },
            }
            Ok(plan)
        })
    }
}

impl Plan {
    /// Compares all runs.
    fn compare_all(&mut self, connection: &Connection, folders: &Folders) -> Result<(), DatabaseError> {
        let mut search = Search::of_all(folders)?;
        let mut known = known_runs(connection, "")?;
        let names: Vec<RunId> = search.names().cloned().collect();
        for run in names {
            let found = folders.find(&run);
            self.compare(&run, known.remove(&run), found.as_ref());
            if found.is_none() {
                search.has_no_run(run);
            }
        }
        for (run, known) in known {
            self.compare(&run, Some(known), None);
        }
        search.end();
        self.search = Some(search);
        Ok(())
    }

    /// Compares the runs in progress, and those that were created or removed after a search of all.
    fn compare_open(
        &mut self,
        connection: &Connection,
        folders: &Folders,
        mut search: Search,
    ) -> Result<(), DatabaseError> {
        let mut runs = search.follow(folders)?;
        runs.extend(
            known_runs(
                connection,
                "INDEXED BY open_runs WHERE status IN ('accepted', 'running')",
            )?
            .into_keys(),
        );
        for run in runs {
            let known = tables::cursor(connection, &run)?;
            let found = folders.find(&run);
            self.compare(
                &run,
                known.map(|(cursor, stamp)| (cursor.offset, stamp)),
                found.as_ref(),
            );
            if found.is_none() {
                search.has_no_run(run);
            }
        }
        self.search = Some(search);
        Ok(())
    }

    fn compare(&mut self, run: &RunId, known: Option<(u64, i64)>, found: Option<&FoundRun>) {
        let target = match (known, found) {
            (None, None) => return,
            (Some((offset, stamp)), Some(found)) if offset == found.size && stamp == found.stamp => return,
            (_, found) => found.map_or(0, |found| found.size),
        };
        self.runs.push((run.clone(), target));
    }
}

/// Returns the offset and the stamp with which runs are in the index.
fn known_runs(
    connection: &Connection,
    selection: &str,
) -> Result<BTreeMap<RunId, (u64, i64)>, DatabaseError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT run, position, stamp FROM runs {selection}"))?;
    let mut rows = statement.query([])?;
    let mut known = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let mut next = Columns::new(row);
        let run = next.word(|name| RunId::new(name).ok())?;
        known.insert(run, (next.count()?, next.next()?));
    }
    Ok(known)
}

/// Returns the token of a database in which runs may be missing, or `None` if it is complete.
fn incomplete(connection: &Connection) -> Result<Option<Token>, DatabaseError> {
    let mut statement = connection.prepare_cached("SELECT complete, token FROM origin")?;
    let (complete, token): (bool, Token) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((!complete).then_some(token))
}

/// Applies the content of one run folder up to `target`, limited to `event_budget` events. Returns whether it is done.
/// Each event is applied once, whichever process wrote it or applied the events before it.
fn catch_up_with(
    connection: &Connection,
    folders: &Folders,
    run: &RunId,
    target: u64,
    event_budget: &mut usize,
) -> Result<bool, DatabaseError> {
    let Some(found) = folders.find(run) else {
        tables::remove(connection, run)?;
        return Ok(true);
    };
    let known = tables::cursor(connection, run)?;
    // A folder that cannot be read must not block the others; it is tried again next time.
    let Ok(start) = open_events(run, &found, known) else {
        return Ok(true);
    };
    let (mut session, mut events) = match start {
        Start::AfterCursor(events) => (tables::load(connection, run)?, events),
        Start::FromBeginning(session, events) => {
            tables::remove(connection, run)?;
            (*session, events)
        }
    };
    let start_cursor = events.cursor();
    let mut writer = tables::Writer::new(connection, run.clone())?;
    let mut whole = true;
    while events.offset() < target {
        if *event_budget == 0 {
            whole = false;
            break;
        }
        let Ok(Some(line)) = events.next_line() else {
            break;
        };
        // A line that only a newer version understands is applied when that version rebuilds the index.
        let event = line.event();
        *event_budget -= 1;
        match event.filter(|event| i64::try_from(event.seq).is_ok()) {
            None => session.skipped_lines += 1,
            Some(event) => {
                if let Some(change) = session.apply(&event) {
                    writer.write(event.seq, event.time, change)?;
                }
            }
        }
    }
    if known.is_none_or(|(cursor, _)| cursor != events.cursor() || cursor != start_cursor) {
        tables::save(connection, &session, &found, events.cursor())?;
    }
    Ok(whole)
}

/// The position from which the events of a run are applied.
enum Start {
    /// After the events that are known.
    AfterCursor(EventReader),
    /// From the beginning: the run is new, or its files differ from the known ones.
    FromBeginning(Box<Session>, EventReader),
}

fn open_events(run: &RunId, found: &FoundRun, known: Option<(EventCursor, i64)>) -> io::Result<Start> {
    if let Some((cursor, _)) = known.filter(|(_, stamp)| *stamp == found.stamp)
        && let Some(events) = folders::events(&found.folder, cursor)?
    {
        return Ok(Start::AfterCursor(events));
    }
    let manifest = folders::manifest(&found.folder)?;
    let session = Session::from_manifest(run.clone(), &manifest);
    match folders::events(&found.folder, EventCursor::default())? {
        Some(events) => Ok(Start::FromBeginning(Box::new(session), events)),
        None => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query;
    use crate::rows::SessionStatus;
    use crate::run_filter::RunFilter;

    const STARTED: &str = r#"{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00.042Z","run":"nightly","event":"PipelineStarted","name":"release","goal":""}"#;

    fn write_run(folder: &Path) {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("manifest.json"), r#"{"name":"release"}"#).unwrap();
        std::fs::write(folder.join("events.jsonl"), format!("{STARTED}\n")).unwrap();
    }

    #[test]
    fn what_was_planned_for_a_database_does_not_complete_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        write_run(&dir.path().join("nightly"));
        let mut store = Store::new(dir.path(), Duration::from_secs(30)).unwrap();
        let mut other = Store::new(dir.path(), Duration::from_secs(30)).unwrap();
        let plan = store.plan(RunSelection::All).unwrap();
        other.database.discard().unwrap();
        store.complete(plan.completes.unwrap()).unwrap();
        assert!(!other.is_complete().unwrap());
        let all =
            |connection: &Connection, folders: &Folders| query::list(connection, folders, &RunFilter::all());
        assert_eq!(other.read(RunSelection::All, all).unwrap().len(), 1);
    }

    #[test]
    fn an_index_in_memory_tells_what_the_folders_hold() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nightly");
        write_run(&folder);
        let mut store = Store {
            folders: Folders::new(dir.path().to_owned()),
            database: Database::in_memory(dir.path()),
            search_interval: None,
            last_search: None,
            changed: BTreeSet::new(),
        };
        let mut list = || {
            let list = |connection: &Connection, folders: &Folders| {
                query::list(connection, folders, &RunFilter::all())
            };
            store.read(RunSelection::All, list).unwrap()
        };
        let sessions = list();
        assert_eq!((sessions.len(), sessions[0].status), (1, SessionStatus::Running));
        let failed = r#"{"schema":"orchestra.event/1","seq":2,"time":"2026-11-21T15:30:00.043Z","run":"nightly","event":"PipelineFailed","error":"no","failure":null,"duration_ms":1}"#;
        std::fs::write(folder.join("events.jsonl"), format!("{STARTED}\n{failed}\n")).unwrap();
        assert_eq!(list()[0].status, SessionStatus::Fail);
        // Discarding removes all data, and nothing is left on disk.
        store.database.discard().unwrap();
        let names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["nightly"]);
    }
}
