//! Tests of the checks of routing: edges that are never taken, failures, goal gates and choices.

use orchestra_graph::{LoadOptions, Severity, Source, load};

use super::{around, clean, raises};

#[test]
fn only_edges_that_never_win_are_shadowed() {
    let shadowed = ["shadowed_edge"];
    raises("start -> a; a -> b; a -> b; b -> exit", &shadowed);
    raises(
        "start -> a; a -> exit [condition=\"outcome=success\"]; a -> b [condition=\"outcome=success\", weight=-1]; b -> exit",
        &shadowed,
    );
    raises(
        "start -> a; a -> b [condition=\"context.n>5\", weight=1]; a -> exit [condition=\"context.n>9\"]; a -> c; b -> exit; c -> exit",
        &["shadowed_edge"],
    );
    raises(
        "graph [routing=first_match]; start -> a; a -> exit; a -> b [condition_type=success]; b -> exit",
        &shadowed,
    );
    // A label, a suggestion or a weight may still choose them.
    clean("start -> a; a -> b; a -> exit; b -> exit");
    clean("start -> a; a -> b [label=One]; a -> b [label=Two]; b -> exit");
    clean("start -> a; a -> b; a -> b [weight=1, label=Two]; b -> exit");
    clean(
        "start -> a; a -> exit [condition=\"context.n>9\", weight=1]; a -> b [condition=\"context.n>5\"]; a -> b; b -> exit",
    );
    clean("start -> a; a -> exit [condition=\"outcome=success\"]; a -> b; b -> exit");
    clean("start -> p; p [shape=component]; p -> a; p -> a; a -> exit");
    clean("graph [routing=first_match]; start -> a; a -> b [condition_type=success]; a -> exit; b -> exit");
}

#[test]
fn failures_that_would_end_as_successes_are_noted() {
    clean("start -> a -> exit");
    clean("start -> a -> d; d -> b [condition=\"outcome=fail\"]; d -> exit; b -> exit");
    raises(
        "start -> a -> d; d -> b [condition=\"context.x=1\"]; d -> exit; b -> exit",
        &["success_only_into_exit"],
    );
    raises(
        "start -> a -> exit; a [label=A, auto_status=true]",
        &["success_only_into_exit"],
    );
    raises(
        "graph [on_failure=route]; start -> a -> exit",
        &["success_only_into_exit"],
    );
    clean("graph [on_failure=route]; start -> a -> exit; a [label=A, on_failure=fail]");
}

#[test]
fn a_diamond_that_does_not_see_a_tool_fail_is_reported() {
    let tool = "a [shape=parallelogram, tool_command=\"cargo test\"]; start -> a -> d;";
    let loaded = load(
        Source::new(
            "test.dot",
            around(&format!(
                "{tool} d -> exit [label=Yes]; d -> f [label=No]; f [label=F]; f -> a"
            )),
        ),
        &LoadOptions::default(),
    );
    let [diagnostic] = &loaded.report.diagnostics[..] else {
        panic!("{:?}", loaded.report.diagnostics);
    };
    assert_eq!(
        (diagnostic.code, diagnostic.severity),
        ("failure_routed_as_success", Severity::Warning)
    );
    assert_eq!(
        diagnostic.message,
        "`d` leads to `exit` whether `a` succeeds or fails"
    );
    assert!(
        diagnostic.notes[1].ends_with("can end as a success: `a` -> `d` -> `exit`"),
        "{:?}",
        diagnostic.notes
    );
    assert!(
        diagnostic
            .help
            .as_deref()
            .is_some_and(|help| help.contains("condition=\"outcome=fail\""))
    );
    let reported = ["failure_routed_as_success"];
    // The weight decides; the same through another diamond, and if the first edge of the file is taken.
    raises(
        &format!("{tool} d -> b [label=Yes, weight=2]; d -> exit; b -> exit"),
        &reported,
    );
    raises(
        &format!(
            "{tool} d -> e; e [shape=diamond, label=E]; e -> exit [label=Yes]; e -> b [label=No]; b -> a"
        ),
        &reported,
    );
    raises(
        &format!("routing=first_match; {tool} d -> exit [label=Yes]; d -> b [label=No]; b -> exit"),
        &["failure_routed_as_success", "shadowed_edge"],
    );
    // The failure is distinguished, is routed elsewhere, or a model chooses the label.
    clean(&format!(
        "{tool} d -> exit [label=Yes, condition=\"outcome=success\"]; d -> b [label=No, condition=\"outcome=fail\"]; b -> a"
    ));
    clean(&format!(
        "{tool} d -> exit [label=Yes, condition=\"outcome=success\"]; d -> b [label=No]; b -> a"
    ));
    clean(&format!(
        "{tool} a -> f [condition=\"outcome=fail\"]; d -> b [label=Yes]; d -> c [label=No]; b -> exit; c -> exit"
    ));
    raises(
        "start -> a -> d; d -> exit [label=Yes]; d -> b [label=No]; b -> exit",
        &["success_only_into_exit"],
    );
}

