//! Conditions.

use orchestra_oracle_tests::generate;

use super::made_of;
use crate::Random;

/// Words and signs of conditions.
pub const WORDS: &[&str] = &[
    "outcome",
    "preferred_label",
    "failure_reason",
    "current_node",
    "last_stage",
    "last_response",
    "context.a",
    "context.b.c",
    "context",
    "visits.work",
    "stages.work.outcome",
    "human.gate.label",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "&&",
    "||",
    "&",
    "|",
    "!",
    "(",
    ")",
    "success",
    "fail",
    "\"x y\"",
    "'",
    "\"",
    "contains",
    "matches",
    "^a(b",
    "[a-z]*",
    "a{2,5}",
    "(?i)x",
    "\\d+",
    "1",
    "-0.5",
    "1e9",
    "true",
    "and",
    "or",
    "not",
    "",
    "\n",
    "..",
    "a.",
];

/// The text of a condition that is sound, or of words and signs.
pub fn text(random: &mut Random) -> String {
    if random.chance(25) {
        return made_of(WORDS, random);
    }
    let depth = random.below(4);
    generate::expression(random, depth).print(random)
}
