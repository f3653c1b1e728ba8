//! Tests of the bounds that the machine keeps around the router (rule R10).

use orchestra_oracle_tests::{End, Script, ScriptedOutcome, trace_of, unchecked_pipeline};

#[test]
fn visits_are_bounded_by_node_and_graph() {
    let run = |attributes: &str, node: &str| {
        let dot =
            format!("digraph {{ {attributes} start -> a -> b -> a; b -> exit [weight=-1]; a [{node}] }}");
        trace_of(unchecked_pipeline(&dot).unwrap(), &Script::default())
    };
    for (attributes, node, limit, attribute) in [
        ("", "", 1000, "max_node_visits"),
        ("max_node_visits=7;", "", 7, "max_node_visits"),
        ("", "max_visits=3", 3, "max_visits"),
        ("max_node_visits=7;", "max_visits=1", 1, "max_visits"),
        ("max_node_visits=7;", "max_visits=7", 7, "max_visits"),
    ] {
        let trace = run(attributes, node);
        let expected = End::MaxVisits {
            node: "a".to_owned(),
            limit,
            attribute: attribute.to_owned(),
        };
        assert_eq!(trace.end, expected);
        assert_eq!(
            trace.visited().iter().filter(|node| **node == "a").count(),
            limit as usize
        );
    }
}

#[test]
fn equal_failures_running_trip_the_breaker() {
    let run = |attributes: &str, reasons: &[&str]| {
        let dot = format!("digraph {{ {attributes} t [retry_target=mend]; start -> t -> exit; mend -> t }}");
        let list = reasons.iter().map(|reason| match *reason {
            "ok" => ScriptedOutcome::word("success"),
            reason => ScriptedOutcome::fail(reason),
        });
        let script = Script::new([("t", list.collect())]);
        trace_of(unchecked_pipeline(&dot).unwrap(), &script)
    };
    let tripped = |count: u32| End::FailureBreaker {
        node: "t".to_owned(),
        reason: "x".to_owned(),
        count,
    };
    let three = "failure_breaker=3;";
    assert_eq!(run(three, &["x"]).end, tripped(3));
    // `mend` succeeds in between; that is no success of `t`.
    assert_eq!(
        run(three, &["x"]).visited(),
        ["start", "t", "mend", "t", "mend", "t"]
    );
    assert_eq!(run(three, &["x", "x", "ok"]).end, End::Success);
    assert_eq!(run(three, &["x", "y", "x", "y", "x", "ok"]).end, End::Success);
    assert_eq!(run(three, &["y", "y", "x"]).end, tripped(3));
    assert_eq!(run("failure_breaker=1;", &["x"]).end, tripped(1));
    assert_eq!(run("failure_breaker=5;", &["x"]).end, tripped(5));
    // Nobody gets this bound unasked.
    let unasked = run("max_node_visits=20;", &["x"]).end;
    assert!(matches!(unasked, End::MaxVisits { .. }), "{unasked:?}");
    let off = run("failure_breaker=0; max_node_visits=20;", &["x"]).end;
    assert!(matches!(off, End::MaxVisits { .. }), "{off:?}");
}
