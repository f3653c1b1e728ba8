//! Limits on the length of texts within a template. The template engine counts steps, but one step may double a text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Kwargs, StringInput, Value};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters};

use crate::scan::{Tag, Use, names_of};

/// Maximum length of a rendered template in bytes.
pub(crate) const MAX_RENDERED: usize = 4 << 20;
/// Maximum number of run values that one value of a template may be composed of.
const MAX_COPIES: u64 = 128;
/// The factor to assume if a value is multiplied by an unknown number.
const UNKNOWN_FACTOR: u64 = 32;
/// The largest number in a tag that could repeat a text that many times.
const MAX_NUMBER: u64 = 1_000_000;
/// Maximum number of bytes that a template may write in total, including into variables.
const MAX_WRITTEN: usize = 4 * MAX_RENDERED;
/// Maximum number of blanks that `indent` may insert before a line.
const MAX_INDENT: usize = 1000;

/// Returns the tag by which a text may grow without bound, with the reason. Returns `None` if there is no such tag.
pub(crate) fn unbounded_growth(tags: &[Tag]) -> Option<(Range<usize>, String)> {
    let mut copies: BTreeMap<String, u64> = BTreeMap::new();
    let mut loops = 0usize;
    // The variables that the outermost loop sets, each with the index of the last tag that sets it.
    let mut carried: BTreeMap<String, usize> = BTreeMap::new();
    for (at, tag) in tags.iter().enumerate() {
        let diagnostic = |message: String| Some((tag.start..tag.start + 2, message));
        if tag.is("for") {
            if loops == 0 {
                carried = set_in_loop(tags.get(at..).unwrap_or_default(), at);
            }
            loops += 1;
        } else if tag.is("endfor") {
            loops = loops.saturating_sub(1);
        }
        if let Some(number) = tag.largest_number().filter(|number| *number > MAX_NUMBER)
            && tag.may_repeat()
        {
            return diagnostic(format!("the number {number} is larger than {MAX_NUMBER}"));
        }
        let used = tag.values();
        let known = |name: &String| copies.get(name).copied().unwrap_or(1);
        let sum = used.iter().map(known).fold(0, u64::saturating_add).max(1);
        let weight = match tag.factor() {
            // A literal text in the template is short.
            Some(Some(number)) if used.is_empty() => 1 + number / 10_000,
            Some(factor) => sum.saturating_mul(factor.unwrap_or(UNKNOWN_FACTOR).clamp(1, 100)),
            None => sum,
        };
        if weight > MAX_COPIES {
            return diagnostic(format!(
                "this may be put together of more than {MAX_COPIES} values, and grow too long"
            ));
        }
        let targets = tag.targets();
        let grows = |name: &&String| carried.get(*name).is_some_and(|first| loops > 0 && *first >= at);
        let combines = tag.is("set") && !tag.only_counts() && (used.len() > 1 || tag.has_texts());
        if combines && let Some(name) = used.iter().find(grows) {
            return diagnostic(format!(
                "`{name}` grows with each turn of the loop; write the text in the loop, or use `join`"
            ));
        }
        for target in targets {
            copies.insert(target, weight);
        }
    }
    None
}

/// Returns the variables that a loop sets, each with the index of the last tag that sets it.
fn set_in_loop(tags: &[Tag], first: usize) -> BTreeMap<String, usize> {
    let mut depth = 0usize;
    let mut found = BTreeMap::new();
    for (position, tag) in tags.iter().enumerate() {
        if tag.is("for") {
            depth += 1;
        } else if tag.is("endfor") {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            break;
        }
        if tag.is("set") {
            found.extend(tag.targets().into_iter().map(|name| (name, first + position)));
        }
    }
    found
}

/// Limits the output of a template, and replaces the filters that can make a text much longer by limited ones.
pub(crate) fn bound(environment: &mut Environment<'_>) {
    let written = AtomicUsize::new(0);
    environment.set_formatter(move |out, state, value| {
        let length = length(value)?;
        if written
            .fetch_add(length, Ordering::Relaxed)
            .saturating_add(length)
            > MAX_WRITTEN
        {
            return Err(too_long());
        }
        escape_formatter(out, state, value)
    });
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
}

