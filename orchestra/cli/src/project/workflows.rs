//! Station workflows in the database of a project, named `stations:NAME` or `stations:NAME@VERSION` like files.

use std::path::Path;

use orchestra_graph::{LoadOptions, Loaded};
use orchestra_stations::{StationError, StationStore};

use crate::error::{CliError, Exit};

/// The database of a project.
pub(crate) const DATABASE: &str = ".orchestra/stations.sqlite";
/// The beginning of names that are not those of files.
const PREFIX: &str = "stations:";

/// A workflow, and one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkflowName<'n> {
    pub(crate) name: &'n str,
    /// `None` for the active version.
    pub(crate) version: Option<u32>,
}

impl<'n> WorkflowName<'n> {
    /// Parses `NAME` or `NAME@VERSION`.
    pub(crate) fn parse(text: &'n str) -> Result<WorkflowName<'n>, CliError> {
        let Some((name, version)) = text.rsplit_once('@') else {
            let version = None;
            return Ok(WorkflowName { name: text, version });
        };
        let number = version.parse().ok().filter(|number| *number > 0);
        let version = number.ok_or_else(|| {
            CliError::usage(
                "unknown_version",
                format!("`{}` is not the number of a version", version.escape_debug()),
            )
            .help("write the number behind `@`, as in `shipping@3`")
        })?;
        Ok(WorkflowName {
            name,
            version: Some(version),
        })
    }

    /// Parses the name of a workflow in the position of a file. Returns `None` for a file.
    pub(crate) fn in_place_of_file(file: &'n str) -> Option<Result<WorkflowName<'n>, CliError>> {
        Some(WorkflowName::parse(file.strip_prefix(PREFIX)?))
    }

    /// Returns the name of the active version of the workflow in the position of a file.
    pub(crate) fn active(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// Loads the version from the database of the project.
    pub(crate) fn load(&self, options: &LoadOptions<'_>) -> Result<Loaded, CliError> {
        Ok(existing(Path::new(DATABASE))?.load(self.name, self.version, options)?)
    }
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
            StationError::Invalid { .. } => converted.exit(Exit::Invalid),
            StationError::Io { .. }
            | StationError::Database { .. }
            | StationError::Damaged { .. }
            | StationError::Busy { .. } => converted.exit(Exit::RunFailed),
            _ => converted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_behind_an_at_sign() {
        let parsed = |text| {
            WorkflowName::parse(text)
                .map(|found| (found.name, found.version))
                .ok()
        };
        assert_eq!(parsed("shipping"), Some(("shipping", None)));
        assert_eq!(parsed("shipping@12"), Some(("shipping", Some(12))));
        for wrong in ["shipping@", "shipping@0", "shipping@x", "shipping@-1", "a@1@x"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert!(WorkflowName::in_place_of_file("shipping.dot").is_none());
        assert!(WorkflowName::in_place_of_file("stations:shipping@2").is_some_and(|found| found.is_ok()));
    }
}
