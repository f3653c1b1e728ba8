//! The router, rule by rule: one table a rule, each row a graph, what is known, and where it must lead.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use orchestra_graph::condition::Facts;
use orchestra_graph::{Decision, Next, Pipeline, RouteError, route};
use orchestra_oracle_tests::{End, Script, ScriptedOutcome, load_pipeline, trace_of, unchecked_pipeline};
use serde_json::{Value, json};

/// A pipeline of some statements, with start and exit by id.
fn pipeline(statements: &str) -> Pipeline {
    unchecked_pipeline(&format!("digraph {{ {statements} }}"))
        .unwrap_or_else(|told| panic!("{statements}\n{told}"))
}

/// What is known when an edge is chosen, written shortly.
#[derive(Clone, Default)]
struct Known {
    outcome: &'static str,
    label: &'static str,
    suggested: &'static [&'static str],
    context: BTreeMap<String, Value>,
    output: BTreeMap<String, Value>,
}

fn success() -> Known {
    Known {
        outcome: "success",
        ..Known::default()
    }
}

fn failure() -> Known {
    Known {
        outcome: "fail",
        ..Known::default()
    }
}

impl Known {
    fn label(self, label: &'static str) -> Known {
        Known { label, ..self }
    }

    fn suggested(self, suggested: &'static [&'static str]) -> Known {
        Known { suggested, ..self }
    }

    fn with(mut self, key: &str, value: Value) -> Known {
        self.context.insert(key.to_owned(), value);
        self
    }

    fn output(mut self, key: &str, value: Value) -> Known {
        self.output.insert(key.to_owned(), value);
        self
    }
}

fn decide(pipeline: &Pipeline, node: &str, known: &Known) -> Decision {
    let suggested: Vec<String> = known.suggested.iter().map(|id| (*id).to_owned()).collect();
    let facts = Facts {
        outcome: known.outcome,
        preferred_label: known.label,
        failure_reason: if known.outcome == "fail" { "disk full" } else { "" },
        suggested_next_ids: &suggested,
        current_node: node,
        last_stage: node,
        context: &known.context,
        output: &known.output,
        ..Facts::default()
    };
    route(pipeline, pipeline.find(node).unwrap(), &facts)
}

/// Where a decision leads and by which rule, such as `fix by condition` or `fail stage_failed by nothing`.
fn told(pipeline: &Pipeline, decision: &Decision) -> String {
    let way = match decision.next {
        Next::Edge(edge) => pipeline.stage(pipeline.edge(edge).to).id().to_owned(),
        Next::Jump(target) => format!("jump {}", pipeline.stage(target).id()),
        Next::End { success } => format!("end {success}"),
        Next::Fail(RouteError::StageFailed) => "fail stage_failed".to_owned(),
        Next::Fail(RouteError::NoMatchingEdge) => "fail no_matching_edge".to_owned(),
        Next::Fail(RouteError::DeadEnd) => "fail dead_end".to_owned(),
    };
    format!("{way} by {}", decision.rule.word())
}

/// Holds what is decided at `t` to a table.
fn table(statements: &str, rows: &[(Known, &str)]) {
    let pipeline = pipeline(&format!("start -> t; {statements}"));
    for (at, (known, expected)) in rows.iter().enumerate() {
        let decision = decide(&pipeline, "t", known);
        assert_eq!(told(&pipeline, &decision), *expected, "row {at} of {statements}");
        // One function of its arguments, nothing else.
        assert_eq!(decision, decide(&pipeline, "t", known));
    }
}

// R1: the rows of the control-flow table.

#[test]
fn condition_match_wins() {
    let statements =
        "t -> a [condition=\"outcome=success\", weight=-5]; t -> b [weight=100, label=\"B\"]; t -> exit";
    table(
        statements,
        &[
            (success(), "a by condition"),
            (success().label("B"), "a by condition"),
            (success().suggested(&["b"]), "a by condition"),
            (
                Known {
                    outcome: "skipped",
                    ..success()
                },
                "b by weight",
            ),
        ],
    );
}

