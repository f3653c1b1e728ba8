//! The settings of `orchestra.yaml` as types. The decoder and the JSON schema are both derived from them.

use crate::backend::Backend;
use crate::decode::{Decode, Diagnostics, section, words};
use crate::located::{Located, Names};
use crate::mcp::McpServer;
use crate::model_chain::ModelChain;
use crate::timespan::Timespan;
use crate::tree::{Node, Tree};
use crate::webhook::Webhook;

section! {
    /// The project configuration, `orchestra.yaml`.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"providers: {default: anthropic}\nagents:\n  critic: {role: adversarial-critic, model: smart}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(!report.has_errors());
    /// assert_eq!(configuration.agents["critic"].model.as_ref().expect("it is set").as_str(), "smart");
    /// ```
    pub struct Configuration {
        /// Where models come from.
        pub providers: Providers,
        /// The backend of model stages that name none: `agent`, `direct`, `simulation`, or one of `backends`.
        pub backend: Option<Located<String>>,
        /// Backends with settings of their own.
        pub backends: Names<Backend>,
        /// Who does model stages.
        pub agents: Names<Agent>,
        /// Commands that models may call as tools.
        pub tools: Names<CommandTool>,
        /// Servers of the Model Context Protocol, whose tools models may call as `SERVER:TOOL`.
        pub mcp_servers: Names<McpServer>,
        /// Names of environment variables that the commands of tools may see besides the usual ones.
        pub environment: Vec<Located<String>>,
        /// Further folders with prompt layers, relative to this file; or how prompts are read.
        pub prompts: Prompts,
        /// The repositories of the project.
        pub workspace: Workspace,
        /// What differs for single pipelines, by the names of their graphs.
        pub pipelines: Names<PipelineSettings>,
        /// The requests of other programs that start runs on `orchestra serve`, by their names.
        pub webhooks: Names<Webhook>,
    }
}

/// The settings of prompts: folders of prompt layers, and how the prompts of pipelines are read. A list of folders, or
/// a map.
///
/// ```
/// use orchestra_config::{Configuration, InlinePrompts};
/// let (configuration, report) = Configuration::parse("orchestra.yaml", b"prompts: {inline: template, folders: [shared]}");
/// assert!(!report.has_errors());
/// assert_eq!(configuration.prompts.folders[0].as_str(), "shared");
/// assert_eq!(configuration.prompts.inline.expect("it is set").value, InlinePrompts::Template);
///
/// let (configuration, _) = Configuration::parse("orchestra.yaml", b"prompts: [shared]");
/// assert_eq!(configuration.prompts.folders[0].as_str(), "shared");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompts {
    /// Additional folders with prompt layers, relative to the configuration.
    pub folders: Vec<Located<String>>,
    /// The interpretation of prompts in a pipeline; literal by default.
    pub inline: Option<Located<InlinePrompts>>,
}

section! {
    /// The form of [`Prompts`] as a map.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let (_, report) = Configuration::parse("orchestra.yaml", b"prompts: {inlin: template}");
    /// assert!(report.has_errors());
    /// ```
    struct PromptsMap {
        /// Further folders with prompt layers, relative to this file.
        pub folders: Vec<Located<String>>,
        /// How a prompt in a pipeline is read: `literal`, as it is written but for `$goal`, or `template`.
        pub inline: Option<Located<InlinePrompts>>,
    }
}

impl Decode for Prompts {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Prompts> {
        if let Node::Map(_) = &tree.node {
            let PromptsMap { folders, inline } = PromptsMap::decode(tree, diagnostics)?;
            return Some(Prompts { folders, inline });
        }
        let folders = Decode::decode(tree, diagnostics)?;
        Some(Prompts {
            folders,
            inline: None,
        })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Prompts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Prompts".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let list = generator.subschema_for::<Vec<Located<String>>>();
        let map = generator.subschema_for::<PromptsMap>();
        schemars::json_schema!({"anyOf": [list, map]})
    }
}

words! {
    /// How the prompts of pipelines are read.
    ///
    /// ```
    /// use orchestra_config::InlinePrompts;
    /// assert_eq!(InlinePrompts::from_name("template"), Some(InlinePrompts::Template));
    /// ```
    pub enum InlinePrompts {
        /// As they are written, but for `$goal`.
        Literal = "literal",
        /// As templates.
        Template = "template",
    }
}

/// The providers of models, and which of them is used where nothing else is said.
///
/// ```
/// use orchestra_config::Configuration;
/// let text = b"providers:\n  default: local\n  local: {kind: ollama, models: {smart: qwen3}}\n";
/// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
/// let providers = &configuration.providers;
/// assert_eq!(providers.default.as_ref().expect("it is set").as_str(), "local");
/// assert_eq!(providers.named["local"].models["smart"].as_str(), "qwen3");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(default))]
pub struct Providers {
    /// The provider of stages that name none.
    pub default: Option<Located<String>>,
    /// The providers by their names.
    #[cfg_attr(feature = "schema", schemars(flatten))]
    pub named: Names<Provider>,
}

