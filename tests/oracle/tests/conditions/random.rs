//! Tests with random conditions and random texts.

use std::collections::BTreeMap;

use orchestra_graph::condition::{Facts, parse_condition};
use orchestra_oracle_tests::conditions::holds;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, generate, seed};

use crate::support::facts;

#[test]
fn printed_conditions_keep_their_meaning() {
    let mut random = Random::new(seed(3));
    let (mut held, cases) = (0, case_count(10_000));
    for at in 0..cases {
        let depth = random.below(4);
        let tree = generate::expression(&mut random, depth);
        let text = tree.print(&mut random);
        let expression =
            parse_condition(&text).unwrap_or_else(|problem| panic!("case {at}: `{text}`: {problem}"));
        for _ in 0..3 {
            let seen = generate::seen(&mut random);
            let expected = tree.holds(&seen);
            assert_eq!(
                holds(&text, &seen),
                expected,
                "case {at}, second reading: `{text}` on {seen:#?}"
            );
            assert_eq!(
                expression.holds(&facts(&seen)),
                expected,
                "case {at}: `{text}` on {seen:#?}"
            );
            held += usize::from(expected);
        }
    }
    let share = held * 100 / (3 * cases);
    assert!((20..80).contains(&share), "{share} % hold: the cases say little");
}

#[test]
fn keys_of_a_condition_are_those_that_it_reads() {
    let mut random = Random::new(seed(4));
    for _ in 0..case_count(10_000) / 10 {
        let depth = random.below(3);
        let text = generate::expression(&mut random, depth).print(&mut random);
        let expression = parse_condition(&text).unwrap();
        let seen = generate::seen(&mut random);
        // Facts that hold nothing but the named keys must give the same answer.
        let keys = expression.keys();
        let mut bare = seen.clone();
        let own: [(&str, &mut String); 5] = [
            ("outcome", &mut bare.outcome),
            ("preferred_label", &mut bare.preferred_label),
            ("failure_reason", &mut bare.failure_reason),
            ("current_node", &mut bare.current_node),
            ("last_stage", &mut bare.last_stage),
        ];
        for (key, value) in own {
            if !keys.contains(&key) {
                value.clear();
            }
        }
        let named = |key: &String| {
            keys.iter()
                .any(|named| named == key || named.strip_prefix("context.") == Some(key))
        };
        bare.context = seen
            .context
            .iter()
            .filter(|(key, _)| named(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<BTreeMap<_, _>>();
        assert_eq!(
            expression.holds(&facts(&seen)),
            expression.holds(&facts(&bare)),
            "`{text}`"
        );
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let pieces = [
        "outcome",
        "context.x",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "&&",
        "||",
        "&",
        "|",
        "!",
        "(",
        ")",
        "'",
        "\"",
        " ",
        "\u{a0}",
        "\u{3000}",
        "大",
        "\\",
        "contains",
        "matches",
        "and",
        "[",
        "*",
        "\0",
        "\n",
        "\u{85}",
        "\u{feff}",
        "1",
        "-",
        ".",
        "é",
    ];
    let mut random = Random::new(seed(5));
    let mut accepted = 0;
    for _ in 0..case_count(10_000) * 5 {
        let text: String = (0..random.between(1, 9)).map(|_| *random.pick(&pieces)).collect();
        match parse_condition(&text) {
            Ok(expression) => {
                accepted += 1;
                let _ = expression.holds(&Facts::default());
            }
            Err(problem) => {
                let part = text.get(problem.range.clone());
                assert!(
                    part.is_some_and(|part| !part.is_empty()),
                    "{:?} of `{text}`: {problem}",
                    problem.range
                );
            }
        }
    }
    assert!(accepted > 50, "only {accepted} texts were conditions");
}
