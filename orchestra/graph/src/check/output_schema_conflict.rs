//! `output_schema_conflict`: the schema of an answer and the declared values of its stage differ (rule T8).

use std::ops::Range;

use crate::attributes::Attribute;
use crate::contract::{Entry, Field, parse_declarations};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::{shorten, value_fix, value_range};
use crate::text::{Source, trimmed};

pub(crate) static RULE: Page = Page {
    code: "output_schema_conflict",
    severity: Severity::Error,
    summary: "the schema of an answer does not agree with the declared values of its stage",
    source: "rule T8",
    text: include_str!("../../tests/rules/output_schema_conflict.md"),
};

/// Compares the outputs that a stage declares with those of its schema.
pub(crate) fn compare(source: &Source, outputs: &Attribute, of_schema: &[Field]) -> Vec<Diagnostic> {
    let span = outputs.value_span;
    let entries = parse_declarations(outputs.value.as_str().unwrap_or_default());
    // `contract_syntax` reports the others.
    let declared: Vec<Entry> = entries.into_iter().flatten().collect();
    let find = |key: &str| of_schema.iter().find(|field| field.key == key);
    let mut found = Vec::new();
    for entry in &declared {
        let Some((value_type, optional)) = &entry.declared else {
            continue;
        };
        let Some(own) = find(&entry.key) else {
            found.push(unknown_key(
                source,
                outputs,
                &entry.key,
                entry.range.clone(),
                of_schema,
            ));
            continue;
        };
        let message = if !own.value_type.fits(value_type) {
            format!(
                "`{}` is declared as `{value_type}`, but the schema accepts `{}`",
                entry.key, own.value_type
            )
        } else if own.optional && !optional {
            format!("`{}` must be set, but the schema does not require it", entry.key)
        } else {
            continue;
        };
        let span = value_range(source, span, entry.range.clone());
        found.push(Diagnostic::from_rule(&RULE, message, span).help(format!(
            "declare `{own}`, change the schema, or remove `outputs`, which follow from the schema"
        )));
    }
    for own in of_schema {
        if !declared.iter().any(|entry| entry.key == own.key) {
            let message = format!("the property `{}` of the schema is not declared", own.key);
            found.push(Diagnostic::from_rule(&RULE, message, span).help(format!(
                "add `{own}`, or remove `outputs`, which follow from the schema"
            )));
        }
    }
    found
}

/// Returns the diagnostics for `output_keys` that are no properties of the schema.
pub(crate) fn unknown_keys(source: &Source, keys: &Attribute, of_schema: &[Field]) -> Vec<Diagnostic> {
    let text = keys.value.as_str().unwrap_or_default();
    let mut start = 0;
    let mut found = Vec::new();
    for part in text.split(',') {
        let range = trimmed(text, start..start + part.len());
        start += part.len() + 1;
        let key = part.trim();
        if !key.is_empty() && !of_schema.iter().any(|field| field.key == key) {
            found.push(unknown_key(source, keys, key, range, of_schema));
        }
    }
    found
}

fn unknown_key(
    source: &Source,
    attribute: &Attribute,
    key: &str,
    range: Range<usize>,
    of_schema: &[Field],
) -> Diagnostic {
    let message = format!("the schema has no property `{}`", shorten(key));
    let span = value_range(source, attribute.value_span, range.clone());
    let diagnostic = Diagnostic::from_rule(&RULE, message, span);
    let known = of_schema.iter().map(|field| field.key.as_str());
    match did_you_mean(key, known) {
        Some(near) => {
            let fix = value_fix(source, attribute.value_span, range, near);
            let diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
            diagnostic.fix(fix.span, fix.replacement)
        }
        None => diagnostic.help("remove the key, or add it to the properties of the schema"),
    }
}