fn replace(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    let positions = value.as_str().matches(from.as_str()).count();
    let longer = positions.saturating_mul(to.as_str().len());
    if value.as_str().len().saturating_add(longer) > MAX_RENDERED {
        return Err(too_long());
    }
    filters::replace(state, value, from, to)
}

fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let between = joiner.as_ref().map_or(0, |joiner| joiner.as_str().len());
    let mut all = 0usize;
    if let Ok(items) = value.try_iter() {
        for item in items {
            let own = if attribute.is_some() { 0 } else { length(&item)? };
            all = all.saturating_add(between).saturating_add(own);
            if all > MAX_RENDERED {
                return Err(too_long());
            }
        }
    }
    filters::join(state, value, joiner, attribute, kwargs)
}

fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let named = kwargs.peek::<Option<usize>>("width").ok().flatten();
    let wide = width.or(named).unwrap_or(4);
    let lines = value.as_str().matches('\n').count() + 1;
    let longer = lines.saturating_mul(wide);
    if wide > MAX_INDENT || value.as_str().len().saturating_add(longer) > MAX_RENDERED {
        return Err(too_long());
    }
    filters::indent(value, width, first, blank, kwargs)
}

/// Returns the length of a value as text in bytes. Stops with an error at the limit, so that no long text is created.
fn length(value: &Value) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.len());
    }
    let mut counted = Counted(0);
    write!(counted, "{value}").map_err(|_| too_long())?;
    Ok(counted.0)
}

fn too_long() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("the text grows longer than {MAX_RENDERED} bytes"),
    )
}

/// A writer that counts bytes up to the limit.
struct Counted(usize);

impl fmt::Write for Counted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        if self.0 > MAX_RENDERED {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

impl Tag {
    /// Returns the root variables whose values the tag uses, once for each use. Conditions of `if` and `elif` do not
    /// count.
    fn values(&self) -> Vec<String> {
        if self.is("if") || self.is("elif") {
            return Vec::new();
        }
        let targets: BTreeSet<usize> = self.target_positions().into_iter().collect();
        let starts: BTreeSet<usize> = targets
            .iter()
            .filter_map(|position| self.tokens.get(*position).map(|token| token.range.start))
            .collect();
        let names = names_of(&self.tokens, self.statement).into_iter();
        let used = names.filter(|name| name.what == Use::Variable && !starts.contains(&name.range.start));
        used.filter_map(|name| name.path.into_iter().next()).collect()
    }

    /// Returns the variables that the tag sets.
    fn targets(&self) -> Vec<String> {
        let positions = self.target_positions().into_iter();
        positions
            .filter_map(|position| self.tokens.get(position)?.word().map(str::to_owned))
            .collect()
    }

    fn target_positions(&self) -> Vec<usize> {
        let upto = |end: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let positions = 1..self.tokens.len();
            let positions = positions.take_while(|position| !end(*position));
            positions
                .filter(|position| {
                    self.tokens
                        .get(*position)
                        .is_some_and(|token| token.word().is_some())
                })
                .collect()
        };
        let is_mark =
            |position: usize, mark| self.tokens.get(position).is_some_and(|token| token.is_mark(mark));
        if self.is("for") {
            return upto(&|position| self.tokens.get(position).is_some_and(|token| token.is_word("in")));
        }
        if self.is("set") {
            return upto(&|position| is_mark(position, '=') || is_mark(position, '|'));
        }
        if self.is("with") {
            let before_equals = |position: &usize| is_mark(position + 1, '=') && !is_mark(position + 2, '=');
            return (1..self.tokens.len()).filter(before_equals).collect();
        }
        Vec::new()
    }

    /// Returns the factor by which the tag multiplies a value. Returns `None` if it does not multiply, and `Some(None)`
    /// if the factor is unknown.
    fn factor(&self) -> Option<Option<u64>> {
        let multiplies = self.tokens.iter().any(|token| token.is_mark('*'));
        multiplies.then(|| self.largest_number())
    }

    fn largest_number(&self) -> Option<u64> {
        self.tokens.iter().filter_map(|token| token.number()).max()
    }

    /// Returns whether the tag contains an operator or call that could turn a number into the length of a text.
    fn may_repeat(&self) -> bool {
        self.tokens
            .iter()
            .any(|token| token.is_mark('*') || token.is_mark('|') || token.is_mark('('))
    }

    fn has_texts(&self) -> bool {
        self.tokens.iter().any(|token| token.is_text())
    }

