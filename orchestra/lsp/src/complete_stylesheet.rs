//! Completion inside the model stylesheet: selectors, properties and values.

use orchestra_graph::{Known, StylesheetCursor, kind};

use crate::candidate::{Candidate, Candidates, Completing};
use crate::markdown::{attribute, values};
use crate::protocol::CompletionItemKind;
use crate::value_lists::plain_values;

/// The properties of rules.
const PROPERTIES: &[Known] = &[Known::LlmModel, Known::LlmProvider, Known::ReasoningEffort];

/// Returns the candidates inside a stylesheet.
pub(crate) fn stylesheet(completing: &Completing<'_>, before: &str, quoted: bool) -> Candidates {
    if !quoted {
        return completing.whole(Vec::new());
    }
    match StylesheetCursor::at_end(before) {
        StylesheetCursor::Selector { word } => completing.part_of(selectors(completing), word, is_selector),
        StylesheetCursor::Property { set, word } => {
            let list = PROPERTIES.iter().copied().filter(|known| !set.contains(known));
            let list = list.map(|known| {
                let spec = known.spec();
                let candidate = Candidate::new(spec.name, CompletionItemKind::PROPERTY, values(spec));
                let candidate = candidate.doc(attribute(spec));
                let values = plain_values(completing, known, None);
                let value = values.first().map_or("VALUE", |value| &*value.label);
                match is_assigned(completing) {
                    true => candidate,
                    false => candidate.snippet(format!("{}: ${{1:{value}}};", spec.name)),
                }
            });
            completing.part(list.collect(), word)
        }
        StylesheetCursor::Value { property, word, .. } => {
            completing.part(plain_values(completing, property, None), word)
        }
        _ => completing.whole(Vec::new()),
    }
}

/// Returns whether a character is part of a selector.
fn is_selector(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '#' | '*')
}

/// Returns whether a value follows the word at the position.
fn is_assigned(completing: &Completing<'_>) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let rest = completing.after().trim_start_matches(is_name).trim_start();
    rest.starts_with([':', '='])
}

fn selectors(completing: &Completing<'_>) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let asks = |kind: &str| Known::LlmModel.is_read_by(kind);
    let mut list = vec![Candidate::new("*", CompletionItemKind::CLASS, "all nodes").rank(0)];
    for (at, candidate) in completing.nodes() {
        if asks(analysis.kind(at)) {
            let label = format!("#{}", candidate.label);
            list.push(Candidate::new(label, CompletionItemKind::CLASS, candidate.detail));
        }
    }
    let classes = loaded.graph.nodes.iter().flat_map(|node| &node.classes);
    for class in classes {
        let label = format!(".{class}");
        if !list.iter().any(|known| known.label == label) {
            list.push(Candidate::new(
                label,
                CompletionItemKind::CLASS,
                "nodes with this class",
            ));
        }
    }
    for (shape, of) in kind::shapes().filter(|(_, of)| asks(of)) {
        list.push(Candidate::new(shape, CompletionItemKind::CLASS, kind::title(of)).rank(2));
    }
    let name = completing.after().trim_start_matches(is_selector);
    if name.trim_start().starts_with('{') {
        return list;
    }
    let models = plain_values(completing, Known::LlmModel, None);
    let model = models.first().map_or("MODEL", |model| &*model.label).to_owned();
    let rule = |candidate: Candidate| {
        let body = format!("{} {{ llm_model: ${{1:{model}}}; }}", candidate.label);
        candidate.snippet(body)
    };
    list.into_iter().map(rule).collect()
}
