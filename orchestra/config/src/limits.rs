//! The limits of templates, which are checked before the template engine is called.

use std::ops::Range;

use crate::growth::unbounded_growth;
use crate::scan::Tags;

// The template engine recurses once for each of these, so an unbounded template would overflow its stack.

/// Maximum number of words and marks in a tag.
const MAX_TOKENS: usize = 400;
/// Maximum number of `elif` tags in a template.
const MAX_ELIFS: usize = 100;
/// Maximum nesting depth of brackets, and of blocks.
const MAX_NESTING: usize = 32;

/// Returns the tag at which a template exceeds the limits of the template engine, with the reason.
pub(crate) fn exceeded_limit(template: &str) -> Option<(Range<usize>, String)> {
    let (mut elifs, mut blocks) = (0usize, 0usize);
    for tag in Tags::new(template) {
        elifs += usize::from(tag.is("elif"));
        blocks = match tag.block() {
            Some(true) => blocks + 1,
            Some(false) => blocks.saturating_sub(1),
            None => blocks,
        };
        let message = if tag.tokens.len() > MAX_TOKENS {
            format!("this has more than {MAX_TOKENS} words and signs")
        } else if elifs > MAX_ELIFS {
            format!("this template has more than {MAX_ELIFS} times `elif`")
        } else if blocks > MAX_NESTING {
            format!("blocks nest deeper than {MAX_NESTING}")
        } else if tag.brackets() > MAX_NESTING {
            format!("brackets nest deeper than {MAX_NESTING}")
        } else {
            continue;
        };
        return Some((tag.start..tag.start + 2, message));
    }
    unbounded_growth(&Tags::new(template).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use super::exceeded_limit;

    #[test]
    fn long_tags_are_refused_and_many_short_ones_are_not() {
        let long = format!("a {{{{ {{'a': {{}}}}{} }}}}", " + 1".repeat(500));
        let (range, _) = exceeded_limit(&long).expect("it is too long");
        assert_eq!(range, 2..4);
        assert_eq!(
            exceeded_limit(&"{% if a %}b{% elif c %}d{% endif %}".repeat(100)),
            None
        );
    }
}
