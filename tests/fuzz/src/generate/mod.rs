//! Texts by grammar: mostly sound, so that they get behind the parser.

pub mod condition;
pub mod dot;
pub mod json;
pub mod sse;
pub mod template;
pub mod yaml;

use crate::Random;

/// Plain words, some of which mean something somewhere.
pub const WORDS: &[&str] = &[
    "a",
    "b",
    "work",
    "start",
    "exit",
    "review",
    "success",
    "fail",
    "retry",
    "true",
    "false",
    "null",
    "yes",
    "no",
    "on",
    "1",
    "0",
    "-1",
    "2.5",
    "90s",
    "15m",
    "1e3",
    "x y",
    "",
    "ü",
    "大",
    "a.b",
    "a-b",
    "outcome",
    "context",
    "graph",
    "node",
    "model",
    "it's",
    "say \"so\"",
    "back\\slash",
    "two\nlines",
    "{{ goal }}",
    "$goal",
    "ask [Y]",
    "[Y] Yes",
    "N) No",
];

/// One of [`WORDS`].
pub fn word(random: &mut Random) -> String {
    (*random.pick(WORDS)).to_owned()
}

/// Words with or without spaces between them.
pub fn made_of(words: &[&str], random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(24) {
        text.push_str(random.pick::<&str>(words));
        if random.chance(66) {
            text.push(' ');
        }
    }
    text
}

/// The value of a key that takes part in several grammars: a number, a word, a list, a map.
pub fn below(random: &mut Random, depth: usize) -> bool {
    depth < 4 && random.chance(60)
}
