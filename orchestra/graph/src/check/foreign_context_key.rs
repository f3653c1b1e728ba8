//! `foreign_context_key`: a condition reads a key that only other tools set (rules C1, C2).

use crate::analysis::EdgeCondition;
use crate::attribute::{Known, key_pairs};
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::condition::{Comparison, Expression, PLAIN_KEYS, find_key, foreign_key, parse_condition};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "foreign_context_key",
    severity: Severity::Warning,
    summary: "a condition reads a key that only other tools set",
    source: "rules C1, C2",
    text: include_str!("../../tests/rules/foreign_context_key.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// The prefix that some tools use instead of `context.`.
const FOREIGN_PREFIX: &str = "ctx.";

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for (at, edge) in input.edges_with(&[Known::Condition]) {
        if let EdgeCondition::Parsed(condition) = input.analysis.condition(at)
            && let Some(attribute) = edge.attributes.get(Known::Condition)
        {
            let mut found = of_condition(input, attribute, condition, &mut once);
            found = found.map(|diagnostic| diagnostic.edge(input.id(edge.from), input.id(edge.to)));
            diagnostics.extend(found);
        }
    }
    for (_, node) in input.nodes_with(&[Known::GoalGate]) {
        if let Some(attribute) = node.attributes.get(Known::GoalGate)
            && let Some(Ok(condition)) = node.attributes.text(Known::GoalGate).map(parse_condition)
        {
            let found = of_condition(input, attribute, &condition, &mut once);
            diagnostics.extend(found.map(|diagnostic| diagnostic.node(&*node.id)));
        }
    }
}

fn of_condition(
    input: &Input<'_>,
    attribute: &Attribute,
    condition: &Expression,
    once: &mut Once,
) -> Option<Diagnostic> {
    let mut found = None;
    condition.visit(&mut |part| {
        let (key, comparison) = match part {
            Expression::Compare { key, comparison, .. } => (key, Some(*comparison)),
            Expression::Truthy(key) | Expression::Matches { key, .. } => (key, None),
            _ => return,
        };
        found = found.take().or_else(|| meant(input, key, comparison));
    });
    let (key, meant, note) = found?;
    let text = attribute.value.as_str().unwrap_or_default();
    let range = find_key(text, key)?;
    if !once.first(attribute) {
        return None;
    }
    let span = input.analysis.inside(attribute.value_span, range);
    let shown = crate::syntax::shorten(key);
    Some(
        Diagnostic::from_rule(&RULE, format!("the engine never sets `{shown}`"), span)
            .label("empty, unless a handler sets it")
            .note(note)
            .help(format!("did you mean `{meant}`?"))
            .fix(span, meant),
    )
}

/// Returns a key of other tools with its equivalent here and a note. Returns `None` for any other key.
fn meant<'k>(
    input: &Input<'_>,
    key: &'k str,
    comparison: Option<Comparison>,
) -> Option<(&'k str, String, String)> {
    if let Some(name) = key.strip_prefix(FOREIGN_PREFIX) {
        let meant = if PLAIN_KEYS.contains(&name) {
            name.to_owned()
        } else {
            format!("context.{name}")
        };
        return Some((
            key,
            meant,
            "keys of the context are written `context.NAME`".to_owned(),
        ));
    }
    // A stage may set a `status` key of its own, but keys that begin with `tool_` belong to another engine.
    let name = key
        .strip_prefix("context.")
        .filter(|name| name.starts_with("tool_"))?;
    let foreign = foreign_key(name)?;
    if is_set(input, name) {
        return None;
    }
    Some((key, foreign.meant(comparison).to_owned(), foreign.help.to_owned()))
}

/// Returns whether a stage declares that it sets the key.
fn is_set(input: &Input<'_>, name: &str) -> bool {
    let outputs = [Known::OutputKeys, Known::SubpipelineOutputs];
    input.nodes_with(&outputs).any(|(_, node)| {
        let mut words = node.attributes.words(Known::OutputKeys);
        let pairs = node
            .attributes
            .text(Known::SubpipelineOutputs)
            .and_then(key_pairs);
        words.any(|word| word == name) || pairs.is_some_and(|pairs| pairs.iter().any(|(new, _)| *new == name))
    })
}
