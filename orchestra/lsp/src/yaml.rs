//! The names in YAML files: configurations, prompt layers, and the scripts of simulations.

use orchestra_config::{YamlWord, yaml_words};
use orchestra_graph::{OccurrenceRole, Span, Symbol, label_text, normalize_label};

use crate::place::Word;

/// Returns the names in a configuration.
pub(crate) fn configuration_words(bytes: &[u8]) -> Vec<Word> {
    let words = yaml_words(bytes);
    words
        .iter()
        .filter_map(|word| located(word, configured(word)?))
        .collect()
}

/// Returns the names in the file of a role, persona or personality. A persona extends a role if there is no persona of
/// that name.
pub(crate) fn layer_words(name: &str, bytes: &[u8], has_persona: &dyn Fn(&str) -> bool) -> Vec<Word> {
    let words = yaml_words(bytes);
    let layer = |word: &YamlWord| {
        let path: Vec<&str> = word.path.iter().map(String::as_str).collect();
        let text = word.text.clone();
        let role = match path.as_slice() {
            [_, "name"] if text == name => OccurrenceRole::Declaration,
            [_, "extends"] => OccurrenceRole::Reference,
            _ => return None,
        };
        let symbol = match *path.first()? {
            "role" => Symbol::Role(text),
            "persona" if role == OccurrenceRole::Reference && !has_persona(&text) => Symbol::Role(text),
            "persona" => Symbol::Persona(text),
            "personality" => Symbol::Personality(text),
            _ => return None,
        };
        Some((symbol, role))
    };
    let values = words.iter().filter(|word| !word.is_key);
    values.filter_map(|word| located(word, layer(word)?)).collect()
}

/// Returns the nodes and outcomes in a script. A word of its lists may be an outcome, or an answer at a gate that names a
/// node.
pub(crate) fn script_words(bytes: &[u8]) -> Vec<Word> {
    let mut found = Vec::new();
    for word in yaml_words(bytes) {
        let last = word.path.last().map_or("", String::as_str);
        let is_short = !word.is_key && word.path.len() <= 2 && last != "outcome";
        let is_in = |key: &str| !word.is_key && word.path.iter().any(|part| part == key);
        let is_node = word.is_key && word.path.len() == 1
            || is_in("suggested_next_ids")
            || !word.is_key && last == "preferred_label";
        let mut add = |symbol| found.extend(located(&word, (symbol, OccurrenceRole::Reference)));
        if is_node || is_short {
            add(Symbol::Node(word.text.clone()));
        }
        if is_short || !word.is_key && last == "outcome" {
            add(Symbol::Outcome(word.text.clone()));
        }
    }
    found
}

/// Returns the answers in a script that are a label, without its accelerator key: at some gates, or at all nodes as the
/// label that a stage prefers. A word that is a key of the gate is no label.
pub(crate) fn script_labels(
    bytes: &[u8],
    label: &Symbol,
    keys_of: &dyn Fn(&str) -> Option<Vec<String>>,
) -> Vec<Word> {
    let Symbol::Label { node, label: wanted } = label else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for word in yaml_words(bytes) {
        let Some(own) = word.path.first().filter(|_| !word.is_key) else {
            continue;
        };
        let last = word.path.last().map_or("", String::as_str);
        let keys = keys_of(own);
        let is_key = keys
            .iter()
            .flatten()
            .any(|key| key.to_lowercase() == word.text.trim().to_lowercase());
        let is_answer = keys.is_some() && word.path.len() <= 2 && !is_key && last != "outcome";
        let is_of_node = node.as_ref().is_none_or(|node| node == own);
        let is_same = normalize_label(&word.text) == normalize_label(wanted);
        if !is_of_node || !is_same || !(is_answer || last == "preferred_label") {
            continue;
        }
        let text = label_text(&word.text);
        if let Some(at) = word.text.find(text)
            && word.span.len() as usize == word.text.len()
        {
            let start = word.span.start + at as u32;
            let span = Span::new(start, start + text.len() as u32);
            found.push((label.clone(), span, OccurrenceRole::Reference));
        }
    }
    found
}

/// Returns a name as it is written in YAML in place of another one, which may be quoted.
pub(crate) fn yaml_name(text: &str, place: Span, name: &str) -> String {
    let before = text.get(..place.start as usize).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_quoted = ['"', '\'']
        .iter()
        .any(|quote| line.matches(*quote).count() % 2 == 1);
    let is_other = |word: &str| {
        let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
        let is_special = |c: char| ":#,[]{}&*!|>%@`".contains(c);
        words.contains(&word.to_lowercase().as_str())
            || word.parse::<f64>().is_ok()
            || word.contains(is_special)
            || word.starts_with(['-', '?', '='])
    };
    if is_other(name) && !is_quoted {
        return format!("\"{name}\"");
    }
    name.to_owned()
}

fn located(
    word: &YamlWord,
    (symbol, role): (Symbol, OccurrenceRole),
) -> Option<(Symbol, Span, OccurrenceRole)> {
    (!word.span.is_empty()).then_some((symbol, word.span, role))
}

fn configured(word: &YamlWord) -> Option<(Symbol, OccurrenceRole)> {
    let path: Vec<&str> = word.path.iter().map(String::as_str).collect();
    let text = word.text.clone();
    let declared = |symbol| Some((symbol, OccurrenceRole::Declaration));
    let used = |symbol| Some((symbol, OccurrenceRole::Reference));
    if word.is_key {
        return match path.as_slice() {
            ["agents", _] => declared(Symbol::Agent(text)),
            ["tools", _] | ["workspace", "tools", _, _] => declared(Symbol::Tool(text)),
            ["workspace", "repos", _] => declared(Symbol::Repository(text)),
            ["workspace", "tools", _] => used(Symbol::Repository(text)),
            ["backends", _] => declared(Symbol::Backend(text)),
            ["providers", "default"] => None,
            ["providers", _] => declared(Symbol::Provider(text)),
            ["providers", _, "models", _] => declared(Symbol::Model(text)),
            _ => None,
        };
    }
    match path.as_slice() {
        ["agents", _, "role"] => used(Symbol::Role(text)),
        ["agents", _, "persona"] => used(Symbol::Persona(text)),
        ["agents", _, "personality"] => used(Symbol::Personality(text)),
        ["agents", _, "task"] => used(Symbol::Task(text)),
        ["agents", _, "tools" | "only_tools", _] => used(Symbol::Tool(text)),
        ["backend"] | ["agents" | "pipelines", _, "backend"] => used(Symbol::Backend(text)),
        ["agents" | "pipelines", _, "model"] | ["providers", _, "default_model"] => used(Symbol::Model(text)),
        ["providers", "default"] | ["agents" | "pipelines", _, "provider"] => used(Symbol::Provider(text)),
        _ => None,
    }
}
