//! The store of workflows.

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use orchestra_graph::{Difference, LoadOptions, Loaded, Report, Source, did_you_mean, load};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use crate::database::{Database, Failure};
use crate::derive::{check_representable, valid};
use crate::error::StationError;
use crate::rows::{VersionOrigin, VersionSummary, VersionText, Workflow, WorkflowVersion};
use crate::tables;

/// The maximum length of the name of a workflow, in bytes.
const LONGEST_NAME: usize = 100;

/// A database of station workflows.
///
/// Every method blocks, and waits up to five seconds for another process that writes. A workflow is named by its name, by
/// a former name, or by its id.
///
/// ```
/// use orchestra_stations::{StationStore, VersionOrigin, VersionText};
/// let directory = tempfile::tempdir()?;
/// let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// let text = VersionText::Dot("digraph { start -> pick -> exit }".to_owned());
/// let workflow = store.create("shipping", &text, VersionOrigin::Local, "")?;
/// let workflow = store.activate("shipping", &workflow.etag, 1)?;
/// assert_eq!(workflow.active, Some(1));
/// let loaded = store.load("shipping", None, &Default::default())?;
/// assert_eq!(loaded.source.name(), "stations:shipping@1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StationStore {
    database: Database,
}

impl StationStore {
    /// Opens a database. Creates it if it is missing. A database of an earlier version is migrated, after a copy was
    /// written beside it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created or read, is damaged, or was written by a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<StationStore, StationError> {
        Ok(StationStore {
            database: Database::open(path.as_ref())?,
        })
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Returns the workflows, sorted by name. Includes archived ones if `archived` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be read.
    pub fn list(&self, archived: bool) -> Result<Vec<Workflow>, StationError> {
        self.database
            .read(|connection| tables::list(connection, archived))
    }

    /// Returns a workflow.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such workflow, or if the database cannot be read.
    pub fn workflow(&self, name: &str) -> Result<Workflow, StationError> {
        self.database.read(|connection| find(connection, name))
    }

    /// Creates a workflow with its first version.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid or taken, if the text cannot be parsed, or if the database cannot be
    /// written. A text that is parsed but has other errors is stored; it cannot be activated.
    pub fn create(
        &self,
        name: &str,
        text: &VersionText,
        origin: VersionOrigin,
        note: &str,
    ) -> Result<Workflow, StationError> {
        check_name(name)?;
        let dot = parsed(text)?;
        self.database.write(|connection| {
            let id = random()?;
            insert(connection, &id, name, now())?;
            add_version(connection, &id, &dot, origin, note)?;
            find(connection, &id)
        })
    }

    /// Renames a workflow. `etag` is the entity tag that the caller has read. The former name still names the workflow, and
    /// no other workflow can take it, because the runs of its versions bear it.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid or taken, if the workflow was changed meanwhile or is archived, or if the
    /// database cannot be written.
    pub fn rename(&self, workflow: &str, etag: &str, name: &str) -> Result<Workflow, StationError> {
        check_name(name)?;
        self.change(workflow, etag, |connection, workflow| {
            check_free(connection, name, Some(workflow))?;
            tables::rename(connection, workflow, name)
        })
    }

    /// Archives a workflow: it keeps its name and its versions, but cannot be changed or started.
    ///
    /// # Errors
    ///
    /// Returns an error if the workflow was changed meanwhile or is archived, or if the database cannot be written.
    pub fn archive(&self, workflow: &str, etag: &str) -> Result<Workflow, StationError> {
        self.change(workflow, etag, |connection, workflow| {
            let mut statement = connection
                .prepare_cached("UPDATE workflows SET archived_at = ?2, active = NULL WHERE id = ?1")?;
            statement.execute(params![workflow.id, now()])?;
            Ok(())
        })
    }

