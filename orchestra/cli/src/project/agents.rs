//! The project configuration of a run: finding it, resolving the agents of model stages, and building their backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_config::{
    Agent, BackendKind, CONFIGURATION_FILE, Mode, Permissions, Project, Resolution, ResolveOptions,
    ResolvedStage, Sources, UserFiles,
};
use orchestra_engine::{
    CompiledConfiguration, Disk, EngineBuilder, EnvironmentSecrets, StageText, listed_variables,
};
use orchestra_graph::{Analysis, ChildReader, Loaded, Pipeline, ReadError, Report, SharedPipeline};

use crate::args::Format;
use crate::error::{CliError, Exit};
use crate::project::asking::AskingStages;
use crate::project::root::find_above;
use crate::report::diagnostics::print_report;
use crate::report::progress::SharedProgress;
use crate::terminal::Terminal;

/// Maximum size of an agent or tool file of the user, in bytes.
const MAX_USER_FILE: u64 = 1 << 20;
/// The hint on running without a model.
const OR_SIMULATE: &str =
    "or simulate: `run --simulate-models` runs the tools all the same, `run --simulate` runs nothing";

/// A project, and the agents that run its model stages.
#[derive(Clone)]
pub(crate) struct ProjectAgents {
    project: Arc<Project>,
    reader: Reader,
    user_folder: Option<String>,
    user_agents: BTreeMap<String, Agent>,
    #[cfg(feature = "agents")]
    agents: orchestra_agent::Agents,
    #[cfg(feature = "mcp")]
    servers: orchestra_mcp::McpServers,
}

/// The source of a project's files: the disk, or the program into which they are compiled.
#[derive(Clone, Copy)]
enum Reader {
    Disk,
    Program(Sources),
}

impl ChildReader for Reader {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        match self {
            Reader::Disk => Disk.read(path, limit),
            Reader::Program(sources) => sources.read(path, limit),
        }
    }

    fn names(&self, folder: &str) -> Vec<String> {
        match self {
            Reader::Disk => Disk.names(folder),
            Reader::Program(sources) => sources.names(folder),
        }
    }
}

impl ProjectAgents {
    /// Finds the configuration and its agents. Uses the requested file, else the configuration with which the pipeline
    /// was compiled, else the file that is found beside the pipeline or above it.
    pub(crate) fn find(
        requested: Option<&Path>,
        pipeline: &str,
        compiled: Option<CompiledConfiguration>,
        terminal: &Terminal,
    ) -> Result<ProjectAgents, CliError> {
        let (path, reader) = match (requested, compiled) {
            (Some(path), _) => (Some(with_slashes(path)), Reader::Disk),
            (None, Some(compiled)) => (
                Some(compiled.path.to_owned()),
                Reader::Program(Sources::new(compiled.path, compiled.files)),
            ),
            (None, None) => (find_above(pipeline, CONFIGURATION_FILE), Reader::Disk),
        };
        let mut project = match &path {
            Some(path) => Project::load(path, &reader),
            None => Project::default(),
        };
        if project.report.has_errors() {
            print_report(terminal, &project.report, format(terminal));
            return Err(invalid(path.as_deref().unwrap_or(CONFIGURATION_FILE)));
        }
        // A compiled configuration does not depend on the user.
        let user = match reader {
            Reader::Disk => user_folder(),
            Reader::Program(_) => None,
        };
        let (user, user_folder) =
            user.map_or_else(Default::default, |(files, prompts)| (files, Some(prompts)));
        for report in &user.reports {
            print_report(terminal, report, format(terminal));
        }
        user.add_tools_to(&mut project);
        #[cfg(feature = "mcp")]
        let servers = orchestra_mcp::McpServers::new(&project);
        #[cfg(feature = "mcp")]
        let tools = servers.tools();
        #[cfg(all(feature = "agents", not(feature = "mcp")))]
        let tools = Vec::new();
        Ok(ProjectAgents {
            #[cfg(feature = "agents")]
            agents: backend(&project, reader, user_folder.as_deref(), &user, tools)?,
            #[cfg(feature = "mcp")]
            servers,
            project: Arc::new(project),
            reader,
            user_folder,
            user_agents: user.agents,
        })
    }