#[test]
fn matching_conditions_are_ordered_by_weight_then_target() {
    let statements = "t -> z [condition=\"outcome=success\"]; t -> m [condition=\"context.x=1\"]; \
                      t -> a [condition=\"context.y=1\", weight=-1]; t -> k [condition=\"context.w=1\", weight=7]; \
                      t -> exit [weight=99]";
    table(
        statements,
        &[
            (success(), "z by condition"),
            (success().with("x", json!(1)), "m by condition"),
            (success().with("y", json!(1)), "z by condition"),
            (
                success().with("x", json!(1)).with("w", json!(1)),
                "k by condition",
            ),
            (failure().with("y", json!(1)), "a by condition"),
        ],
    );
}

#[test]
fn preferred_label_match() {
    let statements = "t -> a [label=\"Ship\", weight=9]; t -> b [label=\"Fix\"]; t -> c [label=\"Fix\", weight=5]; t -> exit";
    table(
        statements,
        &[
            // Of two edges with the label the first one written is taken.
            (success().label("Fix"), "b by preferred_label"),
            (success().label("Ship"), "a by preferred_label"),
            (success().label("Fix").suggested(&["a"]), "b by preferred_label"),
            (success().label("Burn").suggested(&["c"]), "c by suggested_next"),
            (success().label("Burn"), "a by weight"),
            (success().label(""), "a by weight"),
        ],
    );
}

#[test]
fn label_normalization() {
    for (written, preferred) in [
        ("[Y] Yes", "yes"),
        ("[y] YES", "Yes"),
        ("Y) Yes", "yes"),
        ("Y - Yes", "yes"),
        ("  Yes  ", "yes"),
        ("Yes", "[Y] Yes"),
        ("Y) Yes", "[J] yes"),
        ("1) Yes", "yes"),
        ("[7]   Yes", "yes"),
        ("Größe", "GRÖßE"),
        ("Fix - all", "fix - all"),
        ("Do it (now) please", "do it (now) please"),
        ("[Y]", "[y]"),
    ] {
        let pipeline = pipeline(&format!(
            "start -> t; t -> a [weight=9]; t -> b [label=\"{written}\"]; t -> exit"
        ));
        let known = success().label(preferred);
        let found = told(&pipeline, &decide(&pipeline, "t", &known));
        assert_eq!(found, "b by preferred_label", "`{written}` for `{preferred}`");
    }
    // What only looks like a key is part of the label.
    for (written, preferred) in [
        ("Fix - all", "all"),
        ("Yes", "y"),
        ("Yes", "yes please"),
        ("f(x) done", "done"),
        ("", "x"),
        ("Fix", "F"),
    ] {
        let pipeline = pipeline(&format!(
            "start -> t; t -> a [weight=9]; t -> b [label=\"{written}\"]; t -> exit"
        ));
        let known = success().label(preferred);
        let found = told(&pipeline, &decide(&pipeline, "t", &known));
        assert_eq!(found, "a by weight", "`{written}` for `{preferred}`");
    }
}

#[test]
fn suggested_next_ids() {
    let statements = "t -> node_a [weight=9]; t -> node_b; t -> node_c; t -> exit";
    table(
        statements,
        &[
            (success().suggested(&["node_b"]), "node_b by suggested_next"),
            // In the order of the stage, not of the file.
            (
                success().suggested(&["node_c", "node_b"]),
                "node_c by suggested_next",
            ),
            (
                success().suggested(&["nowhere", "node_b"]),
                "node_b by suggested_next",
            ),
            // A node that no edge leads to cannot be gone to.
            (success().suggested(&["start"]), "node_a by weight"),
            (success().suggested(&["Node_b"]), "node_a by weight"),
        ],
    );
}

