//! `attribute_type`: a known attribute has a value of the wrong type (rule L6).

use crate::attribute::Known;
use crate::diagnostic::Diagnostic;
use crate::syntax::lexer::is_key;
use crate::text::Span;

pub(crate) const CODE: &str = "attribute_type";

pub(crate) fn diagnostic(known: Known, written: &str, span: Span) -> Diagnostic {
    let spec = known.spec();
    let shown: String = written.chars().take(60).collect();
    let mut diagnostic = Diagnostic::error(
        CODE,
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
