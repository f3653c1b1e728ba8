//! The condition language: every operator, key, type and fault, and the second reading of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use orchestra_graph::condition::{Facts, PLAIN_KEYS, parse_condition};
use orchestra_oracle_tests::conditions::{Seen, holds};
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, generate, load_pipeline, seed};
use serde_json::{Value, json};

fn facts(seen: &Seen) -> Facts<'_> {
    Facts {
        outcome: &seen.outcome,
        preferred_label: &seen.preferred_label,
        failure_reason: &seen.failure_reason,
        current_node: &seen.current_node,
        last_stage: &seen.last_stage,
        context: &seen.context,
        ..Facts::default()
    }
}

fn answer(condition: &str, seen: &Seen) -> bool {
    let expression = parse_condition(condition).unwrap_or_else(|problem| panic!("`{condition}`: {problem}"));
    expression.holds(&facts(seen))
}

fn with(outcome: &str, pairs: &[(&str, Value)]) -> Seen {
    Seen {
        outcome: outcome.to_owned(),
        context: pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        ..Seen::default()
    }
}

/// Holds both readings to a table.
fn table(seen: &Seen, rows: &[(&str, bool)]) {
    for (condition, expected) in rows {
        assert_eq!(answer(condition, seen), *expected, "`{condition}`");
        assert_eq!(holds(condition, seen), *expected, "`{condition}`, second reading");
    }
}

// The seven rows of the control-flow table.

#[test]
fn outcome_equals_success() {
    table(
        &with("success", &[]),
        &[("outcome=success", true), ("outcome=fail", false)],
    );
    table(
        &with("fail", &[]),
        &[("outcome=success", false), ("outcome=fail", true)],
    );
}

#[test]
fn outcome_differs_from_success() {
    table(&with("success", &[]), &[("outcome!=success", false)]);
    for word in ["fail", "partial_success", "retry", "skipped", "needs_work"] {
        table(&with(word, &[]), &[("outcome!=success", true)]);
    }
}

#[test]
fn context_key_equals_value() {
    let seen = with("success", &[("key", json!("value"))]);
    table(
        &seen,
        &[
            ("context.key=value", true),
            ("context.key=Value", false),
            ("context.key=valu", false),
        ],
    );
}

#[test]
fn conjunction_requires_both_clauses() {
    let condition = "outcome=success && context.flag=true";
    for (outcome, flag, expected) in [
        ("success", "true", true),
        ("success", "false", false),
        ("fail", "true", false),
        ("fail", "false", false),
    ] {
        table(&with(outcome, &[("flag", json!(flag))]), &[(condition, expected)]);
    }
}

#[test]
fn missing_context_key_is_the_empty_string() {
    let seen = with("success", &[]);
    let rows = [
        ("context.missing=value", false),
        ("context.missing!=value", true),
        ("context.missing=\"\"", true),
        ("context.missing=''", true),
        ("context.missing!=''", false),
        ("context.missing", false),
        ("!context.missing", true),
        ("context.missing<1", false),
        ("context.missing>=0", false),
        ("context.missing contains x", false),
        ("context.missing contains ''", true),
        ("context.missing matches '^$'", true),
        ("context.missing matches x", false),
        ("last_response=''", true),
        ("graph.goal=''", true),
        ("human.gate.label=''", true),
    ];
    table(&seen, &rows);
}

#[test]
fn empty_condition_holds_always() {
    for outcome in ["success", "fail", "retry", ""] {
        table(&with(outcome, &[]), &[("", true), ("  \t\n ", true)]);
    }
}

#[test]
fn invalid_condition_syntax_is_refused_when_the_file_is_read() {
    for condition in [
        "outcome == success",
        "outcome=success &&& outcome=fail",
        "outcome=",
        "outcome success",
    ] {
        assert!(parse_condition(condition).is_err(), "`{condition}`");
        let dot = format!("digraph {{ start -> t; t -> exit [condition=\"{condition}\"] }}");
        assert!(load_pipeline(&dot).is_err(), "`{condition}`");
    }
}

// Keys.

