//! Station workflows in the database of a project, named `stations:NAME` or `stations:NAME@VERSION` like files.

use std::path::Path;

use orchestra_graph::{LoadOptions, Loaded};
use orchestra_stations::{StationError, StationStore, VersionName};

use crate::error::{CliError, Exit};

/// The database of a project.
pub(crate) const DATABASE: &str = ".orchestra/stations.sqlite";
/// Loads a version from the database of the project.
pub(crate) fn load(name: &VersionName<'_>, options: &LoadOptions<'_>) -> Result<Loaded, CliError> {
    Ok(existing(Path::new(DATABASE))?.load(name.workflow, name.version, options)?)
}

/// Opens a database that exists.
pub(crate) fn existing(database: &Path) -> Result<StationStore, CliError> {
    if !database.is_file() {
        let message = format!("there are no workflows: `{}` does not exist", database.display());
        return Err(CliError::usage("unknown_workflow", message)
            .help("`stations import FILE.dot` creates it, with the pipeline as its first workflow"));
    }
    Ok(StationStore::open(database)?)
}

impl From<StationError> for CliError {
    fn from(error: StationError) -> CliError {
        let converted = CliError::usage(error.code(), error.to_string());
        match error {
            StationError::UnknownWorkflow { similar: None, .. } => {
                converted.help("`stations list` lists the workflows")
            }
            StationError::InvalidVersion { .. } => {
                converted.help("write the number behind `@`, as in `shipping@3`")
            }
            StationError::Invalid { .. } => converted.exit(Exit::Invalid),
            StationError::Io { .. }
            | StationError::Database { .. }
            | StationError::Damaged { .. }
            | StationError::Busy { .. } => converted.exit(Exit::RunFailed),
            _ => converted,
        }
    }
}
