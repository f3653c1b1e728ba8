//! Tests of the checks of fan-outs, their branches and their joins.

use orchestra_graph::{LoadOptions, Source, load};

use super::{around, clean, raises};

#[test]
fn branches_that_never_meet_are_found() {
    let no_join = ["parallel_no_join"];
    let block = "p [shape=component]; j [shape=tripleoctagon]; j -> exit; start -> p; p -> a;";
    clean(&format!("{block} a -> j; p -> j"));
    clean(&format!("{block} a -> j; p -> b -> exit; a -> exit"));
    // A node with `end=fail` beside the path to the join is not a problem.
    clean(&format!("{block} a -> j; p -> b -> j; b -> f"));
    raises(&format!("{block} a -> j; p -> f"), &no_join);
    raises(&format!("{block} a -> j; p -> p"), &no_join);
    raises(&format!("{block} a -> j; p -> b -> p"), &no_join);
    let text = around(&format!("{block} a -> j; p -> b -> p; p -> f"));
    let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
    let related: Vec<&str> = loaded.report.diagnostics[0]
        .related
        .iter()
        .map(|related| &*related.label)
        .collect();
    assert_eq!(
        related,
        [
            "the branch `b` leads nowhere near the others",
            "the branch `f` leads nowhere near the others"
        ]
    );
}

/// Returns a block of two branches that run `a` and `b`, with some attributes and additional statements.
fn block(attributes: &str, beside: &str) -> String {
    format!(
        "p [shape=component{attributes}]; j [shape=tripleoctagon]; start -> p; p -> a -> j; p -> b -> j; j -> exit; {beside}"
    )
}

#[test]
fn branches_that_come_back_to_their_fan_out_are_found() {
    let reentry = ["parallel_reentry"];
    let no = "[condition=\"outcome=fail\"]";
    clean(&block("", &format!("a -> a {no}")));
    clean(&block("", &format!("j -> p {no}; j -> c [label=Again]; c -> p")));
    raises(&block("", &format!("a -> p {no}")), &reentry);
    raises(&block("", &format!("a -> c {no}; c -> p")), &reentry);
    raises(
        &block("", &format!("a -> start {no}")),
        &["start_no_incoming", "parallel_reentry"],
    );
    // A path that restarts the run is not a path inside the branch.
    clean(&block(
        "",
        "start -> c -> p; a -> c [condition=\"outcome=fail\", loop_restart=true]",
    ));
    raises(&block("", &format!("start -> c -> p; a -> c {no}")), &reentry);
    // A join before the fan-out is the regular next step and not a way back.
    clean(
        "p [shape=component]; start -> c -> p; p -> a -> c; p -> b -> c -> exit; c [label=C, max_visits=9]",
    );
    // An inner branch that returns to the outer fan-out. Both edges are reported, each once.
    let inner = "q [shape=component]; k [shape=tripleoctagon]; p -> q; q -> c -> k; q -> k; k -> j";
    clean(&block("", inner));
    clean(&block("", &format!("{inner}; c -> c {no}; k -> q {no}")));
    raises(&block("", &format!("{inner}; c -> p {no}")), &reentry);
    raises(
        &block("", &format!("{inner}; c -> q {no}; k -> p {no}")),
        &["parallel_reentry"; 2],
    );
    let text = block("", &format!("a -> c {no}")).replace("start -> p", "start -> c -> p");
    let loaded = load(Source::new("a.dot", around(&text)), &LoadOptions::default());
    let diagnostic = &loaded.report.diagnostics[0];
    assert_eq!(
        diagnostic.message,
        "a branch of `p` leads back to `c`, and from there to `p` again"
    );
    assert_eq!(diagnostic.edge, Some(("a".to_owned(), "c".to_owned())));
}

#[test]
fn fan_outs_nest_to_a_depth_of_thirty_two() {
    let nested = |depth: usize| {
        let blocks: String = (0..depth)
            .map(|at| {
                let next = if at + 1 < depth { format!("p{}", at + 1) } else { "a".to_owned() };
                format!("p{at} [shape=component]; j{at} [shape=tripleoctagon]; p{at} -> {next}; p{at} -> x{at}; x{at} [label=X]; x{at} -> j{at}; ")
            })
            .collect();
        let joins: String = (1..depth).map(|at| format!("j{at} -> j{}; ", at - 1)).collect();
        format!("start -> p0; {blocks} {joins} a -> j{}; j0 -> exit", depth - 1)
    };
    clean(&nested(32));
    // However deep the nesting, it is one mistake, reported at the 33rd fan-out from the inside.
    for depth in [33, 34, 60] {
        let loaded = load(
            Source::new("a.dot", around(&nested(depth))),
            &LoadOptions::default(),
        );
        let diagnostics: Vec<_> = loaded
            .report
            .diagnostics
            .iter()
            .map(|diagnostic| (diagnostic.code, diagnostic.node.clone()))
            .collect();
        assert_eq!(
            diagnostics,
            [("parallel_nesting", Some(format!("p{}", depth - 33)))]
        );
    }
    // Consecutive blocks are not nested.
    let chain: String = (0..100)
        .map(|at| {
            format!("p{at} [shape=component]; j{at} [shape=tripleoctagon]; x{at} [label=X]; p{at} -> x{at} -> j{at}; p{at} -> j{at} -> p{}; ", at + 1)
        })
        .collect();
    clean(&format!("start -> p0; p100 [label=P]; p100 -> exit; {chain}"));
}

