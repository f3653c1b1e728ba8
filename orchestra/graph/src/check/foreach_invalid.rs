//! `foreach_invalid`: a fan-out cannot run its branch for each item of a list (rule P7).

use crate::analysis::EdgeCondition;
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::Input;
use crate::contract::{ValueType, plain_key};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::{Node, NodeIndex};
use crate::page::Page;
use crate::severity::Severity;
use crate::table::MAX_ITEMS;
use crate::value_source::ValueSource;

static RULE: Page = Page {
    code: "foreach_invalid",
    severity: Severity::Error,
    summary: "a fan-out cannot run its branch for each item of a list",
    source: "rule P7",
    text: include_str!("../../tests/rules/foreach_invalid.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes_with(&[Known::Foreach, Known::ForeachMax]) {
        if input.kind(at) != kind::PARALLEL {
            continue;
        }
        let found = match node.attributes.get(Known::Foreach) {
            Some(foreach) => list(input, node, foreach)
                .or_else(|| maximum(node, foreach))
                .or_else(|| branch(input, at, node, foreach))
                .or_else(|| join(input, at, node, foreach)),
            None => without_list(node),
        };
        diagnostics.extend(found.map(|found| found.node(&*node.id)));
    }
}

/// Returns the error for a maximum without a list.
fn without_list(node: &Node) -> Option<Diagnostic> {
    let most = node.attributes.get(Known::ForeachMax)?;
    let message = format!("`{}` has a `foreach_max`, but no `foreach`", node.id);
    Some(
        Diagnostic::from_rule(&RULE, message, most.key_span.to(most.value_span))
            .label("the maximum of which list?")
            .help("add `foreach=KEY`, the context key of the list, or remove `foreach_max`"),
    )
}

/// Returns the error for a value that is no key of a list.
fn list(input: &Input<'_>, node: &Node, foreach: &Attribute) -> Option<Diagnostic> {
    let text = foreach.value.as_str().unwrap_or_default();
    let error = |message: String| Diagnostic::from_rule(&RULE, message, foreach.value_span);
    let Some(ValueSource::Context(key)) = ValueSource::parse(text) else {
        return Some(
            error(format!(
                "the `foreach` of `{}` is no key of the context: `{text}`",
                node.id
            ))
            .help("write the key of a context value that is a list, such as `foreach=files`"),
        );
    };
    let key = plain_key(key);
    let entries = input.declarations().iter();
    let mut entries = entries.flat_map(|written| written.entries.iter().flatten());
    let declared = entries.find(|entry| entry.key == key)?;
    match &declared.declared {
        Some((ValueType::List(_) | ValueType::Any, _)) | None => None,
        Some((value_type, _)) => Some(
            error(format!(
                "`{}` runs its branch for each item of `{key}`, which is declared as `{value_type}`",
                node.id
            ))
            .label("not a list")
            .help(format!(
                "declare `{key}: list<{value_type}>`, or name another key"
            )),
        ),
    }
}

/// Returns the error for a maximum that is missing or too large.
fn maximum(node: &Node, foreach: &Attribute) -> Option<Diagnostic> {
    let Some(most) = node.attributes.get(Known::ForeachMax) else {
        let message = format!(
            "`{}` runs its branch for each item of a list without a maximum",
            node.id
        );
        return Some(
            Diagnostic::from_rule(&RULE, message, foreach.value_span)
                .label("how many items may the list have?")
                .note(
                    "the length of the list is known only at run time; each item costs what its branch costs",
                )
                .help(format!("add `foreach_max`, a whole number from 1 to {MAX_ITEMS}")),
        );
    };
    let number = node.attributes.integer(Known::ForeachMax)?;
    (number > i64::from(MAX_ITEMS)).then(|| {
        let message = format!("`{}` allows {number} items", node.id);
        Diagnostic::from_rule(&RULE, message, most.value_span)
            .label(format!("at most {MAX_ITEMS}"))
            .note("each item is a branch, which is a part of the state of the run")
            .help("divide the list, for example by a stage that groups the items")
    })
}

/// Returns the error for a fan-out that does not have exactly one branch, which always runs.
fn branch(input: &Input<'_>, at: NodeIndex, node: &Node, foreach: &Attribute) -> Option<Diagnostic> {
    let edges = input.analysis.outgoing(at);
    // A fan-out without edges is an error of another rule.
    let (first, others) = edges.split_first()?;
    if let Some(second) = others.first() {
        let message = format!(
            "`{}` runs its branch for each item of a list, but has {} branches",
            node.id,
            edges.len()
        );
        return Some(
            Diagnostic::from_rule(&RULE, message, foreach.value_span)
                .label("one branch for each item")
                .related(input.edge(*second).to_span, "a second branch")
                .help("let the branch begin with another fan-out if each item needs several branches"),
        );
    }
    if matches!(input.analysis.condition(*first), EdgeCondition::None) {
        return None;
    }
    let message = format!("the branch of `{}` has a condition", node.id);
    Some(
        Diagnostic::from_rule(&RULE, message, input.edge(*first).to_span)
            .label("the branch runs for every item of the list")
            .help("test the condition within the branch, or before the fan-out"),
    )
}

/// Returns the error for a block that does not end at a fan-in.
fn join(input: &Input<'_>, at: NodeIndex, node: &Node, foreach: &Attribute) -> Option<Diagnostic> {
    // Branches that never join are an error of another rule.
    let join = input.joins().join(at)?;
    if input.kind(join) == kind::FAN_IN {
        return None;
    }
    let message = format!(
        "the branches of `{}` end at `{}`, which is no fan-in",
        node.id,
        input.id(join)
    );
    Some(
        Diagnostic::from_rule(&RULE, message, foreach.value_span)
            .related(input.node(join).span, "the branches end here")
            .note("with a single branch, only a fan-in tells where the branch ends")
            .help("let the branch lead to a node with `shape=tripleoctagon`"),
    )
}