#[test]
fn weight_tiebreak() {
    table(
        "t -> a; t -> b [weight=2]; t -> c [weight=1]; t -> exit",
        &[(success(), "b by weight")],
    );
    table(
        "t -> a [weight=-1]; t -> b; t -> exit [weight=-2]",
        &[(success(), "b by weight")],
    );
    table("t -> exit", &[(success(), "exit by only_edge")]);
}

#[test]
fn lexical_tiebreak() {
    table(
        "t -> c; t -> a; t -> b; t -> exit",
        &[(success(), "a by lowest_target")],
    );
    table(
        "t -> c [weight=3]; t -> b [weight=3]; t -> a; t -> exit",
        &[(success(), "b by lowest_target")],
    );
    // By bytes: upper case before lower, `10` before `9`.
    table(
        "t -> alpha; t -> Zed; t -> exit",
        &[(success(), "Zed by lowest_target")],
    );
    table(
        "t -> n_9; t -> n_10; t -> exit [weight=-1]",
        &[(success(), "n_10 by lowest_target")],
    );
    // Two edges to one target: the first.
    let double = pipeline("start -> t; t -> a [label=\"one\"]; t -> a [label=\"two\"]; t -> exit");
    let Next::Edge(edge) = decide(&double, "t", &success()).next else {
        panic!("an edge leads on")
    };
    assert_eq!(double.edge(edge).label, "one");
}

#[test]
fn full_priority_chain() {
    // All five steps compete; taking the winner's reason away leaves the next step to decide.
    let statements = "t -> by_target; t -> by_weight2 [weight=5]; t -> by_weight1 [weight=6]; t -> by_suggestion; \
                      t -> by_label [label=\"[T] Take me\"]; t -> by_condition [condition=\"context.go=true\"]; \
                      t -> by_better_condition [condition=\"outcome=success && context.go=true && context.more\", weight=1]; \
                      by_target -> exit";
    let all = success().label("take me").suggested(&["by_suggestion"]);
    table(
        statements,
        &[
            (
                all.clone().with("go", json!(true)).with("more", json!("yes")),
                "by_better_condition by condition",
            ),
            (all.clone().with("go", json!(true)), "by_condition by condition"),
            (all.clone(), "by_label by preferred_label"),
            (all.clone().label("leave me"), "by_suggestion by suggested_next"),
            (all.clone().label(""), "by_suggestion by suggested_next"),
            (success(), "by_weight1 by weight"),
        ],
    );
    let statements = statements
        .replace("weight=5", "weight=0")
        .replace("weight=6", "weight=0");
    table(&statements, &[(success(), "by_label by lowest_target")]);
}

#[test]
fn labels_and_suggestions_choose_among_unconditional_edges_only() {
    let statements = "t -> a [label=\"Fix\", condition=\"context.x=1\"]; t -> b [condition=\"context.y=1\"]; t -> c; t -> exit";
    table(
        statements,
        &[
            (success().label("Fix"), "c by lowest_target"),
            (success().suggested(&["a", "b"]), "c by lowest_target"),
            // Nor does the label choose between conditions that hold.
            (
                success().label("Fix").suggested(&["a"]).with("y", json!(1)),
                "b by condition",
            ),
            (success().label("Fix").with("x", json!(1)), "a by condition"),
        ],
    );
}

// R2.

#[test]
fn false_condition_is_never_taken() {
    let statements = "t -> a [condition=\"outcome=fail\", weight=99, label=\"Fix\"]; t -> exit";
    table(
        statements,
        &[(success().label("Fix").suggested(&["a"]), "exit by only_edge")],
    );
    let statements =
        "t -> a [condition=\"outcome=fail\", label=\"Fix\"]; t -> exit [condition=\"context.x=1\"]";
    table(
        statements,
        &[
            (
                success().label("Fix").suggested(&["a", "exit"]),
                "fail no_matching_edge by nothing",
            ),
            (success().with("x", json!(1)), "exit by condition"),
        ],
    );
}