    /// Returns the project.
    pub(crate) fn project(&self) -> &Project {
        &self.project
    }

    fn with_options<T>(&self, resolve: impl FnOnce(&ResolveOptions<'_>) -> T) -> T {
        resolve(&ResolveOptions {
            reader: Some(&self.reader),
            user_folder: self.user_folder.clone(),
            agents: self.user_agents.clone(),
            ..ResolveOptions::default()
        })
    }

    /// Resolves the model stages of a checked graph. The diagnostics have positions in the file.
    pub(crate) fn resolve_graph(&self, analysis: &Analysis<'_>) -> Resolution {
        self.with_options(|options| self.project.resolve_graph(analysis, options))
    }

    /// Returns the errors for the declared values that templates read, although waiting runs of a locked version may lack
    /// them.
    pub(crate) fn resumed_reads(&self, locked: &Loaded, today: &Loaded) -> Vec<Report> {
        self.with_options(|options| self.project.resumed_reads(locked, today, options))
    }

    /// Resolves the model stages of a pipeline.
    fn resolve(&self, pipeline: &Pipeline) -> Resolution {
        self.with_options(|options| self.project.resolve(pipeline, options))
    }

    /// Returns the path of the configuration file.
    pub(crate) fn path(&self) -> Option<&str> {
        self.project.path.as_deref()
    }

    /// Rejects a pipeline if its model stages, or those of its child pipelines, cannot run. Prints diagnostics with
    /// hints.
    pub(crate) fn check(&self, pipeline: &SharedPipeline, terminal: &Terminal) -> Result<(), CliError> {
        let mut seen = Vec::new();
        let mut unchecked = vec![&**pipeline];
        while let Some(pipeline) = unchecked.pop() {
            if seen.iter().any(|file: &String| **file == *pipeline.file) {
                continue;
            }
            seen.push(pipeline.file.to_string());
            unchecked.extend(pipeline.children.iter().map(|child| &*child.pipeline));
            self.check_one(pipeline, terminal)?;
        }
        Ok(())
    }

    /// Resolves the model stages of a loaded pipeline and of its child pipelines. The diagnostics have the positions of
    /// attributes, while a pipeline that is executed has positions of nodes only.
    pub(crate) fn resolutions(&self, loaded: &Loaded) -> Vec<Resolution> {
        self.with_options(|options| self.project.resolve_loaded(loaded, options))
    }

    /// Rejects a pipeline if its model stages, or those of its child pipelines, cannot be resolved.
    pub(crate) fn check_loaded(&self, loaded: &Loaded, terminal: &Terminal) -> Result<(), CliError> {
        let resolutions = self.resolutions(loaded);
        match resolutions.iter().find(|resolution| resolution.has_errors()) {
            Some(invalid_resolution) => {
                print_resolution(invalid_resolution, terminal);
                Err(invalid(loaded.source.name()))
            }
            None => Ok(()),
        }
    }

    fn check_one(&self, pipeline: &Pipeline, terminal: &Terminal) -> Result<(), CliError> {
        let resolution = self.resolve(pipeline);
        if print_resolution(&resolution, terminal) {
            return Err(invalid(&pipeline.file));
        }
        let without_model = resolution.stages.iter().find(|stage| {
            let named = stage.model.is_some() && stage.provider.is_some();
            stage.backend_kind.needs_model() && !named
        });
        if let Some(stage) = without_model {
            let message = format!("stage `{}` asks a model, and none is configured", stage.node);
            let help = match self.path() {
                Some(path) => {
                    format!("name a provider with models in `{path}`, {OR_SIMULATE}")
                }
                None => format!(
                    "write a `{CONFIGURATION_FILE}` with a provider and its models beside the pipeline or \
                     here (`--config` names another), {OR_SIMULATE}"
                ),
            };
            return Err(CliError::usage("no_backend", message)
                .exit(Exit::Credentials)
                .help(help));
        }
        self.check_servers(&resolution)?;
        let asks = resolution
            .stages
            .iter()
            .any(|stage| stage.backend_kind != BackendKind::Simulation);
        if asks { self.check_keys(pipeline) } else { Ok(()) }
    }

    /// Rejects a pipeline whose models call tools of MCP servers, if this program cannot start them.
    fn check_servers(&self, resolution: &Resolution) -> Result<(), CliError> {
        let stage = resolution.stages.iter().find(|stage| self.calls_servers(stage));
        match stage {
            Some(stage) if cfg!(not(feature = "mcp")) => {
                let message = format!(
                    "stage `{}` has tools of MCP servers, and this program is built without them",
                    stage.node
                );
                Err(CliError::usage("no_mcp", message)
                    .exit(Exit::Invalid)
                    .help(format!(
                        "build it with the feature `mcp` of `orchestra`, {OR_SIMULATE}"
                    )))
            }
            _ => Ok(()),
        }
    }

    #[cfg(feature = "agents")]
    fn check_keys(&self, pipeline: &Pipeline) -> Result<(), CliError> {
        match self.agents.missing_keys(pipeline).first() {
            None => Ok(()),
            Some(error) => {
                let error = CliError::usage(error.kind.code(), error.to_string()).exit(Exit::Credentials);
                Err(error.help(format!("set it, {OR_SIMULATE}")))
            }
        }
    }

    #[cfg(not(feature = "agents"))]
    fn check_keys(&self, _: &Pipeline) -> Result<(), CliError> {
        let message = "this program is built without what asks models";
        let error = CliError::usage("no_backend", message).exit(Exit::Credentials);
        Err(error.help(format!(
            "build it with the feature `agents` of `orchestra`, {OR_SIMULATE}"
        )))
    }

    /// Sets the backend of the engine.
    #[cfg(feature = "agents")]
    pub(crate) fn set_backend(&self, builder: EngineBuilder) -> EngineBuilder {
        builder.backend(self.agents.clone())
    }

    /// Sets the backend of the engine; there is none in this build.
    #[cfg(not(feature = "agents"))]
    pub(crate) fn set_backend(&self, builder: EngineBuilder) -> EngineBuilder {
        builder
    }

    /// Returns the API keys of the providers, and the variables that MCP servers get.
    #[cfg(feature = "agents")]
    pub(crate) fn secrets(&self) -> Vec<String> {
        #[cfg(feature = "mcp")]
        let further = self.servers.secrets();
        #[cfg(not(feature = "mcp"))]
        let further = Vec::new();
        let mut secrets = self.agents.secrets();
        secrets.extend(further);
        secrets
    }

    /// Returns the API keys of the providers; there are none in this build.
    #[cfg(not(feature = "agents"))]
    pub(crate) fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    /// Passes the API keys of the providers to the engine, which redacts them in all output.
    pub(crate) fn set_secrets(&self, builder: EngineBuilder) -> EngineBuilder {
        builder.secrets(self.secrets())
    }

    /// Shows the text of models to a person who talks with them.
    pub(crate) fn show_model_text(
        &self,
        builder: EngineBuilder,
        pipeline: &SharedPipeline,
        shown: &Arc<SharedProgress>,
    ) -> EngineBuilder {
        let talking = self.asking_stages(pipeline).talking;
        if talking.is_empty() {
            return builder;
        }
        let shown = shown.clone();
        builder.on_text(move |piece: &StageText| {
            if talking.iter().any(|node| *node == *piece.node) {
                shown.progress().model_text(piece);
            }
        })
    }

    /// Returns the model stages that ask a person.
    pub(crate) fn asking_stages(&self, pipeline: &Pipeline) -> AskingStages {
        let mut asking = AskingStages::default();
        for stage in self.resolve(pipeline).stages {
            let backend = self.project.configuration.backends.get(&stage.backend.value);
            let permissions = backend.and_then(|backend| backend.value.asked_permissions(stage.backend_kind));
            if stage.mode.value == Mode::Interactive {
                asking.talking.push(stage.node);
            } else if permissions == Some(Permissions::Ask) || self.calls_servers(&stage) {
                asking.permitting.push(stage.node);
            }
        }
        // Stages of child pipelines ask at the same terminal.
        for child in pipeline.children.iter() {
            let AskingStages { talking, permitting } = self.asking_stages(&child.pipeline);
            asking.talking.extend(talking);
            asking.permitting.extend(permitting);
        }
        asking
    }

    /// Returns whether a model may call tools of MCP servers.
    fn calls_servers(&self, stage: &ResolvedStage) -> bool {
        let calls = |tool: &String| self.project.configuration.mcp_tool(tool).is_some();
        stage.backend_kind == BackendKind::Agent && stage.tools.iter().any(calls)
    }
}

#[cfg(feature = "agents")]
fn backend(
    project: &Project,
    reader: Reader,
    user_folder: Option<&str>,
    user: &UserFiles,
    tools: Vec<Arc<dyn orchestra_agent::Tool>>,
) -> Result<orchestra_agent::Agents, CliError> {
    let mut builder = orchestra_agent::Agents::builder(project.clone())
        .reader(reader)
        .shared_tools(tools);
    for (name, agent) in &user.agents {
        builder = builder.agent(name, agent.clone());
    }
    if let Some(folder) = user_folder {
        builder = builder.user_folder(folder);
    }
    builder
        .build()
        .map_err(|error| CliError::usage(error.kind.code(), error.to_string()).exit(Exit::Invalid))
}

/// Prints the diagnostics of a resolution. Returns whether they keep the pipeline from running.
pub(crate) fn print_resolution(resolution: &Resolution, terminal: &Terminal) -> bool {
    let errors = resolution.has_errors();
    for report in &resolution.reports {
        if errors || !terminal.quiet {
            print_report(terminal, report, format(terminal));
        }
    }
    errors
}

/// Returns the secrets in the environment. Warns about listed variables whose values are too short to be redacted.
pub(crate) fn secrets_of_environment(pipeline: &Pipeline, terminal: &Terminal) -> Vec<String> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let secrets = EnvironmentSecrets::find(variables, &listed_variables(pipeline));
    for name in secrets.too_short {
        terminal.progress(&format!(
            "warning: the value of `{name}`, which `tool_env` lists, is too short to be redacted; use one of at least 4 bytes"
        ));
    }
    secrets.values
}

