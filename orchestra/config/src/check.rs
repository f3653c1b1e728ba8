//! What a configuration says must fit together; what no pipeline is needed for is checked when the file is read.

use std::collections::BTreeMap;

use orchestra_graph::{Diagnostic, GIT_VARIABLES, Report, Span};

use crate::decode::{Codes, Decode, Faults, suggestion};
use crate::located::Located;
use crate::names::{BUILT_IN_TOOLS, place, tool_name};
use crate::settings::{Backend, BackendKind, CommandTool, Configuration, ProviderKind};
use crate::tree;
use crate::workspace;

/// The codes of faults of `orchestra.yaml`.
pub(crate) const CODES: Codes = Codes {
    syntax: "config_syntax",
    unknown_key: "config_unknown_key",
    duplicate_key: "config_duplicate_key",
    value: "config_value",
};

/// The most faults that are told of one file.
const MAX_FAULTS: usize = 100;

impl Configuration {
    /// Reads `orchestra.yaml`: what was understood of it, and everything that is wrong with it.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// use orchestra_graph::render;
    /// let text = b"backend: drect\nagents:\n  critic: {personna: strict, model: smart}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(configuration.agents["critic"].model.is_some());
    /// let told = render::concise(&report);
    /// assert!(told.contains("orchestra.yaml:1:10: error[unknown_backend]: unknown backend `drect`"), "{told}");
    /// assert!(told.contains("orchestra.yaml:3:12: error[config_unknown_key]: unknown key `personna`"), "{told}");
    /// ```
    pub fn parse(name: &str, bytes: &[u8]) -> (Configuration, Report) {
        let (source, tree) = tree::read(name, bytes, CODES.syntax);
        let mut faults = Faults::new(source.clone(), CODES);
        let configuration = match tree {
            Ok(tree) => Configuration::decode(&tree, &mut faults).unwrap_or_default(),
            Err(fault) => {
                faults.list.push(fault);
                Configuration::default()
            }
        };
        check(&configuration, &mut faults);
        let mut report = Report::new(source, faults.list);
        let more = report.diagnostics.len().saturating_sub(MAX_FAULTS);
        report.diagnostics.truncate(MAX_FAULTS);
        if let Some(last) = report.diagnostics.last_mut().filter(|_| more > 0) {
            last.notes.push(format!("{more} more faults follow"));
        }
        (configuration, report)
    }
}

fn check(configuration: &Configuration, faults: &mut Faults) {
    providers(configuration, faults);
    backends(configuration, faults);
    for (name, tool) in &configuration.tools {
        tool_is_sound(name, tool, faults);
    }
    workspace::check(&configuration.workspace, faults);
    variables(&configuration.environment, faults);
    for folder in &configuration.prompts.folders {
        if folder.trim().is_empty() || folder.contains('\0') {
            faults.value(
                "this is no folder",
                folder.span,
                "write a path relative to this file",
            );
        }
    }
    for agent in configuration.agents.values() {
        backend_exists(configuration, agent.backend.as_ref(), faults);
        provider_exists(configuration, agent.provider.as_ref(), faults);
    }
    for pipeline in configuration.pipelines.values() {
        backend_exists(configuration, pipeline.backend.as_ref(), faults);
        provider_exists(configuration, pipeline.provider.as_ref(), faults);
    }
}

/// The fault of a name that no backend has.
pub(crate) fn unknown_backend(configuration: &Configuration, name: &str, span: Span) -> Diagnostic {
    let fault = Diagnostic::error("unknown_backend", format!("unknown backend `{name}`"), span);
    let fault = fault.help(suggestion(name, &configuration.backend_names()));
    match name {
        "cli" => fault.note("a backend of the kind `cli` needs a `command`, so it must stand in `backends`"),
        _ => fault,
    }
}

/// The fault of a name that no provider has.
pub(crate) fn unknown_provider(configuration: &Configuration, name: &str, span: Span) -> Diagnostic {
    let fault = Diagnostic::error("unknown_provider", format!("unknown provider `{name}`"), span);
    fault.help(suggestion(name, &configuration.provider_names()))
}