impl Decode for Providers {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<Providers> {
        let mut providers = Providers::default();
        for (key, value) in diagnostics.entries(tree, "a map of providers")? {
            if key.text == "default" {
                providers.default = Decode::decode(value, diagnostics).flatten();
            } else if let Some(provider) = Provider::decode(value, diagnostics) {
                providers
                    .named
                    .insert(key.text.clone(), Located::new(provider, key.span));
            }
        }
        Some(providers)
    }
}

words! {
    /// What a provider speaks.
    ///
    /// ```
    /// use orchestra_config::ProviderKind;
    /// assert_eq!(ProviderKind::from_name("ollama"), Some(ProviderKind::Ollama));
    /// assert_eq!(ProviderKind::OpenRouter.api_key_env(), Some("OPENROUTER_API_KEY"));
    /// ```
    pub enum ProviderKind {
        /// Anthropic's Messages API.
        Anthropic = "anthropic",
        /// OpenAI's own API.
        OpenAi = "openai",
        /// Google's Gemini API.
        Gemini = "gemini",
        /// OpenRouter.
        OpenRouter = "openrouter",
        /// An Ollama server, on this machine if nothing else is said.
        Ollama = "ollama",
        /// Any server that speaks as OpenAI does; `api_base` says which.
        OpenAiCompatible = "openai-compatible",
    }
}

impl ProviderKind {
    /// Returns the environment variable that holds the API key if the configuration names none. Returns `None` if there
    /// is no such default.
    pub const fn api_key_env(self) -> Option<&'static str> {
        match self {
            ProviderKind::Anthropic => Some("ANTHROPIC_API_KEY"),
            ProviderKind::OpenAi => Some("OPENAI_API_KEY"),
            ProviderKind::Gemini => Some("GEMINI_API_KEY"),
            ProviderKind::OpenRouter => Some("OPENROUTER_API_KEY"),
            ProviderKind::Ollama | ProviderKind::OpenAiCompatible => None,
        }
    }
}

section! {
    /// A provider of models.
    ///
    /// ```
    /// use orchestra_config::Provider;
    /// let provider = Provider { models: [("smart".to_owned(), "gpt-5.2".to_owned().into())].into(), ..Provider::default() };
    /// assert_eq!(provider.models["smart"].as_str(), "gpt-5.2");
    /// ```
    pub struct Provider {
        /// What it speaks; by default what its name says.
        pub kind: Option<Located<ProviderKind>>,
        /// The address of its API, where it is not the usual one.
        pub api_base: Option<Located<String>>,
        /// The environment variable that holds the key.
        pub api_key_env: Option<Located<String>>,
        /// The file that holds the key, and nothing else.
        pub api_key_file: Option<Located<String>>,
        /// Names for its models, such as `smart`, `worker` and `cheap`; a list names models for the case that those before
        /// them do not answer.
        pub models: Names<ModelChain>,
        /// The model of stages that name none: one of `models`, or a model itself. By default `smart`.
        pub default_model: Option<Located<String>>,
        /// The most tokens of one answer.
        pub max_tokens: Option<Located<u64>>,
        /// How long a whole call may take.
        pub timeout: Option<Located<Timespan>>,
        /// How long nothing may come while an answer is awaited.
        pub idle_timeout: Option<Located<Timespan>>,
        /// Further headers of each request.
        pub headers: Names<String>,
        /// What models cost, by the models themselves.
        pub prices: Names<Price>,
    }
}

section! {
    /// What a model costs, in US dollars for a million tokens.
    ///
    /// ```
    /// use orchestra_config::Price;
    /// let price = Price { input: Some(3.0.into()), output: Some(15.0.into()), ..Price::default() };
    /// assert!(price.cached_input.is_none());
    /// ```
    pub struct Price {
        /// Tokens that are sent.
        pub input: Option<Located<f64>>,
        /// Tokens that are answered.
        pub output: Option<Located<f64>>,
        /// Tokens that are sent and were in the provider's cache.
        pub cached_input: Option<Located<f64>>,
        /// Tokens that are sent and put into the provider's cache.
        pub cache_write: Option<Located<f64>>,
    }
}

words! {
    /// Whether a person talks with the model during a stage.
    ///
    /// ```
    /// assert_eq!(orchestra_config::Mode::from_name("interactive"), Some(orchestra_config::Mode::Interactive));
    /// ```
    pub enum Mode {
        /// Nobody does.
        Autonomous = "autonomous",
        /// A person does.
        Interactive = "interactive",
    }
}

words! {
    /// How long a model may think (Attractor 8.4).
    ///
    /// ```
    /// assert_eq!(orchestra_config::ReasoningEffort::WORDS, ["low", "medium", "high"]);
    /// ```
    pub enum ReasoningEffort {
        /// As little as may be.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// As long as it takes.
        High = "high",
    }
}

