//! The pipelines that a server offers, and the engines that run them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use orchestra_engine::{Engine, Entry, PausedRun, PinnedPipeline, RunFolder, Script};
use orchestra_graph::{LoadOptions, Loaded, Report, Source, Transform, load};
use orchestra_sessions::Session;
use schemars::JsonSchema;
use serde::Serialize;

/// Where the server finds pipelines, and how it runs them. A program with compiled pipelines does not need it:
/// [`Server::pipeline`](crate::Server::pipeline) adds them. The command line implements it for the files, agents and
/// repositories of a project.
///
/// All methods may block; the server calls them on threads of their own.
///
/// ```
/// use orchestra_engine::{Engine, Entry, RunFolder, Script, SharedPipeline};
/// use orchestra_graph::{Source, load};
/// use orchestra_server::{Definition, DefinitionKind, LoadedDefinition, Project, ProjectError, Server};
///
/// /// Offers a pipeline that it reads whenever a run starts.
/// struct Notes(std::path::PathBuf);
///
/// impl Project for Notes {
///     fn runs_dir(&self) -> std::path::PathBuf {
///         self.0.join("runs")
///     }
///
///     fn definitions(&self) -> Vec<Definition> {
///         vec![Definition::new("notes", DefinitionKind::File, "notes.dot")]
///     }
///
///     fn load(&self, name: &str) -> Result<LoadedDefinition, ProjectError> {
///         let definition = self.definitions().into_iter().find(|known| known.name == name);
///         let definition = definition.ok_or_else(|| ProjectError::unknown("there is only `notes`"))?;
///         let text = std::fs::read_to_string(self.0.join("notes.dot"))
///             .map_err(|error| ProjectError::new("unreadable_file", error))?;
///         let loaded = load(Source::new("notes.dot", text), &Default::default());
///         let pipeline = loaded.pipeline().map(SharedPipeline::from);
///         let entry = pipeline.map(|pipeline| Entry::loaded("notes", pipeline, Vec::new()));
///         Ok(LoadedDefinition::new(definition, loaded, entry))
///     }
///
///     fn entry_of_run(&self, run: &RunFolder, _: bool) -> Result<Entry, ProjectError> {
///         let pipeline = run.load_pipeline(&[]).pipeline();
///         let pipeline = pipeline.ok_or_else(|| ProjectError::new("invalid_pipeline", "it is invalid now"))?;
///         Ok(Entry::loaded("notes", pipeline.into(), Vec::new()))
///     }
///
///     fn engine(&self, _: &Entry, script: Option<Script>) -> Result<Engine, ProjectError> {
///         let engine = Engine::builder().runs_dir(self.runs_dir()).build();
///         let engine = engine.map_err(|error| ProjectError::new(error.code(), error))?;
///         Ok(script.map_or(engine.clone(), |script| engine.with_simulation(script)))
///     }
/// }
///
/// # let directory = tempfile::tempdir()?;
/// # std::fs::write(directory.path().join("notes.dot"), "digraph notes { start -> exit }")?;
/// let notes = Notes(directory.path().to_owned());
/// assert!(notes.load("notes")?.entry.is_some());
/// let server = Server::with_project(notes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Project: Send + Sync + 'static {
    /// Returns the folder in which runs are persisted.
    fn runs_dir(&self) -> PathBuf;

    /// Returns the pipelines that can be started by name.
    fn definitions(&self) -> Vec<Definition>;

    /// Loads a pipeline by its name.
    ///
    /// # Errors
    /// There is no such pipeline, or it cannot be read.
    fn load(&self, name: &str) -> Result<LoadedDefinition, ProjectError>;

    /// Returns the entry with which a run is resumed or replayed: the present version of its pipeline.
    ///
    /// # Errors
    /// The pipeline cannot be read or is invalid.
    fn entry_of_run(&self, run: &RunFolder, accept_changes: bool) -> Result<Entry, ProjectError>;

    /// Returns an engine for runs of a pipeline. With a script, the runs are simulated.
    ///
    /// # Errors
    /// The pipeline cannot be run in this project.
    fn engine(&self, entry: &Entry, script: Option<Script>) -> Result<Engine, ProjectError>;

    /// Opens a run that no process executes, to answer its questions or to cancel it.
    ///
    /// # Errors
    /// The run cannot be opened.
    fn paused_run(&self, run: &RunFolder) -> Result<PausedRun, ProjectError> {
        let paused = PausedRun::open(run.path()).map_err(|error| ProjectError::new(error.code(), error))?;
        Ok(paused.transforms(self.transforms()))
    }

    /// Returns the transforms with which pipelines are loaded.
    fn transforms(&self) -> Vec<Arc<dyn Transform>> {
        Vec::new()
    }

    /// Returns the path of the database of station workflows, which the server creates for the first one. `None` if the
    /// project has none.
    fn stations(&self) -> Option<PathBuf> {
        None
    }

    /// Loads a version of a station workflow that a local program has written, to run it. Unlike a text of a client, it
    /// may name files. By default, they are not read.
    fn load_version(&self, source: Source) -> Loaded {
        let options = LoadOptions {
            transforms: self.transforms(),
            ..LoadOptions::default()
        };
        load(source, &options)
    }

    /// Returns the commands with which people work on a run in a terminal, by what they do, such as `resume`.
    fn commands(&self, session: &Session) -> BTreeMap<&'static str, String> {
        let _ = session;
        BTreeMap::new()
    }
}

