//! Completion inside conditions.

use orchestra_config::{ENGINE_KEYS, variable_description};
use orchestra_graph::condition::{Comparison, ConditionCursor};
use orchestra_graph::{ConditionNames, NodeIndex, ValueType, graph_choices, kind};

use crate::candidate::{Candidate, Candidates, Completing, labels};
use crate::protocol::CompletionItemKind;

/// The namespaces of the records of stages.
const STAGE_NAMESPACES: &[&str] = &["visits.", "stages."];
/// The number of keys from which those of stages are offered only below their namespace.
const MANY_KEYS: usize = 200;
/// The operators of comparisons.
const OPERATORS: &[(&str, &str)] = &[
    ("=", "is equal"),
    ("!=", "is not equal"),
    ("<", "is less, as a number"),
    ("<=", "is at most, as a number"),
    (">", "is greater, as a number"),
    (">=", "is at least, as a number"),
    ("contains", "contains a text or an item"),
    ("matches", "matches a regular expression"),
];

/// The connectives of clauses.
const CONNECTIVES: &[(&str, &str)] = &[("&&", "and"), ("||", "or")];

/// Returns the candidates inside the condition of an edge, or of a goal gate.
pub(crate) fn condition(
    completing: &Completing<'_>,
    node: Option<NodeIndex>,
    before: &str,
    quoted: bool,
    of_gate: bool,
) -> Candidates {
    let mut names = completing.names(node);
    // Only outcomes and the context are kept until a goal gate is checked.
    names.keys.retain(|(key, _)| !of_gate || key != "preferred_label");
    if !quoted {
        // A comparison needs quotes.
        let keys = keys(completing, &names, before).into_iter().map(|candidate| {
            let comparison = format!("\"{}=$1\"", candidate.label);
            candidate.snippet(comparison)
        });
        return completing.whole(keys.collect());
    }
    match ConditionCursor::at_end(before) {
        // The position is inside of an operator.
        ConditionCursor::Key { word: "" } if completing.after().starts_with('=') => {
            completing.whole(Vec::new())
        }
        ConditionCursor::Key { word } => completing.part(keys(completing, &names, word), word),
        ConditionCursor::Operator { word, .. } => completing.part(operators(), word),
        ConditionCursor::Literal {
            key,
            comparison,
            word,
            quote,
        } => {
            let list = literals(completing, &names, node, key, comparison);
            completing.part(
                list.into_iter()
                    .map(|candidate| in_quotes(candidate, quote))
                    .collect(),
                word,
            )
        }
        ConditionCursor::Connective => completing.part(connectives(), ""),
        _ => completing.whole(Vec::new()),
    }
}

/// Returns the candidates inside a condition of a manager loop, which reads its child and the context.
pub(crate) fn manager_condition(completing: &Completing<'_>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return completing.whole(Vec::new());
    }
    match ConditionCursor::at_end(before) {
        ConditionCursor::Key { word } => {
            let names = completing.names(None);
            let mut list = engine_keys(completing, "stack.child.");
            let context = names
                .keys
                .into_iter()
                .filter(|(key, _)| key.starts_with("context."));
            list.extend(context.map(|(key, doc)| {
                Candidate::new(key, CompletionItemKind::VARIABLE, "context value").doc(doc)
            }));
            completing.part(list, word)
        }
        ConditionCursor::Operator { word, .. } => completing.part(operators(), word),
        ConditionCursor::Literal {
            key,
            comparison,
            word,
            quote,
        } => {
            let names = completing.names(None);
            let list = literals(completing, &names, None, key, comparison).into_iter();
            completing.part(list.map(|candidate| in_quotes(candidate, quote)).collect(), word)
        }
        ConditionCursor::Connective => completing.part(connectives(), ""),
        _ => completing.whole(Vec::new()),
    }
}

fn operators() -> Vec<Candidate> {
    let operators = OPERATORS.iter();
    operators
        .map(|(sign, doc)| Candidate::new(*sign, CompletionItemKind::OPERATOR, *doc))
        .collect()
}

fn connectives() -> Vec<Candidate> {
    let connectives = CONNECTIVES.iter();
    connectives
        .map(|(sign, doc)| {
            Candidate::new(*sign, CompletionItemKind::OPERATOR, *doc).insert(format!("{sign} "))
        })
        .collect()
}

