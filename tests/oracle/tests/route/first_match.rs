//! Tests of pipelines that take the first matching edge (rule R11).

use orchestra_oracle_tests::{End, Script, ScriptedOutcome, load_pipeline, trace_of, unchecked_pipeline};
use serde_json::{Value, json};

use crate::support::{Known, failed, failure, known, success, table};

fn first_match(statements: &str, rows: &[(Known, &str)]) {
    table(&format!("routing=first_match; {statements}"), rows);
}

#[test]
fn first_match_follows_the_order_of_the_file() {
    first_match(
        "t -> z [condition_type=success, weight=-9]; t -> a [condition_type=always, weight=9, label=\"Fix\"]; t -> exit",
        &[
            (success(), "z by first_match"),
            (success().label("Fix").suggested(&["a"]), "z by first_match"),
            (failure(), "a by first_match"),
        ],
    );
    for plain in ["", " [condition_type=always]", " [condition_type=unconditional]"] {
        first_match(
            &format!("t -> z{plain}; t -> exit"),
            &[(success(), "z by first_match"), (failure(), "z by first_match")],
        );
    }
    first_match(
        "t -> z [condition=\"context.x=1\"]; t -> exit",
        &[
            (success(), "exit by first_match"),
            (success().with("x", json!(1)), "z by first_match"),
        ],
    );
}

#[test]
fn success_and_failure_look_at_the_status_only() {
    let statements = "t -> bad [condition_type=failure]; t -> good [condition_type=success]; t -> exit; bad -> exit; good -> exit";
    for (outcome, expected) in [
        ("success", "good by first_match"),
        ("partial_success", "good by first_match"),
        ("needs_work", "good by first_match"),
        ("fail", "bad by first_match"),
    ] {
        first_match(statements, &[(known(outcome), expected)]);
    }
}

#[test]
fn conditional_knows_four_forms_of_value() {
    let yes = "a by first_match";
    let no = "exit by first_match";
    let check = |written: &str, rows: &[(Option<Value>, &str)]| {
        let escaped = written.replace('"', "\\\"");
        let statements = format!(
            "t -> a [condition_type=conditional, condition_value=\"{escaped}\"]; t -> exit; a -> exit"
        );
        for (value, expected) in rows {
            // The context does not count, only what the stage itself gave.
            let mut known = success().with("key", json!(true)).with("key2", json!(0));
            if let Some(value) = value {
                known = known.output("key", value.clone());
            }
            first_match(&statements, &[(known, *expected)]);
        }
    };
    for key in ["key", " key ", "\"key\""] {
        check(
            key,
            &[
                (Some(json!(true)), yes),
                (Some(json!(false)), yes),
                (Some(json!("")), yes),
                (Some(json!(null)), yes),
                (None, no),
            ],
        );
    }
    for (key, value) in [("key", "value"), ("check_output_key", "expected_value")] {
        let written = |json: &str| format!("{{\"{key}\": \"key\", \"{value}\": {json}}}");
        check(
            &written("true"),
            &[
                (Some(json!(true)), yes),
                (Some(json!(false)), no),
                (Some(json!("true")), no),
                (Some(json!(1)), no),
                (None, no),
            ],
        );
        check(
            &written("\"approved\""),
            &[
                (Some(json!("approved")), yes),
                (Some(json!("Approved")), no),
                (Some(json!(null)), no),
                (None, no),
            ],
        );
        check(
            &written("0"),
            &[
                (Some(json!(0)), yes),
                (Some(json!(0.0)), yes),
                (Some(json!("0")), no),
                (Some(json!(false)), no),
                (Some(json!(1)), no),
                (None, no),
            ],
        );
        check(&written("0.5"), &[(Some(json!(0.5)), yes), (Some(json!(0)), no)]);
        check(&written("-3"), &[(Some(json!(-3)), yes), (Some(json!(3)), no)]);
    }
}

#[test]
fn faulty_condition_values_are_refused_when_the_file_is_read() {
    for written in [
        "",
        "  ",
        "{",
        "{\"key\": \"a\"}",
        "{\"value\": 1}",
        "{\"key\": 1, \"value\": 1}",
        "5",
        "true",
        "null",
        "[\"a\"]",
        "\"a",
    ] {
        let escaped = written.replace('"', "\\\"");
        let dot = format!(
            "digraph {{ routing=first_match; start -> t; t -> exit [condition_type=conditional, condition_value=\"{escaped}\"] }}"
        );
        assert!(load_pipeline(&dot).is_err(), "`{written}`");
    }
    let without = "digraph { routing=first_match; start -> t; t -> exit [condition_type=conditional] }";
    assert!(load_pipeline(without).is_err());
}

#[test]
fn first_match_without_a_way_on() {
    first_match(
        "t -> exit [condition_type=conditional, condition_value=done]",
        &[
            (success(), "fail no_matching_edge by nothing"),
            (failure(), "fail stage_failed by nothing"),
            (success().output("done", json!(false)), "exit by first_match"),
        ],
    );
    first_match(
        "start -> u -> exit",
        &[
            (success(), "end true by end"),
            (failure(), "fail stage_failed by nothing"),
        ],
    );
    first_match(
        "t [end=fail]; start -> u -> exit",
        &[(success(), "end false by end")],
    );
    first_match(
        "t [retry_target=u]; start -> u -> exit; t -> exit [condition_type=success]",
        &[(failure(), "jump u by retry_target")],
    );
}

#[test]
fn revisits_want_leave() {
    let run = |edge: &str, times: usize| {
        let dot = format!(
            "digraph {{ routing=first_match; start -> a -> t; t -> a [condition_type=failure{edge}]; t -> exit }}"
        );
        let mut list = vec![failed(); times];
        list.push(ScriptedOutcome::word("success"));
        let script = Script::new([("t", list)]);
        let trace = trace_of(
            unchecked_pipeline(&dot.replace("{ routing", "{ failure_breaker=0; routing")).unwrap(),
            &script,
        );
        (trace.visited().len(), trace.end)
    };
    let circular = || End::Circular {
        from: "t".to_owned(),
        to: "a".to_owned(),
    };
    assert_eq!(run("", 0), (4, End::Success));
    assert_eq!(run("", 1), (3, circular()));
    assert_eq!(run(", allow_revisit=false", 1), (3, circular()));
    assert_eq!(run(", max_revisits=5", 1), (3, circular()));
    // The way from `a` to `t` leads back as well.
    assert_eq!(
        run(", allow_revisit=true", 1).1,
        End::Circular {
            from: "a".to_owned(),
            to: "t".to_owned()
        }
    );
}

#[test]
fn revisits_may_be_bounded() {
    let run = |bound: &str, times: usize| {
        let dot = format!(
            "digraph {{ routing=first_match; failure_breaker=0; start -> t; t -> t [condition_type=failure, allow_revisit=true{bound}]; t -> exit }}"
        );
        let mut list = vec![failed(); times];
        list.push(ScriptedOutcome::word("success"));
        let script = Script::new([("t", list)]);
        let trace = trace_of(unchecked_pipeline(&dot).unwrap(), &script);
        (
            trace.visited().iter().filter(|node| **node == "t").count(),
            trace.end == End::Success,
        )
    };
    assert_eq!(run("", 7), (8, true));
    assert_eq!(run(", max_revisits=2", 2), (3, true));
    assert_eq!(run(", max_revisits=2", 3), (3, false));
    assert_eq!(run(", max_revisits=1", 1), (2, true));
}