    /// Returns whether the tag only adds numbers to a variable.
    fn only_counts(&self) -> bool {
        let behind = self.tokens.iter().skip_while(|token| !token.is_mark('=')).skip(1);
        let mut words = 0;
        for token in behind {
            match token.word() {
                Some(_) => words += 1,
                None if token.number().is_some() || token.is_mark('+') || token.is_mark('-') => {}
                None => return false,
            }
        }
        words <= 1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use serde_json::{Map, json};

    use crate::TaskTemplate;

    fn error(text: &str) -> String {
        let values = json!({"text": "x".repeat(1 << 20), "list": vec!["abc"; 1000], "big": 100_000_000});
        let task = TaskTemplate::new("a", "a.yaml", text);
        let rendered = task.render(values.as_object().unwrap_or(&Map::new()));
        rendered.expect_err(text).to_string()
    }

    #[test]
    fn a_text_that_doubles_is_refused_before_it_is_made() {
        let doubled = "{% set s = s ~ s %}".repeat(40);
        for text in [
            format!("{{% set s = text %}}{doubled}{{{{ s | length }}}}"),
            "{% set s = 'x' %}{% for i in range(60) %}{% set s = s ~ s %}{% endfor %}".to_owned(),
            "{% set s = 'x' %}{% for i in range(60) %}{% for j in range(9) %}{% set t = s + s %}{% set s = t ~ t %}{% endfor %}{% endfor %}".to_owned(),
            "{% with a = text ~ text, b = 1 %}{% with c = a ~ a ~ a %}{% with d = c ~ c ~ c %}{% with e = d ~ d ~ d ~ d %}\
             {% with f = e ~ e %}{{ f | length }}{% endwith %}{% endwith %}{% endwith %}{% endwith %}{% endwith %}".to_owned(),
            format!("{{{{ ({}) | length }}}}", vec!["text"; 190].join(" ~ ")),
        ] {
            let message = error(&text);
            assert!(message.starts_with("a.yaml:1:") && message.contains("grow"), "{message}");
        }
    }

    #[test]
    fn large_numbers_and_filters_are_bounded() {
        for text in [
            "{{ 'x' * 100000000 }}",
            "{{ text | indent(1000000000) }}",
            "{{ list | batch(1000000000, 'x') | list | length }}",
            "{% set s = text * 100 %}{% set t = s ~ s %}{{ t | length }}",
            "{{ text | replace('x', text) | length }}",
            "{{ list | join(text) | length }}",
            "{{ text | indent(width=100000) }}",
            "{{ range(9000) | join(text) }}",
        ] {
            let message = error(text);
            assert!(message.starts_with("a.yaml:1:"), "{message}");
            assert!(
                message.contains("grow") || message.contains("larger than"),
                "{text}: {message}"
            );
        }
        let captured =
            "{% set s %}{% for i in range(9000) %}{{ text }}{% endfor %}{% endset %}{{ s | length }}";
        assert!(error(captured).contains("grows longer"));
        let nested = format!(
            "{{% set l = list %}}{}{{{{ l | join(',') }}}}",
            "{% set l = [l, l] %}".repeat(8)
        );
        assert!(error(&nested).contains("grow"), "{}", error(&nested));
    }

    #[test]
    fn what_templates_do_is_not_refused() {
        for text in [
            "{% set name = goal ~ ': ' ~ label %}{% set line = '- ' ~ name %}{{ line }}{{ line | indent(4) }}",
            "{% for i in list %}{% set name = i ~ '!' %}{% set line = '- ' ~ name %}{{ line }}{% endfor %}",
            "{% set n = 0 %}{% for i in list %}{% set n = n + 1 %}{{ n * 2 }}{{ loop.index * loop.length }}{% endfor %}",
            "{% set bar = '-' * 80 %}{{ bar ~ goal ~ bar }}{{ list | join(', ') }}{{ 'a b' | replace(' ', '\\n') }}{% if big > 90000000 %}x{% endif %}",
        ] {
            let values = json!({"list": ["a", "b"], "big": 100_000_000});
            let task = TaskTemplate::new("a", "a.yaml", text);
            let rendered = task.render(values.as_object().expect("an object"));
            assert!(rendered.is_ok(), "{text}: {rendered:?}");
        }
    }
}