/// Returns the keys that a condition may read. The records of many stages are offered only below their namespace.
fn keys(completing: &Completing<'_>, names: &ConditionNames, word: &str) -> Vec<Candidate> {
    let mut list = Vec::new();
    let namespace = STAGE_NAMESPACES
        .iter()
        .find(|namespace| word.starts_with(**namespace));
    let are_many = names.keys.len() > MANY_KEYS;
    if are_many && namespace.is_none() {
        let namespaces = STAGE_NAMESPACES.iter();
        list.extend(namespaces.map(|namespace| {
            Candidate::new(*namespace, CompletionItemKind::MODULE, "records of stages").rank(2)
        }));
    }
    for (key, doc) in &names.keys {
        let of_stages = STAGE_NAMESPACES
            .iter()
            .find(|namespace| key.starts_with(**namespace));
        if are_many && of_stages.is_some() && of_stages != namespace {
            continue;
        }
        let (detail, rank) = if key.starts_with("context.") {
            ("context value", 1)
        } else if of_stages.is_some() {
            ("record of a stage", 2)
        } else {
            ("condition variable", 0)
        };
        list.push(
            Candidate::new(key, CompletionItemKind::VARIABLE, detail)
                .doc(doc)
                .rank(rank),
        );
    }
    list.extend(engine_keys(completing, ""));
    list
}

/// Returns the keys that the engine sets, and the attributes of the graph. Those of kinds of nodes that the pipeline does
/// not have come last.
fn engine_keys(completing: &Completing<'_>, prefix: &str) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let mut list = Vec::new();
    let has = |of: &str| {
        loaded
            .graph
            .indexed_nodes()
            .any(|(at, _)| analysis.kind(at) == of)
    };
    let mut add = |key: String, detail: &str, doc: &str, rank: u8| {
        if key.starts_with(prefix) {
            list.push(
                Candidate::new(key, CompletionItemKind::VARIABLE, detail)
                    .doc(doc)
                    .rank(rank),
            );
        }
    };
    for key in ENGINE_KEYS {
        let of = match key.split('.').next().unwrap_or_default() {
            "human" => kind::WAIT_HUMAN,
            "parallel" => kind::PARALLEL,
            "stack" => kind::MANAGER_LOOP,
            "workspace" => kind::FAN_IN,
            _ => kind::TOOL,
        };
        let (detail, rank) = match has(of) {
            true => (format!("set by a {}", kind::title(of)), 3),
            false => (
                format!("set by a {}, which this pipeline has not", kind::title(of)),
                8,
            ),
        };
        add(
            (*key).to_owned(),
            &detail,
            variable_description(key).unwrap_or_default(),
            rank,
        );
    }
    for id in branches(completing) {
        let key = format!("parallel.branch.{id}.status");
        let doc = format!("The status of the branch `{id}` of the parallel block that ended last.");
        add(key, "status of a branch", &doc, 3);
    }
    for attribute in loaded.graph.attributes.iter() {
        let name = attribute.key.name();
        let doc = format!("The attribute `{name}` of the graph.");
        add(format!("graph.{name}"), "attribute of the graph", &doc, 4);
    }
    list
}

/// Returns the ids of the branches of all fan-outs.
fn branches(completing: &Completing<'_>) -> Vec<String> {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let mut ids: Vec<String> = Vec::new();
    for (at, _) in loaded.graph.indexed_nodes() {
        if analysis.kind(at) != kind::PARALLEL {
            continue;
        }
        for edge in analysis.outgoing(at) {
            let id = &loaded.graph.node(loaded.graph.edge(*edge).to).id;
            if !ids.iter().any(|known| **known == **id) {
                ids.push(id.to_string());
            }
        }
    }
    ids
}

/// Returns a candidate as a literal of a condition: in quotes unless it is a single word.
pub(crate) fn in_quotes(candidate: Candidate, quote: Option<char>) -> Candidate {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let text = &candidate.label;
    if quote.is_some() || text.chars().all(is_word) && !text.is_empty() {
        return candidate;
    }
    let mark = if text.contains('\'') { '"' } else { '\'' };
    let insert = format!("{mark}{text}{mark}");
    candidate.insert(insert)
}

