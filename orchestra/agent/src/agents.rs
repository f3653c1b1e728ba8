//! The models, tools and settings with which model stages run, as a project configures them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_config::{Agent, BackendKind, Project, Resolution, ResolveOptions, Sources};
use orchestra_engine::StageContext;
use orchestra_graph::{Analysis, ChildReader, Pipeline, ReadError};

use crate::cli_backend::CliSettings;
use crate::coding_agents::AgentProgram;
use crate::definition::AgentDefinition;
use crate::model::{Model, ModelError};
use crate::prices::PriceTable;
use crate::providers::Models;
use crate::settings;
use crate::tool::{Tool, ToolRegistry, ToolSet};
use crate::tools::{BuiltinTools, SelectError, SelectedTools, select};

type Reader = Arc<dyn Fn(&str, u64) -> Result<Vec<u8>, ReadError> + Send + Sync>;

/// The identity of a pipeline: its name, its file and its source.
type Key = (String, String, String);

/// Runs model stages as a project configures them: with its agents, prompts, models, tools and backends.
///
/// The configuration, the pipeline or the node names the backend of each stage: *direct* (one call, no tools), *agent*
/// (a loop of model and tool calls until the stage is done), *cli* (an external program) or *simulation*.
///
/// ```
/// use orchestra_agent::{Agents, Model, ModelFuture, ModelReply, ModelRequest, OnText};
/// use orchestra_config::Project;
/// use orchestra_engine::Engine;
/// # use orchestra_graph::{ReadError, Source, load};
/// struct Echo;
/// impl Model for Echo {
///     fn call<'a>(&'a self, request: &'a ModelRequest, _: Option<OnText<'a>>) -> ModelFuture<'a> {
///         Box::pin(async move { Ok(ModelReply::text(format!("I am {}.", request.model))) })
///     }
/// }
/// let files = |path: &str, _: u64| match path {
///     "orchestra.yaml" => Ok(b"backend: direct\nproviders: {default: house, house: {kind: ollama, models: {smart: owl-7b}}}".to_vec()),
///     _ => Err(ReadError::Missing),
/// };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let project = Project::load("orchestra.yaml", &files);
/// let agents = Agents::builder(project).reader(files).model(Echo).build()?;
/// # let text = "digraph { start -> ask -> exit; ask [prompt=\"Who are you?\"] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert!(!agents.resolve(&pipeline).has_errors());
/// let engine = Engine::builder().backend(agents).build()?;
/// let result = engine.start(pipeline, ()).await?.wait().await?;
/// assert_eq!(result.context.text("last_response"), "I am owl-7b.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Agents {
    shared: Arc<Shared>,
}

/// The state that all clones of [`Agents`] share: a field for each part of a project.
struct Shared {
    project: Project,
    reader: Option<Reader>,
    user_folder: Option<String>,
    agents: BTreeMap<String, Agent>,
    registry: ToolRegistry,
    model: Arc<dyn Model>,
    /// The configured models; `None` if another model replaces them.
    models: Option<Arc<Models>>,
    prices: PriceTable,
    streams: bool,
    resolved: Mutex<HashMap<Key, Arc<Resolution>>>,
}

/// Wraps a reader so that it falls back to the compiled-in files if a file is missing.
fn with_compiled(reader: Option<Reader>, compiled: Vec<Sources>) -> Option<Reader> {
    if compiled.is_empty() {
        return reader;
    }
    Some(Arc::new(move |path: &str, limit: u64| {
        let found = reader
            .as_ref()
            .map_or(Err(ReadError::Missing), |reader| reader(path, limit));
        match found {
            Err(ReadError::Missing) => {
                let mut given = compiled
                    .iter()
                    .filter_map(|sources| sources.read(path, limit).ok());
                given.next().ok_or(ReadError::Missing)
            }
            found => found,
        }
    }))
}

impl Shared {
    fn with_options<T>(&self, resolve: impl FnOnce(&ResolveOptions<'_>) -> T) -> T {
        let reader = self.reader.as_ref().map(|reader| {
            let reader = reader.clone();
            move |path: &str, limit: u64| reader(path, limit)
        });
        resolve(&ResolveOptions {
            reader: reader.as_ref().map(|reader| reader as &dyn ChildReader),
            agents: self.agents.clone(),
            tools: self.registry.names().map(str::to_owned).collect(),
            user_folder: self.user_folder.clone(),
        })
    }
}

/// A builder of [`Agents`].
///
/// ```
/// use orchestra_agent::Agents;
/// use orchestra_config::Project;
/// let agents = Agents::builder(Project::default()).streaming(false).build()?;
/// assert!(agents.secrets().is_empty());
/// # Ok::<(), orchestra_agent::ModelError>(())
/// ```
pub struct AgentsBuilder {
    project: Project,
    reader: Option<Reader>,
    user_folder: Option<String>,
    agents: BTreeMap<String, Agent>,
    registry: ToolRegistry,
    /// The files that are compiled into the program.
    compiled: Vec<Sources>,
    model: Option<Arc<dyn Model>>,
    streams: bool,
}

impl AgentsBuilder {
    /// Sets the reader of prompt layers. It receives paths relative to the same base as those of the configuration and
    /// of pipelines.
    #[must_use]
    pub fn reader(mut self, reader: impl ChildReader + Send + Sync + 'static) -> AgentsBuilder {
        self.reader = Some(Arc::new(move |path: &str, limit: u64| reader.read(path, limit)));
        self
    }