section! {
    /// An agent: the layers of its prompt, its model and its tools.
    ///
    /// ```
    /// use orchestra_config::Agent;
    /// let agent = Agent { role: Some("reviewer".to_owned().into()), ..Agent::default() };
    /// assert!(agent.tools.is_none(), "it has the tools of its backend");
    /// ```
    pub struct Agent {
        /// The role layer of its prompt.
        pub role: Option<Located<String>>,
        /// The persona layer.
        pub persona: Option<Located<String>>,
        /// The personality layer.
        pub personality: Option<Located<String>>,
        /// The task template.
        pub task: Option<Located<String>>,
        /// The provider of its model.
        pub provider: Option<Located<String>>,
        /// Its model: one of the provider's `models`, or a model itself.
        pub model: Option<Located<String>>,
        /// How long its model may think.
        pub reasoning_effort: Option<Located<ReasoningEffort>>,
        /// The most tokens of one answer.
        pub max_tokens: Option<Located<u64>>,
        /// How freely the model chooses its words.
        pub temperature: Option<Located<f64>>,
        /// The backend that runs it.
        pub backend: Option<Located<String>>,
        /// Whether a person talks with it.
        pub mode: Option<Located<Mode>>,
        /// Tools besides those of the backend; an empty list means no tools at all.
        pub tools: Option<Vec<Located<String>>>,
        /// The tools that replace those of the backend.
        pub only_tools: Option<Vec<Located<String>>>,
        /// How often its model may be asked in one stage.
        pub max_turns: Option<Located<u64>>,
    }
}

words! {
    /// The type of a tool's parameter.
    ///
    /// ```
    /// assert_eq!(orchestra_config::ParameterType::Integer.word(), "integer");
    /// ```
    pub enum ParameterType {
        /// Text.
        String = "string",
        /// A whole number.
        Integer = "integer",
        /// A number.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
    }
}

section! {
    /// A parameter of a tool. The command gets it as an environment variable, `ORCHESTRA_ARG_` and the name in capitals,
    /// with `_` for `-`; never as a part of its text.
    ///
    /// ```
    /// use orchestra_config::{Parameter, ParameterType};
    /// let parameter = Parameter { r#type: Some(ParameterType::Integer.into()), ..Parameter::default() };
    /// assert!(parameter.required.is_none(), "it may be left out");
    /// ```
    pub struct Parameter {
        /// Its type; text where nothing is said.
        pub r#type: Option<Located<ParameterType>>,
        /// The description that the model receives.
        pub description: Option<Located<String>>,
        /// Whether the model must give it.
        pub required: Option<Located<bool>>,
    }
}

section! {
    /// A command that a model may call as a tool.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"tools:\n  run-tests: {command: cargo test, timeout: 10m, read_only: true}\n";
    /// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
    /// let timeout = configuration.tools["run-tests"].timeout.as_ref().expect("it is set");
    /// assert_eq!(timeout.as_secs(), 600);
    /// ```
    pub struct CommandTool {
        /// The shell command.
        pub command: Option<Located<String>>,
        /// What it does and when to use it, for the model.
        pub description: Option<Located<String>>,
        /// How long it may take.
        pub timeout: Option<Located<Timespan>>,
        /// What the model may give it.
        pub parameters: Names<Parameter>,
        /// Whether it changes nothing, so that it may run beside others.
        pub read_only: Option<Located<bool>>,
    }
}

section! {
    /// The repositories of a project, and their tools.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"workspace:\n  repos: {backend: {path: ../backend}}\n  tools: {backend: {lint: {command: make lint}}}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(!report.has_errors());
    /// assert!(configuration.tool_names().iter().any(|name| name == "backend:lint"));
    /// ```
    pub struct Workspace {
        /// The repositories, by the names under which tools know them.
        pub repos: Names<Repository>,
        /// The tools of each repository.
        pub tools: Names<Names<CommandTool>>,
    }
}

section! {
    /// A repository of the workspace.
    ///
    /// ```
    /// use orchestra_config::Repository;
    /// let repository = Repository { path: Some("../backend".to_owned().into()), ..Repository::default() };
    /// assert_eq!(repository.path.expect("it is set").as_str(), "../backend");
    /// ```
    pub struct Repository {
        /// Where it is, relative to this file.
        pub path: Option<Located<String>>,
        /// What the names of the branches of runs begin with.
        pub branch_prefix: Option<Located<String>>,
    }
}

section! {
    /// What differs for one pipeline.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"pipelines:\n  review: {provider: openai, inputs: [pr_diff]}\n";
    /// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
    /// assert_eq!(configuration.pipelines["review"].inputs[0].as_str(), "pr_diff");
    /// ```
    pub struct PipelineSettings {
        /// The backend of its model stages.
        pub backend: Option<Located<String>>,
        /// Their provider.
        pub provider: Option<Located<String>>,
        /// Their model.
        pub model: Option<Located<String>>,
        /// How long their models may think.
        pub reasoning_effort: Option<Located<ReasoningEffort>>,
        /// The most tokens of one answer.
        pub max_tokens: Option<Located<u64>>,
        /// Whether a person talks with the models.
        pub mode: Option<Located<Mode>>,
        /// How often a model may be asked in one stage.
        pub max_turns: Option<Located<u64>>,
        /// Context keys that a run is started with; task templates may use them.
        pub inputs: Vec<Located<String>>,
    }
}
