//! Tests of words, quotes, white space and operator precedence.

use orchestra_graph::condition::parse_condition;
use serde_json::json;

use crate::support::{answer, table, with};

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
