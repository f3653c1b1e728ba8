//! The import of a database of the earlier form: stations and transitions without versions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use orchestra_graph::is_identifier;
use rusqlite::{Connection, OpenFlags, Row};
use serde::Serialize;
use serde_json::Value;

use crate::error::StationError;
use crate::rows::{AttributeValues, StationRow, TransitionRow, VersionOrigin, VersionText, WorkflowRows};
use crate::store::{StationStore, add_version, check_name, insert, now, random};

/// A workflow that was imported.
///
/// ```
/// # use orchestra_stations::StationStore;
/// # let directory = tempfile::tempdir()?;
/// # let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// let missing = store.import_earlier(directory.path().join("no-such-file.sqlite"));
/// assert_eq!(missing.unwrap_err().code(), "stations_database");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImportedWorkflow {
    /// The name.
    pub name: String,
    /// The number of stations, without the start and the exit that were added.
    pub stations: usize,
    /// The number of transitions.
    pub transitions: usize,
}

impl StationStore {
    /// Imports all workflows of a database of the earlier form, whose tables are `workflows`, `workflow_stations` and
    /// `station_transitions`. Each becomes the first version of a workflow with first-match routing: a start leads to the
    /// first station, and stations without transitions lead to an exit. Transitions keep the order of their creation. The
    /// other database is not changed.
    ///
    /// # Errors
    ///
    /// Returns an error, and imports nothing, if a table or a column is missing, if a workflow of this store has the name
    /// of an imported one, or if a database cannot be read or written.
    pub fn import_earlier(&self, path: impl AsRef<Path>) -> Result<Vec<ImportedWorkflow>, StationError> {
        let path = path.as_ref();
        let earlier = read(path).map_err(|error| StationError::Database {
            path: path.to_owned(),
            source: error.into(),
        })?;
        let mut texts = Vec::new();
        for workflow in &earlier {
            check_name(&workflow.name)?;
            texts.push(VersionText::Rows(Box::new(workflow.rows())).to_dot()?);
        }
        self.database().write(|connection| {
            for (workflow, dot) in earlier.iter().zip(&texts) {
                let id = random()?;
                insert(connection, &id, &workflow.name, now())?;
                add_version(connection, &id, dot, VersionOrigin::Local, "imported")?;
            }
            Ok(())
        })?;
        let imported = earlier.iter().map(|workflow| ImportedWorkflow {
            name: workflow.name.clone(),
            stations: workflow.stations.len(),
            transitions: workflow.transitions.len(),
        });
        Ok(imported.collect())
    }
}

/// A workflow of the earlier form.
struct EarlierWorkflow {
    name: String,
    /// The stations, in their order.
    stations: Vec<EarlierStation>,
    /// The transitions, in the order of their creation.
    transitions: Vec<EarlierTransition>,
}

struct EarlierStation {
    id: String,
    name: String,
    prompt: Option<String>,
    output_context_keys: Vec<String>,
}

struct EarlierTransition {
    source: String,
    target: String,
    label: Option<String>,
    condition_type: Option<String>,
    condition_value: Option<String>,
}

