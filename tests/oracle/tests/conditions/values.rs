//! Tests of the operators for each type of value.

use serde_json::json;

use crate::support::{answer, table, with};

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
