//! Completion of the values of attributes.

use std::path::Path;

use orchestra_config::{LayerKind, ResolveOptions};
use orchestra_graph::{
    AttributeFamily, AttributeOwner, DeclarationCursor, Known, NodeIndex, ValueType, kind, relative_path,
};

use crate::analysis::PIPELINES;
use crate::candidate::{Candidate, Candidates, Completing, declared_keys, kind_candidate, labels, written};
use crate::complete_conditions::{assertions, condition, manager_condition};
use crate::complete_templates::template;
use crate::markdown::{agent, kind_doc};
use crate::paths::{absolute, file_name, folder};
use crate::protocol::CompletionItemKind;

/// The maximum number of files that are offered.
const MAX_FILES: usize = 500;
/// The actions of a manager loop.
const MANAGER_ACTIONS: &[(&str, &str)] = &[
    ("observe", "reads the state of the child"),
    (
        "steer",
        "sends an instruction to the child if `manager.guard.intervene` holds",
    ),
    ("wait", "waits for `manager.poll_interval`"),
];

/// Returns the candidates for the value of an attribute.
pub(crate) fn values(
    completing: &Completing<'_>,
    owner: &AttributeOwner,
    key: &str,
    before: &str,
    quoted: bool,
) -> Candidates {
    let node = node_of(completing, owner);
    let Some(known) = Known::find(key) else {
        return family_values(completing, node, key, before, quoted);
    };
    match known {
        Known::Condition => condition(completing, node, before, quoted),
        Known::GoalGate if quoted => condition(completing, node, before, quoted),
        Known::StopCondition | Known::GuardIntervene | Known::GuardEscalate => {
            manager_condition(completing, before, quoted)
        }
        Known::Assert => assertions(completing, before, quoted),
        Known::Prompt => template(completing, node, before, quoted),
        Known::Inputs | Known::Outputs => declarations(completing, before, quoted),
        Known::AgentTools => {
            let tools = tools(completing)
                .into_iter()
                .map(|tool| Candidate::new(tool, CompletionItemKind::FUNCTION, "tool"));
            list(completing, tools.collect(), before, quoted)
        }
        Known::ManagerActions => {
            let actions = MANAGER_ACTIONS.iter();
            let actions =
                actions.map(|(name, doc)| Candidate::new(*name, CompletionItemKind::ENUM_MEMBER, *doc));
            list(completing, actions.collect(), before, quoted)
        }
        Known::RestartKeep => list(completing, declared_keys(completing, node), before, quoted),
        Known::SubpipelineInputs | Known::SubpipelineOutputs => list(
            completing,
            pair_keys(completing, known, node, before),
            before,
            quoted,
        ),
        Known::ToolStdin => whole(completing, sources(completing, node), quoted),
        _ => whole(completing, plain_values(completing, known, node), quoted),
    }
}

/// Returns the node that owns the attribute, or from which its edge leads.
fn node_of(completing: &Completing<'_>, owner: &AttributeOwner) -> Option<NodeIndex> {
    let graph = &completing.opened.analysis.loaded.graph;
    match owner {
        AttributeOwner::Node(id) => graph.find(&id.text),
        // The condition of a chain belongs to each of its edges.
        AttributeOwner::Edge(nodes) => graph.find(&nodes.first()?.text),
        _ => None,
    }
}

/// Returns the candidates for a whole value. A value that is no name is put in quotes.
fn whole(completing: &Completing<'_>, mut list: Vec<Candidate>, quoted: bool) -> Candidates {
    for candidate in &mut list {
        let text = candidate.insert.take().unwrap_or_else(|| candidate.label.clone());
        candidate.insert = Some(written(&text, quoted));
    }
    completing.whole(list)
}

/// Returns the candidates for the item of a list that is being typed.
fn list(completing: &Completing<'_>, list: Vec<Candidate>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return whole(completing, list, quoted);
    }
    let item = before.rsplit([',', '=']).next().unwrap_or_default().trim_start();
    let given: Vec<&str> = before.split(',').map(str::trim).collect();
    let given = given.split_last().map_or(&[][..], |(_, given)| given);
    let is_new = |candidate: &Candidate| !given.contains(&candidate.label.as_str());
    completing.part(list.into_iter().filter(is_new).collect(), item)
}

