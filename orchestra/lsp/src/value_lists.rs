//! The values of attributes: names of nodes, agents, models, layers and files, and the fixed values.

use std::path::Path;

use orchestra_config::{LayerKind, ResolveOptions};
use orchestra_graph::{Known, MissingValues, NodeIndex, kind, relative_path};

use crate::analysis::PIPELINES;
use crate::candidate::{Candidate, Completing, declared_keys, kind_candidate, labels};
use crate::complete_fit::{left_without_effect, value_fits};
use crate::markdown::{agent, kind_doc};
use crate::paths::{absolute, file_name, folder};
use crate::protocol::CompletionItemKind;
use crate::template_scope::not_set;

/// The maximum number of files that are offered.
const MAX_FILES: usize = 500;
/// The rank of values that may be missing, or that leave something without effect.
pub(crate) const MAYBE: u8 = 7;
/// The endings of prompt files.
const PROMPTS: &[&str] = &["md", "txt", "markdown", "prompt", "j2", "jinja"];

/// Returns the values of an attribute that its placeholder offers: its fixed values, or the answers of a gate.
pub(crate) fn likely_values(
    completing: &Completing<'_>,
    known: Known,
    node: Option<NodeIndex>,
) -> Vec<String> {
    if known == Known::DefaultChoice {
        let labels = node.map_or_else(Vec::new, |node| labels(completing, node));
        return labels.into_iter().map(|candidate| candidate.label).collect();
    }
    let values = known.fixed_values().into_iter();
    let values: Vec<&str> = values
        .filter(|value| value_fits(completing, known, node, value))
        .collect();
    let keeps = |value: &&&str| left_without_effect(completing, known, node, value).is_none();
    let kept: Vec<&str> = values.iter().filter(keeps).copied().collect();
    let values = if kept.is_empty() { values } else { kept };
    values.into_iter().map(str::to_owned).collect()
}

/// Returns the context values that are set whenever a node starts.
pub(crate) fn set_values(completing: &Completing<'_>, node: Option<NodeIndex>) -> Vec<String> {
    let keys = keys_at(completing, node)
        .into_iter()
        .filter(|key| key.rank < MAYBE);
    keys.map(|key| key.label).collect()
}

/// Returns the declared context values as candidates for a value that a node reads when it starts. Those that may be
/// missing then come last, because the checks refuse them.
pub(crate) fn keys_at(completing: &Completing<'_>, node: Option<NodeIndex>) -> Vec<Candidate> {
    let mut list = declared_keys(completing, node);
    let analysis = completing.opened.analysis.loaded.analysis();
    if let Some((missing, node)) = MissingValues::new(&analysis).zip(node) {
        for candidate in &mut list {
            let mut declared = missing.contract().keys();
            if declared.any(|(key, _)| key == candidate.label)
                && missing.may_be_missing(node, &candidate.label)
            {
                candidate.detail = not_set();
                candidate.rank = MAYBE;
            }
        }
    }
    list
}

/// Returns the values of an attribute. Those that would leave another attribute of the node without effect come last.
pub(crate) fn plain_values(
    completing: &Completing<'_>,
    known: Known,
    node: Option<NodeIndex>,
) -> Vec<Candidate> {
    let mut list = all_values(completing, known, node);
    for candidate in &mut list {
        if let Some(lost) = left_without_effect(completing, known, node, &candidate.label) {
            candidate.detail = format!("leaves `{lost}` without effect");
            candidate.rank = MAYBE;
        }
    }
    list
}