fn backend_exists(configuration: &Configuration, name: Option<&Located<String>>, faults: &mut Faults) {
    if let Some(name) = name.filter(|name| {
        // One that is defined without a kind was told of already.
        configuration.backend_kind(name).is_none() && !configuration.backends.contains_key(name.as_str())
    }) {
        faults.list.push(unknown_backend(configuration, name, name.span));
    }
}

fn provider_exists(configuration: &Configuration, name: Option<&Located<String>>, faults: &mut Faults) {
    if let Some(name) = name.filter(|name| {
        configuration.provider_kind(name).is_none()
            && !configuration.providers.named.contains_key(name.as_str())
    }) {
        faults.list.push(unknown_provider(configuration, name, name.span));
    }
}

fn providers(configuration: &Configuration, faults: &mut Faults) {
    provider_exists(configuration, configuration.providers.default.as_ref(), faults);
    for (name, provider) in &configuration.providers.named {
        match configuration.provider_kind(name) {
            None => faults.list.push(
                Diagnostic::error(
                    "unknown_provider",
                    format!("nothing says what the provider `{name}` speaks"),
                    provider.span,
                )
                .help(format!(
                    "add `kind:` ({}), or an `api_base:` that speaks as OpenAI does",
                    ProviderKind::WORDS.join(", ")
                )),
            ),
            Some(ProviderKind::OpenAiCompatible) if provider.api_base.is_none() => faults.value(
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
            faults.value(
                format!("`{}` is no address of an API", base.value),
                base.span,
                "write an address that begins with `https://` or `http://`",
            );
        }
        if let Some(variable) = &provider.api_key_env {
            variable_name(variable, faults);
        }
        if let Some(default) = provider
            .default_model
            .as_ref()
            .filter(|model| model.trim().is_empty())
        {
            faults.value("the default model is empty", default.span, "name a model");
        }
        for (alias, model) in &provider.models {
            if model.trim().is_empty() {
                faults.value(
                    format!("`{alias}` stands for no model"),
                    model.span,
                    "name a model",
                );
            }
        }
    }
}

fn backends(configuration: &Configuration, faults: &mut Faults) {
    backend_exists(configuration, configuration.backend.as_ref(), faults);
    for (name, backend) in &configuration.backends {
        let Some(kind) = configuration.backend_kind(name) else {
            let fault = Diagnostic::error(
                "unknown_backend",
                format!("nothing says what the backend `{name}` is"),
                backend.span,
            );
            let kinds = BackendKind::WORDS.join(", ");
            faults.list.push(fault.help(format!("add `kind:` ({kinds})")));
            continue;
        };
        for (setting, span, of) in settings(backend) {
            if of != kind {
                faults.value(
                    format!("`{setting}` means nothing to a backend of the kind `{kind}`"),
                    span,
                    format!("take it away, or make the kind `{of}`"),
                );
            }
        }
        let command = backend
            .command
            .as_ref()
            .filter(|command| !command.trim().is_empty());
        if kind == BackendKind::Cli && command.is_none() {
            faults.value(
                format!("the backend `{name}` has no command"),
                backend.span,
                "add `command:` with the shell command that starts the program",
            );
        }
        for (pointer, span) in pointers(backend) {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                faults.value(
                    format!("`{pointer}` is no JSON pointer"),
                    span,
                    "a pointer begins with `/`, such as `/result/text`",
                );
            }
        }
        variables(&backend.environment, faults);
    }
}

