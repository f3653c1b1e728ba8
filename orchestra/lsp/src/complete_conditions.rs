//! Completion inside conditions and assertions.

use orchestra_config::ENGINE_KEYS;
use orchestra_graph::condition::{Comparison, ConditionCursor};
use orchestra_graph::{ASSERTION_FORMS, AssertionCursor, ConditionNames, NodeIndex, ValueType, kind};

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

/// Returns the candidates inside the condition of an edge or a goal gate.
pub(crate) fn condition(
    completing: &Completing<'_>,
    node: Option<NodeIndex>,
    before: &str,
    quoted: bool,
) -> Candidates {
    let names = completing.names(node);
    if !quoted {
        // A comparison needs quotes.
        let keys = keys(&names, before).into_iter().map(|candidate| {
            let comparison = format!("\"{}=$1\"", candidate.label);
            candidate.snippet(comparison)
        });
        return completing.whole(keys.collect());
    }
    match ConditionCursor::at_end(before) {
        ConditionCursor::Key { word } => completing.part(keys(&names, word), word),
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
            let of_child = ENGINE_KEYS.iter().filter(|key| key.starts_with("stack.child."));
            let mut list: Vec<Candidate> = of_child
                .map(|key| Candidate::new(*key, CompletionItemKind::VARIABLE, "of the child"))
                .collect();
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
        ConditionCursor::Connective => completing.part(connectives(), ""),
        _ => completing.whole(Vec::new()),
    }
}

/// Returns the form of an assertion as a snippet: its words in capitals are placeholders.
fn form_snippet(form: &str) -> String {
    let mut snippet = String::new();
    let mut placeholders = 0;
    let mut rest = form;
    while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let (before, tail) = rest.split_at(start);
        let length = tail.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(tail.len());
        let (word, after) = tail.split_at(length);
        placeholders += 1;
        snippet.push_str(&format!("{before}${{{placeholders}:{word}}}"));
        rest = after;
    }
    snippet + rest
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
fn keys(names: &ConditionNames, word: &str) -> Vec<Candidate> {
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
    // The other namespaces belong to kinds of nodes that not every pipeline has.
    for key in ENGINE_KEYS {
        list.push(Candidate::new(*key, CompletionItemKind::VARIABLE, "set by the engine").rank(3));
    }
    list
}

/// Returns a candidate as a literal of a condition: in quotes unless it is a single word.
fn in_quotes(candidate: Candidate, quote: Option<char>) -> Candidate {
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
    match key.strip_prefix("context.").unwrap_or(key) {
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

fn outcomes(names: &ConditionNames) -> Vec<Candidate> {
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

/// Returns the candidates inside an assertion.
pub(crate) fn assertions(completing: &Completing<'_>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return completing.whole(Vec::new());
    }
    let loaded = &completing.opened.analysis.loaded;
    match AssertionCursor::at_end(before) {
        AssertionCursor::Name { word } => {
            let forms = ASSERTION_FORMS.iter().enumerate().map(|(at, (form, doc))| {
                let rank = u8::try_from(at).unwrap_or(u8::MAX).min(9);
                Candidate::new(*form, CompletionItemKind::FUNCTION, "assertion")
                    .doc(*doc)
                    .snippet(form_snippet(form))
                    .rank(rank)
            });
            completing.part(forms.collect(), word)
        }
        AssertionCursor::Node { word } => {
            completing.part(completing.nodes().map(|(_, candidate)| candidate).collect(), word)
        }
        AssertionCursor::StageResult { stage, word, quote } => {
            let list = match loaded.graph.find(stage) {
                Some(node) if loaded.analysis().kind(node) == kind::WAIT_HUMAN => labels(completing, node),
                Some(node) => outcomes(&completing.names(Some(node))),
                None => Vec::new(),
            };
            completing.part(
                list.into_iter()
                    .map(|candidate| in_quotes(candidate, quote))
                    .collect(),
                word,
            )
        }
        AssertionCursor::Since { word } => {
            let since = Candidate::new(
                "since=",
                CompletionItemKind::KEYWORD,
                "the node whose start makes the end stale",
            );
            completing.part(vec![since], word)
        }
        AssertionCursor::Counted { word } => {
            let counted = ["attempts", "visits"].map(|counted| {
                let insert = format!("{counted}) <= ");
                Candidate::new(counted, CompletionItemKind::KEYWORD, "of all nodes together").insert(insert)
            });
            completing.part(counted.into(), word)
        }
        _ => completing.whole(Vec::new()),
    }
}