    /// Adds a version to a workflow. The active version remains active.
    ///
    /// If the text is given as rows, the latest version must be one that rows can hold, so that an editor of rows does
    /// not silently remove what it does not show.
    ///
    /// # Errors
    ///
    /// Returns an error if the workflow was changed meanwhile or is archived, if the text cannot be parsed, if rows
    /// would lose a part of the latest version, or if the database cannot be written.
    pub fn add_version(
        &self,
        workflow: &str,
        etag: &str,
        text: &VersionText,
        origin: VersionOrigin,
        note: &str,
    ) -> Result<Workflow, StationError> {
        let dot = parsed(text)?;
        if matches!(text, VersionText::Rows(_)) {
            let present = self.workflow(workflow)?;
            let latest = self.version(&present.id, present.latest)?;
            let source = Source::new(tables::source_name(&present.name, present.latest), latest.dot);
            match check_representable(&source) {
                // A text with errors cannot be compared; it can only get better.
                Err(StationError::Invalid { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        self.change(workflow, etag, |connection, workflow| {
            add_version(connection, &workflow.id, &dot, origin, note)
        })
    }

    /// Returns the versions of a workflow, the latest first.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such workflow, or if the database cannot be read.
    pub fn versions(&self, workflow: &str) -> Result<Vec<VersionSummary>, StationError> {
        self.database.read(|connection| {
            let workflow = find(connection, workflow)?;
            tables::versions(connection, &workflow.id)
        })
    }

    /// Returns a version of a workflow.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such workflow or version, or if the database cannot be read.
    pub fn version(&self, workflow: &str, version: u32) -> Result<WorkflowVersion, StationError> {
        self.database.read(|connection| {
            let workflow = find(connection, workflow)?;
            let found = tables::version(connection, &workflow.id, version)?;
            found.ok_or_else(|| unknown_version(&workflow, version))
        })
    }

    /// Checks a version and returns its diagnostics.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such workflow or version, or if the database cannot be read.
    pub fn check(&self, workflow: &str, version: u32) -> Result<Report, StationError> {
        Ok(self
            .load(workflow, Some(version), &LoadOptions::default())?
            .report)
    }

    /// Activates a version. Runs in progress are not affected.
    ///
    /// # Errors
    ///
    /// Returns an error if the version has errors, if there is no such version, if the workflow was changed meanwhile or
    /// is archived, or if the database cannot be written.
    pub fn activate(&self, workflow: &str, etag: &str, version: u32) -> Result<Workflow, StationError> {
        let stored = self.version(workflow, version)?;
        let name = self.workflow(workflow)?.name;
        valid(&Source::new(tables::source_name(&name, version), stored.dot))?;
        self.change(workflow, etag, |connection, workflow| {
            let mut statement =
                connection.prepare_cached("UPDATE workflows SET active = ?2 WHERE id = ?1")?;
            statement.execute(params![workflow.id, version])?;
            Ok(())
        })
    }

    /// Returns a version, or the active one, with its workflow.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such workflow or version, or no active one, or if the database cannot be read.
    pub fn stored(&self, workflow: &str, version: Option<u32>) -> Result<StoredVersion, StationError> {
        self.database.read(|connection| {
            let workflow = find(connection, workflow)?;
            let number = match version.or(workflow.active) {
                Some(number) => number,
                None if workflow.archived_at.is_some() => return Err(archived(workflow)),
                None => {
                    let workflow = workflow.name;
                    return Err(StationError::NoActiveVersion { workflow }.into());
                }
            };
            let version = tables::version(connection, &workflow.id, number)?;
            let version = version.ok_or_else(|| unknown_version(&workflow, number))?;
            Ok(StoredVersion { workflow, version })
        })
    }

    /// Loads a version, or the active one. The name of its source is `stations:NAME@VERSION`.
    ///
    /// # Errors
    ///
    /// Fails like [`stored`](StationStore::stored).
    pub fn load(
        &self,
        workflow: &str,
        version: Option<u32>,
        options: &LoadOptions<'_>,
    ) -> Result<Loaded, StationError> {
        Ok(load(self.stored(workflow, version)?.source(), options))
    }

    /// Returns what changes for a run between two versions, each named by its workflow and its number.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the versions does not exist or has errors, or if the database cannot be read.
    pub fn difference(&self, old: (&str, u32), new: (&str, u32)) -> Result<Difference, StationError> {
        let pipeline = |(workflow, version): (&str, u32)| {
            let loaded = self.load(workflow, Some(version), &LoadOptions::default())?;
            loaded.pipeline().ok_or_else(|| StationError::Invalid {
                report: Box::new(loaded.report.clone()),
            })
        };
        Ok(Difference::between(&pipeline(old)?, &pipeline(new)?))
    }

    /// Returns the present name of a workflow, and then its former ones. A run bears the name that its workflow had when
    /// the run started.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such workflow, or if the database cannot be read.
    pub fn names(&self, workflow: &str) -> Result<Vec<String>, StationError> {
        self.database.read(|connection| {
            let workflow = find(connection, workflow)?;
            tables::names(connection, &workflow)
        })
    }

    /// Returns whether a local program wrote a version with exactly this text. A server trusts such a text more than one
    /// that was written over HTTP.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be read.
    pub fn is_local(&self, dot: &str) -> Result<bool, StationError> {
        self.database
            .read(|connection| tables::is_local(connection, &hash(dot)))
    }

    /// Changes a workflow that nobody has changed since the caller read it, and gives it a new entity tag.
    fn change(
        &self,
        workflow: &str,
        etag: &str,
        change: impl FnOnce(&Connection, &Workflow) -> Result<(), Failure>,
    ) -> Result<Workflow, StationError> {
        self.database.write(|connection| {
            let workflow = find(connection, workflow)?;
            if workflow.etag != etag {
                return Err(StationError::Changed {
                    workflow: workflow.name,
                    etag: workflow.etag,
                }
                .into());
            }
            if workflow.archived_at.is_some() {
                return Err(archived(workflow));
            }
            change(connection, &workflow)?;
            let mut statement =
                connection.prepare_cached("UPDATE workflows SET etag = ?2, updated_at = ?3 WHERE id = ?1")?;
            statement.execute(params![workflow.id, random()?, now()])?;
            find(connection, &workflow.id)
        })
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }
}

/// A version together with its workflow, both of the same moment.
///
/// ```
/// # use orchestra_stations::{StationStore, VersionOrigin, VersionText};
/// # let directory = tempfile::tempdir()?;
/// # let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// let text = VersionText::Dot("digraph { start -> pick -> exit }".to_owned());
/// store.create("shipping", &text, VersionOrigin::Local, "")?;
/// let stored = store.stored("shipping", Some(1))?;
/// assert_eq!(stored.source().name(), "stations:shipping@1");
/// assert_eq!(stored.workflow.latest, stored.version.summary.version);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredVersion {
    /// The workflow.
    pub workflow: Workflow,
    /// The version.
    pub version: WorkflowVersion,
}

impl StoredVersion {
    /// Returns the text with the name of the version, such as `stations:shipping@3`.
    pub fn source(&self) -> Source {
        let name = tables::source_name(&self.workflow.name, self.version.summary.version);
        Source::new(name, self.version.dot.as_str())
    }
}

impl fmt::Debug for StationStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StationStore")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

fn find(connection: &Connection, name: &str) -> Result<Workflow, Failure> {
    if let Some(workflow) = tables::find(connection, name)? {
        return Ok(workflow);
    }
    let all = tables::list(connection, true)?;
    let names = all.iter().map(|workflow| workflow.name.as_str());
    Err(StationError::UnknownWorkflow {
        name: name.to_owned(),
        similar: did_you_mean(name, names).map(str::to_owned),
    }
    .into())
}

pub(crate) fn insert(connection: &Connection, id: &str, name: &str, created_at: i64) -> Result<(), Failure> {
    check_free(connection, name, None)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO workflows (id, name, etag, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
    )?;
    statement.execute(params![id, name, random()?, created_at])?;
    Ok(())
}

/// Checks that no other workflow has or had a name.
fn check_free(connection: &Connection, name: &str, own: Option<&Workflow>) -> Result<(), Failure> {
    let Some(found) = tables::find(connection, name)? else {
        return Ok(());
    };
    let is_own = own.is_some_and(|own| own.id == found.id);
    let name = name.to_owned();
    if is_own && found.id != name {
        return Ok(());
    }
    if found.name == name || found.id == name {
        return Err(StationError::NameTaken { name }.into());
    }
    let workflow = found.name;
    Err(StationError::FormerName { name, workflow }.into())
}

pub(crate) fn add_version(
    connection: &Connection,
    workflow: &str,
    dot: &str,
    origin: VersionOrigin,
    note: &str,
) -> Result<(), Failure> {
    let mut statement = connection
        .prepare_cached("SELECT coalesce(max(version), 0) FROM workflow_versions WHERE workflow_id = ?1")?;
    let latest: u32 = statement.query_row([workflow], |row| row.get(0))?;
    let summary = VersionSummary {
        version: latest + 1,
        hash: hash(dot),
        origin,
        note: note.to_owned(),
        created_at: u64::try_from(now()).unwrap_or_default(),
    };
    tables::insert_version(connection, workflow, &summary, dot)
}

fn unknown_version(workflow: &Workflow, version: u32) -> Failure {
    StationError::UnknownVersion {
        workflow: workflow.name.clone(),
        version,
        latest: workflow.latest,
    }
    .into()
}

fn archived(workflow: Workflow) -> Failure {
    StationError::Archived {
        workflow: workflow.name,
    }
    .into()
}

/// Returns a text as DOT, if it can be parsed.
fn parsed(text: &VersionText) -> Result<String, StationError> {
    let dot = text.to_dot()?;
    let parsed = orchestra_graph::parse(&Source::new("workflow.dot", dot.as_str()), &Default::default());
    if parsed.diagnostics.iter().any(|diagnostic| diagnostic.is_error()) {
        return Err(StationError::Invalid {
            report: Box::new(Report::new(parsed.source, parsed.diagnostics)),
        });
    }
    Ok(dot)
}

pub(crate) fn check_name(name: &str) -> Result<(), StationError> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-');
    let sound = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.trim() == name
        && !name.starts_with('.')
        && name.chars().all(allowed);
    if sound {
        return Ok(());
    }
    Err(StationError::InvalidName {
        name: name.to_owned(),
    })
}

/// Returns the time in milliseconds since 1970-01-01 UTC.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns 128 random bits in hexadecimal.
pub(crate) fn random() -> Result<String, StationError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StationError::io("read random bytes from", Path::new("the system"), error.into()))?;
    Ok(hexadecimal(&bytes))
}

/// Returns the SHA-256 of a text in hexadecimal.
fn hash(dot: &str) -> String {
    hexadecimal(&Sha256::digest(dot))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