#[test]
fn plain_keys_are_facts_of_the_stage() {
    let mut seen = with("fail", &[("last_response", json!("done"))]);
    seen.preferred_label = "Fix it".to_owned();
    seen.failure_reason = "disk full".to_owned();
    seen.current_node = "judge".to_owned();
    seen.last_stage = "build".to_owned();
    let rows = [
        ("outcome=fail", true),
        ("preferred_label=Fix it", true),
        ("preferred_label=\"Fix it\"", true),
        ("preferred_label=fix it", true),
        ("preferred_label!=\"[F] FIX IT \"", false),
        ("preferred_label=fix", false),
        ("failure_reason='disk full'", true),
        ("failure_reason contains full", true),
        ("failure_reason matches '^disk'", true),
        ("current_node=judge", true),
        ("last_stage=build", true),
        ("last_response=done", true),
        ("outcome", true),
        ("preferred_label contains y", false),
    ];
    table(&seen, &rows);
    assert_eq!(PLAIN_KEYS.len(), 6, "a new key wants a row here");
}

#[test]
fn context_keys_are_looked_up_with_their_prefix_first() {
    let both = with(
        "success",
        &[("context.mode", json!("long")), ("mode", json!("short"))],
    );
    table(
        &both,
        &[("context.mode=long", true), ("context.mode=short", false)],
    );
    let short = with("success", &[("mode", json!("short"))]);
    table(&short, &[("context.mode=short", true)]);
    // The prefix is only taken away, never added.
    let long = with("success", &[("context.work.item", json!("a"))]);
    table(&long, &[("work.item=a", false), ("context.work.item=a", true)]);
    let deep = with("success", &[("a.b.c", json!(1)), ("a-b:c", json!(2))]);
    table(
        &deep,
        &[
            ("context.a.b.c=1", true),
            ("context.a-b:c=2", true),
            ("context.a.b=1", false),
        ],
    );
}

#[test]
fn namespaces_of_the_engine_are_keys() {
    let keys = [
        "graph.goal",
        "human.gate.selected",
        "parallel.results",
        "stack.child.outcome",
        "work.item",
        "internal.retry_count.build",
        "tool.exit_code",
        "context.x",
    ];
    for key in keys {
        let seen = with("success", &[(key, json!("v"))]);
        table(
            &seen,
            &[
                (&format!("{key}=v"), true),
                (&format!("{key}=w"), false),
                (key, true),
            ],
        );
    }
}

#[test]
fn the_context_cannot_hide_a_fact_of_the_stage() {
    let seen = with(
        "fail",
        &[("outcome", json!("success")), ("failure_reason", json!("x"))],
    );
    table(
        &seen,
        &[
            ("outcome=fail", true),
            ("failure_reason=x", false),
            ("context.failure_reason=x", true),
        ],
    );
}

// Types.

#[test]
fn values_compare_by_their_plain_text() {
    let seen = with(
        "success",
        &[
            ("yes", json!(true)),
            ("no", json!(false)),
            ("three", json!(3)),
            ("minus", json!(-3)),
            ("half", json!(0.5)),
            ("text", json!("0.50")),
            ("null", json!(null)),
            ("large", json!(u64::MAX)),
        ],
    );
    let rows = [
        ("context.yes=true", true),
        ("context.yes=\"true\"", true),
        ("context.yes=True", false),
        ("context.no=false", true),
        ("context.no!=true", true),
        ("context.three=3", true),
        ("context.three='3'", true),
        ("context.three=3.0", false),
        ("context.minus=-3", true),
        ("context.half=0.5", true),
        ("context.text=0.5", false),
        ("context.text=0.50", true),
        ("context.null=''", true),
        ("context.null=null", false),
        ("context.large=18446744073709551615", true),
    ];
    table(&seen, &rows);
}