    /// Sets the user's folder of prompts, which is searched last.
    #[must_use]
    pub fn user_folder(mut self, folder: impl Into<String>) -> AgentsBuilder {
        self.user_folder = Some(folder.into());
        self
    }

    /// Adds tools of the program.
    #[must_use]
    pub fn tools(mut self, tools: impl ToolSet) -> AgentsBuilder {
        tools.register(&mut self.registry);
        self
    }

    /// Adds tools that are known only at run time, such as those of servers.
    #[must_use]
    pub fn shared_tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> AgentsBuilder {
        for tool in tools {
            self.registry.add(tool);
        }
        self
    }

    /// Adds an agent of the program. An agent of the same name in the configuration overrides it.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, agent: Agent) -> AgentsBuilder {
        self.agents.insert(name.into(), agent);
        self
    }

    /// Adds an agent that `#[agent]` defines, with the prompt layers that are compiled into the program. Files that the
    /// reader finds override them.
    #[must_use]
    pub fn defined<A: AgentDefinition>(mut self) -> AgentsBuilder {
        self.compiled.push(A::SOURCES);
        self.agent(A::NAME, A::definition())
    }

    /// Replaces all configured models by one model.
    #[must_use]
    pub fn model(mut self, model: impl Model) -> AgentsBuilder {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sets whether answers are streamed; the default is `true`.
    #[must_use]
    pub fn streaming(mut self, wanted: bool) -> AgentsBuilder {
        self.streams = wanted;
        self
    }

    /// Builds the backend.
    ///
    /// # Errors
    /// Returns an error if a configured provider is unusable: its address is invalid, or its headers cannot be sent.
    pub fn build(self) -> Result<Agents, ModelError> {
        let configuration = &self.project.configuration;
        let mut registry = ToolRegistry::default();
        BuiltinTools.register(&mut registry);
        let folder = folder_of(&self.project);
        settings::project_tools(configuration, folder, &mut registry)?;
        for tool in self.registry.all() {
            registry.add(tool.clone());
        }
        let prices = settings::prices(configuration);
        let (model, models) = match self.model {
            Some(model) => (model, None),
            None => {
                let models = Arc::new(Models::new(settings::providers(configuration, folder)?)?);
                let model: Arc<dyn Model> = models.clone();
                (model, Some(models))
            }
        };
        Ok(Agents {
            shared: Arc::new(Shared {
                project: self.project,
                reader: with_compiled(self.reader, self.compiled),
                user_folder: self.user_folder,
                agents: self.agents,
                registry,
                model,
                models,
                prices,
                streams: self.streams,
                resolved: Mutex::default(),
            }),
        })
    }
}

/// Returns the folder of the configuration file.
fn folder_of(project: &Project) -> &Path {
    let path = project.path.as_deref().map(Path::new);
    path.and_then(Path::parent).unwrap_or(Path::new(""))
}

impl fmt::Debug for AgentsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentsBuilder").finish_non_exhaustive()
    }
}

impl Agents {
    /// Returns a builder of the backend of a project.
    pub fn builder(project: Project) -> AgentsBuilder {
        AgentsBuilder {
            project,
            reader: None,
            user_folder: None,
            agents: BTreeMap::new(),
            registry: ToolRegistry::default(),
            compiled: Vec::new(),
            model: None,
            streams: true,
        }
    }

    /// Resolves the settings of the model stages of a pipeline, with diagnostics. A pipeline with errors does not run
    /// correctly, so check them before it starts.
    pub fn resolve(&self, pipeline: &Pipeline) -> Arc<Resolution> {
        let key = (
            pipeline.name.to_string(),
            pipeline.file.to_string(),
            pipeline.source.to_string(),
        );
        let shared = &self.shared;
        let mut resolved = shared.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = resolved.get(&key) {
            return known.clone();
        }
        let resolution = Arc::new(shared.with_options(|options| shared.project.resolve(pipeline, options)));
        resolved.insert(key, resolution.clone());
        resolution
    }

    /// Resolves the settings of the model stages of a checked graph. The diagnostics have spans in its source.
    pub fn resolve_graph(&self, analysis: &Analysis<'_>) -> Resolution {
        let shared = &self.shared;
        shared.with_options(|options| shared.project.resolve_graph(analysis, options))
    }

