//! The pipelines of a project as a server offers them, and the engines that run them.

use std::path::PathBuf;

use orchestra_engine::{Engine, Entry, Script};
use orchestra_graph::{Loaded, SharedPipeline};

use super::run::find_agents;
use crate::error::CliError;
use crate::project::pipelines::{Pipelines, run_transforms};
use crate::runs::Runs;
use crate::runs::session::engine_builder;
use crate::terminal::Terminal;

/// The pipelines, agents and repositories of the current folder.
pub(super) struct ServedPipelines {
    pub(super) pipelines: Pipelines,
    pub(super) runs: Runs,
    /// The requested project configuration.
    pub(super) config: Option<PathBuf>,
    pub(super) terminal: Terminal,
    /// Further secrets, which no output of a run may contain.
    pub(super) secrets: Vec<String>,
}

impl ServedPipelines {
    /// Returns the entry of a pipeline that was loaded by its name; `None` if it is invalid.
    pub(super) fn entry(&self, name: &str, loaded: &Loaded) -> Option<Entry> {
        if let Some(entry) = self.pipelines.entry(name) {
            return Some(entry.clone());
        }
        let pipeline = loaded.pipeline().map(SharedPipeline::from)?;
        Some(Entry::loaded(name, pipeline, run_transforms()))
    }

    /// Creates the engine that runs a pipeline, with the agents and the repositories of its project. With a script, runs
    /// are simulated.
    ///
    /// # Errors
    ///
    /// Returns an error if the pipeline cannot be run as it is configured.
    pub(super) fn engine(&self, entry: &Entry, script: Option<Script>) -> Result<Engine, CliError> {
        let agents = find_agents(
            self.config.as_deref(),
            entry.pipeline(),
            None,
            entry.configuration(),
            script.as_ref(),
            &self.terminal,
        )?;
        let builder = engine_builder(
            entry.pipeline(),
            agents.as_ref(),
            script,
            &self.runs,
            &self.terminal,
        )?;
        builder
            .secrets(self.secrets.iter().cloned())
            .build()
            .map_err(|error| CliError::usage(error.code(), error.to_string()))
    }
}

/// Returns the name under which a worker has a pipeline: that of a compiled one, else its file, relative to the folder of
/// the worker and without `./`.
#[cfg(feature = "restate")]
pub(super) fn pipeline_name(pipelines: &Pipelines, file: &str) -> String {
    if pipelines.entry(file).is_some() || orchestra_stations::VersionName::parse_file(file).is_some() {
        return file.to_owned();
    }
    let path: PathBuf = std::path::Path::new(file)
        .components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect();
    crate::project::agents::with_slashes(&path)
}