#[test]
fn bare_keys_ask_whether_a_value_says_yes() {
    for (value, expected) in [
        (json!(true), true),
        (json!(false), false),
        (json!(1), true),
        (json!(-1), true),
        (json!(0), false),
        (json!("yes"), true),
        (json!("no"), true),
        (json!("false"), false),
        (json!("0"), false),
        (json!(""), false),
        (json!(null), false),
        (json!(["a"]), true),
    ] {
        let seen = with("success", &[("x", value.clone())]);
        table(
            &seen,
            &[
                ("context.x", expected),
                ("!context.x", !expected),
                ("! ! context.x", expected),
            ],
        );
    }
}

#[test]
fn lists_contain_their_members_and_texts_their_parts() {
    let seen = with(
        "success",
        &[
            ("list", json!(["alpha", 2, true, null])),
            ("text", json!("alphabet")),
            ("number", json!(1234)),
        ],
    );
    let rows = [
        ("context.list contains alpha", true),
        ("context.list contains alph", false),
        ("context.list contains 2", true),
        ("context.list contains true", true),
        ("context.list contains ''", true),
        ("context.list contains gamma", false),
        ("context.text contains alpha", true),
        ("context.text contains Alpha", false),
        ("context.number contains 23", true),
        ("!context.list contains alpha", false),
    ];
    table(&seen, &rows);
}

#[test]
fn order_is_for_numbers_only() {
    let seen = with(
        "success",
        &[
            ("n", json!(10)),
            ("f", json!(2.5)),
            ("t", json!("9")),
            ("padded", json!(" 7 ")),
            ("word", json!("ten")),
            ("flag", json!(true)),
            ("inf", json!("inf")),
            ("list", json!([1])),
        ],
    );
    let rows = [
        ("context.n<11", true),
        ("context.n<10", false),
        ("context.n<=10", true),
        ("context.n<=9", false),
        ("context.n>9", true),
        ("context.n>10", false),
        ("context.n>=10", true),
        ("context.n>=11", false),
        ("context.n > 9.99", true),
        ("context.n<1e2", true),
        ("context.f>2", true),
        ("context.f<-2", false),
        // As text `9` would stand behind `10`.
        ("context.t<10", true),
        ("context.padded=7", false),
        ("context.padded>=7", true),
        ("context.word<11", false),
        ("context.word>=0", false),
        ("context.flag>0", false),
        ("context.inf>0", false),
        ("context.list>0", false),
        ("context.n<ten", false),
        ("context.n>=nan", false),
        ("context.n<'11'", true),
    ];
    table(&seen, &rows);
}

#[test]
fn patterns_match_anywhere_unless_anchored() {
    let seen = with("success", &[("v", json!("v12-beta")), ("n", json!(42))]);
    let rows = [
        ("context.v matches '[0-9]+'", true),
        ("context.v matches '^[0-9]+'", false),
        ("context.v matches \"^v[0-9]+-beta$\"", true),
        ("context.v matches beta", true),
        ("context.v matches Beta", false),
        ("context.n matches '^4.$'", true),
        ("context.v matches ''", true),
    ];
    table(&seen, &rows);
    // More than the second reading knows.
    for (condition, expected) in [
        ("context.v matches '^(v|r)\\d{2}-(alpha|beta)$'", true),
        ("context.v matches '(?i)BETA'", true),
        ("!(context.v matches '^(v|r)[^-]*$')", true),
    ] {
        assert_eq!(answer(condition, &seen), expected, "`{condition}`");
    }
}

// Words, quotes and binding.

#[test]
fn literals_may_be_bare_words_or_quoted() {
    let seen = with(
        "success",
        &[
            ("two", json!("two words")),
            ("signs", json!("a && (b) || !c = d")),
            ("apostrophe", json!("it's")),
            ("quote", json!("say \"x\"")),
            ("umlaut", json!("größe – 大")),
            ("path", json!("src/a.rs")),
            ("wide", json!("a  b")),
            ("backslash", json!("a\\b")),
        ],
    );
    let rows = [
        ("context.two=two words", true),
        ("context.two = two words ", true),
        ("context.two='two words'", true),
        ("context.two=two words && outcome=success", true),
        ("(context.two=two words)", true),
        ("context.signs='a && (b) || !c = d'", true),
        ("context.apostrophe=\"it's\"", true),
        ("context.quote='say \"x\"'", true),
        ("context.umlaut=größe – 大", true),
        ("context.umlaut='größe – 大'", true),
        ("context.umlaut contains 大", true),
        ("context.path=src/a.rs", true),
        ("context.wide=a  b", true),
        ("context.wide=a b", false),
        // Nothing is escaped inside quotes: the other quote is there for that.
        ("context.backslash='a\\b'", true),
        ("context.two=' two words'", false),
    ];
    table(&seen, &rows);
}