    /// Returns an error for each provider that a stage of the pipeline calls and that has no key or does not exist. The
    /// providers of fallback models need keys only if none before them has one.
    pub fn missing_keys(&self, pipeline: &Pipeline) -> Vec<ModelError> {
        let Some(models) = &self.shared.models else {
            return Vec::new();
        };
        let resolution = self.resolve(pipeline);
        let calling = resolution
            .stages
            .iter()
            .filter(|stage| matches!(stage.backend_kind, BackendKind::Direct | BackendKind::Agent));
        let has_key = |provider: &&str| models.missing_keys([*provider]).is_empty();
        let mut providers: Vec<&str> = calling
            .filter_map(|stage| {
                let first = stage.provider.as_ref()?.value.as_str();
                let mut others = stage.fallbacks.iter().map(|fallback| fallback.provider.as_str());
                (has_key(&first) || !others.any(|other| has_key(&other))).then_some(first)
            })
            .collect();
        providers.sort_unstable();
        providers.dedup();
        models.missing_keys(providers)
    }

    /// Returns the keys of the providers and the values of their secret headers, for
    /// [`EngineBuilder::secrets`](orchestra_engine::EngineBuilder::secrets).
    pub fn secrets(&self) -> Vec<String> {
        use secrecy::ExposeSecret as _;
        let models = self.shared.models.iter();
        models
            .flat_map(|models| models.secrets())
            .map(|secret| secret.expose_secret().to_owned())
            .collect()
    }

    /// Returns the project.
    pub fn project(&self) -> &Project {
        &self.shared.project
    }

    pub(crate) fn model(&self) -> &dyn Model {
        &*self.shared.model
    }

    /// Returns the provider of a model for which none is configured, derived from the model's name. Returns an empty
    /// string if the provider is unknown.
    pub(crate) fn provider_of(&self, model: &str) -> String {
        let models = self.shared.models.as_ref();
        let found = models.and_then(|models| models.provider_of_model(model));
        found.unwrap_or_default().to_owned()
    }

    pub(crate) fn prices(&self) -> &PriceTable {
        &self.shared.prices
    }

    pub(crate) fn streams(&self) -> bool {
        self.shared.streams
    }

    pub(crate) fn selected(&self, names: &[String]) -> Result<SelectedTools, SelectError> {
        Ok(SelectedTools::new(select(
            &self.shared.registry,
            names,
            &[],
            None,
        )?))
    }

    /// Returns the names of the environment variables that commands of tools inherit.
    pub(crate) fn environment(&self) -> Vec<String> {
        let names = self.shared.project.configuration.environment.iter();
        names.map(|name| name.value.clone()).collect()
    }

    /// Returns the working folder of a stage: that of its run or, in a run without workspace, that of the repository
    /// which its node names.
    pub(crate) fn working_dir(&self, stage: &StageContext) -> Option<PathBuf> {
        let project = &self.shared.project;
        if stage.workplace().is_none()
            && let Some(name) = stage.node().text("repo")
            && let Some(folder) =
                settings::repository_folder(&project.configuration, folder_of(project), name)
        {
            return Some(folder);
        }
        stage.working_dir().map(Path::to_owned)
    }

    /// Returns the program of a configured backend, with the working folder of a stage. Returns `None` if it has no
    /// command.
    pub(crate) fn program(&self, backend: &str, stage: &StageContext) -> Option<CliSettings> {
        let backend = self.shared.project.configuration.backends.get(backend)?;
        let program = settings::program(&backend.value)?;
        Some(self.in_folder(program, stage))
    }

    /// Returns the coding agent of a configured backend, with the settings of its program. Returns `None` if the backend
    /// has neither a preset nor events.
    pub(crate) fn coding_agent(
        &self,
        name: &str,
        stage: &StageContext,
    ) -> Option<(AgentProgram, CliSettings)> {
        let configuration = &self.shared.project.configuration;
        let backend = configuration.backends.get(name)?;
        let agent = AgentProgram::new(name, configuration.backend_kind(name)?, &backend.value)?;
        let settings = CliSettings::new("");
        let settings = settings::limits(&backend.value, settings);
        Some((agent, self.in_folder(settings, stage)))
    }

    fn in_folder(&self, program: CliSettings, stage: &StageContext) -> CliSettings {
        match self.working_dir(stage) {
            Some(folder) => program.working_dir(folder),
            None => program,
        }
    }

    /// Returns `true` if a tool is known to change nothing.
    pub(crate) fn tool_is_read_only(&self, name: &str) -> bool {
        let tool = self.shared.registry.get(name);
        tool.is_some_and(|tool| tool.is_read_only())
    }

    /// Returns the names of the environment variables from which the keys of the providers are read.
    pub(crate) fn key_variable_names(&self) -> Vec<String> {
        let models = self.shared.models.iter();
        models
            .flat_map(|models| models.key_variables())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the maximum number of tools that a configured backend runs in parallel. Returns `None` if it is not
    /// configured.
    pub(crate) fn parallel_tools(&self, backend: &str) -> Option<usize> {
        let backend = self.shared.project.configuration.backends.get(backend)?;
        let most = backend.max_parallel_tools.as_ref()?.value;
        usize::try_from(most).ok()
    }
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents")
            .field("project", &self.shared.project.path)
            .field("tools", &self.shared.registry)
            .finish_non_exhaustive()
    }
}