#[test]
fn goal_gates_in_the_way_are_distinguished_from_those_beside_it() {
    let graph = "graph [retry_target=a]\n";
    clean(&format!(
        "{graph} start -> a -> exit; a [label=A, goal_gate=true]"
    ));
    clean(&format!(
        "{graph} b [label=B, goal_gate=true]; start -> a -> b -> exit; a -> c -> b; b -> a [condition=\"outcome=fail\"]"
    ));
    clean(&format!(
        "{graph} p [shape=component]; a [label=A, goal_gate=true]; start -> p; p -> a -> j; p -> b -> j; j [shape=tripleoctagon]; j -> exit"
    ));
    raises(
        &format!("{graph} b [label=B, goal_gate=true]; start -> a -> b -> exit; a -> c -> exit"),
        &["goal_gate_bypass"],
    );
    raises(
        &format!("{graph} b [label=B, goal_gate=true]; start -> a -> c -> exit; a -> b -> c"),
        &["goal_gate_bypass"],
    );
}

#[test]
fn choices_of_a_gate_need_written_keys_and_labels_of_their_own() {
    let twice = ["duplicate_choice_key"];
    raises(
        "start -> h; h -> exit [label=\"[Y] Yes\"]; h -> f [label=\"y) Perhaps\"]",
        &twice,
    );
    clean("start -> h; h -> exit [label=Approve]; h -> f [label=Abort]");
    clean("s1 [label=S]; s2 [label=S]; start -> h; h -> s1; h -> s2; s1 -> exit; s2 -> exit");
    raises(
        "start -> h; h -> exit [label=Approve]; h -> f [label=\"[X] approve\"]",
        &twice,
    );
    raises(
        "start -> h; h -> exit [label=Ok]; h -> exit [label=ok]",
        &["shadowed_edge"],
    );
    clean("start -> h; h -> exit; h -> f");
    clean("start -> h; h -> exit [label=Approve]; h -> f [label=\"anything else\", freeform=true]");
    clean("start -> h; h -> exit [label=Fine]; h -> f [condition=\"outcome=fail\"]");
    clean(
        "start -> h; h -> a [label=Ok, condition=\"context.x=1\"]; h -> exit [label=Ok, condition=\"context.x!=1\"]; a -> exit",
    );
    clean("start -> h; h -> a [label=Ok, condition=\"context.x=1\"]; h -> exit [label=ok]; a -> exit");
    // Choices do not compete with each other, whatever their conditions.
    clean(
        "start -> h; h -> a [label=Ok, condition=\"context.x=1\"]; h -> exit [label=No, condition=\"context.x=1\"]; h -> f [label=Stop]; a -> exit",
    );
    // An edge for a failed gate is not an answer.
    let default = "h [shape=hexagon, label=H, human.default_choice=f]; start -> h; h -> exit [label=Yes];";
    raises(
        &format!("{default} h -> f [condition=\"outcome=fail\"]"),
        &["unknown_default_choice"],
    );
    clean(&format!("{default} h -> f [label=No]"));
    let any_text = default.replace("default_choice=f", "default_choice=Later");
    clean(&format!(
        "{any_text} h -> a [label=Say, freeform=true]; a -> exit"
    ));
    for choice in ["Y", "y", "yes", "[Y] Yes", "exit", "YES", "Exit", "x) yes"] {
        clean(&format!(
            "h [shape=hexagon, label=H, human.default_choice=\"{choice}\"]; start -> h; h -> exit [label=\"[Y] Yes\"]; h -> f [label=\"[N] No\"]"
        ));
    }
}