fn all_values(completing: &Completing<'_>, known: Known, node: Option<NodeIndex>) -> Vec<Candidate> {
    let configured = &completing.opened.analysis.configured;
    let configuration = &configured.project.configuration;
    let named = |names: Vec<&str>, detail: &str| -> Vec<Candidate> {
        let names = names.into_iter();
        names
            .map(|name| Candidate::new(name, CompletionItemKind::VALUE, detail))
            .collect()
    };
    match known {
        Known::RetryTarget | Known::FallbackRetryTarget => {
            let own = completing.nodes().filter(|(at, _)| Some(*at) != node);
            own.map(|(_, candidate)| candidate).collect()
        }
        Known::Shape => kind::shapes()
            .filter(|(shape, _)| value_fits(completing, known, node, shape))
            .map(|(shape, of)| {
                Candidate::new(shape, CompletionItemKind::ENUM_MEMBER, kind::title(of)).doc(kind_doc(of))
            })
            .collect(),
        Known::Type => {
            let mut list = types(completing);
            list.retain(|candidate| value_fits(completing, known, node, &candidate.label));
            list
        }
        Known::Agent => agents(completing),
        Known::LlmModel => models(completing),
        Known::LlmProvider => named(configuration.provider_names(), "provider"),
        Known::Backend => named(configuration.backend_names(), "backend"),
        Known::AgentRole => layers(completing, LayerKind::Role),
        Known::AgentPersona => layers(completing, LayerKind::Persona),
        Known::AgentPersonality => layers(completing, LayerKind::Personality),
        Known::AgentTask => layers(completing, LayerKind::Task),
        Known::Repo => {
            let repositories = configuration.workspace.repos.keys();
            named(repositories.map(String::as_str).collect(), "repository")
        }
        Known::ChildDotfile | Known::SubpipelineFile => files(completing, PIPELINES),
        Known::PromptFile => prompt_files(completing),
        Known::OutputSchema | Known::OutputSchemaFile => files(completing, &["json"]),
        Known::DefaultChoice => node.map_or_else(Vec::new, |node| labels(completing, node)),
        Known::ThreadId | Known::DefaultThreadId | Known::Class => used(completing, known),
        _ => {
            let default = known.spec().default.map(|default| default.to_string());
            let values = known.fixed_values().into_iter();
            values
                .map(|value| {
                    let detail = if default.as_deref() == Some(value) {
                        "the default"
                    } else {
                        ""
                    };
                    let doc = known.word_description(value).unwrap_or_default();
                    Candidate::new(value, CompletionItemKind::ENUM_MEMBER, detail).doc(doc)
                })
                .collect()
        }
    }
}

/// Returns the kinds of handlers: the built-in ones, and those of the nodes of the pipeline.
fn types(completing: &Completing<'_>) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = kind::BUILT_IN.iter().map(|of| kind_candidate(of)).collect();
    list.extend(
        used(completing, Known::Type)
            .into_iter()
            .filter(|candidate| !kind::BUILT_IN.contains(&candidate.label.as_str())),
    );
    list
}

/// Returns the values that an attribute has elsewhere in the pipeline.
fn used(completing: &Completing<'_>, known: Known) -> Vec<Candidate> {
    let graph = &completing.opened.analysis.loaded.graph;
    let typed = completing.cursor.word;
    let mut list: Vec<Candidate> = Vec::new();
    for node in &graph.nodes {
        let Some(attribute) = node.attributes.get(known) else {
            continue;
        };
        let is_typed = attribute.value_span.start <= typed.start && typed.end <= attribute.value_span.end;
        for value in attribute.value.to_string().split(',').map(str::trim) {
            let is_new = !list.iter().any(|candidate| candidate.label == value);
            if !is_typed && !value.is_empty() && is_new {
                let detail = format!("also on {}", node.id);
                list.push(Candidate::new(value, CompletionItemKind::VALUE, detail));
            }
        }
    }
    list
}

fn agents(completing: &Completing<'_>) -> Vec<Candidate> {
    let configured = &completing.opened.analysis.configured;
    let configuration = &configured.project.configuration;
    let of_project = configuration
        .agents
        .iter()
        .map(|(name, found)| (name, &found.value, "agent"));
    let of_user = configured
        .user
        .files
        .agents
        .iter()
        .map(|(name, found)| (name, found, "agent of the user"));
    let mut list: Vec<Candidate> = Vec::new();
    for (name, found, detail) in of_project.chain(of_user) {
        if !list.iter().any(|candidate| candidate.label == *name) {
            let candidate = Candidate::new(name, CompletionItemKind::MODULE, detail);
            list.push(candidate.doc(agent(name, found, configuration)));
        }
    }
    list
}

/// Returns the models that the configuration names, by their aliases and by their own names.
fn models(completing: &Completing<'_>) -> Vec<Candidate> {
    model_names(&completing.opened.analysis.configured.project.configuration)
}

/// Returns the models that a configuration names, by their aliases and by their own names.
pub(crate) fn model_names(configuration: &orchestra_config::Configuration) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    let mut add =
        |name: &str, detail: String, rank: u8| match list.iter_mut().find(|known| known.label == name) {
            Some(known) => known.detail = format!("{}; {detail}", known.detail),
            None => list.push(Candidate::new(name, CompletionItemKind::VALUE, detail).rank(rank)),
        };
    for (name, provider) in &configuration.providers.named {
        for (alias, model) in &provider.value.models {
            add(alias, format!("{} of {name}", model.model), 1);
        }
        for chain in provider.value.models.values() {
            add(&chain.model, format!("model of {name}"), 2);
        }
        for model in provider.value.prices.keys() {
            add(model, format!("priced at {name}"), 2);
        }
    }
    list
}

