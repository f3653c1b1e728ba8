//! Completion of the values of attributes.

use std::collections::BTreeSet;

use orchestra_graph::{
    AttributeFamily, AttributeOwner, DeclarationCursor, Known, NodeIndex, OccurrenceRole, Symbol, ValueType,
    occurrences,
};

use crate::candidate::{Candidate, Candidates, Completing, declared_keys, written};
use crate::complete_assertions::assertions;
use crate::complete_conditions::{condition, manager_condition};
use crate::complete_fit::condition_type_misfit;
use crate::complete_stylesheet::stylesheet;
use crate::complete_templates::template;
use crate::protocol::CompletionItemKind;
use crate::value_lists::{MAYBE, folders, keys_at, plain_values, prompt_files, sources, tools};

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
        Known::Condition => condition(completing, node, before, quoted, false),
        Known::GoalGate if quoted => {
            let is_exit = node.is_some_and(|node| completing.opened.analysis.loaded.analysis().is_exit(node));
            condition(completing, node, before, quoted, !is_exit)
        }
        Known::StopCondition | Known::GuardIntervene | Known::GuardEscalate => {
            manager_condition(completing, before, quoted)
        }
        Known::Assert => assertions(completing, before, quoted),
        // `@FILE` names a file with the prompt.
        Known::Prompt if before.starts_with('@') => {
            let mut list = prompt_files(completing);
            list.iter_mut().for_each(|file| file.label.insert(0, '@'));
            whole(completing, list, quoted)
        }
        Known::Prompt => template(completing, node, before, quoted),
        Known::ModelStylesheet => stylesheet(completing, before, quoted),
        Known::ChildWorkdir => whole(completing, folders(completing), quoted),
        Known::Inputs | Known::Outputs => declarations(completing, before, quoted),
        Known::AgentTools => {
            let tools = tools(completing)
                .into_iter()
                .map(|tool| Candidate::new(tool, CompletionItemKind::FUNCTION, "tool"));
            list(completing, tools.collect(), before, quoted)
        }
        Known::ManagerActions => {
            let actions = known.described_words().iter();
            let actions =
                actions.map(|(name, doc)| Candidate::new(*name, CompletionItemKind::ENUM_MEMBER, *doc));
            list(completing, actions.collect(), before, quoted)
        }
        Known::Foreach => whole(completing, declared_keys(completing, node), quoted),
        Known::RestartKeep => list(completing, declared_keys(completing, node), before, quoted),
        Known::SubpipelineInputs | Known::SubpipelineOutputs => list(
            completing,
            pair_keys(completing, known, node, before),
            before,
            quoted,
        ),
        Known::ConditionType => {
            let mut list = plain_values(completing, known, node);
            for candidate in &mut list {
                if let Some(reason) = condition_type_misfit(completing, owner, &candidate.label) {
                    candidate.detail = reason.to_owned();
                    candidate.rank = MAYBE;
                }
            }
            whole(completing, list, quoted)
        }
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
    let mut own = keys_at(completing, node);
    if known == Known::SubpipelineOutputs {
        // What the pipeline declares elsewhere is refused as an output of this node.
        let outputs = own_outputs(completing, node);
        let is_free = |candidate: &Candidate| {
            outputs.contains(&candidate.label) || !own.iter().any(|key| key.label == candidate.label)
        };
        if !after_equals {
            of_child.retain(is_free);
        }
        own.retain(|candidate| outputs.contains(&candidate.label));
    }
    let (mut first, second) = if is_of_child {
        (of_child, own)
    } else {
        (own, of_child)
    };
    // A key alone keeps its name, so both sides may name it.
    if !after_equals {
        for candidate in second {
            if !first.iter().any(|known| known.label == candidate.label) {
                let rank = candidate.rank.max(2);
                first.push(candidate.rank(rank));
            }
        }
    }
    first
}

/// Returns the keys that a node declares as its outputs.
fn own_outputs(completing: &Completing<'_>, node: Option<NodeIndex>) -> BTreeSet<String> {
    let loaded = &completing.opened.analysis.loaded;
    let attributes = node.map(|node| loaded.graph.node(node).attributes.iter());
    let declared = attributes.into_iter().flatten().filter(|attribute| {
        let name = attribute.key.name();
        name == "outputs" || name.starts_with(AttributeFamily::OUTPUTS.prefix)
    });
    let texts = declared.filter_map(|attribute| attribute.value.as_str());
    texts
        .flat_map(orchestra_graph::declared_keys)
        .map(str::to_owned)
        .collect()
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

/// Returns whether several attributes declare a key, so that its type is that of the others.
fn is_declared_elsewhere(completing: &Completing<'_>, key: &str) -> bool {
    let found = occurrences(&completing.opened.analysis.loaded).into_iter();
    let wanted = Symbol::Key(key.to_owned());
    let declared = found.filter(|found| found.symbol == wanted && found.role == OccurrenceRole::Declaration);
    declared.count() > 1
}

/// Returns the types of a declaration, or the keys that other declarations name.
fn declarations(completing: &Completing<'_>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return completing.whole(Vec::new());
    }
    match DeclarationCursor::at_end(before) {
        DeclarationCursor::Type { key, word } => {
            if before.ends_with('>') {
                return completing.whole(Vec::new());
            }
            let known = completing.names(None).types.get(key).map(ToString::to_string);
            let is_shared = is_declared_elsewhere(completing, key);
            let is_known = |name: &str| {
                known
                    .as_deref()
                    .is_some_and(|known| known.split(['<', '>']).any(|part| part == name))
            };
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
                    match (is_shared, &known) {
                        (true, Some(known)) if !is_known(name) => {
                            let detail = format!("`{key}` is `{known}` elsewhere");
                            Candidate::new(*name, CompletionItemKind::TYPE_PARAMETER, detail).rank(7)
                        }
                        _ => Candidate::new(*name, CompletionItemKind::TYPE_PARAMETER, detail),
                    }
                })
                .collect();
            if let Some(known) = known
                .clone()
                .filter(|known| !ValueType::NAMES.contains(&known.as_str()))
            {
                list.push(Candidate::new(known, CompletionItemKind::TYPE_PARAMETER, "as elsewhere").rank(0));
            }
            let typed = before.rsplit([',', ':']).next().unwrap_or_default();
            let is_item = typed.contains('<');
            if is_item {
                list.retain(|candidate| !candidate.label.contains('<'));
            }
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || !is_item && matches!(c, '<' | '>');
            completing.part_of(list, word, is_part)
        }
        DeclarationCursor::Key { word } => {
            let given: Vec<&str> = before.split([',', ':']).map(str::trim).collect();
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            let rest = completing.after().trim_start_matches(is_part).trim_start();
            let own = rest.strip_prefix(':').and_then(|rest| rest.split(',').next());
            let own = own.map(str::trim);
            let is_typed = own.is_some();
            let types = completing.names(None).types;
            let keys = types
                .into_iter()
                .filter(|(key, _)| !given.contains(&key.as_str()))
                // The type that follows stays.
                .filter(|(_, value_type)| own.is_none_or(|own| own == value_type.to_string()));
            let keys = keys.map(|(key, value_type)| {
                let insert = match is_typed {
                    true => key.clone(),
                    false => format!("{key}: {value_type}"),
                };
                Candidate::new(key, CompletionItemKind::VARIABLE, value_type.to_string()).insert(insert)
            });
            completing.part_of(keys.collect(), word, is_part)
        }
        _ => completing.whole(Vec::new()),
    }
}
