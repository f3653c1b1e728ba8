//! `unset_key`: a condition or a command reads a key that is not declared, but almost (rule T4).

use std::collections::{BTreeSet, HashSet};

use crate::analysis::EdgeCondition;
use crate::attribute::{Known, key_pairs};
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::check::value_reads::value_reads;
use crate::condition::find_key;
use crate::contract::plain_key;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "unset_key",
    severity: Severity::Warning,
    summary: "a condition or a node reads a key that is not declared, but almost",
    source: "rule T4",
    text: include_str!("../../tests/rules/unset_key.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let declarations = input.declarations();
    let entries = declarations
        .iter()
        .flat_map(|written| written.entries.iter().flatten());
    let declared: BTreeSet<&str> = entries
        .clone()
        .filter(|entry| entry.declared.is_some())
        .map(|entry| entry.key.as_str())
        .collect();
    if declared.is_empty() {
        return;
    }
    let mut known: BTreeSet<&str> = entries.map(|entry| entry.key.as_str()).collect();
    for (_, node) in input.nodes_with(&[Known::OutputKeys, Known::SubpipelineOutputs]) {
        known.extend(node.attributes.words(Known::OutputKeys));
        let pairs = node
            .attributes
            .text(Known::SubpipelineOutputs)
            .and_then(key_pairs);
        known.extend(pairs.into_iter().flatten().map(|(own, _)| plain_key(own)));
    }
    // A key that is declared almost like this one. A key that nobody declares may be set all the same.
    let near = |key: &str| match known.contains(key) {
        true => None,
        false => did_you_mean(key, declared.iter().copied()),
    };
    let mut once = Once::default();
    for (at, edge) in input.edges_with(&[Known::Condition]) {
        let EdgeCondition::Parsed(condition) = input.analysis.condition(at) else {
            continue;
        };
        let Some(attribute) = edge.attributes.get(Known::Condition) else {
            continue;
        };
        let unset = condition.keys().into_iter().find_map(|key| {
            let plain = plain_key(key);
            let near = (plain != key).then(|| near(plain))??;
            Some((key, plain, near))
        });
        let text = attribute.value.as_str().unwrap_or_default();
        if let Some((key, plain, near)) = unset
            && let Some(range) = find_key(text, key)
            && once.first(attribute)
        {
            let plain_range = range.end - plain.len()..range.end;
            let span = input.analysis.inside(attribute.value_span, plain_range);
            let found = undeclared(plain, near, span);
            diagnostics.push(found.edge(input.id(edge.from), input.id(edge.to)));
        }
    }
    // An attribute of the graph is read by each tool stage.
    let mut reported = HashSet::new();
    for read in value_reads(input.analysis) {
        if let Some(near) = near(read.key)
            && reported.insert(read.span)
        {
            diagnostics.push(undeclared(read.key, near, read.span).node(input.id(read.node)));
        }
    }
}

fn undeclared(key: &str, near: &str, span: Span) -> Diagnostic {
    Diagnostic::from_rule(&RULE, format!("nothing declares `{key}`"), span)
        .label("empty, unless a stage sets it all the same")
        .help(format!("did you mean `{near}`?"))
        .fix(span, near)
}
