//! Tests of routing nodes, which have no outcome of their own (rule R4).

use orchestra_oracle_tests::{End, Script, ScriptedOutcome, trace_of, unchecked_pipeline};

use crate::support::{failed, script};

#[test]
fn routing_nodes_are_transparent() {
    let dot = "digraph { start -> t; t -> d1 -> d2; node [shape=diamond]; d1; d2; \
               d2 -> mend [condition=\"outcome=fail && failure_reason='disk full' && preferred_label=Mend && last_stage=t\"]; \
               d2 -> ship [condition=\"outcome=success\"]; mend [shape=box]; ship [shape=box]; mend -> exit; ship -> exit; \
               exit [shape=Msquare]; start [shape=Mdiamond]; t [shape=box] }";
    let fail = ScriptedOutcome {
        preferred_label: "Mend".to_owned(),
        ..failed()
    };
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &script(&[("t", fail)]));
    assert_eq!(trace.visited(), ["start", "t", "d1", "d2", "mend", "exit"]);
    assert_eq!(trace.end, End::Success);
    assert!(
        !trace.outcomes.contains_key("d1"),
        "a routing node has no outcome of its own"
    );
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &Script::default());
    assert_eq!(trace.visited(), ["start", "t", "d1", "d2", "ship", "exit"]);
}

#[test]
fn routing_node_follows_labels_and_suggestions_of_the_stage_before() {
    let dot = "digraph { start -> t -> d; d [shape=diamond]; d -> a [weight=9]; d -> b [label=\"[B] Go on\"]; d -> c; \
               a -> exit; b -> exit; c -> exit }";
    let label = ScriptedOutcome {
        preferred_label: "go on".to_owned(),
        ..ScriptedOutcome::word("success")
    };
    let suggestion = ScriptedOutcome {
        suggested: vec!["c".to_owned()],
        ..failed()
    };
    for (said, expected) in [(label, "b"), (suggestion, "c"), (failed(), "a")] {
        let trace = trace_of(unchecked_pipeline(dot).unwrap(), &script(&[("t", said)]));
        assert_eq!(trace.visited(), ["start", "t", "d", expected, "exit"]);
    }
}

#[test]
fn routing_node_without_match_fails_with_the_reason_of_the_stage() {
    // Targets and intentions on the routing node change nothing: it did not fail.
    for attributes in [
        "",
        ", retry_target=t",
        ", fallback_retry_target=t",
        ", on_failure=fail",
    ] {
        let dot = format!(
            "digraph {{ start -> t -> d; d [shape=diamond{attributes}]; d -> exit [condition=\"outcome=success\"] }}"
        );
        let trace = trace_of(unchecked_pipeline(&dot).unwrap(), &script(&[("t", failed())]));
        let expected = End::StageFailed {
            node: "t".to_owned(),
            reason: "disk full".to_owned(),
        };
        assert_eq!((trace.visited().len(), trace.end), (3, expected), "{attributes}");
    }
    // Where the stage had not failed, no edge matched.
    let dot = "digraph { start -> t -> d; d [shape=diamond]; d -> exit [condition=\"outcome=fail\"] }";
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &Script::default());
    assert_eq!(trace.end.kind(), "NoMatchingEdge");
}

#[test]
fn routing_node_takes_a_failure_along_plain_edges() {
    let dot = "digraph { start -> t -> d; d [shape=diamond]; d -> ship [condition=\"outcome=success\"]; d -> other; \
               ship -> exit; other -> exit }";
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &script(&[("t", failed())]));
    assert_eq!(trace.visited(), ["start", "t", "d", "other", "exit"]);
}