#[test]
fn not_binds_before_and_which_binds_before_or() {
    // Every truth table of three flags tells the bindings apart.
    for bits in 0..8 {
        let flag = |bit: u32| bits >> bit & 1 == 1;
        let (a, b, c) = (flag(0), flag(1), flag(2));
        let seen = with("success", &[("a", json!(a)), ("b", json!(b)), ("c", json!(c))]);
        let rows = [
            ("context.a || context.b && context.c", a || b && c),
            ("context.a && context.b || context.c", a && b || c),
            ("(context.a || context.b) && context.c", (a || b) && c),
            ("!context.a && context.b", !a && b),
            ("!(context.a && context.b)", !(a && b)),
            ("!context.a || context.b", !a || b),
            ("!context.a=true", !a),
            ("!context.a!=true", a),
            ("!!context.a", a),
            ("! ( ! context.a || ! context.b ) && context.c", a && b && c),
            ("context.a||context.b||context.c", a || b || c),
            ("context.a&&context.b&&context.c", a && b && c),
            ("((context.a))", a),
            ("context.a && (context.b || context.c)", a && (b || c)),
        ];
        table(&seen, &rows);
    }
}

#[test]
fn a_trailing_conjunction_says_nothing() {
    let seen = with("success", &[]);
    table(
        &seen,
        &[("outcome=success &&", true), ("outcome=fail && ", false)],
    );
}

#[test]
fn any_white_space_separates() {
    let seen = with("success", &[("x", json!("a b"))]);
    let rows = [
        ("outcome\u{a0}=\u{a0}success", true),
        (
            "\u{2003}outcome=success\u{2003}&&\u{3000}outcome!=fail\u{a0}",
            true,
        ),
        ("outcome\u{b}=\u{c}success\u{85}", true),
        ("\u{a0}", true),
        ("!\u{2028}outcome=success", false),
        ("context.x=a b\u{a0}", true),
    ];
    table(&seen, &rows);
}

// Faults.

/// The part of the text that is at fault, what the message says, and what would mend it.
type Row = (&'static str, &'static str, &'static str, Option<&'static str>);