/// Returns the names of all tools.
pub(crate) fn tools(completing: &Completing<'_>) -> Vec<String> {
    completing
        .opened
        .analysis
        .configured
        .project
        .configuration
        .tool_names()
}

/// Returns the prompt layers of a kind: those of the folders of the project, and the built-in ones.
fn layers(completing: &Completing<'_>, of: LayerKind) -> Vec<Candidate> {
    let analysis = &completing.opened.analysis;
    let options = ResolveOptions {
        user_folder: analysis.configured.user.prompts.clone(),
        ..ResolveOptions::default()
    };
    let folders = analysis
        .configured
        .project
        .prompt_folders(analysis.loaded.source.name(), &options);
    layer_names(completing.files, &analysis.root, &folders, of)
}

/// Returns the prompt layers of a kind in some folders, and the built-in ones.
pub(crate) fn layer_names(
    files: &crate::files::Files<'_>,
    root: &str,
    folders: &[String],
    of: LayerKind,
) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    for prompts in folders {
        let own = format!("{}/{}", absolute(root, prompts), of.folder());
        for path in files.host.list(&own, &["yaml"], MAX_FILES) {
            let name = file_name(&path).trim_end_matches(".yaml").to_owned();
            if folder(&path) == own && !list.iter().any(|known| known.label == name) {
                list.push(Candidate::new(
                    name,
                    CompletionItemKind::FILE,
                    format!("{prompts}/{}", of.folder()),
                ));
            }
        }
    }
    for name in of.built_in() {
        if !list.iter().any(|known| known.label == name) {
            list.push(Candidate::new(name, CompletionItemKind::FILE, "ships with Orchestra").rank(2));
        }
    }
    list
}

/// Returns the files of the workspace with some endings, relative to the folder of the pipeline.
fn files(completing: &Completing<'_>, endings: &[&str]) -> Vec<Candidate> {
    let opened = completing.opened;
    let own = folder(&opened.path);
    let mut list = Vec::new();
    for path in completing
        .files
        .host
        .list(&opened.analysis.root, endings, MAX_FILES)
    {
        if path != opened.path {
            let name = relative_path(Path::new(&path), Path::new(own));
            let rank = if name.starts_with("..") { 2 } else { 1 };
            list.push(Candidate::new(name, CompletionItemKind::FILE, "").rank(rank));
        }
    }
    list
}

/// Returns the files that may contain a prompt.
pub(crate) fn prompt_files(completing: &Completing<'_>) -> Vec<Candidate> {
    files(completing, PROMPTS)
}

/// Returns the folders of the files of the workspace, relative to the folder of the pipeline.
pub(crate) fn folders(completing: &Completing<'_>) -> Vec<Candidate> {
    let own = folder(&completing.opened.path);
    let root = &completing.opened.analysis.root;
    let endings = ["dot", "gv", "yaml", "md", "txt", "rs", "toml", "json"];
    let mut list: Vec<Candidate> = Vec::new();
    for path in completing.files.host.list(root, &endings, MAX_FILES) {
        let name = relative_path(Path::new(folder(&path)), Path::new(own));
        let is_below = !name.is_empty() && !name.starts_with("..") && name != ".";
        if is_below && !list.iter().any(|known| known.label == name) {
            list.push(Candidate::new(name, CompletionItemKind::FOLDER, ""));
        }
    }
    list
}

/// Returns the values that a tool stage may give to its command.
pub(crate) fn sources(completing: &Completing<'_>, node: Option<NodeIndex>) -> Vec<Candidate> {
    let mut list = keys_at(completing, node);
    for (at, of_node) in completing.nodes() {
        if Some(at) == node {
            continue;
        }
        for (field, doc) in [
            (
                "output",
                "The output of the stage's tool; its response if there is no tool.",
            ),
            (
                "response",
                "The response of the stage; the output of its tool if there is none.",
            ),
        ] {
            let label = format!("stages.{}.{field}", of_node.label);
            list.push(
                Candidate::new(label, CompletionItemKind::VARIABLE, &*of_node.detail)
                    .doc(doc)
                    .rank(2),
            );
        }
    }
    list
}
