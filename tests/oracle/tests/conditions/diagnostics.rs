//! Tests of the diagnostics of invalid conditions.

use orchestra_graph::condition::parse_condition;

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
            Some("context.tests_passed"),
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
        ("größe=1", "größe", "unknown key `größe`", Some("context.größe")),
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
