//! Tests of the steps after a failed stage, each with every later one present (rule R3).

use crate::support::{failure, known, success, table};

const LADDER: &str = "t [retry_target=r, fallback_retry_target=f]; d [shape=diamond]; r -> exit; f -> exit; t -> plain; plain -> exit; d -> exit";

#[test]
fn failure_first_takes_a_matching_condition() {
    let statements = format!("{LADDER}; t -> d; t -> mend [condition=\"outcome=fail\"]; mend -> exit");
    table(
        &statements,
        &[
            (failure(), "mend by condition"),
            (success(), "d by lowest_target"),
        ],
    );
    // Any condition that holds takes it, not only one on the outcome.
    let statements =
        format!("{LADDER}; t -> d; t -> mend [condition=\"failure_reason contains disk\"]; mend -> exit");
    table(&statements, &[(failure(), "mend by condition")]);
}

#[test]
fn failure_then_goes_to_a_routing_node() {
    let statements = format!("{LADDER}; t -> d; t -> mend [condition=\"outcome=success\"]; mend -> exit");
    table(
        &statements,
        &[
            (failure(), "d by failure_to_routing"),
            (success(), "mend by condition"),
        ],
    );
    // A heavier plain edge does not matter, nor do label and suggestion that lead to a plain one.
    let statements = format!("{LADDER}; t -> w [weight=9, label=\"W\"]; t -> d; w -> exit");
    table(
        &statements,
        &[(failure().label("W").suggested(&["w"]), "d by failure_to_routing")],
    );
    // Of several routing nodes the steps two to five choose.
    let statements = format!(
        "{LADDER}; t -> d; t -> c [label=\"See\"]; c [shape=diamond]; c -> exit; t -> e [weight=1]; e [type=conditional]; e -> exit"
    );
    table(
        &statements,
        &[
            (failure(), "e by failure_to_routing"),
            (failure().label("see"), "c by failure_to_routing"),
            (failure().suggested(&["d"]), "d by failure_to_routing"),
        ],
    );
    // A condition that does not hold keeps the way to a routing node shut, too.
    let statements = format!("{LADDER}; t -> d [condition=\"outcome=success\"]");
    table(&statements, &[(failure(), "jump r by retry_target")]);
}

#[test]
fn failure_then_jumps_to_the_retry_target() {
    table(
        LADDER,
        &[
            (failure(), "jump r by retry_target"),
            (success(), "plain by only_edge"),
        ],
    );
}

#[test]
fn failure_then_jumps_to_the_fallback_retry_target() {
    table(
        &LADDER.replace("retry_target=r, ", ""),
        &[(failure(), "jump f by fallback_retry_target")],
    );
    // A target that does not exist is none (Attractor 2.5).
    table(
        &LADDER.replace("retry_target=r, ", "retry_target=nowhere, "),
        &[(failure(), "jump f by fallback_retry_target")],
    );
}

#[test]
fn failure_then_fails_the_run() {
    table(
        "t -> plain; plain -> exit",
        &[
            (failure(), "fail stage_failed by nothing"),
            (failure().suggested(&["plain"]), "fail stage_failed by nothing"),
        ],
    );
    table(
        "r -> exit; start -> r",
        &[(failure(), "fail stage_failed by nothing")],
    );
    // The graph's own targets are for goal gates, not for failed stages.
    table(
        "retry_target=r; t -> r; r -> exit",
        &[(failure(), "fail stage_failed by nothing")],
    );
}

#[test]
fn plain_edges_take_a_failure_where_the_node_or_graph_says_so() {
    let node = "t [on_failure=route, retry_target=r]; t -> a; t -> b [weight=1]; t -> d; d [shape=diamond]; d -> exit; a -> exit; r -> exit";
    table(
        node,
        &[
            (failure(), "b by weight"),
            (failure().suggested(&["a"]), "a by suggested_next"),
        ],
    );
    let graph = "on_failure=route; t -> a; t -> mend [condition=\"outcome=fail\"]; a -> exit";
    table(
        graph,
        &[(failure(), "mend by condition"), (success(), "a by only_edge")],
    );
    table(
        "on_failure=route; t -> a; a -> exit",
        &[(failure(), "a by only_edge")],
    );
    // The node's word stands against the graph's.
    table(
        "on_failure=route; t [on_failure=fail]; t -> a; a -> exit",
        &[(failure(), "fail stage_failed by nothing")],
    );
    // Where no edge may be taken the ladder goes on.
    table(
        "t [on_failure=route, retry_target=r]; t -> r [condition=\"outcome=success\"]; r -> exit",
        &[(failure(), "jump r by retry_target")],
    );
}

#[test]
fn only_fail_is_a_failure() {
    for outcome in ["success", "partial_success", "skipped", "needs_work"] {
        table(
            "t [retry_target=r]; t -> a; a -> exit; r -> exit",
            &[(known(outcome), "a by only_edge")],
        );
    }
}