#[test]
fn faults_point_at_the_place_that_must_change() {
    let rows: &[Row] = &[
        ("outcme=fail", "outcme", "unknown key `outcme`", Some("outcome")),
        (
            "outcome=success && outcom=fail",
            "outcom",
            "unknown key",
            Some("outcome"),
        ),
        (
            "prefered_label=x",
            "prefered_label",
            "unknown key",
            Some("preferred_label"),
        ),
        (
            "tests_passed=true",
            "tests_passed",
            "unknown key `tests_passed`",
            None,
        ),
        ("context.=x", "context.", "unknown key", None),
        (".x=1", ".x", "unknown key", None),
        ("context..x", "context..x", "unknown key", None),
        ("context.a/b=1", "context.a/b", "unknown key", None),
        ("$x=1", "$x", "unknown key", None),
        ("outcome==success", "==", "`==` is not an operator", Some("=")),
        ("outcome = = success", "=", "a value is missing after `=`", None),
        (
            "outcome=success & outcome=fail",
            "&",
            "`&` is not an operator",
            Some("&&"),
        ),
        (
            "outcome=success | outcome=fail",
            "|",
            "`|` is not an operator",
            Some("||"),
        ),
        (
            "outcome=success and outcome=fail",
            "and",
            "unexpected `and`",
            Some("&&"),
        ),
        (
            "outcome=success OR outcome=fail",
            "OR",
            "unexpected `OR`",
            Some("||"),
        ),
        ("outcome", "", "", None),
        ("outcome=", "=", "a value is missing", None),
        ("outcome!=", "!=", "a value is missing", None),
        ("outcome contains", "contains", "a value is missing", None),
        ("outcome=&& outcome=fail", "=", "a value is missing", None),
        ("outcome=(fail)", "=", "a value is missing", None),
        ("=success", "=", "expected a key", None),
        ("&& outcome=success", "&&", "expected a key", None),
        ("'outcome'=success", "'outcome'", "expected a key", None),
        ("outcome=success && && outcome=fail", "&&", "expected a key", None),
        ("outcome=success ||", "|", "a clause is missing at the end", None),
        ("!", "!", "a clause is missing", None),
        ("(outcome=success", "(", "never closed", None),
        ("outcome=success)", ")", "unexpected `)`", None),
        ("()", ")", "expected a key", None),
        (
            "(outcome=success outcome=fail)",
            "outcome",
            "unexpected `outcome`",
            None,
        ),
        (
            "outcome=success outcome=fail",
            "outcome",
            "unexpected `outcome`",
            None,
        ),
        ("outcome='success", "'success", "never closed", None),
        ("preferred_label=\"größe", "\"größe", "never closed", None),
        ("outcome='a' 'b'", "'b'", "unexpected", None),
        ("outcome success", "success", "unexpected `success`", None),
        ("outcome<success>fail", ">", "unexpected `>`", None),
        (
            "failure_reason matches '('",
            "'('",
            "regular expression is invalid",
            None,
        ),
        (
            "failure_reason matches [z-a]",
            "[z-a]",
            "regular expression is invalid",
            None,
        ),
        ("größe=1", "größe", "unknown key `größe`", None),
        (
            "outcome=大 und && oucome",
            "oucome",
            "unknown key",
            Some("outcome"),
        ),
    ];
    for (text, part, message, replacement) in rows {
        if part.is_empty() {
            assert!(parse_condition(text).is_ok(), "`{text}`");
            continue;
        }
        let problem = parse_condition(text).expect_err(text);
        assert_eq!(
            text.get(problem.range.clone()),
            Some(*part),
            "`{text}`: {problem}"
        );
        assert!(problem.message.contains(message), "`{text}`: {problem}");
        assert_eq!(
            problem.replacement.as_deref(),
            *replacement,
            "`{text}`: {problem}"
        );
        assert!(!problem.help.is_empty(), "`{text}` has no help");
    }
}

#[test]
fn of_two_equal_parts_the_faulty_one_is_shown() {
    let problem = parse_condition("outcome=success outcome=fail").unwrap_err();
    assert_eq!(problem.range, 16..23);
    let problem = parse_condition("outcome=success && && outcome=fail").unwrap_err();
    assert_eq!(problem.range, 19..21);
    let problem = parse_condition("outcome = = success").unwrap_err();
    assert_eq!(problem.range, 8..9);
}

#[test]
fn what_mends_a_fault_mends_it() {
    for text in [
        "outcme=fail",
        "outcome==success",
        "outcome=fail & outcome=retry",
        "outcome=fail or last_stage=x",
        "last_stge",
    ] {
        let problem = parse_condition(text).unwrap_err();
        let mut mended = text.to_owned();
        mended.replace_range(problem.range, &problem.replacement.unwrap());
        assert!(parse_condition(&mended).is_ok(), "`{text}` became `{mended}`");
    }
}

#[test]
fn nesting_has_a_bound_and_long_chains_do_not() {
    for (open, close) in [("(", ")"), ("!", ""), ("!(", ")")] {
        let nested = |depth: usize| format!("{}outcome=fail{}", open.repeat(depth), close.repeat(depth));
        assert!(parse_condition(&nested(20)).is_ok());
        let problem = parse_condition(&nested(100_000)).unwrap_err();
        assert!(problem.message.contains("deeper"), "{problem}");
    }
    let siblings = vec!["(outcome=fail)"; 10_000].join(" || ");
    assert!(parse_condition(&siblings).is_ok());
    assert!(answer(&siblings, &with("fail", &[])));
}

// Chance.

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
