//! Converts the configuration to the settings of this crate's types.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_config::{
    Backend, CommandTool as ToolSettings, Configuration, Located, OutputFormat, ParameterType, Provider,
    ProviderKind,
};
use serde_json::{Map, Value, json};

use crate::cli_backend::{CliOutput, CliPointers, CliSettings};
use crate::model::{ModelError, ModelErrorKind};
use crate::prices::{PriceTable, Rates};
use crate::providers::{KeySource, ProviderSettings};
use crate::tool::ToolRegistry;
use crate::tools::{CommandTool, InRepository, built_in};

/// Returns the providers of a configuration, and the default settings of those that it does not configure.
pub(crate) fn providers(
    configuration: &Configuration,
    folder: &Path,
) -> Result<Vec<ProviderSettings>, ModelError> {
    let named = &configuration.providers.named;
    let mut all = Vec::new();
    for (name, provider) in named {
        all.push(provider_settings(name, &provider.value, folder)?);
    }
    for kind in ProviderKind::ALL {
        if kind.api_base().is_some() && !named.contains_key(kind.word()) {
            all.push(ProviderSettings::new(kind.word(), kind));
        }
    }
    Ok(all)
}

fn provider_settings(name: &str, provider: &Provider, folder: &Path) -> Result<ProviderSettings, ModelError> {
    let kind = match &provider.kind {
        Some(kind) => kind.value,
        None => ProviderKind::from_name(name).ok_or_else(|| {
            let message = format!("the `kind` of the provider `{name}` is not given, and its name says none");
            ModelError::new(ModelErrorKind::Configuration, message)
        })?,
    };
    let mut settings = ProviderSettings::new(name, kind);
    settings.api_base = provider.api_base.as_ref().map(|base| base.value.clone());
    if let Some(variable) = &provider.api_key_env {
        settings.key = KeySource::Environment(variable.value.clone());
    }
    if let Some(file) = &provider.api_key_file {
        settings.key = KeySource::File(folder.join(&file.value));
    }
    let most = provider.max_tokens.as_ref().map(|most| most.value);
    settings.max_output_tokens = most.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
    if let Some(timeout) = &provider.timeout {
        settings.timeout = timeout.value.0;
    }
    if let Some(timeout) = &provider.idle_timeout {
        settings.idle_timeout = timeout.value.0;
    }
    let headers = provider.headers.iter();
    settings.headers = headers
        .map(|(name, value)| (name.clone(), value.value.clone()))
        .collect();
    Ok(settings)
}

/// Returns the default prices, overridden by those of a configuration.
pub(crate) fn prices(configuration: &Configuration) -> PriceTable {
    let mut table = PriceTable::default();
    let providers = configuration.providers.named.values();
    for (model, price) in providers.flat_map(|provider| &provider.value.prices) {
        let dollars = |value: &Option<Located<f64>>| value.as_ref().map(|value| value.value);
        let price = &price.value;
        let (input, output) = (dollars(&price.input), dollars(&price.output));
        let known = table.price(model).map(|known| known.rates).unwrap_or_default();
        let of_million = |micros: u64| micros as f64 / 1_000_000.0;
        let input = input.unwrap_or_else(|| of_million(known.input));
        let rates = Rates::from_dollars(input, output.unwrap_or_else(|| of_million(known.output)));
        // A configured input price also applies to cached input, unless the configuration sets a price for that.
        let cached = |known: u64| match price.input {
            Some(_) => input,
            None => of_million(known),
        };
        let read = dollars(&price.cached_input).unwrap_or_else(|| cached(known.cached_input));
        let write = dollars(&price.cache_write).unwrap_or_else(|| cached(known.cache_write));
        table.set(model.clone(), rates.cache(read, write));
    }
    table
}

