//! `contradictory_condition`: a condition that can never be true.

use std::collections::HashMap;

use crate::analysis::EdgeCondition;
use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::condition::{Comparison, Expression, number};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "contradictory_condition",
    severity: Severity::Warning,
    summary: "a condition can never hold",
    source: "rules C3, C5",
    text: include_str!("../../tests/rules/contradictory_condition.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    let mut known: HashMap<usize, bool> = HashMap::new();
    for (at, edge) in input.edges_with(&[Known::Condition]) {
        let EdgeCondition::Parsed(expression) = input.analysis.condition(at) else {
            continue;
        };
        let id = input.analysis.condition_id(at);
        let contradictory = *known
            .entry(id)
            .or_insert_with(|| is_contradictory(input, expression));
        let Some(attribute) = edge.attributes.get(Known::Condition) else {
            continue;
        };
        if !contradictory {
            continue;
        }
        if !once.first(attribute) {
            continue;
        }
        let text = crate::syntax::shorten(attribute.value.as_str().unwrap_or_default());
        let (from, to) = (input.id(edge.from), input.id(edge.to));
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("the condition `{text}` can never hold"),
                attribute.value_span,
            )
            .label("its clauses exclude each other")
            .note(format!("so the edge `{from} -> {to}` is never taken"))
            .help("to allow either case, join the clauses with `||` instead of `&&`")
            .edge(from, to),
        );
    }
}

fn is_contradictory(input: &Input<'_>, expression: &Expression) -> bool {
    if is_plainly_possible(expression) {
        return false;
    }
    input
        .space(&[expression], None)
        .is_some_and(|space| space.find(|point| point.holds(expression)).is_none())
}

/// Returns whether the condition is a single clause, or a few clauses about different keys.
fn is_plainly_possible(expression: &Expression) -> bool {
    let parts = match expression {
        Expression::All(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    const MAX: usize = 8;
    let mut keys = Vec::new();
    parts.len() <= MAX
        && parts.iter().all(|part| {
            let key = match part {
                Expression::Truthy(key) => key,
                Expression::Compare {
                    key,
                    comparison: Comparison::Equal | Comparison::NotEqual,
                    ..
                } => key,
                Expression::Compare { key, literal, .. } if number(literal).is_some() => key,
                _ => return false,
            };
            let fresh = !keys.contains(&key);
            keys.push(key);
            fresh
        })
}
