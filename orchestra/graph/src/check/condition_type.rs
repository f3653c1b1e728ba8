//! `condition_type`: a condition compares a declared value with something that it never is (rule T4).

use crate::analysis::EdgeCondition;
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once, meant};
use crate::condition::{Comparison, find_literal, number};
use crate::contract::{ValueType, plain_key};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::page::Page;
use crate::severity::Severity;
use std::collections::HashMap;

static RULE: Page = Page {
    code: "condition_type",
    severity: Severity::Error,
    summary: "a condition compares a declared value with something that it never is",
    source: "rule T4",
    text: include_str!("../../tests/rules/condition_type.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let declarations = input.declarations();
    let mut types: HashMap<&str, &ValueType> = HashMap::new();
    for entry in declarations
        .iter()
        .flat_map(|written| written.entries.iter().flatten())
    {
        if let Some((value_type, _)) = &entry.declared {
            types.entry(&entry.key).or_insert(value_type);
        }
    }
    if types.is_empty() {
        return;
    }
    let mut once = Once::default();
    for (at, edge) in input.edges_with(&[Known::Condition]) {
        if let EdgeCondition::Parsed(_) = input.analysis.condition(at)
            && let Some(attribute) = edge.attributes.get(Known::Condition)
            && once.first(attribute)
        {
            let found = of_condition(input, attribute, &types);
            diagnostics.extend(found.map(|found| found.edge(input.id(edge.from), input.id(edge.to))));
        }
    }
    for (_, node) in input.nodes_with(&[Known::GoalGate]) {
        if let Some(attribute) = node.attributes.get(Known::GoalGate)
            && once.first(attribute)
        {
            let found = of_condition(input, attribute, &types);
            diagnostics.extend(found.map(|found| found.node(&*node.id)));
        }
    }
}

fn of_condition(
    input: &Input<'_>,
    attribute: &Attribute,
    types: &HashMap<&str, &ValueType>,
) -> Option<Diagnostic> {
    let text = attribute.value.as_str()?;
    let mut found = None;
    let range = find_literal(text, |key, comparison, literal| {
        let value_type = types.get(plain_key(key));
        let impossible = value_type.is_some_and(|value_type| is_impossible(value_type, comparison, literal));
        if impossible {
            found =
                value_type.map(|value_type| (key.to_owned(), *value_type, comparison, literal.to_owned()));
        }
        impossible
    })?;
    let (key, value_type, comparison, literal) = found?;
    let span = input.analysis.inside(attribute.value_span, range);
    let shown = crate::syntax::shorten(&literal);
    let key = plain_key(&key);
    let always = match comparison {
        Comparison::NotEqual => "always true",
        _ => "always false",
    };
    let message = match comparison {
        Comparison::Equal | Comparison::NotEqual => {
            format!("`{key}` is never `{shown}`, so the comparison is {always}")
        }
        _ => format!("`{key}` and `{shown}` are not both numbers, so the comparison is {always}"),
    };
    let diagnostic =
        Diagnostic::from_rule(&RULE, message, span).note(format!("`{key}` is declared as `{value_type}`"));
    let near = match value_type {
        ValueType::Words(words) if comparison == Comparison::Equal || comparison == Comparison::NotEqual => {
            did_you_mean(&literal, words.iter().map(String::as_str))
        }
        ValueType::Boolean => ["true", "false"]
            .into_iter()
            .find(|word| word.eq_ignore_ascii_case(&literal)),
        _ => None,
    };
    Some(meant(
        diagnostic,
        span,
        near,
        format!("compare it with {}", values(value_type)),
    ))
}

/// Returns a description of the values with which a value of a type can be compared.
fn values(value_type: &ValueType) -> String {
    match value_type {
        ValueType::Integer => "a whole number".to_owned(),
        ValueType::Number => "a number".to_owned(),
        ValueType::Boolean => "`true` or `false`".to_owned(),
        ValueType::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        ValueType::List(_) => "an item, by `contains`".to_owned(),
        _ => "a text".to_owned(),
    }
}

/// Returns whether a comparison has the same result for all values of a type. The empty text tests for presence.
fn is_impossible(value_type: &ValueType, comparison: Comparison, literal: &str) -> bool {
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    if comparison == Comparison::Contains || is_equality && literal.is_empty() {
        return false;
    }
    let is_number = || number(literal).is_some();
    // Values are compared as text, so `3` never equals `3.0` or `03`.
    let is_whole = || {
        let parsed = literal.parse::<i64>().map(|number| number.to_string());
        parsed
            .or_else(|_| literal.parse::<u64>().map(|number| number.to_string()))
            .is_ok_and(|text| text == literal)
    };
    let is_decimal = || number(literal).is_some_and(|number| number.to_string() == literal);
    match (value_type, is_equality) {
        (ValueType::Integer, true) => !is_whole(),
        (ValueType::Number, true) => !is_whole() && !is_decimal(),
        (ValueType::Integer | ValueType::Number, false) => !is_number(),
        (ValueType::Boolean, true) => !matches!(literal, "true" | "false"),
        (ValueType::Words(words), true) => !words.iter().any(|word| word == literal),
        (ValueType::Words(words), false) => !is_number() || !words.iter().any(|word| number(word).is_some()),
        (ValueType::Boolean, false) => true,
        (ValueType::List(_) | ValueType::Object, false) => true,
        (ValueType::Text | ValueType::Any, false) => !is_number(),
        (ValueType::List(_) | ValueType::Object | ValueType::Text | ValueType::Any, true) => false,
    }
}