#[test]
fn join_policies_have_their_numbers() {
    let (wrong, unused) = (["join_policy_unsatisfiable"], ["join_policy_unused"]);
    clean(&block(
        ", join_policy=wait_all, error_policy=ignore, max_parallel=1",
        "",
    ));
    clean(&block(", join_policy=first_success", ""));
    for k in [1, 2] {
        clean(&block(&format!(", join_policy=k_of_n, join_k={k}"), ""));
    }
    for quorum in ["0.01", "0.5", "1", "1.0"] {
        clean(&block(&format!(", join_policy=quorum, join_quorum={quorum}"), ""));
    }
    raises(&block(", join_policy=k_of_n", ""), &wrong);
    raises(&block(", join_policy=k_of_n, join_k=3", ""), &wrong);
    clean(&block(", join_policy=k_of_n, join_k=3", "p -> a"));
    raises(&block(", join_policy=quorum", ""), &wrong);
    raises(&block(", join_policy=quorum, join_quorum=0", ""), &wrong);
    raises(&block(", join_policy=quorum, join_quorum=\"0.0\"", ""), &wrong);
    raises(
        &block(", join_policy=quorum, join_quorum=1.5", ""),
        &["join_policy_unsatisfiable", "attribute_type"],
    );
    raises(&block(", join_k=1", ""), &unused);
    raises(
        &block(", join_policy=first_success, join_quorum=0.5", ""),
        &unused,
    );
    raises(
        &block(", join_policy=k_of_n, join_k=1, join_quorum=0.5", ""),
        &unused,
    );
    raises(
        &block(", join_policy=k_of_n, join_quorum=0.5", ""),
        &["join_policy_unsatisfiable", "join_policy_unused"],
    );
    clean(&format!(
        "node [join_k=1]; {}",
        block(", join_policy=wait_all", "")
    ));
}

#[test]
fn a_branch_for_each_item_has_a_list_a_maximum_and_an_end() {
    let invalid = ["foreach_invalid"];
    let each = |attributes: &str, graph: &str| {
        format!(
            "{graph}; start -> p -> a -> j -> exit; p [shape=component{attributes}]; j [shape=tripleoctagon]"
        )
    };
    let most = ", foreach=files, foreach_max=3";
    clean(&each(most, ""));
    clean(&each(most, "inputs=\"files: list<text>\""));
    clean(&each(
        ", foreach=\"context.files\", foreach_max=3, join_policy=k_of_n, join_k=3",
        "",
    ));
    raises(&each(", foreach=files", ""), &invalid);
    raises(&each(", foreach_max=3", ""), &invalid);
    raises(&each(", foreach=files, foreach_max=10001", ""), &invalid);
    raises(
        &each(", foreach=files, foreach_max=0", ""),
        &["foreach_invalid", "attribute_type"],
    );
    raises(&each(", foreach=\"two words\", foreach_max=3", ""), &invalid);
    raises(
        &each(", foreach=\"stages.a.output\", foreach_max=3", ""),
        &invalid,
    );
    raises(&each(most, "inputs=\"files: text\""), &invalid);
    raises(&each(most, "inputs=\"files: list<text>?\""), &["maybe_unset"]);
    raises(&each(most, "p -> b -> j"), &invalid);
    raises(
        &each(", foreach=files, foreach_max=3, join_policy=k_of_n, join_k=4", ""),
        &["join_policy_unsatisfiable"],
    );
    let other = |text: &str| format!("p [shape=component{most}]; start -> p; {text}");
    raises(
        &other("p -> a [condition=\"outcome=success\"]; a -> j -> exit; j [shape=tripleoctagon]"),
        &invalid,
    );
    raises(&other("p -> a -> b -> exit"), &invalid);
    raises(
        "start -> p -> exit; p [prompt=P, foreach=files, foreach_max=3]",
        &["attribute_without_effect", "attribute_without_effect"],
    );
}

#[test]
fn goal_gates_in_branches_are_not_gone_around() {
    let graph = "graph [retry_target=a]; p [shape=component]; start -> p";
    let gate = "b [label=B, goal_gate=true]";
    // After the join of an inner block, but still in a branch.
    clean(&format!(
        "{graph}; {gate}; q [shape=component]; k [shape=tripleoctagon]; j [shape=tripleoctagon]; p -> a -> j; p -> q; q -> c -> k; q -> k; k -> b -> j; j -> exit"
    ));
    // After the whole block, where the paths split again.
    raises(
        &format!("{graph}; {gate}; p -> a -> c; p -> x -> c; x [label=X]; c -> b -> exit; c -> exit"),
        &["goal_gate_bypass"],
    );
}

#[test]
fn a_routing_join_sees_how_the_block_has_ended() {
    let block = |attributes: &str, other: &str| {
        format!(
            "p [shape=component{attributes}]; start -> p; p -> a -> d; p -> b -> d; d -> exit [condition=\"outcome=success\"]; d -> f [condition=\"{other}\"]"
        )
    };
    clean(&block("", "outcome!=success"));
    // A block that succeeded in part is routed as a success if no edge handles it (rule R12).
    clean(&block("", "outcome=fail"));
    for policy in [
        "error_policy=fail_fast",
        "error_policy=ignore",
        "join_policy=first_success",
    ] {
        clean(&block(&format!(", {policy}"), "outcome=fail"));
    }
    raises(
        &block("", "outcome=fail").replace("outcome=success", "outcome=partial_success"),
        &["non_exhaustive_conditions"],
    );
}
