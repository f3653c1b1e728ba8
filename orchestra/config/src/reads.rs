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
    /// The variables that are set behind the block.
    leaves: Vec<String>,
}

/// Returns the uses of variables that fail if the variable is not set, in order.
///
/// A variable needs no value where a tag tests it with `is defined`, where it is followed by the filter `default`, and
/// inside `{% if VARIABLE is defined %}` and `VARIABLE if VARIABLE is defined`. A name that a block sets is a variable of
/// the template inside this block only, because nobody knows whether the block is rendered.
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
            guard.own.clear();
        }
        let guard = guard(&tag);
        let assigned = assigned(&tag);
        // Only what stands before the `if` of an expression is evaluated under its condition.
        let condition = tag
            .tokens
            .iter()
            .find(|token| !tag.statement && token.is_word("if"));
        let guarded_to = condition.map_or(usize::MAX, |token| token.range.start);
        for name in names_of(&tag.tokens, tag.statement) {
            let path = name.path.join(".");
            let known = |known: &String| path == *known || path.starts_with(&format!("{known}."));
            let mut locals = open.iter().flat_map(|guard| &guard.own).chain(&set);
            let is_local =
                locals.any(|own| name.path.first() == Some(own)) || assigned.contains(&name.range.start);
            let is_guarded = open.iter().flat_map(|guard| &guard.now).any(known)
                || !tag.statement && name.range.end <= guarded_to && guard.now.iter().any(known)
                || tag.statement && is_after_test(&tag.tokens, &name, &guard.now);
            if name.what == Use::Variable && !is_local && !is_guarded && !is_optional(&tag.tokens, &name) {
                reads.push(Read {
                    path,
                    range: name.range,
                });
            }
        }
        match tag.block() {
            Some(true) if tag.is("set") => open.push(Guard {
                leaves: guard.own,
                ..Guard::default()
            }),
            Some(true) => open.push(guard),
            Some(false) => {
                let leaves = open.pop().map(|guard| guard.leaves).unwrap_or_default();
                open.last_mut()
                    .map_or(&mut set, |outer| &mut outer.own)
                    .extend(leaves);
            }
            None if tag.is("elif") => {
                if let Some(last) = open.last_mut() {
                    last.now.extend(guard.now);
                    last.otherwise = guard.otherwise;
                }
            }
            None if tag.is("set") => match open.last_mut() {
                Some(last) => last.own.extend(guard.own),
                None => set.extend(guard.own),
            },
            None => {}
        }
    }
    reads
}

/// Returns whether a use stands behind a test of the same variable in the condition of a statement, as in
/// `{% if x is defined and x %}`.
fn is_after_test(tokens: &[Token], name: &Name, proved: &[String]) -> bool {
    let path = name.path.join(".");
    proved.contains(&path)
        && names_of(tokens, true).iter().any(|other| {
            other.range.end <= name.range.start
                && other.path == name.path
                && tested(tokens, other) == Some(true)
        })
}

/// Returns the offsets of the names that a tag assigns.
fn assigned(tag: &Tag) -> Vec<usize> {
    if !(tag.is("for") || tag.is("set") || tag.is("with")) {
        return Vec::new();
    }
    let tokens = &tag.tokens;
    if tag.is("for") {
        let end = tokens.iter().position(|token| token.is_word("in")).unwrap_or(0);
        return tokens.iter().take(end).map(|token| token.range.start).collect();
    }
    if !tokens.iter().any(|token| token.is_mark('=')) {
        // `{% set x %}..{% endset %}`
        return tokens.iter().map(|token| token.range.start).collect();
    }
    let before_mark = tokens
        .windows(2)
        .filter(|pair| pair[1].is_mark('=') && pair[0].word().is_some());
    before_mark.map(|pair| pair[0].range.start).collect()
}

/// Returns what the condition of a tag proves.
fn guard(tag: &Tag) -> Guard {
    let mut guard = Guard::default();
    let tokens = &tag.tokens;
    let assigned = assigned(tag);
    if tag.is("for") || tag.is("set") || tag.is("with") {
        let names = tokens
            .iter()
            .filter(|token| assigned.contains(&token.range.start));
        guard.own = names.filter_map(Token::word).map(str::to_owned).collect();
        guard.own.extend(tag.is("for").then(|| "loop".to_owned()));
        return guard;
    }
    // With `or`, only one side may hold, and a `not` may apply to more than the next word.
    let is_negated = |at: usize| at == 0 || !tokens.get(at - 1).is_some_and(|token| token.is_word("is"));
    let unclear = tokens
        .iter()
        .enumerate()
        .any(|(at, token)| token.is_word("or") || token.is_word("not") && is_negated(at));
    if unclear {
        return guard;
    }
    for name in names_of(tokens, tag.statement) {
        match tested(tokens, &name) {
            Some(true) => guard.now.push(name.path.join(".")),
            // The opposite of a conjunction proves nothing about its parts.
            Some(false)
                if (tag.is("if") || tag.is("elif")) && !tokens.iter().any(|token| token.is_word("and")) =>
            {
                guard.otherwise.push(name.path.join("."));
            }
            _ => {}
        }
    }
    guard
}

/// Returns `true` if a variable is followed by `is defined`, and `false` if it is followed by `is not defined` or
/// `is undefined`. Returns `None` if more than the end of a condition follows.
fn tested(tokens: &[Token], name: &Name) -> Option<bool> {
    let after = tokens
        .iter()
        .position(|token| token.range.start >= name.range.end)?;
    let word = |at: usize| tokens.get(after + at).and_then(Token::word);
    let (is_defined, length) = match (word(0)?, word(1)?, word(2)) {
        ("is", "defined", _) => (true, 2),
        ("is", "undefined", _) => (false, 2),
        ("is", "not", Some("defined")) => (false, 3),
        ("is", "not", Some("undefined")) => (true, 3),
        _ => return None,
    };
    let next = tokens.get(after + length);
    let ends = next.is_none_or(|token| {
        token.is_mark(')') || ["and", "or", "else", "if"].iter().any(|word| token.is_word(word))
    });
    ends.then_some(is_defined)
}

/// Returns whether a use of a variable needs no value: it is tested, or has a default. An attribute of a missing variable
/// cannot be tested.
fn is_optional(tokens: &[Token], name: &Name) -> bool {
    if name.path.len() > 1 {
        return false;
    }
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
            ("{% if a is defined and a %}{{ a }}{% endif %}", ""),
            ("{% if not (a is defined) %}{{ a }}{% endif %}", "a"),
            ("{% if a is defined == false %}{{ a }}{% endif %}", "a a"),
            ("{{ 'x' if a is defined else a }}", "a"),
            ("{% set a = a %}{{ a }}", "a"),
            ("{% if b is defined %}{% set a = 3 %}{% endif %}{{ a }}", "a"),
            ("{% for a in [] %}{{ a }}{% else %}{{ a }}{% endfor %}", "a"),
            ("{% for x in [1] %}{% set a = x %}{{ a }}{% endfor %}{{ a }}", "a"),
            ("{% with a = 3 %}{{ a }}{% endwith %}{{ a }}", "a"),
            ("{% set a %}text{% endset %}{{ a }}", ""),
            ("{{ a.x | default(1) }}", "a.x"),
            (
                "{% if a is not defined and b %}-{% else %}{{ a }}{% endif %}",
                "b a",
            ),
        ] {
            let found: Vec<String> = reads(template).into_iter().map(|read| read.path).collect();
            assert_eq!(found.join(" "), needed, "{template}");
        }
    }
}