pub(crate) fn format(terminal: &Terminal) -> Format {
    if terminal.json { Format::Json } else { Format::Text }
}

pub(crate) fn invalid(file: &str) -> CliError {
    CliError::usage(
        "invalid_configuration",
        format!("`{file}` cannot be run as it is configured"),
    )
    .exit(Exit::Invalid)
}

/// Reads the agents and tools in the user's home folder. Returns them with the path of the user's prompt layers.
pub(crate) fn user_folder() -> Option<(UserFiles, String)> {
    let folder = home()?.join(".orchestra");
    Some((user_files(&folder), with_slashes(&folder.join("prompts"))))
}

fn user_files(folder: &Path) -> UserFiles {
    let mut files = UserFiles::default();
    for (name, path, bytes) in yaml_files(&folder.join("agents")) {
        files.add_agent(&name, &path, &bytes);
    }
    for (name, path, bytes) in yaml_files(&folder.join("tools")) {
        files.add_tool(&name, &path, &bytes);
    }
    files
}

/// Returns the `.yaml` files in a folder, sorted by name: each with its stem, its path and its content.
fn yaml_files(folder: &Path) -> Vec<(String, String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    paths.sort_unstable();
    let files = paths.iter().filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let path = with_slashes(path);
        // Unreadable files are ignored, like unreadable prompts.
        let bytes = Disk.read(&path, MAX_USER_FILE).ok()?;
        Some((name, path, bytes))
    });
    files.collect()
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Returns a path with `/` as the separator.
pub(crate) fn with_slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}