fn plain_values(completing: &Completing<'_>, known: Known, node: Option<NodeIndex>) -> Vec<Candidate> {
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
            .map(|(shape, of)| {
                Candidate::new(shape, CompletionItemKind::ENUM_MEMBER, kind::title(of)).doc(kind_doc(of))
            })
            .collect(),
        Known::Type => types(completing),
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
        Known::PromptFile => files(completing, &["md", "txt"]),
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
                    Candidate::new(value, CompletionItemKind::ENUM_MEMBER, detail)
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

pub(crate) fn agents(completing: &Completing<'_>) -> Vec<Candidate> {
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
            add(alias, format!("{} of {name}", model.value), 1);
        }
        for model in provider.value.models.values() {
            add(&model.value, format!("model of {name}"), 2);
        }
        for model in provider.value.prices.keys() {
            add(model, format!("priced at {name}"), 2);
        }
    }
    list
}

/// Returns the names of all tools.
fn tools(completing: &Completing<'_>) -> Vec<String> {
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

/// Returns the values that a tool stage may give to its command.
fn sources(completing: &Completing<'_>, node: Option<NodeIndex>) -> Vec<Candidate> {
    let mut list = declared_keys(completing, node);
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

/// Returns the keys of the pairs that a sub-pipeline receives and returns.
fn pair_keys(
    completing: &Completing<'_>,
    known: Known,
    node: Option<NodeIndex>,
    before: &str,
) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let mut of_child = Vec::new();
    let child = loaded
        .children
        .iter()
        .find(|child| node.is_some_and(|node| child.nodes.contains(&node)));
    if let Some(child) = child {
        let names = child.loaded.condition_names(NodeIndex(u32::MAX));
        for (key, doc) in names.keys {
            if let Some(key) = key.strip_prefix("context.") {
                of_child
                    .push(Candidate::new(key, CompletionItemKind::VARIABLE, "of the sub-pipeline").doc(doc));
            }
        }
    }
    let after_equals = before.rsplit(',').next().is_some_and(|pair| pair.contains('='));
    let is_of_child = (known == Known::SubpipelineInputs) != after_equals;
    let own = declared_keys(completing, None);
    let (mut first, second) = if is_of_child {
        (of_child, own)
    } else {
        (own, of_child)
    };
    // A key alone keeps its name, so both sides may name it.
    if !after_equals {
        for candidate in second {
            if !first.iter().any(|known| known.label == candidate.label) {
                first.push(candidate.rank(2));
            }
        }
    }
    first
}

/// Returns the candidates for the value of a member of an attribute family.
fn family_values(
    completing: &Completing<'_>,
    node: Option<NodeIndex>,
    key: &str,
    before: &str,
    quoted: bool,
) -> Candidates {
    match AttributeFamily::find(key) {
        Some((family, _)) if *family == *AttributeFamily::OUTPUTS => declarations(completing, before, quoted),
        Some((family, _)) if *family == *AttributeFamily::TOOL_ENV_FROM => {
            whole(completing, sources(completing, node), quoted)
        }
        _ => completing.whole(Vec::new()),
    }
}

/// Returns the types of a declaration, or the keys that other declarations name.
fn declarations(completing: &Completing<'_>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return completing.whole(Vec::new());
    }
    match DeclarationCursor::at_end(before) {
        DeclarationCursor::Type { key, word } => {
            let known = completing.names(None).types.get(key).map(ToString::to_string);
            let mut list: Vec<Candidate> = ValueType::NAMES
                .iter()
                .map(|name| {
                    let detail = match *name {
                        "any" => "any value except null",
                        "text" => "a string",
                        "int" => "a whole number",
                        "number" => "any number",
                        "bool" => "`true` or `false`",
                        "list" => "a list; `list<T>` gives the type of its items",
                        _ => "a JSON object",
                    };
                    Candidate::new(*name, CompletionItemKind::TYPE_PARAMETER, detail)
                })
                .collect();
            if let Some(known) = known.filter(|known| !ValueType::NAMES.contains(&known.as_str())) {
                list.push(Candidate::new(known, CompletionItemKind::TYPE_PARAMETER, "as elsewhere").rank(0));
            }
            completing.part(list, word)
        }
        DeclarationCursor::Key { word } => {
            let given: Vec<&str> = before.split([',', ':']).map(str::trim).collect();
            let types = completing.names(None).types;
            let keys = types
                .into_iter()
                .filter(|(key, _)| !given.contains(&key.as_str()));
            let keys = keys.map(|(key, value_type)| {
                let insert = format!("{key}: {value_type}");
                Candidate::new(key, CompletionItemKind::VARIABLE, value_type.to_string()).insert(insert)
            });
            completing.part(keys.collect(), word)
        }
        _ => completing.whole(Vec::new()),
    }
}
