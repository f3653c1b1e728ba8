//! The pipelines of a project as a server offers them: those of the program, the files below the current folder, and the
//! engines that run them.

use std::fs;
use std::path::{Path, PathBuf};

use orchestra_engine::{Engine, Entry, Script};
use orchestra_graph::{Loaded, SharedPipeline};

use super::run::find_agents;
use crate::error::CliError;
use crate::project::pipelines::{Pipelines, run_transforms};
use crate::runs::Runs;
use crate::runs::session::engine_builder;
use crate::terminal::Terminal;

/// Maximum depth of folders that are searched for pipelines.
const MAX_DEPTH: usize = 4;

/// Maximum number of files that are offered.
const MAX_FILES: usize = 500;

/// Folders that contain no pipelines of the project itself.
const SKIPPED: [&str; 3] = ["target", "node_modules", "vendor"];

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
    /// Returns the DOT files below the current folder, sorted.
    pub(super) fn files() -> Vec<String> {
        let mut files = Vec::new();
        find_files(Path::new("."), "", 0, &mut files);
        files.sort();
        files
    }

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
    let path: PathBuf = Path::new(file)
        .components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect();
    crate::project::agents::with_slashes(&path)
}

/// Adds the DOT files below a folder. Links and hidden folders are skipped.
fn find_files(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        if name.starts_with('.') || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if kind.is_dir() && depth < MAX_DEPTH {
            find_files(&entry.path(), &format!("{path}/"), depth + 1, found);
        } else if kind.is_file() && path.ends_with(".dot") && found.len() < MAX_FILES {
            found.push(path);
        }
    }
}