/// Returns the program of a backend, or `None` if it has no command.
pub(crate) fn program(backend: &Backend) -> Option<CliSettings> {
    let text = |value: &Option<Located<String>>| value.as_ref().map(|value| value.value.clone());
    let mut settings = limits(backend, CliSettings::new(backend.command.as_ref()?.shell()?));
    if backend
        .output
        .as_ref()
        .is_some_and(|output| output.value == OutputFormat::Json)
    {
        settings = settings.output(CliOutput::Json(CliPointers {
            result: text(&backend.result_pointer).unwrap_or(CliPointers::default().result),
            input_tokens: text(&backend.input_tokens_pointer),
            output_tokens: text(&backend.output_tokens_pointer),
            cost: text(&backend.cost_pointer),
            is_error: Some("/is_error".to_owned()),
        }));
    }
    Some(settings)
}

/// Adds the input, the time limit and the environment of a backend to the settings of its program.
pub(crate) fn limits(backend: &Backend, mut settings: CliSettings) -> CliSettings {
    if let Some(input) = &backend.input {
        settings = settings.input(input.value);
    }
    if let Some(timeout) = &backend.timeout {
        settings = settings.timeout(timeout.value.0);
    }
    let names = backend.environment.iter().map(|name| name.value.clone());
    settings.inherit_env(names)
}

/// Adds the tools of a configuration to a registry: its command tools and, for each repository, the built-in tools and
/// the repository's command tools.
pub(crate) fn project_tools(
    configuration: &Configuration,
    folder: &Path,
    registry: &mut ToolRegistry,
) -> Result<(), ModelError> {
    for (name, tool) in &configuration.tools {
        registry.add(Arc::new(command_tool(name, &tool.value)?));
    }
    for repository in configuration.workspace.repos.keys() {
        let Some(folder) = repository_folder(configuration, folder, repository) else {
            continue;
        };
        for tool in built_in() {
            registry.add(Arc::new(InRepository {
                tool,
                repository: repository.clone(),
                folder: folder.clone(),
            }));
        }
    }
    for (repository, tools) in &configuration.workspace.tools {
        for (name, tool) in &tools.value {
            let tool = command_tool(name, &tool.value)?.repository(repository);
            let tool = match repository_folder(configuration, folder, repository) {
                Some(folder) => tool.directory(folder),
                None => tool,
            };
            registry.add(Arc::new(tool));
        }
    }
    Ok(())
}

/// Returns the folder of a configured repository. A relative path is resolved against `folder`, which contains the
/// configuration file.
pub(crate) fn repository_folder(configuration: &Configuration, folder: &Path, name: &str) -> Option<PathBuf> {
    let repository = configuration.workspace.repos.get(name)?;
    Some(folder.join(&repository.value.path.as_ref()?.value))
}

fn command_tool(name: &str, settings: &ToolSettings) -> Result<CommandTool, ModelError> {
    let text = |value: &Option<Located<String>>| value.as_ref().map(|value| value.value.clone());
    let command = text(&settings.command).unwrap_or_default();
    let description = text(&settings.description).unwrap_or_else(|| format!("Runs `{command}`."));
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, parameter) in &settings.parameters {
        let parameter = &parameter.value;
        let ty = parameter
            .r#type
            .as_ref()
            .map_or(ParameterType::String, |ty| ty.value);
        let mut schema = json!({ "type": ty.to_string() });
        if let Some(description) = &parameter.description {
            schema["description"] = Value::from(description.value.clone());
        }
        properties.insert(name.clone(), schema);
        if parameter.required.as_ref().is_some_and(|required| required.value) {
            required.push(name.clone());
        }
    }
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let tool = CommandTool::new(name, description, command)
        .parameters(schema)
        .map_err(|error| ModelError::new(ModelErrorKind::Configuration, error.to_string()))?;
    let tool = tool.read_only(settings.read_only.as_ref().is_some_and(|yes| yes.value));
    Ok(match &settings.timeout {
        Some(timeout) => tool.timeout(timeout.value.0),
        None => tool,
    })
}