/// The settings of a backend that only one kind has, with their places.
fn settings(backend: &Backend) -> Vec<(&'static str, Span, BackendKind)> {
    fn at<T>(setting: &Option<Located<T>>) -> Option<Span> {
        setting.as_ref().map(|setting| setting.span)
    }
    use BackendKind::{Agent, Cli};
    let all = [
        ("max_turns", at(&backend.max_turns), Agent),
        ("max_parallel_tools", at(&backend.max_parallel_tools), Agent),
        ("command", at(&backend.command), Cli),
        ("input", at(&backend.input), Cli),
        ("output", at(&backend.output), Cli),
        ("result_pointer", at(&backend.result_pointer), Cli),
        ("input_tokens_pointer", at(&backend.input_tokens_pointer), Cli),
        ("output_tokens_pointer", at(&backend.output_tokens_pointer), Cli),
        ("cost_pointer", at(&backend.cost_pointer), Cli),
        ("timeout", at(&backend.timeout), Cli),
        (
            "environment",
            backend.environment.first().map(|name| name.span),
            Cli,
        ),
    ];
    let given = all.into_iter();
    given
        .filter_map(|(name, span, kind)| span.map(|span| (name, span, kind)))
        .collect()
}

fn pointers(backend: &Backend) -> impl Iterator<Item = (&str, Span)> {
    let all = [
        &backend.result_pointer,
        &backend.input_tokens_pointer,
        &backend.output_tokens_pointer,
        &backend.cost_pointer,
    ];
    all.into_iter()
        .flatten()
        .map(|pointer| (pointer.as_str(), pointer.span))
}

pub(crate) fn tool_is_sound(name: &str, tool: &Located<CommandTool>, faults: &mut Faults) {
    if BUILT_IN_TOOLS.contains(&tool_name(name).as_str()) {
        faults.value(
            format!("the tool `{name}` has the name of a built-in one"),
            tool.span,
            "give it another name",
        );
    }
    let fits = !name.is_empty() && name.len() <= 48;
    if !fits
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    {
        faults.value(
            format!("`{name}` is no name of a tool"),
            tool.span,
            "use letters, digits and `-`, at most 48",
        );
    }
    if tool
        .command
        .as_ref()
        .is_none_or(|command| command.trim().is_empty())
    {
        faults.value(
            format!("the tool `{name}` has no command"),
            tool.span,
            "add `command:` with the shell command to run",
        );
    }
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for parameter in tool.parameters.keys() {
        let span = place(&tool.parameters, parameter);
        let sign = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !parameter.starts_with(|c: char| c.is_ascii_alphabetic()) || !parameter.chars().all(sign) {
            faults.value(
                format!("`{parameter}` is no name of a parameter"),
                span,
                "use letters, digits, `_` and `-`, and begin with a letter",
            );
        }
        // Both would be one variable of the command.
        let variable = parameter.to_ascii_uppercase().replace('-', "_");
        match taken.get(&variable) {
            Some(other) => faults.value(
                format!("the parameters `{other}` and `{parameter}` are both `ORCHESTRA_ARG_{variable}`"),
                span,
                "rename one of them",
            ),
            None => drop(taken.insert(variable, parameter)),
        }
    }
}

fn variables(names: &[Located<String>], faults: &mut Faults) {
    for name in names {
        variable_name(name, faults);
        if GIT_VARIABLES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            faults.value(
                format!(
                    "`{}` leads git to another repository than that in which a command works",
                    name.value
                ),
                name.span,
                "take it away",
            );
        }
    }
}

fn variable_name(name: &Located<String>, faults: &mut Faults) {
    let head = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !head
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        faults.value(
            format!("`{}` is no name of an environment variable", name.value),
            name.span,
            "use letters, digits and `_`, and begin with a letter or `_`",
        );
    }
}

/// Whether a word can name a layer or a repository: it is one part of a path, and cannot lead out of a folder.
pub(crate) fn is_name(name: &str) -> bool {
    let head = name.chars().next().is_some_and(char::is_alphanumeric);
    head && name.len() <= 128
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn no_name_leads_out_of_a_folder() {
        let long = "a".repeat(129);
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "../a",
            "a/../b",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "C:\\a",
            "a\0",
            "a b",
            "a\n",
            "-a",
            "a:b",
            "%2e%2e",
            "\u{202e}a",
            "a\u{200b}b",
            &long,
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        for name in ["a", "review-pr", "v1.2_b", "prüfer", "0"] {
            assert!(is_name(name), "{name:?}");
        }
    }
}