/// Returns the values with which a key may be compared.
fn literals(
    completing: &Completing<'_>,
    names: &ConditionNames,
    node: Option<NodeIndex>,
    key: &str,
    comparison: Option<Comparison>,
) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let values = |values: &[&str], detail: &str| -> Vec<Candidate> {
        values
            .iter()
            .map(|value| Candidate::new(*value, CompletionItemKind::ENUM_MEMBER, detail))
            .collect()
    };
    if comparison.is_none() {
        return Vec::new();
    }
    if key == "outcome" {
        return outcomes(names);
    }
    if let Some(id) = key
        .strip_prefix("stages.")
        .and_then(|rest| rest.strip_suffix(".outcome"))
    {
        return loaded
            .graph
            .find(id)
            .map_or_else(Vec::new, |stage| outcomes(&completing.names(Some(stage))));
    }
    let plain = key.strip_prefix("context.").unwrap_or(key);
    if plain.starts_with("parallel.branch.") && plain.ends_with(".status") {
        return values(
            &["success", "partial_success", "fail", "cancelled"],
            "status of a branch",
        );
    }
    match plain {
        "current_node" | "last_stage" => completing.nodes().map(|(_, candidate)| candidate).collect(),
        "preferred_label" => match node {
            Some(node) if loaded.analysis().kind(node) == kind::WAIT_HUMAN => labels(completing, node),
            Some(node) => edge_labels(completing, node),
            None => Vec::new(),
        },
        "human.gate.label" => gates(completing)
            .into_iter()
            .flat_map(|gate| labels(completing, gate))
            .collect(),
        "human.gate.selected" => gates(completing)
            .into_iter()
            .flat_map(|gate| choice_keys(completing, gate))
            .collect(),
        "human.gate.answered_by" => values(&["person", "default", "automatic", "prepared"], "who answered"),
        "parallel.fan_in.best_id" => branches(completing)
            .into_iter()
            .map(|id| Candidate::new(id, CompletionItemKind::CLASS, "branch"))
            .collect(),
        "parallel.fan_in.best_outcome" => outcomes(names),
        "stack.child.status" => values(
            &["running", "completed", "failed", "cancelled"],
            "state of the child",
        ),
        "stack.child.outcome" => values(&["success", "fail"], "outcome of the child"),
        "tool.exit_code" => values(&["0", "1"], "exit code"),
        plain => match names.types.get(plain) {
            Some(ValueType::Words(words)) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                values(&words, "one of the declared words")
            }
            Some(ValueType::Boolean) => values(&["true", "false"], "declared as `bool`"),
            _ => Vec::new(),
        },
    }
}

pub(crate) fn outcomes(names: &ConditionNames) -> Vec<Candidate> {
    let words = names.outcomes.iter().enumerate();
    words
        .map(|(at, word)| {
            let (detail, rank) = if at < names.likely {
                ("possible outcome", 0)
            } else {
                ("outcome", 2)
            };
            Candidate::new(word, CompletionItemKind::ENUM_MEMBER, detail).rank(rank)
        })
        .collect()
}

/// Returns the keys of the choices of a human gate.
fn choice_keys(completing: &Completing<'_>, gate: NodeIndex) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let choices = graph_choices(&loaded.analysis(), gate).into_iter();
    let keys = choices.map(|choice| {
        let detail = format!("{} at {}", choice.label, loaded.graph.node(gate).id);
        Candidate::new(choice.key, CompletionItemKind::ENUM_MEMBER, detail)
    });
    keys.collect()
}

fn gates(completing: &Completing<'_>) -> Vec<NodeIndex> {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let nodes = loaded.graph.indexed_nodes().map(|(at, _)| at);
    nodes
        .filter(|at| analysis.kind(*at) == kind::WAIT_HUMAN)
        .collect()
}

/// Returns the labels of the edges of a node.
fn edge_labels(completing: &Completing<'_>, node: NodeIndex) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let edges = analysis
        .outgoing(node)
        .iter()
        .map(|edge| loaded.graph.edge(*edge));
    let labels = edges.filter_map(|edge| edge.attributes.filled(orchestra_graph::Known::Label));
    labels
        .map(|label| {
            let plain = orchestra_graph::label_text(label);
            Candidate::new(plain, CompletionItemKind::ENUM_MEMBER, "label")
        })
        .collect()
}
