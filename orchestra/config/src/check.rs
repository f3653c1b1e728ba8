//! Consistency checks of a configuration. Checks that need no pipeline run when the file is read.

use orchestra_graph::{Diagnostic, Report, Span};

use crate::backend::{BackendKind, Preset};
use crate::backend_check::check_backend;
use crate::command_tool::check_tool;
use crate::decode::{Decode, Diagnostics, FileRules};
use crate::located::Located;
use crate::mcp_servers::check_servers;
use crate::model_chain::ModelChain;
use crate::rules;
use crate::settings::{Configuration, ProviderKind};
use crate::suggestion::{Hint, suggestion};
use crate::tree;
use crate::variable_names::variables;
use crate::{webhook_check, workspace};

/// The rules for the form of `orchestra.yaml`.
pub(crate) const FILE_RULES: FileRules = FileRules {
    syntax: &rules::CONFIG_SYNTAX,
    unknown_key: &rules::CONFIG_UNKNOWN_KEY,
    duplicate_key: &rules::CONFIG_DUPLICATE_KEY,
    value: &rules::CONFIG_VALUE,
};

/// Maximum number of diagnostics reported for one file.
const MAX_DIAGNOSTICS: usize = 100;

impl Configuration {
    /// Parses `orchestra.yaml`. Returns the settings that could be decoded, and a report of all errors.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// use orchestra_graph::render;
    /// let text = b"backend: drect\nagents:\n  critic: {personna: strict, model: smart}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(configuration.agents["critic"].model.is_some());
    /// let text = render::concise(&report);
    /// assert!(text.contains("orchestra.yaml:1:10: error[unknown_backend]: unknown backend `drect`"), "{text}");
    /// assert!(text.contains("orchestra.yaml:3:12: error[config_unknown_key]: unknown key `personna`"), "{text}");
    /// ```
    pub fn parse(name: &str, bytes: &[u8]) -> (Configuration, Report) {
        let (source, tree) = tree::read(name, bytes, FILE_RULES.syntax);
        let mut diagnostics = Diagnostics::new(source.clone(), FILE_RULES);
        let configuration = match tree {
            Ok(tree) => Configuration::decode(&tree, &mut diagnostics).unwrap_or_default(),
            Err(diagnostic) => {
                diagnostics.list.push(diagnostic);
                Configuration::default()
            }
        };
        check(&configuration, &mut diagnostics);
        let mut report = Report::new(source, diagnostics.list);
        let more = report.diagnostics.len().saturating_sub(MAX_DIAGNOSTICS);
        report.diagnostics.truncate(MAX_DIAGNOSTICS);
        if more > 0
            && let Some(last) = report.diagnostics.last_mut()
        {
            last.notes.push(format!("{more} more errors and warnings follow"));
        }
        (configuration, report)
    }
}

fn check(configuration: &Configuration, diagnostics: &mut Diagnostics) {
    providers(configuration, diagnostics);
    backends(configuration, diagnostics);
    for (name, tool) in &configuration.tools {
        check_tool(name, tool, diagnostics);
    }
    workspace::check(&configuration.workspace, diagnostics);
    check_servers(configuration, diagnostics);
    webhook_check::check(&configuration.webhooks, diagnostics);
    variables(&configuration.environment, diagnostics);
    for folder in &configuration.prompts.folders {
        if folder.trim().is_empty() || folder.contains('\0') {
            diagnostics.value(
                "this is not a folder",
                folder.span,
                "write a path relative to this file",
            );
        }
    }
    for agent in configuration.agents.values() {
        backend_exists(configuration, agent.backend.as_ref(), diagnostics);
        provider_exists(configuration, agent.provider.as_ref(), diagnostics);
    }
    for pipeline in configuration.pipelines.values() {
        backend_exists(configuration, pipeline.backend.as_ref(), diagnostics);
        provider_exists(configuration, pipeline.provider.as_ref(), diagnostics);
    }
}

/// Returns the diagnostic for an unknown backend, with a hint.
pub(crate) fn unknown_backend(configuration: &Configuration, name: &str, span: Span) -> (Diagnostic, Hint) {
    let diagnostic =
        Diagnostic::from_rule(&rules::UNKNOWN_BACKEND, format!("unknown backend `{name}`"), span);
    let hint = suggestion(name, &configuration.backend_names());
    match name {
        "cli" => {
            let note = "a backend of the kind `cli` needs a `command`, so it must stand in `backends`";
            (diagnostic.note(note), hint)
        }
        _ => (diagnostic, hint),
    }
}

/// Returns the diagnostic for an unknown provider, with a hint.
pub(crate) fn unknown_provider(configuration: &Configuration, name: &str, span: Span) -> (Diagnostic, Hint) {
    let diagnostic = Diagnostic::from_rule(
        &rules::UNKNOWN_PROVIDER,
        format!("unknown provider `{name}`"),
        span,
    );
    (diagnostic, suggestion(name, &configuration.provider_names()))
}