/// A pipeline that can be started by name.
///
/// ```
/// use orchestra_server::{Definition, DefinitionKind};
/// let definition = Definition::new("release", DefinitionKind::File, "pipelines/release.dot");
/// assert_eq!(serde_json::to_value(&definition)?["kind"], "file");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Definition {
    /// The name, by which [`Project::load`] finds it.
    pub name: String,
    /// The origin.
    pub kind: DefinitionKind,
    /// The name of its file, as runs store it.
    pub file: String,
}

impl Definition {
    /// Creates a definition.
    pub fn new(name: impl Into<String>, kind: DefinitionKind, file: impl Into<String>) -> Definition {
        Definition {
            name: name.into(),
            kind,
            file: file.into(),
        }
    }
}

/// The origin of a pipeline.
///
/// ```
/// use orchestra_server::DefinitionKind;
/// assert_eq!(serde_json::to_value(DefinitionKind::Compiled)?, "compiled");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefinitionKind {
    /// Compiled into the program.
    Compiled,
    /// A DOT file.
    File,
    /// A station workflow in a database.
    Workflow,
}

/// A pipeline that was loaded by its name.
///
/// ```
/// use orchestra_graph::{Source, load};
/// use orchestra_server::{Definition, DefinitionKind, LoadedDefinition};
/// let loaded = load(Source::new("notes.dot", "digraph notes { start ->"), &Default::default());
/// let definition = Definition::new("notes", DefinitionKind::File, "notes.dot");
/// let invalid = LoadedDefinition::new(definition, loaded, None);
/// assert!(invalid.loaded.report.has_errors());
/// ```
#[non_exhaustive]
pub struct LoadedDefinition {
    /// The definition.
    pub definition: Definition,
    /// The pipeline with its diagnostics.
    pub loaded: Loaded,
    /// The entry that starts it; `None` if the pipeline is invalid.
    pub entry: Option<Entry>,
}

impl LoadedDefinition {
    /// Creates a definition that was loaded.
    pub fn new(definition: Definition, loaded: Loaded, entry: Option<Entry>) -> LoadedDefinition {
        LoadedDefinition {
            definition,
            loaded,
            entry,
        }
    }
}

impl std::fmt::Debug for LoadedDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedDefinition")
            .field("definition", &self.definition)
            .finish_non_exhaustive()
    }
}

/// The error of a [`Project`].
///
/// ```
/// use orchestra_server::ProjectError;
/// let error = ProjectError::new("unreadable_file", "cannot read `a.dot`");
/// assert_eq!((error.code(), error.to_string().as_str()), ("unreadable_file", "cannot read `a.dot`"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProjectError {
    code: String,
    message: String,
    pub(crate) help: Option<String>,
    pub(crate) is_unknown: bool,
    pub(crate) reports: Vec<Report>,
}