fn read(path: &Path) -> rusqlite::Result<Vec<EarlierWorkflow>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = connection.prepare("SELECT id, name FROM workflows ORDER BY rowid")?;
    let named = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let named: Vec<(String, String)> = named.collect::<Result<_, _>>()?;
    let columns = columns(&connection, "workflow_stations")?;
    let first = |names: [&'static str; 2], otherwise: &'static str| {
        let present = names.into_iter().find(|name| columns.contains(*name));
        present.unwrap_or(otherwise)
    };
    let stations = format!(
        "SELECT id, name, {}, {} FROM workflow_stations WHERE workflow_id = ?1 ORDER BY {}, rowid",
        first(["station_prompt", "prompt"], "NULL"),
        first(["output_context_keys", "output_keys"], "NULL"),
        first(["position", "ordinal"], "rowid"),
    );
    let transitions = "SELECT source_station_id, target_station_id, label, condition_type, condition_value \
        FROM station_transitions WHERE workflow_id = ?1 ORDER BY created_at, rowid";
    let mut workflows = Vec::new();
    for (id, name) in named {
        let mut statement = connection.prepare_cached(&stations)?;
        let stations = statement.query_map([&id], station)?;
        let stations = stations.collect::<Result<_, _>>()?;
        let mut statement = connection.prepare_cached(transitions)?;
        let transitions = statement.query_map([&id], |row| {
            Ok(EarlierTransition {
                source: row.get(0)?,
                target: row.get(1)?,
                label: row.get(2)?,
                condition_type: row.get(3)?,
                condition_value: row.get(4)?,
            })
        })?;
        workflows.push(EarlierWorkflow {
            name,
            stations,
            transitions: transitions.collect::<Result<_, _>>()?,
        });
    }
    Ok(workflows)
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<HashSet<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn station(row: &Row<'_>) -> rusqlite::Result<EarlierStation> {
    let keys: Option<String> = row.get(3)?;
    let keys = keys.unwrap_or_default();
    Ok(EarlierStation {
        id: row.get(0)?,
        name: row.get(1)?,
        prompt: row.get(2)?,
        // The keys are a list in JSON, or separated by commas.
        output_context_keys: serde_json::from_str(&keys).unwrap_or_else(|_| {
            let words = keys.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        }),
    })
}

impl EarlierWorkflow {
    fn rows(&self) -> WorkflowRows {
        let nodes = self.node_ids();
        let node = |id: &str| nodes.get(id).cloned().unwrap_or_else(|| id.to_owned());
        let with_shape = |node: &str, shape: &str| StationRow {
            node: node.to_owned(),
            attributes: AttributeValues::from([("shape".to_owned(), Value::from(shape))]),
            ..StationRow::default()
        };
        let mut stations = vec![with_shape("start", "Mdiamond")];
        stations.extend(self.stations.iter().map(|station| StationRow {
            node: node(&station.id),
            name: Some(station.name.clone()),
            prompt: station.prompt.clone().filter(|prompt| !prompt.is_empty()),
            output_context_keys: station.output_context_keys.clone(),
            ..StationRow::default()
        }));
        stations.push(with_shape("exit", "Msquare"));
        let edge = |source: &str, target: &str| TransitionRow {
            source: source.to_owned(),
            target: target.to_owned(),
            ..TransitionRow::default()
        };
        let mut transitions = Vec::new();
        let first = self.stations.first().map(|station| node(&station.id));
        transitions.push(edge("start", first.as_deref().unwrap_or("exit")));
        transitions.extend(self.transitions.iter().map(|transition| TransitionRow {
            label: transition.label.clone().filter(|label| !label.is_empty()),
            condition_type: transition.condition_type.clone(),
            condition_value: transition.condition_value.clone(),
            ..edge(&node(&transition.source), &node(&transition.target))
        }));
        let left: HashSet<&str> = self.transitions.iter().map(|at| at.source.as_str()).collect();
        let last = self
            .stations
            .iter()
            .filter(|station| !left.contains(station.id.as_str()));
        transitions.extend(last.map(|station| edge(&node(&station.id), "exit")));
        WorkflowRows {
            attributes: BTreeMap::from([
                ("label".to_owned(), Value::from(self.name.as_str())),
                ("routing".to_owned(), Value::from("first_match")),
            ]),
            stations,
            transitions,
            ..WorkflowRows::default()
        }
    }

    /// Returns an id for each station, made from its name.
    fn node_ids(&self) -> HashMap<String, String> {
        let mut taken: HashSet<String> = ["start", "exit"].map(str::to_owned).into();
        let mut ids = HashMap::new();
        for station in &self.stations {
            let word = |c: char| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '_'
                }
            };
            let base: String = station.name.chars().map(word).collect();
            let base = base.trim_matches('_');
            let base = if is_identifier(base) {
                base.to_owned()
            } else {
                format!("station_{base}")
            };
            let numbered = (2..).map(|number| format!("{base}_{number}"));
            let mut candidates = std::iter::once(base.clone()).chain(numbered);
            if let Some(id) = candidates.find(|candidate| !taken.contains(candidate)) {
                taken.insert(id.clone());
                ids.insert(station.id.clone(), id);
            }
        }
        ids
    }
}