fn backend_exists(
    configuration: &Configuration,
    name: Option<&Located<String>>,
    diagnostics: &mut Diagnostics,
) {
    if let Some(name) = name.filter(|name| {
        // A backend without a kind has already been reported.
        configuration.backend_kind(name).is_none() && !configuration.backends.contains_key(name.as_str())
    }) {
        let (diagnostic, hint) = unknown_backend(configuration, name, name.span);
        diagnostics.name(diagnostic, name, hint);
    }
}

fn provider_exists(
    configuration: &Configuration,
    name: Option<&Located<String>>,
    diagnostics: &mut Diagnostics,
) {
    if let Some(name) = name.filter(|name| {
        configuration.provider_kind(name).is_none()
            && !configuration.providers.named.contains_key(name.as_str())
    }) {
        let (diagnostic, hint) = unknown_provider(configuration, name, name.span);
        diagnostics.name(diagnostic, name, hint);
    }
}

fn providers(configuration: &Configuration, diagnostics: &mut Diagnostics) {
    provider_exists(
        configuration,
        configuration.providers.default.as_ref(),
        diagnostics,
    );
    for (name, provider) in &configuration.providers.named {
        match configuration.provider_kind(name) {
            None => diagnostics.list.push(
                Diagnostic::from_rule(
                    &rules::UNKNOWN_PROVIDER,
                    format!("the provider `{name}` has no `kind`"),
                    provider.span,
                )
                .help(format!(
                    "add `kind:` ({}), or an `api_base:` that speaks as OpenAI does",
                    ProviderKind::WORDS.join(", ")
                )),
            ),
            Some(ProviderKind::OpenAiCompatible) if provider.api_base.is_none() => diagnostics.value(
                format!("the provider `{name}` has no address"),
                provider.span,
                "add `api_base: https://..`",
            ),
            Some(_) => {}
        }
        if let Some(base) = &provider.api_base
            && !["http://", "https://"]
                .iter()
                .any(|scheme| base.starts_with(scheme))
        {
            diagnostics.value(
                format!("`{}` is not a valid API address", base.value),
                base.span,
                "write an address that begins with `https://` or `http://`",
            );
        }
        if let Some(variable) = &provider.api_key_env {
            diagnostics.variable_name(variable);
        }
        if let Some(default) = provider
            .default_model
            .as_ref()
            .filter(|model| model.trim().is_empty())
        {
            diagnostics.value("the default model is empty", default.span, "name a model");
        }
        for (alias, model) in &provider.models {
            if model.trim().is_empty() {
                diagnostics.value(
                    format!("`{alias}` stands for no model"),
                    model.span,
                    "name a model",
                );
            }
            fallbacks(configuration, alias, model, diagnostics);
        }
    }
}

/// Checks the models that are asked if those before them do not answer.
fn fallbacks(
    configuration: &Configuration,
    alias: &str,
    chain: &Located<ModelChain>,
    diagnostics: &mut Diagnostics,
) {
    let mut known = vec![(None, chain.model.as_str())];
    for fallback in &chain.fallbacks {
        provider_exists(configuration, fallback.provider.as_ref(), diagnostics);
        let model = fallback.model.as_ref().filter(|model| !model.trim().is_empty());
        let Some(model) = model else {
            let message = format!("a fallback of `{alias}` names no model");
            diagnostics.value(message, fallback.span, "add `model: NAME`");
            continue;
        };
        let provider = fallback.provider.as_ref().map(|provider| provider.as_str());
        if known.contains(&(provider, model.as_str())) {
            diagnostics.value(
                format!("`{alias}` lists the model `{}` twice", model.value),
                fallback.span,
                "a model that does not answer is not asked again; take it away",
            );
        }
        known.push((provider, model));
    }
}

fn backends(configuration: &Configuration, diagnostics: &mut Diagnostics) {
    backend_exists(configuration, configuration.backend.as_ref(), diagnostics);
    for (name, backend) in &configuration.backends {
        let Some(kind) = configuration.backend_kind(name) else {
            let diagnostic = Diagnostic::from_rule(
                &rules::UNKNOWN_BACKEND,
                format!("the backend `{name}` has no `kind`"),
                backend.span,
            );
            let (kinds, presets) = (BackendKind::WORDS.join(", "), Preset::WORDS.join(", "));
            let help = format!("add `kind:` ({kinds}), or the `preset:` of a coding agent ({presets})");
            diagnostics.list.push(diagnostic.help(help));
            continue;
        };
        check_backend(name, backend, kind, diagnostics);
        variables(&backend.environment, diagnostics);
    }
}
