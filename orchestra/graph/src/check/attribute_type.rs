//! `attribute_type`: a known attribute has a value of the wrong type (rule L6).

use crate::attribute::Known;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::words::is_key;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "attribute_type",
    severity: Severity::Error,
    summary: "a known attribute has a value of the wrong type",
    source: "Attractor 2.4, rule L6",
    text: include_str!("../../tests/rules/attribute_type.md"),
};

pub(crate) fn diagnostic(known: Known, written: &str, span: Span) -> Diagnostic {
    let spec = known.spec();
    let shown: String = written.chars().take(60).collect();
    let mut diagnostic = Diagnostic::from_rule(
        &RULE,
        format!("`{}` must be {}, but `{shown}` is not", spec.name, short(known)),
        span,
    )
    .label(format!("expected {}", short(known)))
    .note(format!("`{}`: {}", spec.name, spec.doc));
    if let crate::AttributeType::Word(words) = spec.ty
        && let Some(word) = crate::did_you_mean(&shown, words.iter().copied())
    {
        diagnostic = diagnostic.help(format!("did you mean `{word}`?")).fix(span, word);
    } else if is_key(spec.name) {
        diagnostic = diagnostic.help(format!("write `{}=..` with {}", spec.name, spec.ty.describe()));
    }
    diagnostic
}

fn short(known: Known) -> String {
    let text = known.spec().ty.describe();
    text.split(" (")
        .next()
        .unwrap_or_default()
        .split(" such as")
        .next()
        .unwrap_or_default()
        .to_owned()
}
