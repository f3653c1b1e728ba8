//! The variables that a template needs: those that it uses without asking whether they are defined.

use std::ops::Range;

use crate::scan::{Name, Tag, Tags, Token, Use, names_of};

/// A use of a variable that fails if the variable is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The variable with its attributes, joined by dots.
    pub(crate) path: String,
    /// The byte range in the template.
    pub(crate) range: Range<usize>,
}

/// What a tag proves about the tags inside its block.
#[derive(Default)]
struct Guard {
    /// The variables that are defined up to the next `else`.
    now: Vec<String>,
    /// The variables that are defined after it.
    otherwise: Vec<String>,
    /// The variables that the block itself sets, such as that of a loop.
    own: Vec<String>,
}

/// Returns the uses of variables that fail if the variable is not set, in order.
///
/// A variable needs no value where a tag tests it with `is defined`, where it is followed by the filter `default`, and
/// inside `{% if VARIABLE is defined %}`.
pub(crate) fn reads(template: &str) -> Vec<Read> {
    let mut reads = Vec::new();
    let mut open: Vec<Guard> = Vec::new();
    let mut set: Vec<String> = Vec::new();
    for tag in Tags::new(template) {
        if tag.is("raw") {
            continue;
        }
        if (tag.is("else") || tag.is("elif"))
            && let Some(guard) = open.last_mut()
        {
            guard.now = std::mem::take(&mut guard.otherwise);
        }
        let guard = guard(&tag);
        for name in names_of(&tag.tokens, tag.statement) {
            let path = name.path.join(".");
            let known = |known: &String| path == *known || path.starts_with(&format!("{known}."));
            let is_local = open
                .iter()
                .flat_map(|guard| &guard.own)
                .chain(&set)
                .chain(&guard.own);
            let mut is_local = is_local.filter(|own| name.path.first() == Some(own));
            let is_guarded =
                open.iter().flat_map(|guard| &guard.now).any(known) || guard.now.iter().any(known);
            if name.what == Use::Variable
                && is_local.next().is_none()
                && !is_guarded
                && !is_optional(&tag.tokens, &name)
            {
                reads.push(Read {
                    path,
                    range: name.range,
                });
            }
        }
        match tag.block() {
            Some(true) => open.push(guard),
            Some(false) => drop(open.pop()),
            None if tag.is("elif") => {
                if let Some(last) = open.last_mut() {
                    last.now.extend(guard.now);
                    last.otherwise = guard.otherwise;
                }
            }
            None if tag.is("set") => set.extend(guard.own),
            None => {}
        }
    }
    reads
}

/// Returns what the condition of a tag proves.
fn guard(tag: &Tag) -> Guard {
    let mut guard = Guard::default();
    let tokens = &tag.tokens;
    if tag.is("for") || tag.is("set") || tag.is("with") {
        let end = tokens
            .iter()
            .position(|token| token.is_word("in") || token.is_mark('='))
            .unwrap_or(tokens.len());
        let words = tokens.iter().take(end).skip(1).filter_map(Token::word);
        guard.own = words.map(str::to_owned).collect();
        guard.own.extend(tag.is("for").then(|| "loop".to_owned()));
        return guard;
    }
    // With `or`, only one side may hold.
    if tokens.iter().any(|token| token.is_word("or")) {
        return guard;
    }
    for name in names_of(tokens, tag.statement) {
        match tested(tokens, &name) {
            Some(true) => guard.now.push(name.path.join(".")),
            Some(false) if tag.is("if") || tag.is("elif") => guard.otherwise.push(name.path.join(".")),
            _ => {}
        }
    }
    guard
}

/// Returns `true` if a variable is followed by `is defined`, and `false` if it is followed by `is not defined` or
/// `is undefined`.
fn tested(tokens: &[Token], name: &Name) -> Option<bool> {
    let after = tokens
        .iter()
        .position(|token| token.range.start >= name.range.end)?;
    let word = |at: usize| tokens.get(after + at).and_then(Token::word);
    match (word(0)?, word(1)?, word(2)) {
        ("is", "defined", _) => Some(true),
        ("is", "undefined", _) | ("is", "not", Some("defined")) => Some(false),
        ("is", "not", Some("undefined")) => Some(true),
        _ => None,
    }
}

/// Returns whether a use of a variable needs no value: it is tested, or has a default.
fn is_optional(tokens: &[Token], name: &Name) -> bool {
    let after = tokens
        .iter()
        .position(|token| token.range.start >= name.range.end);
    let is_default = after.is_some_and(|after| {
        let filter = tokens.get(after + 1).and_then(Token::word);
        tokens.get(after).is_some_and(|token| token.is_mark('|')) && matches!(filter, Some("default" | "d"))
    });
    is_default || tested(tokens, name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarded_uses_need_no_value() {
        for (template, needed) in [
            ("{{ a }} {{ b.c | upper }}", "a b.c"),
            ("{{ a | default('x') }}{{ a | d(1) }}{{ a | upper }}", "a"),
            ("{% if a is defined %}{{ a }}{{ b }}{% endif %}{{ a }}", "b a"),
            ("{% if a is defined %}{{ a }}{% else %}{{ a }}{% endif %}", "a"),
            (
                "{% if a is not defined %}{{ a }}{% else %}{{ a }}{% endif %}",
                "a",
            ),
            ("{% if a is undefined %}-{% else %}{{ a.x }}{% endif %}", ""),
            (
                "{% if a is defined and b is defined %}{{ a }}{{ b }}{% endif %}",
                "",
            ),
            ("{% if a is defined or b %}{{ a }}{% endif %}", "b a"),
            (
                "{% if b is defined %}1{% elif a is defined %}{{ a }}{{ b }}{% endif %}",
                "b",
            ),
            ("{% if a %}{{ a }}{% endif %}", "a a"),
            ("{{ a if a is defined else 'none' }}", ""),
            (
                "{% for x in list %}{{ x.y }}{{ loop.index }}{{ a }}{% endfor %}",
                "list a",
            ),
            ("{% set x = a %}{{ x }}", "a"),
            (
                "{% if a is defined %}{% for x in a %}{{ x }}{% endfor %}{% endif %}",
                "",
            ),
            ("{% raw %}{{ a }}{% endraw %}{# {{ a }} #}", ""),
        ] {
            let found: Vec<String> = reads(template).into_iter().map(|read| read.path).collect();
            assert_eq!(found.join(" "), needed, "{template}");
        }
    }
}