impl ProjectError {
    /// Creates an error from a machine-readable code and a message.
    pub fn new(code: impl Into<String>, message: impl ToString) -> ProjectError {
        ProjectError {
            code: code.into(),
            message: message.to_string(),
            help: None,
            is_unknown: false,
            reports: Vec::new(),
        }
    }

    /// Creates the error for a name that no pipeline has.
    pub fn unknown(message: impl ToString) -> ProjectError {
        ProjectError {
            is_unknown: true,
            ..ProjectError::new("unknown_definition", message)
        }
    }

    /// Adds a hint on how to fix the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> ProjectError {
        self.help = Some(help.into());
        self
    }

    /// Adds the diagnostics of an invalid pipeline.
    #[must_use]
    pub fn reports(mut self, reports: impl IntoIterator<Item = Report>) -> ProjectError {
        self.reports.extend(reports);
        self
    }

    /// Returns the machine-readable code.
    pub fn code(&self) -> &str {
        &self.code
    }
}

impl dyn Project {
    /// Loads the entry of a pipeline by its name.
    pub(crate) fn load_entry(&self, name: &str) -> Result<Entry, ProjectError> {
        let found = self.load(name)?;
        found.entry.ok_or_else(|| {
            let error = ProjectError::new("invalid_pipeline", format!("the pipeline `{name}` is invalid"));
            error.reports(found.loaded.reports().cloned())
        })
    }
}

/// The pipelines that are compiled into a program, with one engine for all of them.
pub(crate) struct CompiledProject {
    pub(crate) engine: Engine,
    pub(crate) runs_dir: PathBuf,
    pub(crate) entries: Vec<Entry>,
    pub(crate) stations: Option<PathBuf>,
}

impl Project for CompiledProject {
    fn runs_dir(&self) -> PathBuf {
        self.runs_dir.clone()
    }

    fn definitions(&self) -> Vec<Definition> {
        self.entries.iter().map(definition).collect()
    }

    fn load(&self, name: &str) -> Result<LoadedDefinition, ProjectError> {
        let entry = self.entries.iter().find(|entry| entry.name() == name);
        let entry = entry.ok_or_else(|| {
            ProjectError::unknown(format!("there is no pipeline `{}`", name.escape_debug()))
        })?;
        Ok(LoadedDefinition {
            definition: definition(entry),
            loaded: load_compiled(entry),
            entry: Some(entry.clone()),
        })
    }

    fn entry_of_run(&self, run: &RunFolder, _: bool) -> Result<Entry, ProjectError> {
        let manifest = run.manifest();
        let is = |entry: &&Entry| {
            entry.pipeline().name == *manifest.name && *entry.pipeline().file == *manifest.file
        };
        let entry = self.entries.iter().find(is);
        entry.cloned().ok_or_else(|| {
            let message = format!(
                "this program has no pipeline `{}` of the file `{}`",
                manifest.name, manifest.file
            );
            ProjectError::new("unknown_definition", message)
        })
    }

    fn engine(&self, _: &Entry, script: Option<Script>) -> Result<Engine, ProjectError> {
        Ok(match script {
            Some(script) => self.engine.with_simulation(script),
            None => self.engine.clone(),
        })
    }

    fn stations(&self) -> Option<PathBuf> {
        self.stations.clone()
    }
}

fn definition(entry: &Entry) -> Definition {
    Definition::new(entry.name(), DefinitionKind::Compiled, &*entry.pipeline().file)
}

/// Loads the text of a compiled pipeline, for its graph. Its child pipelines, and the files with its prompts and schemas,
/// are part of the program.
fn load_compiled(entry: &Entry) -> Loaded {
    let pipeline = entry.pipeline();
    let pinned = PinnedPipeline::from_pipeline(pipeline);
    let read = |path: &str, _: u64| {
        let file = pinned.children.iter().find(|file| file.file == path);
        let text = file.map(|file| file.source.as_bytes().to_vec());
        text.ok_or(orchestra_graph::ReadError::Missing)
    };
    let options = LoadOptions {
        children: Some(&read),
        ..LoadOptions::default()
    };
    load(Source::new(&*pipeline.file, &*pipeline.source), &options)
}