// R3, each rung, with every lower one present.

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
        let known = Known {
            outcome,
            ..Known::default()
        };
        table(
            "t [retry_target=r]; t -> a; a -> exit; r -> exit",
            &[(known, "a by only_edge")],
        );
    }
}

// R4.

fn script(outcomes: &[(&str, ScriptedOutcome)]) -> Script {
    Script::new(outcomes.iter().map(|(node, said)| (*node, vec![said.clone()])))
}

fn failed() -> ScriptedOutcome {
    ScriptedOutcome::fail("disk full")
}

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

// R5.

#[test]
fn no_matching_edge_lists_every_edge_with_condition_and_values() {
    let pipeline = pipeline(
        "start -> t; t -> a [condition=\"outcome=fail\"]; t -> b [condition=\"context.tries<3 && context.mode=dry\"]; \
         t -> exit [condition=\"context.never\"]",
    );
    let known = success().with("tries", json!(5)).with("mode", json!("wet run"));
    let decision = decide(&pipeline, "t", &known);
    assert_eq!(told(&pipeline, &decision), "fail no_matching_edge by nothing");
    let text = decision.describe(&pipeline, pipeline.find("t").unwrap());
    for part in [
        "`t`",
        "-> a: `outcome=fail`",
        "outcome is `success`",
        "-> b: `context.tries<3 && context.mode=dry`",
        "context.tries is `5`",
        "context.mode is `wet run`",
        "-> exit: `context.never`",
        "context.never is ``",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

// R6.

#[test]
fn node_without_edges_ends_the_run_as_it_says() {
    for (attributes, expected) in [
        ("", "fail dead_end by nothing"),
        ("t [end=fail]", "end false by end"),
        ("t [end=success]", "end true by end"),
    ] {
        // A second way keeps the exit within reach.
        let statements = format!("{attributes}; start -> u -> exit");
        table(
            &statements,
            &[(success(), expected), (failure(), "fail stage_failed by nothing")],
        );
    }
    table(
        "t [end=success, retry_target=u]; start -> u -> exit",
        &[(failure(), "jump u by retry_target")],
    );
    // The intention is for where no edge is; it does not stand against one.
    table(
        "t [end=success]; t -> exit [condition=\"outcome=fail\"]",
        &[(success(), "fail no_matching_edge by nothing")],
    );
}

#[test]
fn dead_end_is_named() {
    let dot = "digraph { start -> t; start -> u [weight=-1]; u -> exit }";
    // A node that is never declared and leads nowhere is a mistake (rule L8), so this one is declared.
    let dot = dot.replace("start -> t;", "t [label=\"T\"]; start -> t;");
    let trace = trace_of(unchecked_pipeline(&dot).unwrap(), &Script::default());
    assert_eq!(trace.end, End::DeadEnd("t".to_owned()));
    let marked = dot.replace("label=\"T\"", "end=fail");
    let trace = trace_of(unchecked_pipeline(&marked).unwrap(), &Script::default());
    assert_eq!(trace.end.kind(), "FailureEnd");
    let marked = dot.replace("label=\"T\"", "end=success");
    let trace = trace_of(unchecked_pipeline(&marked).unwrap(), &Script::default());
    assert_eq!(trace.end, End::Success);
}

#[test]
fn failing_exit_fails_the_run() {
    // An exit by id may have a handler of its own, and its failure is one like any other (rule R3).
    let dot = "digraph { start -> t; start -> r; t -> exit; r -> exit; exit [type=\"team.publish\"] }";
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &Script::default());
    assert_eq!(
        (trace.visited(), trace.end.clone()),
        (vec!["start", "r", "exit"], End::Success)
    );
    let trace = trace_of(unchecked_pipeline(dot).unwrap(), &script(&[("exit", failed())]));
    let expected = End::StageFailed {
        node: "exit".to_owned(),
        reason: "disk full".to_owned(),
    };
    assert_eq!(
        (trace.visited(), trace.end.clone()),
        (vec!["start", "r", "exit"], expected)
    );
    let jumping = dot.replace("type=", "retry_target=t, type=");
    let once = Script::new([("exit", vec![failed(), ScriptedOutcome::word("success")])]);
    let trace = trace_of(unchecked_pipeline(&jumping).unwrap(), &once);
    assert_eq!(
        (trace.visited(), trace.end.clone()),
        (vec!["start", "r", "exit", "t", "exit"], End::Success)
    );
}

// R8.

/// A target, whether the condition of its edge held, and the values that it saw.
type TestedRow = (String, bool, Vec<(String, String)>);

fn tested(decision: &Decision, pipeline: &Pipeline) -> Vec<TestedRow> {
    let rows = decision.tested.iter().map(|tested| {
        let target = pipeline.stage(pipeline.edge(tested.edge).to).id().to_owned();
        (target, tested.held, tested.values.clone())
    });
    rows.collect()
}

fn row(target: &str, held: bool, values: &[(&str, &str)]) -> TestedRow {
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    (target.to_owned(), held, values)
}

#[test]
fn every_condition_is_recorded_with_the_values_that_it_saw() {
    let pipeline = pipeline(
        "start -> t; t -> b [condition=\"outcome=fail || context.n>2\"]; t -> c; \
         t -> a [condition=\"preferred_label=Fix && !(context.gone) && outcome!=retry\"]; t -> exit",
    );
    let known = success().label("Fix").with("n", json!(0.5));
    let decision = decide(&pipeline, "t", &known);
    assert_eq!(told(&pipeline, &decision), "a by condition");
    assert_eq!(
        tested(&decision, &pipeline),
        [
            row("b", false, &[("outcome", "success"), ("context.n", "0.5")]),
            row(
                "a",
                true,
                &[
                    ("preferred_label", "Fix"),
                    ("context.gone", ""),
                    ("outcome", "success")
                ]
            ),
        ]
    );
    let text = decision.describe(&pipeline, pipeline.find("t").unwrap());
    assert_eq!(text, "t -> a (condition holds)");
}

#[test]
fn first_match_tests_no_further_than_the_match() {
    let pipeline = pipeline(
        "routing=first_match; start -> t; t -> a [condition_type=failure]; t -> b [condition_type=success]; \
         t -> exit [condition_type=conditional, condition_value=done]",
    );
    let decision = decide(&pipeline, "t", &success());
    assert_eq!(
        tested(&decision, &pipeline),
        [
            row("a", false, &[("outcome", "success")]),
            row("b", true, &[("outcome", "success")])
        ]
    );
}

#[test]
fn values_of_the_output_are_those_that_were_compared() {
    let pipeline = pipeline(
        "routing=first_match; start -> t; \
         t -> a [condition_type=conditional, condition_value=\"{\\\"key\\\": \\\"mode\\\", \\\"value\\\": true}\"]; \
         t -> b [condition_type=conditional, condition_value=\"gone\"]; t -> c [condition_type=failure]; \
         t -> exit [condition=\"context.mode=dry\"]",
    );
    // An earlier stage set the same keys; a later one gave an output that is called like a fact.
    let known = success()
        .with("mode", json!("wet"))
        .with("gone", json!("here before"))
        .output("mode", json!("true"))
        .output("outcome", json!("fail"));
    let decision = decide(&pipeline, "t", &known);
    assert_eq!(
        tested(&decision, &pipeline),
        [
            // Quotes tell the text from the boolean that was wanted.
            row("a", false, &[("mode", "\"true\"")]),
            row("b", false, &[("gone", "")]),
            row("c", false, &[("outcome", "success")]),
            row("exit", false, &[("context.mode", "wet")]),
        ]
    );
}

// R11.

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
        first_match(
            statements,
            &[(
                Known {
                    outcome,
                    ..Known::default()
                },
                expected,
            )],
        );
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

// R10: bounds that the machine keeps around the router.

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
